#include "schedule/stages/block_time.h"

#include <algorithm>
#include <cmath>

#include "expr/dependence.h"

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
  const double units = target.is_gpu() ? target.sm_count : std::max(target.threads, 1);
  return std::ceil(blocks / units) * units / blocks;
}

}  // namespace

BlockTime block_time(const BlockSpace& space, const DemandBoxes& demand,
                     const std::vector<bool>& handed_on, const Target& target) {
  return chain_time(space, space, demand, handed_on, target);
}

BlockTime chain_time(const BlockSpace& whole, const BlockSpace& space, const DemandBoxes& demand,
                     const std::vector<bool>& handed_on, const Target& target) {
  const TensorProgram& program = space.program();
  BlockTime out;
  out.estimate =
      CostModel(whole.declared(), target).estimate(whole.group().exprs, whole.group().outputs);
  double requesting = 0, kept = 0;  // kept: bytes, of all blocks
  const auto request = [&](double bytes, TensorId t) {
    const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
    const int64_t all = checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX);
    out.bytes_requested += bytes;
    requesting += bytes / target.bandwidth_gb_per_s(all) / 1000;
  };
  for (int p = 0; p < space.size(); ++p) {
    const TensorExpr& e = space.expr(p);
    const Demand& own = demand.members[static_cast<size_t>(p)];
    out.flops_made += own.times * static_cast<double>(expr_cost(program, e).flops);
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
  const double computing = out.flops_made / target.peak_gflops / 1000 * busy;
  const double moving = static_cast<double>(out.estimate.bytes_read + out.estimate.bytes_written);
  const double memory = moving / target.bandwidth_gb_per_s(static_cast<int64_t>(moving)) / 1000;
  const double keeping =
      2 * kept / target.bandwidth_gb_per_s(static_cast<int64_t>(out.bytes_kept)) / 1000 * busy;
  out.microseconds = target.launch_us + target.barrier_us +
                     std::max(memory, computing + requesting * busy + keeping);
  out.estimate.microseconds = out.microseconds;
  return out;
}

}  // namespace weft
