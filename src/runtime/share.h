#pragma once

#include <algorithm>
#include <cstdint>

namespace weft {

/// The contiguous part of 0..count-1 that belongs to `thread`; parts differ by at most one, larger
/// ones first.
struct Share {
  int64_t begin, end;
  Share(int64_t count, int thread, int threads) {
    const int64_t part = count / threads, rest = count % threads;
    begin = part * thread + std::min<int64_t>(thread, rest);
    end = begin + part + (thread < rest ? 1 : 0);
  }
};

inline constexpr int64_t kCacheLine = 64;  ///< bytes, on x86-64

/// Which of the threads that run a step together.
struct HostPart {
  int thread = 0, threads = 1;
  Share share(int64_t count) const { return {count, thread, threads}; }
  /// Of `count` elements behind each other, in whole cache lines.
  Share share_of_lines(int64_t count, int64_t element_bytes) const {
    const int64_t in_line = kCacheLine / element_bytes;
    Share lines = share((count + in_line - 1) / in_line);
    lines.begin = std::min(count, lines.begin * in_line);
    lines.end = std::min(count, lines.end * in_line);
    return lines;
  }
};

}  // namespace weft
