#include "schedule/stages/compose_chain.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "cost/latency.h"
#include "fmt/format.h"
#include "schedule/stages/block_time.h"
#include "schedule/stages/build_block.h"
#include "schedule/stages/compose_block.h"
#include "schedule/stages/form_stages.h"
#include "schedule/stages/partitions.h"
#include "tile/check/fits.h"
#include "tiling/tile_candidates.h"

namespace weft {

namespace {

/// Made again by blocks at most, over what there is to compute.
constexpr double kMostMade = 2;
/// Vectors of a carry at most: its first value is written out.
constexpr int64_t kMostCarried = 512;
/// Candidates that are built, to be weighed.
constexpr size_t kMostBuilt = 12;
/// Rows of a block: between these, in steps of a third to a half.
constexpr std::array<int64_t, 10> kRowTiles = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};

Status can_carry(const BlockSpace& space, const Target& target) {
  if (target.is_gpu()) return unsupported("chains are not built for GPUs yet");
  return check_members(space);
}

/// The group with its outputs, as passes over programs take it.
TensorProgram program_of(const BlockSpace& space) {
  TensorProgram out = space.program();
  out.outputs = space.group().outputs;
  return out;
}

Result<CarriedProgram> carried_along(const BlockSpace& space, const CarriedAxis& axis) {
  const bool is_member = axis.member >= 0 && axis.member < space.size();
  if (!is_member) return unsupported("a chain along an axis of no member");
  return carry_reductions(program_of(space), axis.member,
                          space.expr(axis.member).output_rank() + axis.reduction);
}

/// Whether one contraction makes in each step what another one reduces.
bool joins_contractions(const CarriedProgram& carried) {
  bool makes = false, consumes = false;
  for (size_t p = 0; p < carried.program.exprs.size(); ++p) {
    const TensorExpr& e = carried.program.exprs[p];
    if (!e.is_contraction || carried.along[p] < 0) continue;
    (carried.along[p] < e.output_rank() ? makes : consumes) = true;
  }
  return makes && consumes;
}

struct SharedAxis {
  CarriedAxis axis;
  CarriedProgram carried;
};

/// The axis of the last contraction that has one.
Result<SharedAxis> shared_axis(const BlockSpace& space) {
  std::string reason = "no contraction consumes what another one makes";
  for (int p = space.size() - 1; p >= 0; --p) {
    const TensorExpr& e = space.expr(p);
    if (!e.is_contraction) continue;
    for (int r = 0; r < static_cast<int>(e.reduce_extents.size()); ++r) {
      const CarriedAxis axis{p, r, 1};
      auto carried = carried_along(space, axis);
      if (!carried.ok()) {
        reason = carried.error().message;
      } else if (joins_contractions(*carried)) {
        return SharedAxis{axis, std::move(*carried)};
      }
    }
  }
  return unsupported(reason);
}

/// A candidate, and what became of it.
struct WeighedChain {
  BlockPartition partition;
  int64_t step = 1;
  std::optional<ScheduledKernel> kernel;
  std::string why_not;

  double microseconds() const {
    return kernel ? kernel->estimate.microseconds : std::numeric_limits<double>::infinity();
  }
};

/// What an axis of the second contraction's result is to the chain.
enum class AxisRole : uint8_t { kBatch, kRow, kMade };

/// By output axis of member `p`: batch where both operands move with it, a row where only what the
/// steps make does.
std::vector<AxisRole> axis_roles(const TensorProgram& program, const CarriedProgram& carried,
                                 int p) {
  const TensorExpr& e = program.exprs[static_cast<size_t>(p)];
  std::vector<AxisRole> out;
  for (int d = 0; d < e.output_rank(); ++d) {
    bool in_chain = false, outside = false;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const bool moves =
          std::ranges::any_of(s.indices, [&](const IndexExpr& i) { return uses_var(i, d); });
      bool made = false;
      for (size_t m = 0; m < carried.program.exprs.size(); ++m)
        made |= carried.program.exprs[m].output == s.symbol && carried.along[m] >= 0;
      (made ? in_chain : outside) |= moves;
    });
    out.push_back(in_chain && outside ? AxisRole::kBatch
                  : in_chain          ? AxisRole::kRow
                                      : AxisRole::kMade);
  }
  return out;
}

