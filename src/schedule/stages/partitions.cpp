#include "schedule/stages/partitions.h"

#include <algorithm>

namespace weft {

namespace {

constexpr int64_t kSteps[] = {1, 4, 8, 16, 32, 64, 128};
/// What a block has of an axis that it walks in turns.
constexpr int64_t kWalked = 512;

std::vector<int> roots_of(const BlockSpace& space) {
  std::vector<int> roots;
  for (int p = 0; p < space.size(); ++p) {
    if (space.readers(p).empty()) roots.push_back(p);
  }
  const auto first = std::ranges::max_element(
      roots, {}, [&](int p) { return std::pair(space.expr(p).output_rank(), p); });
  if (first != roots.end()) std::rotate(roots.begin(), first, first + 1);
  return roots;
}

/// Of each root the next axis of that length, for each loop of the first root's.
class Cutter {
 public:
  explicit Cutter(const BlockSpace& space) : space_(space), roots_(roots_of(space)) {}

  const std::vector<int64_t>& extents() const { return space_.expr(roots_[0]).extents; }

  BlockPartition partition(const std::vector<AxisCut>& cuts) const {
    BlockPartition out;
    out.roots = roots_;
    for (const AxisCut& cut : cuts) out.loops.push_back({cut.step, cut.turns, {cut.axis}});
    for (size_t r = 1; r < roots_.size(); ++r) add_root(space_.expr(roots_[r]).extents, &out);
    return out;
  }

 private:
  void add_root(const std::vector<int64_t>& own, BlockPartition* out) const {
    std::vector<bool> taken(own.size(), false);
    for (size_t l = 0; l < out->loops.size(); ++l) {
      const int leading = out->loops[l].axes[0];
      int axis = -1;
      for (size_t before = 0; before < l; ++before) {
        if (out->loops[before].axes[0] == leading) axis = out->loops[before].axes.back();
      }
      for (size_t a = 0; a < own.size() && axis < 0; ++a) {
        if (!taken[a] && own[a] == extents()[static_cast<size_t>(leading)])
          axis = static_cast<int>(a);
      }
      if (axis >= 0) taken[static_cast<size_t>(axis)] = true;
      out->loops[l].axes.push_back(axis);
    }
  }

  const BlockSpace& space_;
  std::vector<int> roots_;
};

}  // namespace

BlockPartition partition_along(const BlockSpace& space, const std::vector<AxisCut>& cuts) {
  return Cutter(space).partition(cuts);
}

std::vector<BlockPartition> partitions_of(const BlockSpace& space) {
  const Cutter cutter(space);
  const std::vector<int64_t>& extents = cutter.extents();
  std::vector<BlockPartition> out;
  std::vector<AxisCut> whole;
  out.push_back(cutter.partition(whole));
  for (int first = 0; first < static_cast<int>(extents.size()); ++first) {
    if (extents[static_cast<size_t>(first)] == 1) continue;
    for (int a = first; a < static_cast<int>(extents.size()); ++a) {
      const int64_t extent = extents[static_cast<size_t>(a)];
      for (const int64_t step : kSteps) {
        if (step >= extent) break;
        std::vector<AxisCut> cuts = whole;
        cuts.push_back({a, step, false});
        out.push_back(cutter.partition(cuts));
        if (step == 1) continue;
        cuts.back().turns = true;
        if (!whole.empty()) out.push_back(cutter.partition(cuts));
        if (extent <= kWalked || kWalked % step != 0) continue;
        cuts.insert(cuts.end() - 1, {a, kWalked, false});
        out.push_back(cutter.partition(cuts));
      }
    }
    whole.push_back({first, 1, false});
  }
  return out;
}

}  // namespace weft
