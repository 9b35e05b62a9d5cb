#include "simt/memory_order.h"

#include <algorithm>

namespace weft::simt {
namespace {

/// Both lists are by thread; of one that is in both, the later tick.
std::vector<BlockKnowledge::Until> merge_threads(const std::vector<BlockKnowledge::Until>& a,
                                                 const std::vector<BlockKnowledge::Until>& b) {
  std::vector<BlockKnowledge::Until> merged;
  merged.reserve(a.size() + b.size());
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() || y != b.end()) {
    if (y == b.end() || (x != a.end() && x->thread < y->thread)) {
      merged.push_back(*x++);
    } else if (x == a.end() || y->thread < x->thread) {
      merged.push_back(*y++);
    } else {
      merged.push_back({x->thread, std::max(x->tick, y->tick)});
      ++x;
      ++y;
    }
  }
  return merged;
}

}  // namespace

void Knowledge::add(const BlockKnowledge& block) {
  const auto at = std::lower_bound(
      blocks_.begin(), blocks_.end(), block.block,
      [](const BlockKnowledge& known, uint32_t wanted) { return known.block < wanted; });
  if (at == blocks_.end() || at->block != block.block) {
    blocks_.insert(at, block);
  } else if (at->bar < block.bar) {
    *at = block;
  } else if (at->bar == block.bar) {
    at->threads = merge_threads(at->threads, block.threads);
  }
}

void Knowledge::add(const Knowledge& other) {
  if (blocks_.empty()) {
    blocks_ = other.blocks_;
    return;
  }
  for (const BlockKnowledge& block : other.blocks_) add(block);
}

bool Knowledge::covers(uint32_t block, uint32_t thread, uint32_t bar, uint32_t tick) const {
  const auto at = std::lower_bound(
      blocks_.begin(), blocks_.end(), block,
      [](const BlockKnowledge& known, uint32_t wanted) { return known.block < wanted; });
  if (at == blocks_.end() || at->block != block) return false;
  if (bar < at->bar) return true;
  if (bar > at->bar || thread == kAnyThread) return false;
  const auto until = std::lower_bound(
      at->threads.begin(), at->threads.end(), thread,
      [](const BlockKnowledge::Until& known, uint32_t wanted) { return known.thread < wanted; });
  return until != at->threads.end() && until->thread == thread && tick < until->tick;
}

}  // namespace weft::simt