/// With what the built program takes: the loops of a chain are weighed by it, too.
void finish(const BlockSpace& space, const Estimate& estimate, const CarriedAxis& axis,
            const Target& target, ScheduledKernel* kernel) {
  kernel->composition.carried = axis;
  kernel->estimate = estimate;
  kernel->estimate.microseconds = cpu_latency(kernel->program, kernel->scopes, target).microseconds;
  kernel->predicted_us = kernel->estimate.microseconds;
  kernel->schedule_template = "chain of " + kernel->schedule_template;
  for (TensorId& t : kernel->parameters) t = space.original()[static_cast<size_t>(t)];
}

class ChainComposer {
 public:
  ChainComposer(const BlockSpace& whole, SharedAxis shared, const Target& target,
                const std::string& name, std::vector<Considered>* considered)
      : whole_(whole),
        shared_(std::move(shared)),
        space_(whole, shared_.carried, target),
        roles_(axis_roles(whole.program(), shared_.carried, shared_.axis.member)),
        target_(target),
        estimate_(estimate_of(whole, target)),
        name_(name),
        considered_(considered) {
    const TensorExpr& last = whole.expr(shared_.axis.member);
    for (size_t d = 0; d < roles_.size(); ++d) {
      if (roles_[d] == AxisRole::kRow) rows_ = std::max(rows_, last.extents[d]);
    }
    for (const BlockSpace::Carry& c : space_.carries()) {
      if (c.reduction == shared_.axis.member) last_ = c.after;
    }
  }

  Result<ScheduledKernel> run() {
    WEFT_CHECK(shared_.carried.extent > 0, "an axis without elements");
    rows_partition_ = partition_of_rows();
    if (!rows_partition_)
      return unsupported(reason_.empty() ? "no loops over blocks give each its rows" : reason_);
    const ContractionChain chain = chain_of();
    // What lies beyond a tail is not computed.
    const std::optional<TileCandidate> first =
        search_tiles(chain, limits(chain), false, {.padding = false});
    if (!first) return unsupported("no tiles of the chain fit a block");
    tiling_ = print(first->expression);
    descend(row_tiles(chain), first->tiles[kRowLoop], first->tiles[kSharedLoop]);
    const auto best = std::ranges::min_element(weighed_, {}, &WeighedChain::microseconds);
    note_all(*best);
    if (!best->kernel) return unsupported(best->why_not);
    return std::move(*best->kernel);
  }

 private:
  /// Those whose carries are not written out at too great a length; all of them where no loop cuts
  /// the rows.
  std::vector<int64_t> row_tiles(const ContractionChain& chain) const {
    if (!has_row_loop_) return {rows_};
    std::vector<int64_t> out;
    const int64_t most = kMostCarried * target_.lanes(4) / chain.extents[kMadeLoop];
    for (const int64_t tile : kRowTiles) {
      if (tile <= std::min(most, rows_)) out.push_back(tile);
    }
    if (rows_ <= most && (out.empty() || out.back() != rows_) && rows_ < kRowTiles.back())
      out.push_back(rows_);
    if (out.empty()) out.push_back(std::min<int64_t>(rows_, kRowTiles.front()));
    return out;
  }

  /// From the candidate of the search along one of four ways as long as it gets quicker, then along
  /// the next, until none does: steps of twice or half the length, tiles of rows a size up or down.
  void descend(const std::vector<int64_t>& tiles, int64_t row_tile, int64_t step) {
    size_t at = 0;
    while (at + 1 < tiles.size() && tiles[at + 1] <= row_tile) ++at;
    double least = weigh(tiles[at], step);
    const auto go = [&](size_t tile, int64_t length) {
      if (weighed_.size() >= kMostBuilt || tile >= tiles.size() || length < 1 ||
          length >= 2 * shared_.carried.extent || !tried_.emplace(tiles[tile], length).second)
        return false;
      const double us = weigh(tiles[tile], length);
      if (us >= least) return false;
      least = us, at = tile, step = length;
      return true;
    };
    for (bool better = true; better;) {
      better = false;
      while (go(at, step * 2)) better = true;
      while (go(at + 1, step)) better = true;
      if (better) continue;
      while (go(at, step / 2)) better = true;
      while (go(at - 1, step)) better = true;
    }
  }

