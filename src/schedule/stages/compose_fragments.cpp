#include "schedule/stages/compose_fragments.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

#include "cost/gpu_latency.h"
#include "fmt/format.h"
#include "schedule/gpu/matrix_tile.h"
#include "schedule/stages/block_time.h"
#include "schedule/stages/fragment_boxes.h"
#include "schedule/stages/fragment_chain.h"
#include "schedule/stages/fragment_time.h"
#include "support/rounding.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

/// Candidates that are built at most: what a program takes is known when it is there.
constexpr size_t kMostBuilt = 8;
/// Of the candidates that are not built, those that are told of.
constexpr size_t kMostTold = 16;
/// Made again by blocks at most, over what there is to compute.
constexpr double kMostMade = 8;

struct Priced {
  FragmentTiles tiles;
  double microseconds = 0;
  size_t number = 0;  ///< of those alike the first
};

BlockPartition partition_of(const ChainAxes& axes, const FragmentTiles& tiles) {
  BlockPartition out = axes.partition;
  out.loops[static_cast<size_t>(axes.row_loop)].step = tiles.rows;
  if (tiles.made >= axes.made || axes.made_axis < 0) return out;
  BlockPartition::Loop loop;
  loop.step = tiles.made;
  loop.axes.assign(out.roots.size(), -1);
  loop.axes[0] = axes.made_axis;
  out.loops.push_back(std::move(loop));
  return out;
}

class FragmentComposer {
 public:
  FragmentComposer(const BlockSpace& whole, const BlockSpace& steps, const SharedAxis& shared,
                   const ChainAxes& axes, const Target& target, const std::string& name)
      : whole_(whole),
        steps_(steps),
        shared_(shared),
        axes_(axes),
        target_(target),
        name_(name),
        estimate_(estimate_of(whole, target)),
        problem_(fragment_problem(steps, shared.carried, axes,
                                  static_cast<double>(estimate_.bytes_read) +
                                      static_cast<double>(estimate_.bytes_written),
                                  target)) {}

  Result<ScheduledKernel> run(std::vector<Considered>* considered) {
    if (axes_.row_loop < 0) return unsupported("blocks of one row have no fragments");
    enumerate();
    std::string reason = "no tiles of the chain fit a block";
    std::optional<ScheduledKernel> best;
    size_t chosen = priced_.size();
    for (size_t i = 0; i < std::min(priced_.size(), kMostBuilt); ++i) {
      // A program takes no less than its tiles were priced at, and they come in that order.
      if (best && priced_[i].microseconds >= best->estimate.microseconds) break;
      auto kernel = build(priced_[i].tiles, priced_[i].microseconds);
      why_not_.push_back(kernel.ok() ? "" : kernel.error().message);
      if (!kernel.ok()) {
        reason = kernel.error().message;
        continue;
      }
      priced_[i].microseconds = kernel->estimate.microseconds;
      if (best && best->estimate.microseconds <= kernel->estimate.microseconds) continue;
      best = std::move(*kernel);
      chosen = i;
    }
    note(considered, chosen);
    if (!best) return unsupported(reason);
    return std::move(*best);
  }

  /// Up to `most` that are built, of those that are priced least.
  std::vector<Composition> built(size_t most) {
    std::vector<Composition> out;
    if (axes_.row_loop < 0) return out;
    enumerate();
    for (const Priced& p : priced_ | std::views::take(kMostBuilt)) {
      if (out.size() == most) break;
      const auto kernel = build(p.tiles, p.microseconds);
      if (kernel.ok()) out.push_back(kernel->composition);
    }
    return out;
  }

  /// Of the program of the steps at hand.
  Result<ScheduledKernel> build(const BlockPartition& partition, int64_t step,
                                const FragmentsChoice& choice, double us) const {
    const int64_t whole = shared_.carried.extent, splits = shared_.carried.splits;
    if (splits > 1 && ceil_div(whole, length_of_part(whole, step, splits)) != splits)
      return unsupported(
          fmt::format("{} steps do not fall into {} parts", ceil_div(whole, step), splits));
    WEFT_ASSIGN_OR_RETURN(const DemandBoxes demand,
                          demand_boxes(steps_.program(), steps_.group(), partition,
                                       steps_.carrying(shared_.carried, step)));
    WEFT_ASSIGN_OR_RETURN(
        ScheduledKernel kernel,
        build_fragment_chain(steps_, partition, axes_.row_loop, demand, choice, target_, name_));
    if (const Decision holds = fits(kernel.program, kernel.scopes, target_); !holds)
      return unsupported(holds.reason());
    kernel.composition.carried = shared_.axis;
    kernel.composition.carried.step = step;
    kernel.estimate = estimate_;
    // No less than its program: what is computed of the results, operands that come one by one.
    // Of the instructions of long products other warps fill a part (36 chains on an H100).
    constexpr double kOfProgram = 0.55;
    const int64_t bytes = estimate_.bytes_read + estimate_.bytes_written;
    const double by_program =
        gpu_latency(kernel.program, kernel.scopes, bytes, target_).microseconds;
    kernel.estimate.microseconds = std::max(us, kOfProgram * by_program);
    kernel.predicted_us = kernel.estimate.microseconds;
    kernel.schedule_template = "chain on " + kernel.schedule_template;
    for (TensorId& t : kernel.parameters) t = steps_.original()[static_cast<size_t>(t)];
    return kernel;
  }

