#include "schedule/stages/compose_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "cost/latency.h"
#include "fmt/format.h"
#include "schedule/stages/block_time.h"
#include "schedule/stages/build_block.h"
#include "schedule/stages/chain_axes.h"
#include "schedule/stages/compose_block.h"
#include "schedule/stages/compose_fragments.h"
#include "schedule/stages/form_stages.h"
#include "schedule/stages/scratch_bytes.h"
#include "support/rounding.h"
#include "tile/check/fits.h"
#include "tiling/tile_candidates.h"

namespace weft {

namespace {

/// Made again by blocks at most, over what there is to compute.
constexpr double kMostMade = 2;
/// Vectors of a carry at most: each step goes over all of them.
constexpr int64_t kMostCarried = 2048;
/// Of the cache that scratch may fill, what an estimate may ask for: more is not built (MCFuser,
/// R4).
constexpr double kMostScratch = 1.2;
/// Candidates that are built, to be weighed.
constexpr size_t kMostBuilt = 12;
/// How much less a step of the descent may keep: half the step, a third of the rows.
constexpr int64_t kMostShrunk = 6;
/// Of what is asked for, what a descent does not begin from: those of contractions have gained
/// half.
constexpr double kFarSlower = 2.5;
/// Rows of a block: between these, in steps of a third to a half.
constexpr std::array<int64_t, 10> kRowTiles = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};

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

bool multiplies(const SharedAxis& shared) {
  return std::ranges::any_of(shared.carried.program.exprs, &TensorExpr::is_contraction);
}

class ChainComposer {
 public:
  ChainComposer(const BlockSpace& whole, const BlockSpace& steps, const SharedAxis& shared,
                const ChainAxes& axes, const Target& target, const std::string& name,
                const ChainSearch& asked, std::vector<Considered>* considered)
      : shared_(shared),
        space_(steps),
        axes_(axes),
        target_(target),
        estimate_(estimate_of(whole, target)),
        name_(name),
        asked_(asked),
        considered_(considered) {}

  /// The quickest that verifies: that takes as long as building, so that it is done of no other.
  Result<ScheduledKernel> run() {
    WEFT_RETURN_IF_ERROR(search());
    auto best = quickest();
    for (; best->kernel; best = quickest()) {
      const Status verified = verify_block(*best->kernel);
      if (verified.ok()) break;
      best->why_not = verified.error().message;
      best->kernel.reset();
    }
    note_all(*best);
    if (!best->kernel) return unsupported(best->why_not);
    return std::move(*best->kernel);
  }

  /// Those that were built on the way, quickest first.
  std::vector<Composition> built() {
    std::vector<Composition> out;
    if (!search().ok()) return out;
    std::ranges::sort(weighed_, {}, &WeighedChain::microseconds);
    for (const WeighedChain& c : weighed_) {
      if (c.kernel && verify_block(*c.kernel).ok()) out.push_back(c.kernel->composition);
    }
    return out;
  }

 private:
  std::vector<WeighedChain>::iterator quickest() {
    return std::ranges::min_element(weighed_, {}, &WeighedChain::microseconds);
  }

  Status search() {
    WEFT_CHECK(shared_.carried.extent > 0, "an axis without elements");
    const ContractionChain& chain = axes_.loops;
    // What lies beyond a tail is not computed.
    const std::optional<TileCandidate> first =
        search_tiles(chain, limits(chain), asked_.deep_only, {.padding = false});
    if (!first) return unsupported("no tiles of the chain fit a block");
    tiling_ = print(first->expression);
    descend(row_tiles(chain), first->tiles[kRowLoop], first->tiles[kSharedLoop]);
    return {};
  }

  /// Those whose carries are not written out at too great a length; all of them where no loop cuts
  /// the rows. Rows that come from memory are walked one by one, as the prefetcher follows them.
  std::vector<int64_t> row_tiles(const ContractionChain& chain) const {
    if (axes_.row_loop < 0) return {axes_.rows};
    if (!multiplies(shared_)) return {1};
    std::vector<int64_t> out;
    const int64_t most = kMostCarried * target_.lanes(4) / chain.extents[kMadeLoop];
    for (const int64_t tile : kRowTiles) {
      if (tile <= std::min(most, axes_.rows)) out.push_back(tile);
    }
    if (axes_.rows <= most && (out.empty() || out.back() != axes_.rows) &&
        axes_.rows < kRowTiles.back())
      out.push_back(axes_.rows);
    if (out.empty()) out.push_back(std::min<int64_t>(axes_.rows, kRowTiles.front()));
    return out;
  }

