# The headers of the standard library, fmt and GoogleTest that most files include, read once: two fifths of a build's time.
# Files still include what they use: CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without.

set(weft_common_headers <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <numeric>
  <optional> <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(weft_precompiled_source "${PROJECT_BINARY_DIR}/made/precompiled.cpp")
file(CONFIGURE OUTPUT "${weft_precompiled_source}" CONTENT "")

# weft_precompile(target): the common headers, for code of src/.
function(weft_precompile target)
  if(NOT TARGET weft_precompiled)
    add_library(weft_precompiled OBJECT "${weft_precompiled_source}")
    target_link_libraries(weft_precompiled PRIVATE fmt::fmt Threads::Threads)
    target_precompile_headers(weft_precompiled PRIVATE ${weft_common_headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM weft_precompiled)
endfunction()

# weft_precompile_test(target): GoogleTest's, too. Code of executables is compiled with -fPIE, of libraries with -fPIC:
# neither can take what was precompiled for the other.
function(weft_precompile_test target)
  if(NOT TARGET weft_precompiled_test)
    add_executable(weft_precompiled_test EXCLUDE_FROM_ALL "${weft_precompiled_source}")
    target_link_libraries(weft_precompiled_test PRIVATE fmt::fmt Threads::Threads GTest::gmock_main)
    target_precompile_headers(weft_precompiled_test PRIVATE ${weft_common_headers} <gtest/gtest.h> <gmock/gmock.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM weft_precompiled_test)
endfunction()