  /// What a composition that was given is predicted to take; none: it does not fit.
  std::optional<double> price(const Composition& c) const {
    FragmentTiles tiles;
    tiles.rows = c.partition.loops[static_cast<size_t>(axes_.row_loop)].step;
    tiles.step = c.carried.step;
    tiles.splits = c.carried.splits;
    tiles.made = axes_.made;
    for (const BlockPartition::Loop& loop : c.partition.loops) {
      if (axes_.made_axis >= 0 && loop.axes[0] == axes_.made_axis) tiles.made = loop.step;
    }
    tiles.choice = std::get<FragmentsChoice>(c.members[0].choice);
    tiles.reached = reached(tiles);
    return fragment_us(problem_, tiles, target_);
  }

 private:
  Result<ScheduledKernel> build(const FragmentTiles& tiles, double us) const {
    if (tiles.splits == shared_.carried.splits)
      return build(partition_of(axes_, tiles), tiles.step, tiles.choice, us);
    CarriedAxis axis = shared_.axis;
    axis.splits = tiles.splits;
    WEFT_ASSIGN_OR_RETURN(CarriedProgram carried, carried_along(whole_, axis));
    const SharedAxis split{axis, std::move(carried)};
    const BlockSpace steps(whole_, split.carried, target_);
    WEFT_ASSIGN_OR_RETURN(const ChainAxes axes, chain_axes(whole_, split, steps));
    return FragmentComposer(whole_, steps, split, axes, target_, name_).build(tiles, us);
  }

  /// Those that may do, the one predicted quickest first.
  void enumerate() {
    const auto& extents = axes_.loops.extents;
    const int64_t least = problem_.on_units ? kUnitRows : kCoreRows;
    for (const int64_t warps : {1, 2, 4, 8}) {
      for (const int64_t rows : row_tiles(warps, least)) {
        if (rows > least && rows >= 2 * extents[kRowLoop]) continue;
        const int64_t unit = WarpGrid(warps, rows, problem_.on_units).unit();
        for (const int64_t step : {16, 32, 64, 128}) {
          if (step % unit != 0 || (step > unit && step >= 2 * extents[kSharedLoop])) continue;
          for (const int64_t made : made_tiles()) {
            for (const int64_t splits : parts({rows, step, made, 1, {}, {}})) {
              consider_loads({rows, step, made, splits, {.warps = warps}, {}});
            }
          }
        }
      }
    }
    std::ranges::sort(priced_, {},
                      [](const Priced& p) { return std::pair(p.microseconds, p.number); });
  }

  /// Each warp has rows of its own, or several beside each other have them.
  static std::vector<int64_t> row_tiles(int64_t warps, int64_t least) {
    constexpr int64_t kMostAcross = 4;
    std::vector<int64_t> out;
    for (const int64_t each : {1, 2, 4}) out.push_back(warps * each * least);
    for (int64_t across = 2; across <= std::min(warps, kMostAcross); across *= 2)
      out.push_back(warps / across * least);
    return out;
  }

  void consider_loads(FragmentTiles tiles) {
    for (const int64_t depth : depths()) {
      for (const int64_t stages : {2, 3}) {
        for (const bool in_block : {false, true}) {
          if (in_block && depth > 0 && round_up(problem_.deepest(), 16) % depth != 0) continue;
          tiles.choice = {tiles.choice.warps, stages, depth, in_block};
          consider(tiles);
        }
      }
    }
  }

  /// Parts of the shared axis: while there are SMs without a block, and a part has a step.
  std::vector<int64_t> parts(const FragmentTiles& tiles) const {
    const auto& extents = axes_.loops.extents;
    const int64_t blocks = axes_.loops.batch * ceil_div(extents[kRowLoop], tiles.rows) *
                           ceil_div(extents[kMadeLoop], tiles.made);
    std::vector<int64_t> out{1};
    // What is reduced to a value a row would be left by all blocks that have the row.
    if (problem_.reductions > 0 && tiles.made < extents[kMadeLoop]) return out;
    // Of rows alone a part leaves next to nothing.
    const int64_t most = problem_.multiplies ? 16 : 256;
    for (int64_t splits = 2; splits <= most; splits *= 2) {
      const int64_t length = length_of_part(extents[kSharedLoop], tiles.step, splits);
      const int64_t own = ceil_div(extents[kSharedLoop], length);
      const bool is_new = problem_.multiplies ? own == splits : own > out.back();
      if (is_new && blocks * own < 2 * target_.sm_count) out.push_back(own);
    }
    return out;
  }