  /// From the candidate of the search along one of four ways as long as it gets quicker, then along
  /// the next, until none does: steps of twice or half the length, tiles of rows a size or two up
  /// or down, since one of them may be whole register tiles where its neighbours are not.
  void descend(const std::vector<int64_t>& tiles, int64_t row_tile, int64_t step) {
    size_t at = 0;
    while (at + 1 < tiles.size() && tiles[at + 1] <= row_tile) ++at;
    double least = weigh(tiles[at], step);
    if (far_too_large_ || is_far_slower(least)) return;
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
      while (go(at + 1, step) || go(at + 2, step)) better = true;
      if (better) continue;
      if (makes_again_ && !std::isfinite(least)) return;  // smaller ones do so more often
      while (go(at, half_of(step))) better = true;
      while (go(at - 1, step) || go(at - 2, step)) better = true;
    }
  }

  /// Than what is asked for: by more than the descent gains.
  bool is_far_slower(double us) const {
    return asked_.most_us && multiplies(shared_) && std::isfinite(us) &&
           us > kFarSlower * asked_.most_us();
  }

  /// In whole vectors.
  int64_t half_of(int64_t step) const {
    const int64_t lanes = target_.lanes(4), half = step / 2;
    return half > lanes ? ceil_div(half, lanes) * lanes : half;
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
    WeighedChain chain{axes_.partition, std::min(step, shared_.carried.extent), {}, {}};
    if (axes_.row_loop >= 0)
      chain.partition.loops[static_cast<size_t>(axes_.row_loop)].step = row_tile;
    auto kernel = build(chain);
    if (kernel.ok()) {
      chain.kernel = std::move(*kernel);
    } else {
      chain.why_not = kernel.error().message;
    }
    weighed_.push_back(std::move(chain));
    return weighed_.back().microseconds();
  }

  Result<ScheduledKernel> build(const WeighedChain& c) {
    WEFT_ASSIGN_OR_RETURN(const DemandBoxes demand,
                          demand_boxes(space_.program(), space_.group(), c.partition,
                                       space_.carrying(shared_.carried, c.step)));
    // Before stages are formed, which takes longer.
    const std::vector<bool> none_handed_on(static_cast<size_t>(space_.size()), false);
    const BlockTime time = block_time(space_, estimate_, demand, none_handed_on, target_);
    makes_again_ = time.flops_made > kMostMade * static_cast<double>(time.estimate.flops);
    if (makes_again_) return unsupported("blocks compute most of it several times");
    WEFT_ASSIGN_OR_RETURN(const Stages stages,
                          form_stages(space_, demand, target_, like_ ? &*like_ : nullptr));
    like_ = stages;
    const int64_t room = target_.l2_bytes / 2,
                  scratch = scratch_bytes(space_, demand, stages, target_);
    if (static_cast<double>(scratch) > kMostScratch * static_cast<double>(room))
      return unsupported(
          fmt::format("about {} B of scratch, {} has {} for it", scratch, target_.name, room));
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, build_block(space_, c.partition, demand, stages,
                                                              nullptr, target_, name_));
    if (const Decision holds = fits(kernel.program, kernel.scopes, target_); !holds) {
      far_too_large_ = kernel.scopes.block_bytes > kMostShrunk * room;
      return unsupported(holds.reason());
    }
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

  const SharedAxis& shared_;
  const BlockSpace& space_;
  const ChainAxes& axes_;
  const Target& target_;
  const Estimate estimate_;
  const std::string& name_;
  const ChainSearch& asked_;
  std::vector<Considered>* considered_;
  std::string tiling_;
  std::optional<Stages> like_;  ///< stages of the candidate before
  std::vector<WeighedChain> weighed_;
  std::set<std::pair<int64_t, int64_t>> tried_;  ///< tiles of rows, steps
  bool far_too_large_ = false;  ///< what was built last: no step of the descent fits
  bool makes_again_ = false;    ///< blocks of what was asked for last, most of it several times
};

