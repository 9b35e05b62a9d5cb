# What `cmake --install` gives to users: the command, two shared libraries with their headers, and the package that
# find_package(weft) reads. Everything of others that the libraries use is inside them, their symbols are not.
#
#   weft::weft      libweft.so          compile and run, weft/weft.h and weft/graph_builder.h (C++)
#   weft::runtime   libweft_runtime.so  run artefacts, weft/weft_runtime.h (C); without LLVM, ONNX or protobuf

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# weft_shared_library(target name of): lib<name>.so around the static library <of>, exporting what cmake/<name>.exports lists.
# Static libraries stand before what they are linked with otherwise, as in StaticCommand.cmake.
function(weft_shared_library target name of)
  set(exports "${PROJECT_SOURCE_DIR}/cmake/${name}.exports")
  get_target_property(libraries ${of} LINK_LIBRARIES)
  add_library(${target} SHARED $<TARGET_OBJECTS:${of}> $<TARGET_OBJECTS:weft_static_fmt>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX LINK_DEPENDS "${exports}"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_link_libraries(${target} PRIVATE ${WEFT_STATIC_LIBRARIES} ${libraries})
  target_link_options(${target} PRIVATE "-Wl,--version-script=${exports}" -Wl,--as-needed -Wl,--no-undefined)
  target_include_directories(${target} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  install(TARGETS ${target} EXPORT weft LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()

# Libraries with sanitizers inside cannot be loaded by programs without.
if(WEFT_SANITIZE)
  return()
endif()

weft_shared_library(weft_runtime_shared weft_runtime weft_runtime)
set_target_properties(weft_runtime_shared PROPERTIES EXPORT_NAME runtime)
install(FILES include/weft/weft_runtime.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft")

get_target_property(api_type weft_api TYPE)
if(NOT api_type STREQUAL "INTERFACE_LIBRARY")
  weft_shared_library(weft_shared weft weft_api)
  set_target_properties(weft_shared PROPERTIES EXPORT_NAME weft)
  target_compile_features(weft_shared INTERFACE cxx_std_20)
  install(FILES include/weft/weft.h include/weft/graph_builder.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft")
endif()
if(TARGET weft)
  install(TARGETS weft RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
install(EXPORT weft NAMESPACE weft:: FILE weftTargets.cmake DESTINATION "${package}")
file(WRITE "${PROJECT_BINARY_DIR}/weftConfig.cmake" "include(\"\${CMAKE_CURRENT_LIST_DIR}/weftTargets.cmake\")\n")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weftConfig.cmake" "${PROJECT_BINARY_DIR}/weftConfigVersion.cmake"
  DESTINATION "${package}")
