#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {

/// While it lives, what this thread computes is 0 where it would be denormal: Intel's processors
/// take a hundred cycles and more for each vector that makes or multiplies one. What comes in
/// denormal is taken as it is.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlushToZero = 0x8000;
  unsigned before_;
#endif
};

}  // namespace weft
