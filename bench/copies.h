#pragma once

#include <immintrin.h>

#include <cstdint>

/// The copies that bandwidths are measured with.
namespace weft_bench {

/// Copies a multiple of 256 bytes between arrays aligned to 64.
using CopyFunction = void(char* to, const char* from, int64_t bytes);

// The two kinds of store are two functions: compilers merge the branches of one, and drop the hint.

template <bool kStream>
__attribute__((target("avx512f"))) inline void copy_512(char* to, const char* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 4
    for (int64_t i = at; i < at + 256; i += 64) {
      const __m512i value = _mm512_load_si512(from + i);
      if constexpr (kStream) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), value);
      } else {
        _mm512_store_si512(to + i, value);
      }
    }
  }
}

template <bool kStream>
__attribute__((target("avx2"))) inline void copy_256(char* to, const char* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 8
    for (int64_t i = at; i < at + 256; i += 32) {
      const __m256i value = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i));
      if constexpr (kStream) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), value);
      } else {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + i), value);
      }
    }
  }
}

template <bool kStream>
inline void copy_128(char* to, const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 16) {
    const __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i));
    if constexpr (kStream) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), value);
    } else {
      _mm_store_si128(reinterpret_cast<__m128i*>(to + i), value);
    }
  }
}

struct Copies {
  CopyFunction* plain;
  CopyFunction* stream;  ///< with non-temporal stores; a store fence must follow
};

/// In the widest vectors of this machine.
inline Copies best_copies() {
  if (__builtin_cpu_supports("avx512f")) return {copy_512<false>, copy_512<true>};
  if (__builtin_cpu_supports("avx2")) return {copy_256<false>, copy_256<true>};
  return {copy_128<false>, copy_128<true>};
}

}  // namespace weft_bench
