#include "schedule/stages/compose_block.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "cost/gpu_latency.h"
#include "cost/latency.h"
#include "cost/operation_cost.h"
#include "fmt/format.h"
#include "schedule/stages/block_time.h"
#include "schedule/stages/build_block.h"
#include "schedule/stages/form_stages.h"
#include "schedule/stages/partitions.h"
#include "schedule/stages/shrink_block.h"
#include "tile/check/fits.h"

namespace weft {

Status check_members(const BlockSpace& space) {
  for (int p = 0; p < space.size(); ++p) {
    const TensorExpr& e = space.expr(p);
    int from_data = -1;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && !s.operands.empty() && space.producer(s.symbol) >= 0)
        from_data = space.producer(s.symbol);
    });
    if (from_data >= 0) {
      return unsupported(space.name_of(p) + " reads " + space.name_of(from_data) +
                         " at an index from data");
    }
  }
  return {};
}

namespace {

/// Made again by blocks at most, over what there is to compute.
constexpr double kMostMade = 2;
/// The same where one thread may make all blocks: a CPU's short runs wake no other (assemble).
constexpr double kMostMadeAlone = 1.1, kAloneUs = 25;
/// Kept by a block beyond what it has room for: values need not live at once.
constexpr double kMostKept = 4;
/// Partitions that are built until as many fit as are weighed.
constexpr int kMostBuilt = 6;
/// Weighed as they are built: what stages take depends on the tiles that a partition leaves them.
constexpr int kMostWeighed = 3;
/// Partitions whose blocks are shrunk where they keep too much, and how often each.
constexpr int kMostShrunk = 2, kMostTurns = 3;
/// Values that are priced both ways, kept and made again.
constexpr int kMostAsked = 6;
/// Partitions that are built with stages which hand each other rows in registers, and those asked.
constexpr int kMostByWarp = 4, kMostAskedByWarp = 8;
/// Elements that 32 lanes hold of a value at most, and the warps of a block that do so.
constexpr double kMostOfWarp = 2048, kMostWarps = 8;

struct PricedPartition {
  size_t number = 0;  ///< in the order in which they are listed
  BlockPartition partition;
  DemandBoxes demand;
  BlockTime time;
};

/// One that keeps so many bytes more than there is room for.
struct Overflowing {
  size_t number = 0;  ///< of the priced
  double bytes = 0;
  Stages stages;
};

double room_of(const Target& target) {
  return static_cast<double>(target.is_gpu() ? target.shared_bytes_per_block : target.l2_bytes / 2);
}

/// Whether blocks take turns though all that they make changes with each.
bool walks_for_nothing(const DemandBoxes& demand) {
  const int all = static_cast<int>(demand.loops.size());
  return all > demand.over_blocks &&
         std::ranges::all_of(demand.members, [&](const Demand& m) { return m.level == all; });
}

/// Whether a CPU's blocks of element-wise stages have slivers of rows: lines that lie far apart,
/// each with indices and a page of its own.
bool has_slivers(const BlockSpace& space, const BlockPartition& partition, const Target& target) {
  constexpr int64_t kFewest = 4;  // vectors side by side
  for (int p = 0; p < space.size(); ++p) {
    if (!space.expr(p).reduce_extents.empty()) return false;
  }
  const std::vector<int64_t>& extents =
      space.expr(partition.roots[0]).extents;  // in the order of memory
  return !target.is_gpu() && std::ranges::any_of(partition.loops, [&](const auto& loop) {
    return loop.axes[0] + 1 == std::ssize(extents) && loop.step < extents.back() &&
           loop.step < kFewest * target.lanes(byte_size(DType::kF32));
  });
}

/// Whether the target has room for a block. What spills of a CPU's registers is priced: the
/// templates of stages make leaves that spill a little, too.
Decision has_room(const ScheduledKernel& kernel, Target target) {
  if (!target.is_gpu()) target.vector_registers = std::numeric_limits<int>::max();
  return fits(kernel.program, kernel.scopes, target);
}

/// Bytes that a block keeps beyond what the target has for it.
double bytes_over(const ScheduledKernel& kernel, const Target& target) {
  const int64_t kept = target.is_gpu()
                           ? residency(kernel.program, kernel.scopes, target).shared_bytes
                           : kernel.scopes.block_bytes;
  return static_cast<double>(kept) - room_of(target);
}

/// What a built block takes: by its program, on a GPU no less than by its stages on the busiest SM.
double built_us(const BlockTime& time, const ScheduledKernel& kernel, const Target& target) {
  if (!target.is_gpu()) return cpu_latency(kernel.program, kernel.scopes, target).microseconds;
  const int64_t bytes = time.estimate.bytes_read + time.estimate.bytes_written;
  return std::max({time.least_us, target.launch_us + kernel.predicted_us.value_or(0),
                   gpu_latency(kernel.program, kernel.scopes, bytes, target).microseconds});
}

/// What follows from the group and its stages; tensors by their number in the program.
void finish(const BlockSpace& space, const Estimate& estimate, const DemandBoxes& demand,
            const Stages& stages, const Target& target, ScheduledKernel* kernel) {
  const BlockTime time = block_time(space, estimate, demand, handed_on(space, stages), target);
  kernel->predicted_us = built_us(time, *kernel, target);
  kernel->estimate = estimate;
  kernel->estimate.microseconds = *kernel->predicted_us;
  for (TensorId& t : kernel->parameters) t = space.original()[static_cast<size_t>(t)];
  for (int& root : kernel->composition.partition.roots) root = space.position(root);
  for (std::vector<int>& stage : kernel->composition.stages) {
    for (int& member : stage) member = space.position(member);
  }
}

/// Goes through the partitions of one group.
class Composer {
 public:
  Composer(const BlockSpace& space, const Target& target, const std::string& name,
           std::vector<Considered>* considered, double most_us)
      : space_(space),
        target_(target),
        name_(name),
        considered_(considered),
        estimate_(estimate_of(space, target)),
        most_us_(most_us),
        bound_us_(most_us),
        handed_on_(static_cast<size_t>(space.size()), false) {}

