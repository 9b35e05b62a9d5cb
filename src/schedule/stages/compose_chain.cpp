#include "schedule/stages/compose_chain.h"

#include <algorithm>
#include <utility>

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
/// Candidates that are built until one fits.
constexpr int kMostBuilt = 4;

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

struct PricedChain {
  std::string tiling;
  BlockPartition partition;
  int64_t step = 1;
  DemandBoxes demand;
  BlockTime time;
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

void finish(const BlockSpace& space, const BlockTime& time, const CarriedAxis& axis,
            ScheduledKernel* kernel) {
  kernel->composition.carried = axis;
  kernel->estimate = time.estimate;
  kernel->predicted_us = time.microseconds;
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
    price_all();
    std::optional<ScheduledKernel> best;
    int built = 0;
    for (const PricedChain& c : priced_) {
      if (best || built == kMostBuilt) {
        note(c, best ? "behind one that fits" : "after as many as are built");
        continue;
      }
      ++built;
      auto kernel = build(c);
      note(c, kernel.ok() ? "" : kernel.error().message);
      if (kernel.ok()) {
        best = std::move(*kernel);
      } else {
        reason_ = kernel.error().message;
      }
    }
    if (best) return std::move(*best);
    return unsupported(reason_.empty() ? "no partition into blocks that carry" : reason_);
  }

 private:
  /// The candidate of the search, then smaller ones.
  void price_all() {
    WEFT_CHECK(shared_.carried.extent > 0, "an axis without elements");
    const std::optional<BlockPartition> rows = partition_of_rows();
    if (!rows) {
      if (reason_.empty()) reason_ = "no loops over blocks give each its rows";
      return;
    }
    const ContractionChain chain = chain_of();
    // What lies beyond a tail is not computed.
    const std::optional<TileCandidate> best =
        search_tiles(chain, limits(chain), false, {.padding = false});
    if (!best) {
      reason_ = "no tiles of the chain fit a block";
      return;
    }
    int64_t row_tile = best->tiles[kRowLoop], step = best->tiles[kSharedLoop];
    while (row_tile > 1 && row_tile * chain.extents[kMadeLoop] > kMostCarried * target_.lanes(4))
      row_tile /= 2;
    for (int i = 0; i < kMostBuilt; ++i) {
      BlockPartition partition = *rows;
      if (has_row_loop_) partition.loops.back().step = row_tile;
      price(print(best->expression), partition, step);
      (step > row_tile ? step : row_tile) = std::max<int64_t>(std::max(step, row_tile) / 2, 1);
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

  void price(const std::string& tiling, const BlockPartition& partition, int64_t step) {
    auto demand =
        demand_boxes(space_.program(), space_.group(), partition, {&shared_.carried, step});
    if (!demand.ok()) {
      if (reason_.empty()) reason_ = demand.error().message;
      return;
    }
    const auto stages = form_stages(space_, *demand, target_);
    if (!stages.ok()) {
      reason_ = stages.error().message;
      return;
    }
    const BlockTime time = chain_time(whole_, space_, *demand, handed_on(space_, *stages), target_);
    if (time.flops_made > kMostMade * static_cast<double>(time.estimate.flops)) {
      reason_ = "blocks compute most of it several times";
      return;
    }
    priced_.push_back({tiling, partition, step, std::move(*demand), time});
  }

  Result<ScheduledKernel> build(const PricedChain& c) const {
    WEFT_ASSIGN_OR_RETURN(const Stages stages, form_stages(space_, c.demand, target_));
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, build_block(space_, c.partition, c.demand, stages,
                                                              nullptr, target_, name_));
    if (const Decision holds = fits(kernel.program, kernel.scopes, target_); !holds)
      return unsupported(holds.reason());
    CarriedAxis axis = shared_.axis;
    axis.step = c.step;
    finish(space_, c.time, axis, &kernel);
    return kernel;
  }

  void note(const PricedChain& c, const std::string& why) {
    if (considered_ == nullptr) return;
    considered_->push_back(
        {fmt::format("chain({} as {} in steps of {})", print(c.partition), c.tiling, c.step),
         {},
         c.time.microseconds,
         why.empty(),
         why});
  }

  const BlockSpace& whole_;
  const SharedAxis shared_;
  const BlockSpace space_;
  const std::vector<AxisRole> roles_;  ///< of the last contraction's axes
  int last_ = -1;                      ///< the member that carries it
  int64_t rows_ = 1;
  bool has_row_loop_ = false;
  const Target& target_;
  const std::string& name_;
  std::vector<Considered>* considered_;
  std::vector<PricedChain> priced_;
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
  finish(steps, chain_time(space, steps, *demand, handed_on(steps, stages), target),
         composition.carried, &*kernel);
  return kernel;
}

}  // namespace weft
