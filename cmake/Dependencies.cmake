# Libraries of the system as imported targets. Those without a usable CMake package are found by header and library.

# weft_find_library(target header [library]): an imported target; the folder that uses it fails to link where it is missing.
function(weft_find_library target header)
  string(MAKE_C_IDENTIFIER "${target}" id)
  find_path(${id}_INCLUDE "${header}" REQUIRED)
  mark_as_advanced(${id}_INCLUDE)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE "${${id}_INCLUDE}")
  if(ARGC GREATER 2)
    find_library(${id}_LIBRARY "${ARGV2}" REQUIRED)
    mark_as_advanced(${id}_LIBRARY)
    target_link_libraries(${target} INTERFACE "${${id}_LIBRARY}")
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
weft_find_library(weft::xxhash xxhash.h xxhash)
weft_find_library(weft::protozero protozero/pbf_reader.hpp)
weft_find_library(weft::minizip minizip/unzip.h minizip)
weft_find_library(weft::sqlite sqlite3.h sqlite3)
weft_find_library(weft::zlib zlib.h z)

# What goes into binaries that carry everything but the C library and its like: these archives, which hold position-independent
# code, and the objects of weft_static_fmt, since Debian has no static {fmt}.
set(WEFT_STATIC_LIBRARIES)
foreach(name IN ITEMS minizip sqlite3 z zstd xxhash)
  find_library(WEFT_STATIC_${name} "lib${name}.a" REQUIRED)
  mark_as_advanced(WEFT_STATIC_${name})
  list(APPEND WEFT_STATIC_LIBRARIES "${WEFT_STATIC_${name}}")
endforeach()
add_library(weft_static_fmt OBJECT cmake/static/fmt.cpp)
target_compile_options(weft_static_fmt PRIVATE -w)
target_link_libraries(weft_static_fmt PRIVATE fmt::fmt)

# weft_use_jemalloc(target): the allocator of an executable. Compiling makes and drops many small objects from several threads, which
# takes jemalloc a third of the C library's time. Libraries leave the choice to the program that embeds them.
function(weft_use_jemalloc target)
  find_library(WEFT_JEMALLOC libjemalloc_pic.a REQUIRED)
  mark_as_advanced(WEFT_JEMALLOC)
  target_link_libraries(${target} PRIVATE "${WEFT_JEMALLOC}" m ${CMAKE_DL_LIBS} Threads::Threads)
endfunction()

# weft_use_llvm(target): LLVM 22.1, statically, with only what compiling for this machine needs.
function(weft_use_llvm target)
  find_package(LLVM 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/llvm)
  llvm_map_components_to_libnames(libraries passes native)
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  separate_arguments(definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
  list(FILTER definitions INCLUDE REGEX "^-D")
  target_compile_options(${target} PRIVATE ${definitions})
  target_link_libraries(${target} PRIVATE ${libraries})
endfunction()