  Result<ScheduledKernel> run() {
    WEFT_RETURN_IF_ERROR(check_members(space_));
    price_all();
    while (weigh_some() && !take_quickest()) {
    }
    note_untried();
    note_all();
    if (best_) return std::move(*best_);
    return unsupported(reason_.empty() ? "no partition into blocks of stages" : reason_);
  }

  /// Partitions that build, those predicted to take least first.
  std::vector<Composition> built(size_t most) {
    if (!check_members(space_).ok()) return {};
    price_all();
    std::vector<Composition> out;
    std::vector<std::pair<double, size_t>> order;
    for (const PricedPartition& p : priced_) {
      if (out.size() == most) break;
      double over = 0;
      const auto stages = form_stages(space_, p.demand, target_);
      if (!stages.ok()) continue;
      auto kernel = build(space_, p.partition, p.demand, *stages, &over);
      if (!kernel.ok() || !verify_block(*kernel).ok()) continue;
      order.emplace_back(kernel->estimate.microseconds, out.size());
      out.push_back(std::move(kernel->composition));
    }
    std::ranges::sort(order);
    std::vector<Composition> sorted;
    for (const auto& [us, number] : order) sorted.push_back(std::move(out[number]));
    return sorted;
  }

 private:
  void price_all() {
    for (BlockPartition& partition : partitions_of(space_)) price(std::move(partition));
    price_what_is_kept();
  }

  /// Those of which blocks compute little again, quickest first.
  void price(BlockPartition partition) {
    if (has_slivers(space_, partition, target_)) return;
    auto demand = demand_boxes(space_.program(), space_.group(), partition);
    if (!demand.ok()) return reject(partition, std::nullopt, demand.error().message);
    if (walks_for_nothing(*demand)) return;
    const BlockTime time = block_time(space_, estimate_, *demand, handed_on_, target_);
    const double flops = static_cast<double>(time.estimate.flops);
    const bool alone = !target_.is_gpu() && time.microseconds * target_.threads < kAloneUs;
    if (time.flops_made > (alone ? kMostMadeAlone : kMostMade) * flops) {
      return reject(
          partition, time.microseconds,
          fmt::format("blocks compute {:.1f} times what there is", time.flops_made / flops));
    }
    priced_.push_back({priced_.size(), std::move(partition), std::move(*demand), time});
  }

  void sort() {
    std::ranges::sort(priced_, {}, [](const PricedPartition& p) {
      return std::pair(p.time.microseconds, p.number);
    });
  }

