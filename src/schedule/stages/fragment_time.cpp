#include "schedule/stages/fragment_time.h"

#include <algorithm>
#include <cmath>

#include "expr/analysis/dependence.h"
#include "expr/products/widen_halves.h"
#include "schedule/gpu/matrix_tile.h"
#include "schedule/stages/fragment_boxes.h"
#include "support/rounding.h"
#include "target/gpu_rates.h"
#include "target/unit_peak.h"

namespace weft {

namespace {

// What follows is fitted to 24 chains of 128 to 4096 rows on an H100; in cycles where nothing else
// is said.

/// Instructions of a copy of 16 bytes, and of an element that passes through registers.
constexpr double kCopyIssue = 3, kPassIssue = 6;
constexpr double kReadsOverCopies = 1.7;   ///< rate of the second-level cache, of reads alone
constexpr double kOverlapLoss = 0.16;      ///< of the lesser of throughput and latency
constexpr double kLoadLatency = 500;       ///< of what lies in the second-level cache or memory
constexpr double kQueued = 0.35;           ///< of what others ask for, which a load waits for
constexpr double kStepLatency = 160;       ///< two waits, two barriers, first fragments
constexpr double kBeginLatency = 270;      ///< of a block, before its loads
constexpr double kEndLatency = 190;        ///< of a block, its results
constexpr double kReductionLatency = 120;  ///< over the lanes of a row
constexpr double kAcrossLatency = 100;     ///< more over warps, which wait for each other
constexpr double kJoinLatency = 1000;      ///< begin of a cluster, first reads of other blocks
constexpr double kJoinedReduction = 170;   ///< what corrects the parts of a row
constexpr double kRemoteShare = 0.5;       ///< of the second-level cache's rate, between SMs
constexpr double kStridedPasses = 8;       ///< of an access whose lanes begin in 8 rows
constexpr int64_t kStridedBytes = 128;     ///< that such an access takes
/// Of one warp, which waits for what it has just asked for: of each depth of its units and each of
/// their instructions, and of each other instruction.
constexpr double kUnitDepth = 28, kUnitResult = 2.3, kOtherResult = 1.15;
constexpr double kStepAlone = 0.6;       ///< of a step's resources, beside what its warps wait for
constexpr int64_t kOtherRegisters = 64;  ///< fragments, addresses

double d(int64_t v) { return static_cast<double>(v); }

class Pricing {
 public:
  Pricing(const FragmentProblem& problem, const FragmentTiles& tiles, const Target& target)
      : p_(problem),
        t_(tiles),
        target_(target),
        warps_(tiles.choice.warps, tiles.rows, problem.on_units),
        depth_(round_up(problem.loops.extents[kDepthLoop], warps_.unit())),
        clock_(d(target.clock_mhz) * 1e6),
        cached_bytes_(kReadsOverCopies * target.bandwidth_gb_per_s(target.l2_bytes / 2) * 1e9 /
                      clock_ / target.sm_count) {}

  std::optional<double> price() const {
    const int64_t warps = t_.choice.warps;
    const int64_t resident =
        resident_blocks_per_sm(target_, warps * 32, registers(), shared_bytes());
    if (resident == 0 || registers() > target_.registers_per_thread) return std::nullopt;
    const auto& extents = p_.loops.extents;
    const int64_t blocks = p_.loops.batch * ceil_div(extents[kRowLoop], t_.rows) *
                           ceil_div(extents[kMadeLoop], t_.made) * t_.splits;
    // Blocks that wait for each other are there at the same time.
    if (t_.splits > 1 && !in_cluster() &&
        (blocks > target_.sm_count * resident || !target_.grid_barriers))
      return std::nullopt;
    const int64_t sms = sms_in_use(resident);
    if (sms == 0) return std::nullopt;
    const int64_t each = ceil_div(blocks, sms);
    const int64_t together = std::min(resident, each);
    const double steps = d(length_of_part(extents[kSharedLoop], t_.step, t_.splits) / t_.step);
    const ReachedShare& reached = t_.reached;
    const double throughput =
        d(each) * (steps * reached.mean * throughput_of_step(together) + left_cycles() +
                   other_cycles(together) + steps * (1 - reached.mean) * unreached_cycles());
    const double waits = d(std::ssize(p_.others)) * (kLoadLatency + kStepLatency);
    // Of the waves the last one waits for the block that goes furthest.
    const double waves = d(ceil_div(each, together));
    const double once = kBeginLatency + kLoadLatency + left_cycles() + waits + other_cycles(1) +
                        (in_cluster() ? 0 : kEndLatency);
    const double latency =
        waves * once + ((waves - 1) * reached.mean + reached.most) * steps * step_latency(together);
    const double cycles =
        std::max(throughput, latency) + kOverlapLoss * std::min(throughput, latency);
    return std::max(cycles / d(target_.clock_mhz), memory_us()) + target_.launch_us +
           (in_cluster() ? waves * joining_in_cluster_us(together) : joining_us());
  }