  static constexpr size_t kRowLoop = 0, kDepthLoop = 1, kSharedLoop = 2, kMadeLoop = 3;

  /// Loops over the batch in single steps, then over rows: the blocks have whole results otherwise.
  std::optional<BlockPartition> partition_of_rows() {
    for (const BlockPartition& partition : partitions_of(space_)) {
      if (std::ranges::any_of(partition.loops, &BlockPartition::Loop::turns)) continue;
      const auto demand = demand_boxes(space_.program(), space_.group(), partition,
                                       {&shared_.carried, shared_.carried.extent});
      if (!demand.ok()) {
        if (reason_.empty()) reason_ = demand.error().message;
        continue;
      }
      if (gives_rows(*demand, partition)) return partition;
    }
    return std::nullopt;
  }

  bool gives_rows(const DemandBoxes& demand, const BlockPartition& partition) {
    const std::vector<BoxAxis>& box = demand.members[static_cast<size_t>(last_)].box;
    int64_t cut_rows = 0;
    bool rows_left = false;
    for (size_t d = 0; d < box.size(); ++d) {
      if (box[d].full == 1) continue;
      const bool single = box[d].extent == 1, whole = box[d].extent == box[d].full;
      if (roles_[d] == AxisRole::kMade && !whole) return false;
      if (roles_[d] == AxisRole::kBatch && !single) return false;
      if (roles_[d] != AxisRole::kRow) continue;
      rows_left |= whole;
      if (!single && !whole) ++cut_rows;
    }
    has_row_loop_ = cut_rows == 1 && !partition.loops.empty();
    return !rows_left && (has_row_loop_ || rows_ == 1);
  }

  /// Rows, depth of the first contraction, the shared axis, what the last one makes.
  ContractionChain chain_of() const {
    const TensorProgram& program = shared_.carried.program;
    ContractionChain out;
    out.extents = {rows_, 1, shared_.carried.extent, 1};
    for (size_t p = 0; p < program.exprs.size(); ++p) {
      const TensorExpr& e = program.exprs[p];
      if (!e.is_contraction || shared_.carried.along[p] < 0 ||
          shared_.carried.along[p] >= e.output_rank())
        continue;
      for (const int64_t extent : e.reduce_extents) out.extents[kDepthLoop] *= extent;
    }
    const TensorExpr& last = whole_.expr(shared_.axis.member);
    for (size_t d = 0; d < roles_.size(); ++d) {
      if (roles_[d] == AxisRole::kMade) out.extents[kMadeLoop] *= last.extents[d];
      if (roles_[d] == AxisRole::kBatch) out.batch *= last.extents[d];
    }
    out.element_bytes =
        byte_size(whole_.program().tensors[static_cast<size_t>(last.output)].type.dtype);
    return out;
  }

  /// Templates cut the depth and what is made in registers.
  TileLimits limits(const ContractionChain& chain) const {
    TileLimits out;
    out.whole = {static_cast<int>(kDepthLoop), static_cast<int>(kMadeLoop)};
    if (chain.extents[kRowLoop] < out.unit) out.whole.push_back(static_cast<int>(kRowLoop));
    if (chain.extents[kSharedLoop] < out.unit) out.whole.push_back(static_cast<int>(kSharedLoop));
    out.block_bytes = target_.l2_bytes / 2;
    out.gigabytes = target_.bandwidth_gb_per_s(out.block_bytes);
    out.gigaflops = target_.peak_gflops;
    out.processors = std::max(target_.threads, 1);
    return out;
  }

  /// Microseconds; infinite where none is built.
  double weigh(int64_t row_tile, int64_t step) {
    tried_.emplace(row_tile, step);
    WeighedChain chain{*rows_partition_, std::min(step, shared_.carried.extent), {}, {}};
    if (has_row_loop_) chain.partition.loops.back().step = row_tile;
    auto kernel = build(chain);
    if (kernel.ok()) {
      chain.kernel = std::move(*kernel);
    } else {
      chain.why_not = kernel.error().message;
    }
    weighed_.push_back(std::move(chain));
    return weighed_.back().microseconds();
  }