  /// Prices again with what blocks keep for other stages, by the stages of the first partition that
  /// has some: they are much the same for all.
  void price_what_is_kept() {
    sort();
    for (const PricedPartition& first : priced_) {
      const Result<Stages>& stages = stages_of(first);
      if (!stages.ok()) continue;
      handed_on_ = handed_on(space_, *stages);
      break;
    }
    for (PricedPartition& p : priced_)
      p.time = block_time(space_, estimate_, p.demand, handed_on_, target_);
    std::erase_if(priced_, [&](const PricedPartition& p) {
      const bool over = p.time.bytes_kept > kMostKept * room_of(target_);
      if (over) {
        reject(p.partition, p.time.microseconds,
               fmt::format("a block keeps {:.0f} bytes, {} has room for {:.0f}", p.time.bytes_kept,
                           target_.name, room_of(target_)));
      }
      return over;
    });
    sort();
  }

  /// Builds those that may be quicker than what is weighed, as many as are weighed at once. Whether
  /// any was weighed.
  bool weigh_some() {
    bound_us_ = most_us_;
    for (size_t i = 0; i < priced_.size() && built_ < kMostBuilt; ++i) {
      if (std::ssize(weighed_) == kMostWeighed) break;
      if (tried_.contains(i) || priced_[i].time.least_us >= bound_us_) continue;
      ++built_;
      weigh(i);
    }
    weigh_shrunk();
    weigh_made_again();
    weigh_by_warp();
    return !weighed_.empty();
  }

  /// Of the whole group, in this partition.
  const Result<Stages>& stages_of(const PricedPartition& p) {
    auto known = stages_.find(p.number);
    if (known == stages_.end()) {
      known = stages_.emplace(p.number, form_stages(space_, p.demand, target_, like_)).first;
      if (known->second.ok()) like_ = &*known->second;
    }
    return known->second;
  }

  /// Keeps it where it fits.
  void weigh(size_t i) {
    const PricedPartition& p = priced_[i];
    double over = 0;
    const Result<Stages>& stages = stages_of(p);
    auto kernel = stages.ok() ? build(space_, p.partition, p.demand, *stages, &over)
                              : Result<ScheduledKernel>(stages.error());
    if (over > 0) overflowing_.push_back({i, over, *stages});
    keep(i, std::move(kernel));
  }

  void keep(size_t i, Result<ScheduledKernel> kernel) {
    if (!kernel.ok()) {
      if (bound_us_ < most_us_) bounded_.push_back(i);
      return refuse(i, kernel.error().message);
    }
    const double us = kernel->estimate.microseconds;
    priced_[i].time.microseconds = us;
    bound_us_ = std::min(bound_us_, us);
    tried_.insert_or_assign(i, "");
    weighed_.emplace_back(i, std::move(*kernel));
  }

  /// Blocks for which there is no room, with values that readers make again for themselves. They
  /// have to be quicker than what is weighed.
  void weigh_shrunk() {
    for (const Overflowing& o : std::exchange(overflowing_, {})) {
      if (shrunk_ == kMostShrunk || priced_[o.number].time.least_us >= bound_us_) continue;
      ++shrunk_;
      auto kernel = build_shrunk(o);
      if (kernel.ok()) keep(o.number, std::move(kernel));
    }
  }

  /// What is handed on element by element is kept for other stages, or made again by each of them
  /// (FusionStitching 2021 §4.2: expensive operations as sub-roots or not): of the quickest of the
  /// weighed each value is priced both ways, cheap ones first. Those that cost less so are built
  /// so.
  void weigh_made_again() {
    if (weighed_.empty() || both_ways_) return;
    both_ways_ = true;
    const size_t best = std::ranges::min_element(weighed_, {}, [](const Weighed& w) {
                          return w.second.estimate.microseconds;
                        })->first;
    const Result<Stages>& stages = stages_of(priced_[best]);
    if (!stages.ok()) return;
    const std::vector<bool> handed = handed_on(space_, *stages);
    const double kept_us =
        block_time(space_, estimate_, priced_[best].demand, handed, target_).microseconds;
    std::vector<int> again;
    double us = kept_us;
    int asked = 0;
    for (const bool costly : {false, true}) {
      for (int p = 0; p < space_.size() && asked < kMostAsked; ++p) {
        const bool may = handed[static_cast<size_t>(p)] && space_.may_be_made_again(p) &&
                         std::ranges::count(priced_[best].partition.roots, p) == 0;
        if (!may || is_costly(space_.expr(p).body) != costly) continue;
        ++asked;
        std::vector<int> with = again;
        with.insert(std::ranges::lower_bound(with, p), p);
        const auto priced = price_without(best, *stages, with, us);
        if (!priced) continue;
        again = std::move(with);
        us = *priced;
      }
    }
    if (!again.empty()) weigh_without(best, again, kept_us);
  }

