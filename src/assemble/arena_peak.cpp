#include "assemble/arena_peak.h"

#include <algorithm>
#include <vector>

#include "assemble/arena.h"
#include "expr/products/widen_halves.h"

namespace weft {

namespace {

/// What one step reads and writes, and the bytes that it needs for itself.
struct StepUse {
  std::vector<TensorId> tensors;
  std::vector<TensorId> made;
  std::vector<int64_t> inner;
};

int64_t bytes_of(const Tensor& t, bool in_float32 = false) {
  const DType type = in_float32 && is_half(t.type.dtype) ? DType::kF32 : t.type.dtype;
  return physical_size(t.layout, t.type.shape) * byte_size(type);
}

int64_t place(const TensorProgram& program, const std::vector<StepUse>& steps,
              bool in_float32 = false) {
  const auto count = static_cast<int32_t>(steps.size());
  std::vector<ArenaBlock> life(program.tensors.size());
  std::vector<bool> in_arena(program.tensors.size(), false);
  std::vector<ArenaBlock> blocks;
  for (int32_t s = 0; s < count; ++s) {
    const StepUse& step = steps[static_cast<size_t>(s)];
    for (const TensorId t : step.tensors) life[static_cast<size_t>(t)].last = s;
    for (const TensorId t : step.made) {
      life[static_cast<size_t>(t)].first = life[static_cast<size_t>(t)].last = s;
      in_arena[static_cast<size_t>(t)] = true;
    }
    for (const int64_t bytes : step.inner) blocks.push_back({bytes, s, s});
  }
  // Outputs are written in place where they can be, else copied at the end.
  std::vector<bool> written(program.tensors.size(), false);
  for (const TensorId output : program.outputs) {
    const auto t = static_cast<size_t>(output);
    const bool in_place = !written[t] && program.tensors[t].layout.is_row_major();
    if (in_place) {
      in_arena[t] = false;
      written[t] = true;
    } else if (!written[t]) {
      life[t].last = count;
    }
  }
  for (size_t t = 0; t < life.size(); ++t) {
    if (!in_arena[t]) continue;
    life[t].bytes = bytes_of(program.tensors[t], in_float32);
    blocks.push_back(life[t]);
  }
  return place_arena(blocks).bytes;
}

/// Of a branch or loop: its carries, twice each, a while's condition, and its regions' arenas.
template <typename RegionPeak>
StepUse use_of(const OpaqueExpr& o, const RegionPeak& region_peak) {
  StepUse use{o.operands, o.results, {}};
  use.tensors.insert(use.tensors.end(), o.results.begin(), o.results.end());
  int64_t carries = 0;
  if (const auto* scan = std::get_if<ScanAttrs>(&o.node.attrs)) carries = scan->carry_count;
  if (const auto* loop = std::get_if<WhileAttrs>(&o.node.attrs)) {
    carries = loop->carry_count;
    use.inner.push_back(1);
  }
  for (int64_t c = 0; c < carries; ++c) {
    const TensorProgram& body = *o.regions.back();
    const auto input = static_cast<size_t>(body.inputs[static_cast<size_t>(c)]);
    use.inner.insert(use.inner.end(), 2, bytes_of(body.tensors[input]));
  }
  for (size_t r = 0; r < o.regions.size(); ++r) use.inner.push_back(region_peak(r));
  return use;
}

}  // namespace

int64_t arena_peak(const TensorProgram& program, const FusionPlan& plan) {
  std::vector<StepUse> steps;
  for (const FusionPlan::Step& step : plan.order) {
    const auto index = static_cast<size_t>(step.index);
    if (step.opaque) {
      const OpaqueExpr& o = program.opaques[index];
      steps.push_back(
          use_of(o, [&](size_t r) { return arena_peak(*o.regions[r], *plan.regions[index][r]); }));
    } else {
      const PlannedKernel& kernel = plan.kernels[index];
      steps.push_back({kernel.schedule.parameters, kernel.group.outputs, {}});
    }
  }
  return place(program, steps);
}

int64_t unfused_arena_peak(const TensorProgram& program, bool in_float32) {
  std::vector<StepUse> steps;
  for (const auto& step : program.steps) {
    const auto index = static_cast<size_t>(step.index);
    if (step.opaque) {
      const OpaqueExpr& o = program.opaques[index];
      steps.push_back(
          use_of(o, [&](size_t r) { return unfused_arena_peak(*o.regions[r], in_float32); }));
      continue;
    }
    const TensorExpr& e = program.exprs[index];
    StepUse use{{e.output}, {e.output}, {}};
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) use.tensors.push_back(s.symbol);
    });
    steps.push_back(std::move(use));
  }
  return place(program, steps, in_float32);
}

}  // namespace weft