  Result<ScheduledKernel> build(const WeighedChain& c) const {
    WEFT_ASSIGN_OR_RETURN(
        const DemandBoxes demand,
        demand_boxes(space_.program(), space_.group(), c.partition, {&shared_.carried, c.step}));
    WEFT_ASSIGN_OR_RETURN(const Stages stages, form_stages(space_, demand, target_));
    const BlockTime time =
        block_time(space_, estimate_, demand, handed_on(space_, stages), target_);
    if (time.flops_made > kMostMade * static_cast<double>(time.estimate.flops))
      return unsupported("blocks compute most of it several times");
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, build_block(space_, c.partition, demand, stages,
                                                              nullptr, target_, name_));
    if (const Decision holds = fits(kernel.program, kernel.scopes, target_); !holds)
      return unsupported(holds.reason());
    CarriedAxis axis = shared_.axis;
    axis.step = c.step;
    finish(space_, time.estimate, axis, target_, &kernel);
    return kernel;
  }

  void note_all(const WeighedChain& best) {
    if (considered_ == nullptr) return;
    for (const WeighedChain& c : weighed_) {
      const bool chosen = &c == &best && c.kernel;
      std::string why = c.why_not;
      if (c.kernel && !chosen)
        why = fmt::format("predicted {:.2f} us more", c.microseconds() - best.microseconds());
      std::optional<double> us;
      if (c.kernel) us = c.microseconds();
      considered_->push_back(
          {fmt::format("chain({} as {} in steps of {})", print(c.partition), tiling_, c.step),
           {},
           us,
           chosen,
           std::move(why)});
    }
  }

  const BlockSpace& whole_;
  const SharedAxis shared_;
  const BlockSpace space_;
  const std::vector<AxisRole> roles_;  ///< of the last contraction's axes
  int last_ = -1;                      ///< the member that carries it
  int64_t rows_ = 1;
  bool has_row_loop_ = false;
  const Target& target_;
  const Estimate estimate_;
  const std::string& name_;
  std::vector<Considered>* considered_;
  std::optional<BlockPartition> rows_partition_;
  std::string tiling_;
  std::vector<WeighedChain> weighed_;
  std::set<std::pair<int64_t, int64_t>> tried_;  ///< tiles of rows, steps
  std::string reason_;
};

}  // namespace

Result<ScheduledKernel> compose_chain(const BlockSpace& space, const Target& target,
                                      const std::string& name,
                                      std::vector<Considered>* considered) {
  WEFT_RETURN_IF_ERROR(can_carry(space, target));
  WEFT_ASSIGN_OR_RETURN(SharedAxis shared, shared_axis(space));
  return ChainComposer(space, std::move(shared), target, name, considered).run();
}

Result<ScheduledKernel> build_composed_chain(const BlockSpace& space,
                                             const Composition& composition, const Target& target,
                                             const std::string& name) {
  const auto invalid = [&](const Error& error) {
    return invalid_input(name + ": " + error.message);
  };
  if (Status possible = can_carry(space, target); !possible.ok()) return invalid(possible.error());
  const auto carried = carried_along(space, composition.carried);
  if (!carried.ok()) return invalid(carried.error());
  const BlockSpace steps(space, *carried, target);
  auto demand = demand_boxes(steps.program(), steps.group(), composition.partition,
                             {&*carried, composition.carried.step});
  if (!demand.ok()) return invalid(demand.error());
  WEFT_ASSIGN_OR_RETURN(const Stages stages, given_stages(steps, *demand, composition.stages));
  auto kernel = build_block(steps, composition.partition, *demand, stages, &composition.members,
                            target, name);
  if (!kernel.ok()) return invalid(kernel.error());
  if (const Decision holds = fits(kernel->program, kernel->scopes, target); !holds)
    return invalid_input(name + ": " + holds.reason());
  finish(steps, estimate_of(space, target), composition.carried, target, &*kernel);
  return kernel;
}

}  // namespace weft