  /// What a block takes whose readers make these again, in the same stages; nothing where that is
  /// no block, or takes no less than `most_us`.
  std::optional<double> price_without(size_t i, const Stages& stages, const std::vector<int>& again,
                                      double most_us) {
    const auto block = without(space_, priced_[i].partition, again);
    if (!block) return std::nullopt;
    auto demand = demand_boxes(block->space.program(), block->space.group(), block->partition);
    if (!demand.ok()) return std::nullopt;
    Stages left;
    left.levels = stages.levels;
    for (const std::vector<int>& members : stages.members) {
      std::vector<int>& own = left.members.emplace_back();
      for (int p = 0; p < block->space.size(); ++p) {
        if (std::ranges::binary_search(members, block->space.position(p))) own.push_back(p);
      }
    }
    const BlockTime time =
        block_time(block->space, estimate_, *demand, handed_on(block->space, left), target_);
    if (time.microseconds < most_us) return time.microseconds;
    tried_[add_made_again(i, again, std::move(*demand), time)] =
        fmt::format("kept they take {:.2f} us", most_us);
    return std::nullopt;
  }

  /// Stages may hand each other rows in the registers of a warp (FusionStitching 2021 §4.2: warp
  /// composition), where a warp has room for what it makes: of a GPU's partitions the quickest
  /// are built so, too, and listed by themselves.
  void weigh_by_warp() {
    if (!target_.is_gpu() || by_warp_) return;
    by_warp_ = true;
    int asked = 0, built = 0;
    const size_t all = priced_.size();
    for (size_t i = 0; i < all && asked < kMostAskedByWarp && built < kMostByWarp; ++i) {
      const PricedPartition& p = priced_[i];
      if (p.time.least_us >= bound_us_ || how_built_.contains(p.number) || !is_of_warps(p))
        continue;
      const Result<Stages>& stages = stages_of(p);
      if (!stages.ok()) continue;
      ++asked;
      double over = 0;
      auto kernel = build(space_, p.partition, p.demand, *stages, &over, Handing::kByWarp);
      if (!kernel.ok() && kernel.error().message == kNoneInWarps) continue;
      ++built;
      const size_t number = std::ranges::max(priced_, {}, &PricedPartition::number).number + 1;
      how_built_[number] = " handed on by warps";
      PricedPartition own = p;
      own.number = number;
      priced_.push_back(std::move(own));
      keep(priced_.size() - 1, std::move(kernel));
    }
  }

  /// Whether a warp has room for what it makes of each member.
  static bool is_of_warps(const PricedPartition& p) {
    if (static_cast<int>(p.demand.loops.size()) > p.demand.over_blocks) return false;
    return std::ranges::all_of(p.demand.members, [&](const Demand& m) {
      double elements = 1;
      for (const BoxAxis& axis : m.box) elements *= static_cast<double>(axis.extent);
      return elements <= kMostWarps * kMostOfWarp;
    });
  }

  /// A way to build a partition that is listed by itself.
  size_t add_made_again(size_t i, const std::vector<int>& again, DemandBoxes demand,
                        const BlockTime& time) {
    const size_t number = std::ranges::max(priced_, {}, &PricedPartition::number).number + 1;
    note_made_again(number, again);
    priced_.push_back({number, priced_[i].partition, std::move(demand), time});
    return priced_.size() - 1;
  }

  void weigh_without(size_t i, const std::vector<int>& again, double kept_us) {
    const auto block = without(space_, priced_[i].partition, again);
    auto demand = demand_boxes(block->space.program(), block->space.group(), block->partition);
    const auto stages = form_stages(block->space, *demand, target_);
    if (!stages.ok()) return;
    const BlockTime time =
        block_time(block->space, estimate_, *demand, handed_on(block->space, *stages), target_);
    const size_t own = add_made_again(i, again, std::move(*demand), time);
    if (time.microseconds >= kept_us || time.least_us >= bound_us_) {
      tried_[own] = fmt::format("kept they take {:.2f} us", kept_us);
      return;
    }
    double over = 0;
    auto kernel = build(block->space, block->partition, priced_[own].demand, *stages, &over);
    if (kernel.ok()) return keep(own, std::move(kernel));
    tried_[own] = kernel.error().message;
  }

