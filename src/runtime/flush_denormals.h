#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {

/// While it lives, this thread takes denormal numbers for 0 and makes none: Intel's processors take
/// a hundred cycles and more for each vector that makes or multiplies one. They also lie in lanes
/// that nobody asks for, behind the end of a row, where integers lay before.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kBoth); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kBoth = 0x8040;  ///< of results, of operands
  unsigned before_;
#endif
};

}  // namespace weft
