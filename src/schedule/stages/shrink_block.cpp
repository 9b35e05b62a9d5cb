#include "schedule/stages/shrink_block.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "cost/operation_cost.h"

namespace weft {

namespace {

/// Bodies of more operations are more than registers hold.
constexpr int64_t kMostOperations = 128;

/// Which values go: by who reads whom while they do, in the stages that the whole has.
class Shrinker {
 public:
  Shrinker(const BlockSpace& whole, const BlockPartition& partition, const DemandBoxes& demand,
           const Stages& stages)
      : whole_(whole),
        partition_(partition),
        demand_(demand),
        stage_of_(static_cast<size_t>(whole.size()), 0),
        readers_(static_cast<size_t>(whole.size())) {
    for (size_t s = 0; s < stages.members.size(); ++s) {
      for (const int p : stages.members[s]) stage_of_[static_cast<size_t>(p)] = s;
    }
    for (int p = 0; p < whole.size(); ++p)
      readers_[static_cast<size_t>(p)] = {whole.readers(p).begin(), whole.readers(p).end()};
  }

  /// Members that readers make again, ascending; nothing where they are not enough.
  std::optional<std::vector<int>> run(const std::vector<int>& again, double bytes) {
    for (const int p : again) give_up(p);
    const double most = kept_bytes() - bytes;
    while (kept_bytes() > most) {
      const std::optional<int> next = next_in_order();
      if (!next) return std::nullopt;
      give_up(*next);
    }
    return std::vector<int>(gone_.begin(), gone_.end());
  }

 private:
  bool is_handed_on(int p) const {
    return !gone_.contains(p) && std::ranges::any_of(readers_[static_cast<size_t>(p)], [&](int r) {
      return stage_of_[static_cast<size_t>(r)] != stage_of_[static_cast<size_t>(p)];
    });
  }

  double kept_bytes() const {
    double bytes = 0;
    for (int p = 0; p < whole_.size(); ++p) {
      if (!is_handed_on(p)) continue;
      const TensorId t = whole_.expr(p).output;
      auto own = static_cast<double>(
          byte_size(whole_.program().tensors[static_cast<size_t>(t)].type.dtype));
      for (const BoxAxis& axis : demand_.members[static_cast<size_t>(p)].box)
        own *= static_cast<double>(axis.extent);
      bytes += own;
    }
    return bytes;
  }

  /// Its readers read what it reads.
  void give_up(int p) {
    gone_.insert(p);
    for (std::set<int>& of : readers_) {
      if (of.erase(p) != 0)
        of.insert(readers_[static_cast<size_t>(p)].begin(), readers_[static_cast<size_t>(p)].end());
    }
  }

  /// Members on the longest way from each to a root.
  std::vector<int> distances() const {
    std::vector<int> out(static_cast<size_t>(whole_.size()), 0);
    for (int p = whole_.size(); p-- > 0;) {
      for (const int r : whole_.readers(p))
        out[static_cast<size_t>(p)] =
            std::max(out[static_cast<size_t>(p)], out[static_cast<size_t>(r)] + 1);
    }
    return out;
  }

  /// The value that the paper gives up next.
  std::optional<int> next_in_order() const {
    const std::vector<int> distance = distances();
    std::optional<std::tuple<int, int, int>> first;  // class, distance, member
    for (int p = 0; p < whole_.size(); ++p) {
      if (!is_handed_on(p) || !whole_.may_be_made_again(p)) continue;
      if (std::ranges::count(partition_.roots, p) > 0) continue;
      const bool multiplied = std::ranges::any_of(
          readers_[static_cast<size_t>(p)], [&](int r) { return whole_.expr(r).is_contraction; });
      const int of_class = !is_costly(whole_.expr(p).body) ? 0 : multiplied ? 2 : 1;
      const std::tuple own(of_class, distance[static_cast<size_t>(p)], p);
      if (!first || own < *first) first = own;
    }
    return first ? std::optional(std::get<2>(*first)) : std::nullopt;
  }

  const BlockSpace& whole_;
  const BlockPartition& partition_;
  const DemandBoxes& demand_;
  std::vector<size_t> stage_of_;
  std::vector<std::set<int>> readers_;
  std::set<int> gone_;
};

}  // namespace

std::optional<ShrunkBlock> without(const BlockSpace& whole, const BlockPartition& partition,
                                   const std::vector<int>& again) {
  std::optional<BlockSpace> space = whole.without(again);
  if (!space) return std::nullopt;
  for (int p = 0; p < space->size(); ++p) {
    if (operation_count(space->expr(p).body) > kMostOperations) return std::nullopt;
  }
  ShrunkBlock out{std::move(*space), partition, again};
  for (int& root : out.partition.roots) {
    int at = -1;
    for (int p = 0; p < out.space.size(); ++p) {
      if (out.space.position(p) == root) at = p;
    }
    if (at < 0) return std::nullopt;
    root = at;
  }
  return out;
}

std::optional<ShrunkBlock> shrink_block(const BlockSpace& whole, const BlockPartition& partition,
                                        const DemandBoxes& demand, const Stages& stages,
                                        const std::vector<int>& again, double bytes) {
  const auto all = Shrinker(whole, partition, demand, stages).run(again, bytes);
  return all ? without(whole, partition, *all) : std::nullopt;
}

}  // namespace weft
