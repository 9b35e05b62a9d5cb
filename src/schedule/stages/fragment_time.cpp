#include "schedule/stages/fragment_time.h"

#include <algorithm>
#include <cmath>

#include "expr/analysis/dependence.h"
#include "expr/products/widen_halves.h"
#include "schedule/gpu/matrix_tile.h"
#include "schedule/stages/fragment_boxes.h"
#include "support/rounding.h"
#include "target/unit_peak.h"

namespace weft {

namespace {

constexpr double kBanksBytes = 128;        ///< of shared memory a cycle
constexpr double kIssueShare = 0.7;        ///< of the units' peak that their instructions reach
constexpr double kOverlapLoss = 0.15;      ///< of what hides behind the slowest resource
constexpr double kLoadLatency = 700;       ///< cycles from memory
constexpr double kStepLatency = 200;       ///< cycles: two waits, two barriers, first fragments
constexpr double kReductionLatency = 120;  ///< cycles over the lanes of a row
constexpr double kAcrossLatency = 100;     ///< cycles more over warps, which wait for each other
constexpr int64_t kOtherRegisters = 64;    ///< fragments, addresses

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
        cached_bytes_(target.bandwidth_gb_per_s(target.l2_bytes / 2) * 1e9 / clock_ /
                      target.sm_count) {}

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
    const int64_t each = ceil_div(blocks, target_.sm_count);
    const int64_t together = std::min(resident, each);
    const double steps = d(length_of_part(extents[kSharedLoop], t_.step, t_.splits) / t_.step);
    const ReachedShare& reached = t_.reached;
    const double throughput =
        d(each) * (steps * reached.mean * cycles_of_step(together) + other_cycles(together) +
                   steps * (1 - reached.mean) * unreached_cycles());
    const double waits = d(std::ssize(p_.others)) * (kLoadLatency + kStepLatency);
    // Of the waves the last one waits for the block that goes furthest.
    const double waves = d(ceil_div(each, together));
    const double latency = waves * (2 * kLoadLatency + waits + other_cycles(1)) +
                           ((waves - 1) * reached.mean + reached.most) * steps * step_latency();
    const double us = std::max(throughput, latency) / d(target_.clock_mhz);
    return std::max(us, memory_us()) + target_.launch_us +
           (in_cluster() ? d(each) * joining_in_cluster_us() : joining_us());
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
    const bool in_registers = p_.on_units && (!p_.of_inputs || !t_.choice.left_in_block);
    const int64_t left =
        in_registers && !deep() ? t_.rows * depth_ / (32 * warps_.down) / words : 0;
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
    const double quarters = std::min(1.0, d(t_.choice.warps * together) / 4);
    double out = 0;
    for (const ProductBeside& other : p_.others) {
      const double products = 2 * d(t_.rows) * d(other.depth) * d(other.made) /
                              (per_sm(p_.gflops) * (p_.on_units ? kIssueShare : 1.0)) / quarters;
      out += std::max(products, d(other.depth) * d(other.made) * d(p_.bytes) / cached_bytes_);
    }
    return out;
  }
  double flops() const { return 2 * d(t_.rows) * d(t_.step) * d(depth_ + made()); }
  double per_sm(double gflops) const { return gflops * 1e9 / clock_ / target_.sm_count; }
  /// Of one block when `together` share the SM.
  double cycles_of_step(int64_t together) const {
    const double quarters = std::min(1.0, d(t_.choice.warps * together) / 4);
    const double products =
        flops() / (per_sm(p_.gflops) * (p_.on_units ? kIssueShare : 1.0)) / quarters;
    const double between =
        p_.between * d(t_.rows) * d(t_.step) / (per_sm(target_.peak_gflops) / 2) / quarters;
    const double loads = loaded_bytes() / cached_bytes_;
    const double shared = shared_cycles();
    const double arithmetic = products + between;
    const double most = std::max({arithmetic, shared, loads});
    return most + kOverlapLoss * (arithmetic + shared + loads - most);
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
      const double depths = d(depth_) * (rows + d(t_.step) * columns) +
                            (p_.multiplies ? d(t_.step) * (rows + d(made()) * columns) : 0);
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
  double step_latency() const {
    const double ahead = std::max<double>(d(t_.choice.stages) - 1, 0.5);
    const double turns = deep() ? d(ceil_div(depth_, t_.choice.depth)) : 1;
    const double waits = warps_.across > 1 ? kAcrossLatency * d(p_.reductions + hands_on()) : 0;
    const double own =
        kStepLatency + kReductionLatency * d(p_.reductions) + waits + cycles_of_step(1);
    return std::max(own + (turns - 1) * kStepLatency, turns * kLoadLatency / ahead);
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
  /// others, as quickly as from the second-level cache. Two barriers of the cluster: before others
  /// read, and before a block leaves.
  double joining_in_cluster_us() const {
    const double bytes = 4 * d(t_.rows) * d(made() + p_.reductions);
    const double cycles = bytes / kBanksBytes + bytes / cached_bytes_ + kStepLatency;
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
    if (carried.along[at] >= 0) out.between += d(expr_cost(steps.program(), e).flops) / made;
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