  int64_t shared_bytes() const;

 private:
  bool deep() const { return p_.of_inputs && t_.choice.depth > 0 && t_.choice.depth < depth_; }
  /// Of a product beside the steps, what lies in shared memory at once.
  int64_t depth_of(const ProductBeside& other) const {
    const bool in_steps = other.of_inputs && t_.choice.depth > 0;
    const int64_t depth = round_up(other.depth, 16);
    return in_steps ? std::min(depth, t_.choice.depth) : depth;
  }
  int64_t threads() const { return t_.choice.warps * 32; }
  /// Where the left factor of a step's first product lies.
  bool in_registers() const { return p_.on_units && (!p_.of_inputs || !t_.choice.left_in_block); }
  /// What is multiplied behind what the steps make.
  int64_t made() const { return p_.multiplies ? round_up(t_.made, warps_.unit()) : 0; }
  /// Whether what one product makes passes through shared memory to the next.
  bool hands_on() const { return p_.multiplies && (!p_.on_units || warps_.across > 1); }
  bool in_cluster() const { return parts_form_cluster(t_.splits, t_.rows, target_); }
  /// Results of both products, what is between them, inputs that are read there, fragments of the
  /// left factor. What a step adds to results that it corrects is made beside them.
  int64_t registers() const {
    const int64_t first = t_.rows * t_.step / threads(), last = t_.rows * made() / threads();
    const int64_t words = std::max<int64_t>(4 / p_.bytes, 1);
    const int64_t left =
        in_registers() && !deep() ? t_.rows * depth_ / (32 * warps_.down) / words : 0;
    const int64_t beside = p_.reductions > 0 ? last / 2 : 0;
    // With the addresses of what is loaded, as in schedule/gpu/matrix_tile.
    const int64_t loaded = p_.on_the_way ? static_cast<int64_t>(loaded_bytes()) / threads() : 0;
    int64_t out = last + beside + (1 + p_.beside) * first + first / words + left + loaded;
    // Before the steps, what masks leave out of reach: as much as a step has, loaded and added up.
    if (p_.bounded) out = std::max(out, 2 * t_.step * made() / threads());
    for (const ProductBeside& other : p_.others) {
      const int64_t factor = other.before ? t_.rows * other.depth / threads() : last;
      out = std::max(out, t_.rows * other.made / threads() + factor / words);
    }
    return out + kOtherRegisters;
  }
  /// Of the products beside the steps.
  double other_cycles(int64_t together) const {
    double out = 0;
    for (const ProductBeside& other : p_.others) {
      const double products = 2 * d(t_.rows) * d(other.depth) * d(other.made) /
                              (per_sm(p_.gflops) * (p_.on_units ? kUnitShare : kCoreShare)) /
                              quarters(together);
      out += std::max(products, d(other.depth) * d(other.made) * d(p_.bytes) / cached_bytes_);
    }
    return out;
  }
  double flops() const { return 2 * d(t_.rows) * d(t_.step) * d(depth_ + made()); }
  double per_sm(double gflops) const { return gflops * 1e9 / clock_ / target_.sm_count; }
  /// SMs that have blocks where each has room for so many; large clusters leave some free.
  int64_t sms_in_use(int64_t resident) const {
    if (!in_cluster()) return target_.sm_count;
    const int64_t blocks = blocks_in_clusters(target_, t_.splits, resident);
    return blocks / t_.splits * t_.splits / resident;
  }
  /// Each quarter of an SM issues for its warps, and has a unit.
  double quarters(int64_t together) const {
    return std::min(1.0, d(t_.choice.warps * together) / 4);
  }
  double arithmetic_cycles(int64_t together) const {
    const double products = flops() / (per_sm(p_.gflops) * (p_.on_units ? kUnitShare : kCoreShare));
    const double others = other_instructions() * d(threads()) / (per_sm(target_.peak_gflops) / 2);
    return (products + others) / quarters(together);
  }
  /// Of a thread and step: between the products, and for what is loaded.
  double other_instructions() const {
    constexpr double kCopyBytes = 16;
    const double passed = p_.on_the_way ? kPassIssue * loaded_bytes() / d(p_.bytes)
                                        : kCopyIssue * loaded_bytes() / kCopyBytes;
    return (p_.between * d(t_.rows) * d(t_.step) + passed) / d(threads());
  }
  /// Of one block when `together` share the SM.
  double throughput_of_step(int64_t together) const {
    return std::max({arithmetic_cycles(together), shared_cycles(), load_cycles()});
  }
  double load_cycles() const { return loaded_bytes() / cached_bytes_; }
  /// Of one warp's step, what it waits for one after another.
  double waited_cycles() const {
    const auto products = [&](double columns, double depth) {
      const double rows = d(t_.rows) / d(warps_.down);
      if (p_.on_units) {
        const double results = rows / kUnitRows * columns / kUnitColumns;
        return depth / kUnitRows * (kUnitDepth + kUnitResult * results);
      }
      return depth * (kCoreDepth + kCoreResult * rows / kCoreRows * columns / kCoreColumns);
    };
    const double across = d(warps_.across);
    return products(d(t_.step) / across, d(depth_)) + products(d(made()) / across, d(t_.step)) +
           kOtherResult * other_instructions();
  }
  /// Of the left factor, once a block. Lanes that take it where units want it, from 8 rows, take as
  /// many passes.
  double left_cycles() const {
    const double bytes = d(t_.rows) * d(depth_) * d(p_.bytes);
    if (deep() || !p_.of_inputs) return 0;
    if (in_registers()) return d(warps_.across) * bytes / kStridedBytes * kStridedPasses;
    return bytes / cached_bytes_;
  }
  double loaded_bytes() const {
    double elements = d(t_.step) * d(depth_ + made());
    if (deep() && !t_.choice.left_in_block) elements += d(t_.rows) * d(depth_);
    return elements * d(p_.bytes);
  }
  double shared_cycles() const {
    if (!p_.on_units) {
      const double warps = d(t_.choice.warps);
      const double rows = d(t_.rows) / d(warps_.down) / kCoreRows,
                   columns = 1.0 / d(kCoreColumns * warps_.across);
      const auto reads = [&](int64_t made) {
        return kLeftRead * rows + kRightRead * d(made) * columns;
      };
      const double depths =
          d(depth_) * reads(t_.step) + (p_.multiplies ? d(t_.step) * reads(made()) : 0);
      return warps * depths * target_.cycles_per_instruction("shared") +
             loaded_bytes() / kBanksBytes;
    }
    const double across = d(warps_.across);
    double read = d(warps_.down) * d(t_.step) * d(depth_ + made());
    if (t_.choice.left_in_block || deep()) read += across * d(t_.rows) * d(depth_);
    if (hands_on()) read += (1 + across) * d(t_.rows) * d(t_.step);
    return (read * d(p_.bytes) + loaded_bytes()) / kBanksBytes;
  }
  /// Of a step that masks leave out: what is added up of it is read.
  double unreached_cycles() const { return d(t_.step) * d(made()) * d(p_.bytes) / cached_bytes_; }
  double step_latency(int64_t together) const {
    const double ahead = std::max<double>(d(t_.choice.stages) - 1, 0.5);
    const double waits = warps_.across > 1 ? kAcrossLatency * d(p_.reductions + hands_on()) : 0;
    // Inputs between the products are asked for where they are needed.
    const double own = kStepLatency + kReductionLatency * d(p_.reductions) + waits +
                       (p_.beside > 0 ? kLoadLatency : 0) + waited_cycles() +
                       kStepAlone * std::max(shared_cycles(), arithmetic_cycles(1));
    const double load = kLoadLatency + kQueued * d(together) * load_cycles();
    if (!deep()) return std::max(own, load / ahead);
    // Steps of the depth begin anew with each step, and wait for what they ask for first.
    const double turns = d(ceil_div(depth_, t_.choice.depth));
    return load + std::max(own + (turns - 1) * kStepLatency, (turns - 1) * kLoadLatency / ahead);
  }
  /// What the parts left, written and read again behind a barrier.
  double joining_us() const {
    if (t_.splits == 1) return 0;
    const auto& extents = p_.loops.extents;
    const double elements = d(t_.splits) * d(p_.loops.batch) * d(extents[kRowLoop]) *
                            d((p_.multiplies ? extents[kMadeLoop] : 0) + p_.reductions);
    return target_.barrier_us + bytes_us(8 * elements) + 2 * kLoadLatency / d(target_.clock_mhz);
  }
  /// The same on chip: a block leaves its part in shared memory and takes as much of those of the
  /// others, all blocks of an SM through its port. Two barriers of the cluster: before others
  /// read, and before a block leaves.
  double joining_in_cluster_us(int64_t together) const {
    const double bytes = 4 * d(t_.rows) * d(made() + p_.reductions);
    const double cycles = kJoinLatency + kJoinedReduction * d(p_.reductions) +
                          d(together) * bytes / (kRemoteShare * cached_bytes_);
    return 2 * target_.cluster_barrier_us + cycles / d(target_.clock_mhz);
  }
  /// That has bytes of its own, since other blocks read it. Rows are padded, so that what units
  /// leave meets in no bank.
  int64_t left_bytes() const {
    const int64_t pad = p_.on_units ? kUnitColumns : 0;
    const int64_t columns = (p_.multiplies ? made() + pad : 0) + p_.reductions;
    return in_cluster() ? 4 * t_.rows * columns : 0;
  }
  double memory_us() const { return bytes_us(p_.memory_bytes); }
  double bytes_us(double bytes) const {
    constexpr double kMost = 1e18;
    return bytes / (target_.bandwidth_gb_per_s(static_cast<int64_t>(std::min(bytes, kMost))) * 1e3);
  }

