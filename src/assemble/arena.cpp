#include "assemble/arena.h"

#include <algorithm>
#include <numeric>

namespace weft {

ArenaLayout place_arena(const std::vector<ArenaBlock>& blocks) {
  constexpr int64_t kAlignment = 64;
  ArenaLayout out;
  out.offsets.assign(blocks.size(), 0);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });
  std::vector<size_t> placed;  // by ascending offset
  for (const size_t i : order) {
    const ArenaBlock& block = blocks[i];
    const int64_t bytes = (block.bytes + kAlignment - 1) / kAlignment * kAlignment;
    int64_t offset = 0;
    for (const size_t p : placed) {
      const ArenaBlock& other = blocks[p];
      if (other.last < block.first || other.first > block.last) continue;
      if (offset + bytes <= out.offsets[p]) break;
      offset = std::max(offset,
                        out.offsets[p] + (other.bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    out.offsets[i] = offset;
    out.bytes = std::max(out.bytes, offset + bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return out.offsets[a] < out.offsets[b]; }),
        i);
  }
  return out;
}

}  // namespace weft
