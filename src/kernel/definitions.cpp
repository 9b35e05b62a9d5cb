#include "kernel/definitions.h"

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

}  // namespace weft
