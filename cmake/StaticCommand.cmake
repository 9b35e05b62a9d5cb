# weft-static: the command with everything but the C library inside, for machines that have none of weft's libraries (scripts/gpu
# carries it to one with a GPU). Not fully static, since the driver of a GPU is found by dlopen. The same objects as weft: what they
# link with otherwise comes first here, so that the shared libraries behind it have nothing left to give and are dropped.

set(static_libraries)
foreach(name IN ITEMS minizip z zstd xxhash)
  find_library(WEFT_STATIC_${name} "lib${name}.a")
  mark_as_advanced(WEFT_STATIC_${name})
  if(NOT WEFT_STATIC_${name})
    return()
  endif()
  list(APPEND static_libraries "${WEFT_STATIC_${name}}")
endforeach()

add_executable(weft-static EXCLUDE_FROM_ALL src/tools/main.cpp cmake/static/fmt.cpp)
target_compile_definitions(weft-static PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
set_source_files_properties(cmake/static/fmt.cpp PROPERTIES COMPILE_OPTIONS -w)
target_link_options(weft-static PRIVATE -Wl,--as-needed -static-libstdc++ -static-libgcc -s)
weft_use_jemalloc(weft-static)
target_link_libraries(weft-static PRIVATE ${static_libraries} weft_tools)
set_target_properties(weft-static PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