Result<ScheduledKernel> along(const BlockSpace& space, const SharedAxis& shared,
                              const Target& target, const std::string& name,
                              std::vector<Considered>* considered, const ChainSearch& search) {
  const BlockSpace steps(space, shared.carried, target);
  WEFT_ASSIGN_OR_RETURN(const ChainAxes axes, chain_axes(space, shared, steps));
  if (target.is_gpu() && !multiplies(shared))
    return unsupported("fragments are those of contractions");
  if (target.is_gpu())
    return compose_fragments(space, steps, shared, axes, target, name, considered);
  return ChainComposer(space, steps, shared, axes, target, name, search, considered).run();
}

}  // namespace

Result<ScheduledKernel> compose_chain(const BlockSpace& space, const Target& target,
                                      const std::string& name, std::vector<Considered>* considered,
                                      const ChainSearch& search) {
  WEFT_RETURN_IF_ERROR(check_members(space));
  WEFT_ASSIGN_OR_RETURN(const std::vector<SharedAxis> axes, shared_axes(space));
  std::string reason;
  for (const SharedAxis& shared : axes) {
    auto kernel = along(space, shared, target, name, considered, search);
    if (kernel.ok()) return kernel;
    if (reason.empty()) reason = kernel.error().message;
  }
  return unsupported(reason);
}

std::vector<Composition> chains_to_measure(const BlockSpace& space, const Target& target,
                                           size_t most) {
  std::vector<Composition> out;
  if (!check_members(space).ok()) return out;
  const auto shared_by_two = shared_axes(space);
  if (!shared_by_two.ok()) return out;
  const std::string name = "k";
  for (const SharedAxis& shared : *shared_by_two) {
    const BlockSpace steps(space, shared.carried, target);
    const auto axes = chain_axes(space, shared, steps);
    if (!axes.ok() || (target.is_gpu() && !multiplies(shared))) continue;
    out = target.is_gpu()
              ? fragments_to_measure(space, steps, shared, *axes, target, name, most)
              : ChainComposer(space, steps, shared, *axes, target, name, {}, nullptr).built();
    if (!out.empty()) break;
  }
  if (out.size() > most) out.resize(most);
  return out;
}

std::vector<std::string> postponed_factors(const TensorProgram& program, const Group& group,
                                           const CarriedAxis& carried, const Target& target) {
  const BlockSpace space(program, group, target);
  const auto along = carried_along(space, carried);
  std::vector<std::string> out;
  if (!along.ok()) return out;
  for (const auto& [reduction, factor] : along->postponed)
    out.push_back(space.name_of(reduction) + " by " + space.name_of(factor));
  return out;
}

std::vector<std::string> assumed_masks(const TensorProgram& program, const Group& group,
                                       const CarriedAxis& carried, const Target& target) {
  const BlockSpace space(program, group, target);
  const auto along = carried_along(space, carried);
  std::vector<std::string> out;
  // The only step of a block on fragments has the whole axis.
  if (!along.ok() || (target.is_gpu() && carried.step >= along->extent)) return out;
  for (const CarriedProgram::Carry& carry : along->carries) {
    if (carry.reach.assumed) out.push_back(space.name_of(carry.reduction));
  }
  return out;
}

Result<ScheduledKernel> build_composed_chain(const BlockSpace& space,
                                             const Composition& composition, const Target& target,
                                             const std::string& name) {
  const auto invalid = [&](const Error& error) {
    return invalid_input(name + ": " + error.message);
  };
  if (Status possible = check_members(space); !possible.ok()) return invalid(possible.error());
  auto carried = carried_along(space, composition.carried);
  if (!carried.ok()) return invalid(carried.error());
  const BlockSpace steps(space, *carried, target);
  if (target.is_gpu()) {
    const SharedAxis shared{composition.carried, std::move(*carried)};
    const auto axes = chain_axes(space, shared, steps);
    if (!axes.ok()) return invalid(axes.error());
    auto kernel = build_composed_fragments(space, steps, shared, *axes, composition, target, name);
    if (!kernel.ok()) return invalid(kernel.error());
    return kernel;
  }
  if (composition.carried.splits > 1)
    return invalid_input(name + ": the blocks of a CPU go along the whole axis");
  auto demand = demand_boxes(steps.program(), steps.group(), composition.partition,
                             steps.carrying(*carried, composition.carried.step));
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
