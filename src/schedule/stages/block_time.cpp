#include "schedule/stages/block_time.h"

#include <algorithm>
#include <cmath>

#include "expr/analysis/dependence.h"
#include "schedule/stages/form_stages.h"

namespace weft {

namespace {

double elements_of(const std::vector<BoxAxis>& box) {
  double n = 1;
  for (const BoxAxis& axis : box) n *= static_cast<double>(axis.extent);
  return n;
}

/// Elements of a tensor from outside that a reader's box touches, an upper bound.
double elements_read(const TensorProgram& program, const TensorExpr& e, const Demand& reader,
                     const DemandBoxes& demand, const Scalar& read) {
  const Shape& shape = program.tensors[static_cast<size_t>(read.symbol)].type.shape;
  double n = 1;
  for (size_t d = 0; d < read.indices.size(); ++d) {
    const auto hull = hull_of(read.indices[d], demand.loops, [&](int var) -> IndexHull {
      if (var >= kRuntimeIndexBase) return {0, shape[d]};
      if (var >= e.output_rank()) return {0, e.range(var).hi + 1};
      const BoxAxis& axis = reader.box[static_cast<size_t>(var)];
      return {axis.origin, axis.extent};
    });
    n *= static_cast<double>(hull ? std::min(hull->extent, shape[d]) : shape[d]);
  }
  return n;
}

/// How much longer the busiest core or SM works than all would on average.
double imbalance(double blocks, const Target& target) {
  const double units = processors(target);
  return std::ceil(blocks / units) * units / blocks;
}

}  // namespace

Estimate estimate_of(const BlockSpace& whole, const Target& target) {
  return CostModel(whole.declared(), target).estimate(whole.group().exprs, whole.group().outputs);
}

namespace {

/// GB/s of what blocks ask of caches for a tensor of so many bytes. A GPU's blocks ask together:
/// what is small comes as quickly as anything.
double request_rate(int64_t bytes, const Target& target) {
  if (!target.is_gpu()) return target.bandwidth_gb_per_s(bytes);
  double most = 1;
  for (const Target::BandwidthPoint& point : target.bandwidth)
    most = std::max(most, point.gb_per_s);
  return most;
}

/// GB/s of what blocks keep, so many bytes each.
double kept_rate(double bytes, const Target& target) {
  constexpr double kSharedBytes = 128;  // a cycle and SM
  if (!target.is_gpu()) return target.bandwidth_gb_per_s(static_cast<int64_t>(bytes));
  return kSharedBytes * target.sm_count * static_cast<double>(target.clock_mhz) / 1e3;
}

/// GFLOP/s of an expression: units multiply 16-bit floats.
double peak_of(const TensorExpr& e, const Target& target) {
  if (!target.is_gpu() || !e.is_contraction) return target.peak_gflops;
  bool halves = false;
  visit(e.body, [&](const Scalar& s) {
    halves |= s.kind == Scalar::Kind::kRead && (s.type == DType::kF16 || s.type == DType::kBF16);
  });
  const double units = halves                   ? target.peak_f16_gflops
                       : target.reduced_float32 ? target.peak_tf32_gflops
                                                : 0;
  return std::max(units, target.peak_gflops);
}

}  // namespace

BlockTime block_time(const BlockSpace& space, const Estimate& estimate, const DemandBoxes& demand,
                     const std::vector<bool>& handed_on, const Target& target) {
  const TensorProgram& program = space.program();
  BlockTime out;
  out.estimate = estimate;
  double computing = 0;
  double requesting = 0, kept = 0;  // kept: bytes, of all blocks
  const auto request = [&](double bytes, TensorId t) {
    const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
    const int64_t all = checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX);
    out.bytes_requested += bytes;
    requesting += bytes / request_rate(all, target) / 1000;
  };
  for (int p = 0; p < space.size(); ++p) {
    const TensorExpr& e = space.expr(p);
    const Demand& own = demand.members[static_cast<size_t>(p)];
    const double flops = own.times * static_cast<double>(flops_of(e));
    out.flops_made += flops;
    if (target.is_gpu()) computing += flops / peak_of(e, target) / 1000;
    double size = 1;
    for (const BoxAxis& axis : own.box) size *= static_cast<double>(axis.full);
    const double executions = own.times * size / std::max(elements_of(own.box), 1.0);
    const double element =
        static_cast<double>(byte_size(program.tensors[static_cast<size_t>(e.output)].type.dtype));
    if (handed_on[static_cast<size_t>(p)] || space.is_carried(p)) {
      out.bytes_kept += elements_of(own.box) * element;
      kept += own.times * size * element;
    }
    if (space.is_output(p)) request(own.times * size * element, e.output);
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || space.producer(s.symbol) >= 0 ||
          space.is_carry(s.symbol))
        return;
      request(executions * elements_read(program, e, own, demand, s) *
                  static_cast<double>(byte_size(s.type)),
              s.symbol);
    });
  }
  const double busy = imbalance(demand.blocks, target);
  if (!target.is_gpu()) computing = out.flops_made / target.peak_gflops / 1000;
  computing *= busy;
  const double moving = static_cast<double>(out.estimate.bytes_read + out.estimate.bytes_written);
  const double memory = moving / target.bandwidth_gb_per_s(static_cast<int64_t>(moving)) / 1000;
  const double keeping = 2 * kept / kept_rate(out.bytes_kept, target) / 1000 * busy;
  const double started = target.launch_us + (target.is_gpu() ? 0 : target.barrier_us);
  out.least_us = started + std::max(memory, computing);
  out.microseconds = started + std::max(memory, computing + requesting * busy + keeping);
  out.estimate.microseconds = out.microseconds;
  return out;
}

}  // namespace weft
