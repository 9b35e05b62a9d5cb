#include "kernel/definitions.h"

#include <algorithm>
#include <vector>

namespace weft {

namespace {

void record(const KernelBlock& block, Definitions& out) {
  for (const KernelInstruction& in : block.body) {
    if (in.op == KernelOp::kConst || in.op == KernelOp::kApply) out.emplace(in.results[0], in);
    for (const KernelBlock& region : in.regions) record(region, out);
  }
}

}  // namespace

Definitions definitions_of(const KernelFunction& kernel) {
  Definitions out;
  for (const KernelPhase& phase : kernel.phases) record(phase.body, out);
  return out;
}

std::optional<int64_t> number_in(const Definitions& definitions, Reg r) {
  const auto it = definitions.find(r);
  if (it == definitions.end() || it->second.op != KernelOp::kConst) return std::nullopt;
  return it->second.as<ConstPayload>().value.i;
}

std::optional<int64_t> moves_with(const Definitions& definitions, Reg r, Reg variable) {
  if (r == variable) return 1;
  const auto it = definitions.find(r);
  if (it == definitions.end() || it->second.op == KernelOp::kConst) return 0;
  const KernelInstruction& in = it->second;
  std::vector<int64_t> moves;
  for (const Reg operand : in.operands) {
    const std::optional<int64_t> m = moves_with(definitions, operand, variable);
    if (!m) return std::nullopt;
    moves.push_back(*m);
  }
  if (std::ranges::all_of(moves, [](int64_t m) { return m == 0; })) return 0;
  const ScalarOp op = in.as<ApplyPayload>().op;
  if (op == ScalarOp::kAdd) return moves[0] + moves[1];
  if (op != ScalarOp::kMul) return std::nullopt;
  const size_t moving = moves[0] != 0 ? 0 : 1;
  const std::optional<int64_t> factor = number_in(definitions, in.operands[1 - moving]);
  if (!factor || moves[1 - moving] != 0) return std::nullopt;
  return moves[moving] * *factor;
}

}  // namespace weft