  /// Whether one of the weighed is taken: the quickest that verifies. On a CPU verifying takes
  /// longer than building, so that it is done of no other.
  bool take_quickest() {
    std::ranges::sort(weighed_, {}, [](const Weighed& w) {
      return std::pair(w.second.estimate.microseconds, w.first);
    });
    for (Weighed& w : weighed_) {
      const double us = w.second.estimate.microseconds;
      if (best_) {
        refuse(w.first, fmt::format("{:.2f} us more", us - best_->estimate.microseconds));
      } else if (us >= most_us_) {
        refuse(w.first, fmt::format("it takes {:.2f} us", us));
      } else if (const Status verified = target_.is_gpu() ? Status() : verify_block(w.second);
                 !verified.ok()) {
        refuse(w.first, verified.error().message);
      } else {
        best_ = std::move(w.second);
      }
    }
    weighed_.clear();
    if (!best_) {  // others may have been given up for what does not verify
      for (const size_t i : bounded_) tried_.erase(i);
      built_ -= static_cast<int>(bounded_.size());
    }
    bounded_.clear();
    return best_.has_value();
  }

  /// `over`: bytes that a block keeps beyond what there is room for, where that is why it is none.
  Result<ScheduledKernel> build(const BlockSpace& space, const BlockPartition& partition,
                                const DemandBoxes& demand, const Stages& stages, double* over,
                                Handing handing = Handing::kByBlock) const {
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                          build_block(space, partition, demand, stages, nullptr, target_, name_,
                                      bound_us_ - target_.launch_us, handing));
    // Of a GPU's many do not verify, so that others are weighed in their place.
    if (target_.is_gpu()) WEFT_RETURN_IF_ERROR(verify_block(kernel));
    if (const Decision holds = has_room(kernel, target_); !holds) {
      *over = bytes_over(kernel, target_);
      return unsupported(holds.reason());
    }
    finish(space, estimate_, demand, stages, target_, &kernel);
    return kernel;
  }

  Result<ScheduledKernel> build_shrunk(const Overflowing& o) {
    const PricedPartition& p = priced_[o.number];
    std::vector<int> again;
    double over = o.bytes;
    Result<ScheduledKernel> kernel = unsupported("no value is left that readers could make again");
    for (int turn = 0; turn < kMostTurns && over > 0; ++turn) {
      const auto block = shrink_block(space_, p.partition, p.demand, o.stages, again, over);
      if (!block) return unsupported("no value is left that readers could make again");
      again = block->again;
      over = 0;
      WEFT_ASSIGN_OR_RETURN(
          const DemandBoxes demand,
          demand_boxes(block->space.program(), block->space.group(), block->partition));
      WEFT_ASSIGN_OR_RETURN(const Stages stages, form_stages(block->space, demand, target_));
      const std::vector<bool> handed_on = weft::handed_on(block->space, stages);
      if (block_time(block->space, estimate_, demand, handed_on, target_).least_us >= bound_us_)
        return unsupported("making values again takes longer");
      kernel = build(block->space, block->partition, demand, stages, &over);
    }
    if (!kernel.ok()) return kernel;
    note_made_again(p.number, again);
    return kernel;
  }

  void note_made_again(size_t number, const std::vector<int>& again) {
    std::string& list = how_built_[number];
    for (const int member : again)
      list += fmt::format("{}v{}", list.empty() ? " readers make " : ", ", member);
  }

  void reject(const BlockPartition& partition, std::optional<double> us, const std::string& why) {
    if (reason_.empty()) reason_ = why;
    if (considered_ != nullptr)
      considered_->push_back({"block(" + print(partition) + ")", {}, us, false, why});
  }
  /// Of one that seemed possible: it says more than what was never priced.
  void refuse(size_t i, const std::string& why) {
    if (!refused_) reason_ = why;
    refused_ = true;
    tried_.insert_or_assign(i, why);
  }

  void note_untried() {
    const double least = best_ ? best_->estimate.microseconds : most_us_;
    for (size_t i = 0; i < priced_.size(); ++i) {
      if (tried_.contains(i)) continue;
      if (priced_[i].time.least_us >= least) {
        refuse(i, fmt::format("it takes {:.2f} us at least", priced_[i].time.least_us));
      } else {
        tried_.emplace(i, best_ ? "behind one that fits" : "after as many as are built");
      }
    }
  }

