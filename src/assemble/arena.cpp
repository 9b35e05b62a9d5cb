#include "assemble/arena.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

namespace weft {

namespace {

/// Blocks that have a place, by when they are needed: those that a life overlaps are those that
/// begin during it, and those that are alive when it begins, which a segment tree over the steps
/// tells.
class PlacedBlocks {
 public:
  explicit PlacedBlocks(const std::vector<ArenaBlock>& blocks) : blocks_(blocks) {
    int32_t steps = 1;
    for (const ArenaBlock& block : blocks) steps = std::max(steps, block.last + 1);
    leaves_ = std::bit_ceil(static_cast<size_t>(steps));
    begin_at_.resize(leaves_);
    alive_.resize(2 * leaves_);
  }

  void add(size_t block) {
    begin_at_[static_cast<size_t>(blocks_[block].first)].push_back(block);
    auto low = static_cast<size_t>(blocks_[block].first) + leaves_,
         high = static_cast<size_t>(blocks_[block].last) + leaves_ + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) alive_[low++].push_back(block);
      if (high % 2 == 1) alive_[--high].push_back(block);
    }
  }

  std::vector<size_t> overlapping(const ArenaBlock& life) const {
    std::vector<size_t> out;
    for (size_t node = static_cast<size_t>(life.first) + leaves_; node > 0; node /= 2)
      out.insert(out.end(), alive_[node].begin(), alive_[node].end());
    for (int32_t step = life.first + 1; step <= life.last; ++step) {
      const std::vector<size_t>& begun = begin_at_[static_cast<size_t>(step)];
      out.insert(out.end(), begun.begin(), begun.end());
    }
    return out;
  }

 private:
  const std::vector<ArenaBlock>& blocks_;
  size_t leaves_ = 1;
  std::vector<std::vector<size_t>> begin_at_;  ///< by step
  std::vector<std::vector<size_t>> alive_;     ///< by node: throughout its steps
};

}  // namespace

ArenaLayout place_arena(const std::vector<ArenaBlock>& blocks) {
  constexpr int64_t kAlignment = 64;
  const auto aligned = [](int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  ArenaLayout out;
  out.offsets.assign(blocks.size(), 0);
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(-blocks[a].bytes, a) < std::tuple(-blocks[b].bytes, b);
  });
  PlacedBlocks placed(blocks);
  for (const size_t i : order) {
    const int64_t bytes = aligned(blocks[i].bytes);
    std::vector<size_t> others = placed.overlapping(blocks[i]);
    std::ranges::sort(others, {}, [&](size_t b) { return out.offsets[b]; });
    int64_t offset = 0;
    for (const size_t p : others) {
      if (offset + bytes <= out.offsets[p]) break;
      offset = std::max(offset, out.offsets[p] + aligned(blocks[p].bytes));
    }
    out.offsets[i] = offset;
    out.bytes = std::max(out.bytes, offset + bytes);
    placed.add(i);
  }
  return out;
}

ArenaLayout place_arena_by_size(const std::vector<ArenaBlock>& blocks) {
  std::map<int64_t, std::vector<size_t>> of_size;
  for (size_t b = 0; b < blocks.size(); ++b) of_size[blocks[b].bytes].push_back(b);
  ArenaLayout out;
  out.offsets.assign(blocks.size(), 0);
  for (const auto& [bytes, members] : of_size) {
    std::vector<ArenaBlock> alike;
    for (const size_t b : members) alike.push_back(blocks[b]);
    const ArenaLayout part = place_arena(alike);
    for (size_t m = 0; m < members.size(); ++m)
      out.offsets[members[m]] = out.bytes + part.offsets[m];
    out.bytes += part.bytes;
  }
  return out;
}

}  // namespace weft
