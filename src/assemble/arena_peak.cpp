#include "assemble/arena_peak.h"

#include <algorithm>
#include <vector>

#include "assemble/arena.h"
#include "assemble/lifetimes.h"
#include "expr/products/widen_halves.h"

namespace weft {

namespace {

/// What one step reads and writes, and the bytes that it needs for itself.
struct StepUse {
  StepTensors tensors;
  std::vector<int64_t> inner;
};

int64_t bytes_of(const Tensor& t, bool in_float32 = false) {
  const DType type = in_float32 && is_half(t.type.dtype) ? DType::kF32 : t.type.dtype;
  return physical_size(t.layout, t.type.shape) * byte_size(type);
}

int64_t place(const TensorProgram& program, const std::vector<StepUse>& steps,
              bool in_float32 = false) {
  std::vector<StepTensors> tensors;
  std::vector<bool> in_arena(program.tensors.size(), false);
  for (const StepUse& step : steps) {
    tensors.push_back(step.tensors);
    for (const TensorId t : step.tensors.makes) in_arena[static_cast<size_t>(t)] = true;
  }
  Lifetimes lives = lifetimes_of(program.tensors.size(), tensors);
  std::vector<ArenaBlock> blocks;
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto [first, last] = lives.steps[s];
    for (const int64_t bytes : steps[s].inner) blocks.push_back({bytes, first, last});
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
      lives.tensors[t].second = lives.end;
    }
  }
  for (size_t t = 0; t < in_arena.size(); ++t) {
    if (!in_arena[t]) continue;
    const auto [first, last] = lives.tensors[t];
    blocks.push_back({bytes_of(program.tensors[t], in_float32), first, last});
  }
  return place_arena(blocks).bytes;
}

/// Of a branch or loop: its carries, twice each, a while's condition, and its regions' arenas.
template <typename RegionPeak>
StepUse use_of(const OpaqueExpr& o, const RegionPeak& region_peak) {
  StepUse use{tensors_of(o), {}};
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
      steps.push_back({tensors_of(plan.kernels[index]), {}});
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
    StepTensors use{{}, {e.output}, 1, {}};
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) use.reads.push_back(s.symbol);
    });
    steps.push_back({std::move(use), {}});
  }
  return place(program, steps, in_float32);
}

}  // namespace weft