  const FragmentProblem& p_;
  const FragmentTiles& t_;
  const Target& target_;
  const WarpGrid warps_;
  const int64_t depth_;
  const double clock_;         ///< Hz
  const double cached_bytes_;  ///< a cycle and SM from the second-level cache
};

int64_t Pricing::shared_bytes() const {
  const int64_t deep_step = deep() ? t_.choice.depth : depth_;
  int64_t elements = t_.choice.stages * (t_.step * deep_step + t_.step * made());
  const bool is_value = p_.on_units && !p_.of_inputs;
  if ((t_.choice.left_in_block && !is_value) || !p_.on_units) {
    elements += t_.rows * depth_;
  } else if (deep()) {
    elements += t_.choice.stages * t_.rows * deep_step;
  }
  if (hands_on()) elements += t_.rows * t_.step;
  for (const ProductBeside& other : p_.others) {
    const int64_t stages = depth_of(other) < other.depth ? t_.choice.stages : 1;
    const int64_t left = p_.on_units && depth_of(other) >= other.depth ? 0 : t_.rows;
    elements = std::max(elements, stages * depth_of(other) * (other.made + left));
  }
  return elements * p_.bytes + left_bytes();
}

/// The type of what the last contraction multiplies.
DType factor_type(const BlockSpace& steps, const CarriedProgram& carried) {
  DType out = DType::kF32;
  for (int p = 0; p < steps.size(); ++p) {
    if (!steps.expr(p).is_contraction || carried.along[static_cast<size_t>(p)] < 0) continue;
    visit(steps.expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && is_half(s.type)) out = s.type;
    });
  }
  return out;
}