  /// In their order.
  void note_all() {
    if (considered_ == nullptr) return;
    for (const auto& [i, why] : tried_) {
      const PricedPartition& p = priced_[i];
      considered_->push_back({"block(" + print(p.partition) + ")" + how_built(p.number),
                              {},
                              p.time.microseconds,
                              why.empty(),
                              why});
    }
  }
  std::string how_built(size_t number) const {
    const auto found = how_built_.find(number);
    return found == how_built_.end() ? "" : found->second;
  }

  const BlockSpace& space_;
  const Target& target_;
  const std::string& name_;
  std::vector<Considered>* considered_;
  const Estimate estimate_;
  const double most_us_;
  double bound_us_;  ///< that, or less of one that is weighed
  int built_ = 0, shrunk_ = 0;
  std::vector<bool> handed_on_;
  std::vector<PricedPartition> priced_;
  std::map<size_t, Result<Stages>> stages_;  ///< by number
  const Stages* like_ = nullptr;             ///< those of these that were formed last
  std::map<size_t, std::string> tried_;      ///< of these, and why not
  using Weighed = std::pair<size_t, ScheduledKernel>;
  std::vector<Weighed> weighed_;
  std::map<size_t, std::string> how_built_;  ///< by number: what is not as listed
  std::vector<Overflowing> overflowing_;
  std::vector<size_t> bounded_;  ///< not built, where something weighed bounded them
  std::optional<ScheduledKernel> best_;
  std::string reason_;
  bool refused_ = false;
  bool both_ways_ = false;  ///< asked of what is handed on
  bool by_warp_ = false;    ///< built so
};

}  // namespace

namespace {

/// A composition by positions in what is left where no stage makes some of the members.
struct GivenBlock {
  BlockSpace space;
  BlockPartition partition;
  std::vector<std::vector<int>> stages;
};

Result<GivenBlock> given_block(const BlockSpace& space, const Composition& composition,
                               const std::string& name) {
  GivenBlock out{space, composition.partition, composition.stages};
  std::vector<int> again;
  for (int p = 0; p < space.size(); ++p) {
    const bool made = std::ranges::any_of(composition.stages, [&](const std::vector<int>& stage) {
      return std::ranges::find(stage, p) != stage.end();
    });
    if (!made) again.push_back(p);
  }
  if (again.empty()) return out;
  std::optional<ShrunkBlock> shrunk = without(space, composition.partition, again);
  if (!shrunk)
    return invalid_input(
        fmt::format("{}: no stage makes v{}, and not all readers can make it for themselves", name,
                    again.front()));
  std::map<int, int> position;
  for (int p = 0; p < shrunk->space.size(); ++p) position[shrunk->space.position(p)] = p;
  for (std::vector<int>& stage : out.stages) {
    for (int& p : stage) {
      const auto at = position.find(p);
      if (at == position.end())
        return invalid_input(fmt::format("{}: v{} is no member that is left to make", name, p));
      p = at->second;
    }
  }
  out.space = std::move(shrunk->space);
  out.partition = std::move(shrunk->partition);
  return out;
}

}  // namespace

Result<ScheduledKernel> compose_block(const BlockSpace& space, const Target& target,
                                      const std::string& name, std::vector<Considered>* considered,
                                      double most_us) {
  return Composer(space, target, name, considered, most_us).run();
}

std::vector<Composition> blocks_to_measure(const BlockSpace& space, const Target& target,
                                           size_t most) {
  const std::string name = "k";
  constexpr double kAnyTime = std::numeric_limits<double>::infinity();
  return Composer(space, target, name, nullptr, kAnyTime).built(most);
}

Result<ScheduledKernel> build_as_composed(const BlockSpace& space, const Composition& composition,
                                          const Target& target, const std::string& name) {
  if (Status possible = check_members(space); !possible.ok())
    return invalid_input(name + ": " + possible.error().message);
  WEFT_ASSIGN_OR_RETURN(const GivenBlock given, given_block(space, composition, name));
  auto demand = demand_boxes(given.space.program(), given.space.group(), given.partition);
  if (!demand.ok()) return invalid_input(name + ": " + demand.error().message);
  WEFT_ASSIGN_OR_RETURN(const Stages stages, given_stages(given.space, *demand, given.stages));
  auto kernel = build_block(given.space, given.partition, *demand, stages, &composition.members,
                            target, name);
  if (!kernel.ok()) return invalid_input(kernel.error().message);
  if (const Decision holds = has_room(*kernel, target); !holds)
    return invalid_input(name + ": " + holds.reason());
  finish(given.space, estimate_of(space, target), *demand, stages, target, &*kernel);
  return kernel;
}

}  // namespace weft
