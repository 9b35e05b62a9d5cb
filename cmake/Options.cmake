# Flags of our own code: warnings, sanitizers, a fast linker and a compiler cache where they are installed.

add_compile_options(-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wundef -Wvla
  -Wextra-semi -Wredundant-decls)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wimplicit-fallthrough -Wthread-safety -Wunreachable-code -Wrange-loop-analysis -Wshadow-uncaptured-local
    -fcolor-diagnostics)
else()
  add_compile_options(-Wimplicit-fallthrough=5 -fdiagnostics-color=auto)
endif()
add_compile_options(-ffunction-sections -fdata-sections -fno-math-errno -ffp-contract=off)
add_link_options(-Wl,--gc-sections)

# WEFT_SANITIZE: a comma-separated list for -fsanitize, empty for none.
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

find_program(WEFT_MOLD mold)
find_program(WEFT_LLD NAMES ld.lld-22 ld.lld)
if(WEFT_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(WEFT_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_link_options(-fuse-ld=lld)
endif()

find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The cache takes precompiled headers only where it need not watch for __TIME__ and macros between them and a file.
  set(CMAKE_C_COMPILER_LAUNCHER "${WEFT_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${WEFT_CCACHE}")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endif()