/// Reads of inputs that move along the shared axis.
int64_t reads_beside(const BlockSpace& steps, int p, int along) {
  int64_t out = 0;
  visit(steps.expr(p).body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || along < 0) return;
    const auto tensor = static_cast<TensorId>(s.symbol);
    const bool moves =
        std::ranges::any_of(s.indices, [&](const IndexExpr& i) { return uses_var(i, along); });
    out += moves && steps.producer(tensor) < 0 && !steps.is_carry(tensor);
  });
  return out;
}

/// Whether some factor of a step has no 4 bytes together along the innermost axis of its tensor.
bool loads_on_the_way(const BlockSpace& steps, int p) {
  constexpr int64_t kCopied = 4;
  bool out = false;
  visit(steps.expr(p).body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || steps.producer(s.symbol) >= 0) return;
    const TensorType& type = steps.program().tensors[static_cast<size_t>(s.symbol)].type;
    out |= !type.shape.empty() && type.shape.back() * byte_size(type.dtype) % kCopied != 0;
  });
  return out;
}

/// A product beside the steps, or whether what a step makes is of inputs.
void add_product(const BlockSpace& steps, const CarriedProgram& carried, const ChainAxes& axes,
                 int p, FragmentProblem* to) {
  const TensorExpr& e = steps.expr(p);
  bool of_inputs = true;
  visit(e.body, [&](const Scalar& s) {
    of_inputs &=
        s.kind != Scalar::Kind::kRead || steps.producer(static_cast<TensorId>(s.symbol)) < 0;
  });
  const auto at = static_cast<size_t>(p);
  if (carried.parts[at] == CarriedProgram::Part::kStep) {
    carried.along[at] < e.output_rank() ? to->of_inputs &= of_inputs : to->multiplies = true;
    to->on_the_way |= loads_on_the_way(steps, p);
    return;
  }
  ProductBeside own;
  own.before = carried.parts[at] == CarriedProgram::Part::kBefore;
  own.of_inputs = of_inputs;
  for (const int64_t extent : e.reduce_extents) own.depth *= extent;
  int64_t elements = 1;
  for (const int64_t extent : e.extents) elements *= extent;
  own.made = std::max<int64_t>(elements / (axes.loops.batch * axes.rows), 1);
  to->others.push_back(own);
}

}  // namespace

