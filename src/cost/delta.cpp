#include "cost/delta.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "expr/analysis/dependence.h"
#include "support/rounding.h"

namespace weft {

namespace {

constexpr int64_t kRegisters = 16;
constexpr double kMostThreads = 1024, kWarp = 32;
/// Threads of a block where no row asks for some.
constexpr double kThreads = 256;
/// Cycles until a dependent instruction of a warp may follow ("Dissecting the NVIDIA Volta GPU
/// Architecture via Microbenchmarking", Jia et al. 2018).
constexpr double kDependentCycles = 4;

double points(const std::vector<int64_t>& extents) {
  double n = 1;
  for (const int64_t extent : extents) n *= static_cast<double>(std::max<int64_t>(extent, 1));
  return n;
}

int64_t bytes_of(const Estimate& estimate) {
  int64_t sum = 0;
  return __builtin_add_overflow(estimate.bytes_read, estimate.bytes_written, &sum) ? INT64_MAX
                                                                                   : sum;
}

}  // namespace

DeltaEvaluator::DeltaEvaluator(const TensorProgram& program, const Target& target)
    : program_(program), target_(target), cost_(program, target) {
  for (size_t e = 0; e < program.exprs.size(); ++e) {
    const std::vector<ExprId> one = {static_cast<ExprId>(e)};
    const std::vector<TensorId> made = {program.exprs[e].output};
    memory_alone_us_.push_back(roofline_us(bytes_of(cost_.estimate(one, made)), 0, target));
    compute_alone_us_.push_back(compute_us(one, launch_of(one)));
  }
}

DeltaEvaluator::Launch DeltaEvaluator::launch_of(std::span<const ExprId> exprs) const {
  std::set<TensorId> read;
  Launch launch;
  double most = 1, rows = 0, length = 1;
  std::vector<const TensorExpr*> handed_on;
  for (auto e = exprs.rbegin(); e != exprs.rend(); ++e) {
    const TensorExpr& expr = program_.exprs[static_cast<size_t>(*e)];
    const double results = points(expr.extents), reduced = points(expr.reduce_extents);
    most = std::max(most, expr.reduce_extents.empty() ? results : results * reduced);
    if (!expr.reduce_extents.empty() && read.contains(expr.output)) {
      handed_on.push_back(&expr);
      if (rows == 0 || results < rows) {
        rows = results;
        length = reduced;
      }
    }
    visit(expr.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) read.insert(s.symbol);
    });
  }
  if (rows == 0) {
    const double a_thread = target_.is_gpu() ? 1 : target_.lanes(4);
    launch.threads = std::ceil(most / a_thread);
    launch.blocks = std::ceil(launch.threads / (target_.is_gpu() ? kThreads : 1));
    return launch;
  }
  launch.blocks = rows;
  launch.threads = rows;
  if (!target_.is_gpu()) return launch;
  launch.threads *= std::min(kMostThreads, std::ceil(length / kWarp) * kWarp);
  for (const TensorExpr* e : handed_on) {
    const TensorType& type = program_.tensors[static_cast<size_t>(e->output)].type;
    const double bytes = points(e->extents) * static_cast<double>(byte_size(type.dtype));
    launch.shared_bytes =
        std::max(launch.shared_bytes, static_cast<int64_t>(std::ceil(std::min(bytes / rows, 1e9))));
  }
  return launch;
}

/// GPU: waves x a warp's instructions x the cycles of each, which are those of a dependent one or
/// those that all warps of the SM take in turns. CPU: the work of the busiest thread.
double DeltaEvaluator::compute_us(std::span<const ExprId> exprs, const Launch& launch) const {
  double flops = 0;
  for (const ExprId e : exprs)
    flops += static_cast<double>(flops_at_peak(program_.exprs[static_cast<size_t>(e)]));
  if (!target_.is_gpu()) {
    const double workers = std::max(target_.threads, 1);
    const double busiest = std::ceil(launch.threads / workers) * workers / launch.threads;
    return flops / (target_.peak_gflops * 1e3) * busiest;
  }
  const double block = launch.threads / launch.blocks;
  const int64_t resident = resident_blocks_per_sm(target_, static_cast<int64_t>(std::ceil(block)),
                                                  kRegisters, launch.shared_bytes);
  if (resident == 0) return HUGE_VAL;
  const double warps = std::ceil(launch.threads / kWarp);
  const double of_sm = std::max(1.0, static_cast<double>(resident) * std::ceil(block / kWarp));
  const double waves = std::ceil(warps / (of_sm * target_.sm_count));
  const double at_once = std::min(of_sm, std::ceil(warps / target_.sm_count));
  const double instructions = flops / 2 / launch.threads;
  const double cycles = std::max(kDependentCycles, at_once * target_.cycles_per_instruction("f32"));
  return waves * instructions * cycles / target_.clock_mhz;
}

/// What memory takes longer because few blocks ask for it.
double DeltaEvaluator::memory_penalty_us(int64_t bytes, const Launch& launch) const {
  if (!target_.is_gpu()) return 0;
  const double busy = std::min(1.0, launch.blocks / target_.sm_count);
  const auto moved = static_cast<double>(bytes);
  return memory_us(moved, busy, target_) - memory_us(moved, 1, target_);
}

Delta DeltaEvaluator::delta(std::span<const ExprId> exprs,
                            std::span<const TensorId> outputs) const {
  const int64_t bytes = bytes_of(cost_.estimate(exprs, outputs));
  const Launch launch = launch_of(exprs);
  Delta out;
  double compute_alone = 0;
  for (const ExprId e : exprs) {
    out.memory_us += memory_alone_us_[static_cast<size_t>(e)];
    compute_alone += compute_alone_us_[static_cast<size_t>(e)];
  }
  out.memory_us -= roofline_us(bytes, 0, target_);
  const auto launches = static_cast<double>(exprs.size()) - 1;
  out.calls_us = launches * target_.start_us();
  if (launches > 0) {
    out.penalty_us =
        std::max(0.0, compute_us(exprs, launch) - compute_alone) + memory_penalty_us(bytes, launch);
  }
  return out;
}

}  // namespace weft
