#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace weft {

/// The shares of a region's threads in the launch at hand, in pieces. Whoever is done with its own
/// takes over what others have not begun, from the end: cores differ in speed, and the system gives
/// them to others (Blumofe and Leiserson, Scheduling Multithreaded Computations by Work Stealing,
/// 1999).
///
/// Every thread counts the launches that are shared out so, its *rounds*, alike. A thread leaves a
/// round when all pieces of those whose shares it looks at are taken. A share whose round before is
/// not all taken is left to those that are in it.
class WorkShares {
 public:
  static constexpr int kMostPieces = 1 << 15;

  explicit WorkShares(int threads) : words_(static_cast<size_t>(threads)) {}

  /// Before a region starts, on one thread; its first round is 1.
  void reset() {
    for (Word& word : words_) word.taken.store(0, std::memory_order_relaxed);
  }

  /// The next piece of a share of `pieces`, the first one left for its owner, the last one for
  /// others; -1: none is left. Requires: 1 <= pieces <= kMostPieces.
  int take(int owner, uint32_t round, int pieces, bool own) {
    std::atomic<uint64_t>& taken = words_[static_cast<size_t>(owner)].taken;
    uint64_t before = taken.load(std::memory_order_relaxed);
    for (;;) {
      const auto at = static_cast<uint32_t>(before >> 32);
      uint32_t first = static_cast<uint32_t>(before >> 16) & 0xffff;
      uint32_t last = static_cast<uint32_t>(before) & 0xffff;
      if (at == round - 1 && first >= last) {
        first = 0;
        last = static_cast<uint32_t>(pieces);
      } else if (at != round || first >= last) {
        return -1;
      }
      const uint32_t piece = own ? first++ : --last;
      const uint64_t after = uint64_t{round} << 32 | uint64_t{first} << 16 | last;
      if (taken.compare_exchange_weak(before, after, std::memory_order_relaxed))
        return static_cast<int>(piece);
    }
  }

 private:
  struct alignas(64) Word {
    /// The round, the first piece that is left, and the end of those: 32, 16 and 16 bits.
    std::atomic<uint64_t> taken{0};
  };
  std::vector<Word> words_;
};

}  // namespace weft