int64_t FragmentProblem::deepest() const {
  int64_t out = of_inputs ? loops.extents[kDepthLoop] : 0;
  for (const ProductBeside& other : others) {
    if (other.of_inputs) out = std::max(out, other.depth);
  }
  return out;
}

FragmentProblem fragment_problem(const BlockSpace& steps, const CarriedProgram& carried,
                                 const ChainAxes& axes, double memory_bytes, const Target& target) {
  FragmentProblem out;
  out.loops = axes.loops;
  out.memory_bytes = memory_bytes;
  const DType type = factor_type(steps, carried);
  out.bytes = byte_size(type);
  out.on_units = is_half(type) || target.reduced_float32;
  out.gflops = unit_gflops(type, target);
  const double made = d(axes.loops.batch) * d(axes.rows) * d(carried.extent);
  out.bounded =
      std::ranges::any_of(carried.carries, [](const auto& c) { return c.reach.bounded(); });
  for (int p = 0; p < steps.size(); ++p) {
    const auto at = static_cast<size_t>(p);
    const TensorExpr& e = steps.expr(p);
    if (e.is_contraction) add_product(steps, carried, axes, p, &out);
    if (carried.parts[at] != CarriedProgram::Part::kStep || e.is_contraction) continue;
    if (carried.along[at] >= 0) out.between += d(flops_at_peak(e)) / 2 / made;
    out.reductions += !e.reduce_extents.empty();
    out.beside += reads_beside(steps, p, carried.along[at]);
  }
  return out;
}

int64_t fragment_bytes(const FragmentProblem& problem, const FragmentTiles& tiles,
                       const Target& target) {
  return Pricing(problem, tiles, target).shared_bytes();
}

std::optional<double> fragment_us(const FragmentProblem& problem, const FragmentTiles& tiles,
                                  const Target& target) {
  if (problem.gflops <= 0) return std::nullopt;
  return Pricing(problem, tiles, target).price();
}

}  // namespace weft