  std::vector<int64_t> made_tiles() const {
    const int64_t made = round_up(axes_.loops.extents[kMadeLoop], 16);
    std::vector<int64_t> out{made};
    if (axes_.made_axis < 0 || axes_.made != axes_.loops.extents[kMadeLoop]) return out;
    for (const int64_t part : {32, 64, 128, 256}) {
      if (part < axes_.made && static_cast<double>(made) / static_cast<double>(part) <= kMostMade)
        out.push_back(part);
    }
    return out;
  }

  std::vector<int64_t> depths() const {
    std::vector<int64_t> out{0};
    for (const int64_t depth : {32, 64, 128}) {
      if (2 * depth <= problem_.deepest()) out.push_back(depth);
    }
    return out;
  }

  void consider(const FragmentTiles& tiles) {
    // The step is no longer than the axis: that is one step.
    FragmentTiles t = tiles;
    t.step = std::min(t.step, shared_.carried.extent);
    t.reached = reached(t);
    if (const auto us = fragment_us(problem_, t, target_))
      priced_.push_back({t, *us, priced_.size()});
  }

  /// What blocks of so many rows go over of the axis, in such steps.
  ReachedShare reached(const FragmentTiles& t) const {
    if (!problem_.bounded) return {};
    const auto [known, is_new] = reached_.try_emplace({t.rows, t.step});
    if (!is_new) return known->second;
    const auto demand = demand_boxes(steps_.program(), steps_.group(), partition_of(axes_, t),
                                     steps_.carrying(shared_.carried, t.step));
    if (demand.ok()) known->second = reached_share(*demand);
    return known->second;
  }

  void note(std::vector<Considered>* considered, size_t chosen) const {
    if (considered == nullptr) return;
    for (size_t i = 0; i < std::min(priced_.size(), kMostTold); ++i) {
      const FragmentTiles& t = priced_[i].tiles;
      std::string why;
      if (i < why_not_.size() && !why_not_[i].empty()) {
        why = why_not_[i];
      } else if (i != chosen && chosen < priced_.size()) {
        why = fmt::format("predicted {:.2f} us more",
                          priced_[i].microseconds - priced_[chosen].microseconds);
      }
      considered->push_back(
          {fmt::format("chain({} in steps of {}{} on {})", print(partition_of(axes_, t)), t.step,
                       t.splits > 1 ? fmt::format(" in {} parts", t.splits) : "",
                       print(Choice{t.choice})),
           {},
           priced_[i].microseconds,
           i == chosen,
           std::move(why)});
    }
  }

  const BlockSpace& whole_;
  const BlockSpace& steps_;
  const SharedAxis& shared_;
  const ChainAxes& axes_;
  const Target& target_;
  const std::string& name_;
  const Estimate estimate_;
  const FragmentProblem problem_;
  std::vector<Priced> priced_;
  mutable std::map<std::pair<int64_t, int64_t>, ReachedShare> reached_;  ///< by rows and step
  std::vector<std::string> why_not_;  ///< of the first, by their order
};

}  // namespace

std::vector<Composition> fragments_to_measure(const BlockSpace& whole, const BlockSpace& steps,
                                              const SharedAxis& shared, const ChainAxes& axes,
                                              const Target& target, const std::string& name,
                                              size_t most) {
  return FragmentComposer(whole, steps, shared, axes, target, name).built(most);
}

Result<ScheduledKernel> compose_fragments(const BlockSpace& whole, const BlockSpace& steps,
                                          const SharedAxis& shared, const ChainAxes& axes,
                                          const Target& target, const std::string& name,
                                          std::vector<Considered>* considered) {
  return FragmentComposer(whole, steps, shared, axes, target, name).run(considered);
}

Result<ScheduledKernel> build_composed_fragments(const BlockSpace& whole, const BlockSpace& steps,
                                                 const SharedAxis& shared, const ChainAxes& axes,
                                                 const Composition& composition,
                                                 const Target& target, const std::string& name) {
  const Composition* leaf = composition.members.size() == 1 ? &composition.members[0] : nullptr;
  if (leaf == nullptr || !std::holds_alternative<FragmentsChoice>(leaf->choice))
    return invalid_input("a chain of " + target.name + " lies on fragments");
  std::vector<int> all(static_cast<size_t>(steps.size()));
  for (size_t p = 0; p < all.size(); ++p) all[p] = static_cast<int>(p);
  if (composition.stages.size() != 1 || composition.stages[0] != all)
    return invalid_input("fragments hold all members of a chain");
  const auto& loops = composition.partition.loops;
  if (axes.row_loop < 0 || axes.row_loop >= static_cast<int>(loops.size()) ||
      loops[static_cast<size_t>(axes.row_loop)].axes !=
          axes.partition.loops[static_cast<size_t>(axes.row_loop)].axes)
    return invalid_input("a chain whose blocks are not cut along its rows");
  const FragmentComposer composer(whole, steps, shared, axes, target, name);
  const std::optional<double> us = composer.price(composition);
  return composer.build(composition.partition, composition.carried.step,
                        std::get<FragmentsChoice>(leaf->choice), us.value_or(0));
}

}  // namespace weft
