#include "codegen/cuda/approximations.h"

#include <ranges>

namespace weft {

namespace {

/// Whether what is made of operand `i` is off by no more of itself than the operand is.
bool keeps_relative_error(const KernelInstruction& in, size_t i) {
  if (in.op == KernelOp::kExtract || in.op == KernelOp::kShuffle || in.op == KernelOp::kBroadcast)
    return true;
  if (in.op != KernelOp::kApply) return false;
  const ScalarOp op = in.as<ApplyPayload>().op;
  return op == ScalarOp::kMul || op == ScalarOp::kNeg || op == ScalarOp::kConvert ||
         (op == ScalarOp::kSelect && i > 0);
}

}  // namespace

Approximations::Approximations(const KernelFunction& kernel) : rounded_(kernel.types.size(), true) {
  for (const KernelPhase& phase : kernel.phases) follow(kernel, phase.body);
}

/// Users stand behind what they use, so that they are known when it is met from the end.
void Approximations::follow(const KernelFunction& kernel, const KernelBlock& block) {
  for (const Reg r : block.yields) rounded_[static_cast<size_t>(r)] = false;
  for (const KernelInstruction& in : std::views::reverse(block.body)) {
    for (const KernelBlock& inner : std::views::reverse(in.regions)) follow(kernel, inner);
    note(kernel, in);
  }
}

void Approximations::note(const KernelFunction& kernel, const KernelInstruction& in) {
  by_halves_ |= in.op == KernelOp::kGroupMultiply ||
                (in.op == KernelOp::kMatrixMultiply &&
                 in.as<MatrixMultiplyPayload>().unit != KernelUnit::kM16N8K8TF32);
  for (size_t i = 0; i < in.operands.size(); ++i) {
    bool rounded = keeps_relative_error(in, i);
    if (rounded) {
      const Reg r = in.results[0];
      const DType type = kernel.type(r).dtype;
      rounded = is_float(type) &&
                (byte_size(type) == 2 || (type == DType::kF32 && rounded_[static_cast<size_t>(r)]));
    }
    if (!rounded) rounded_[static_cast<size_t>(in.operands[i])] = false;
  }
}

bool Approximations::hold(const KernelInstruction& in) const {
  const auto& [op, nonpositive] = in.as<ApplyPayload>();
  if (op != ScalarOp::kExp && op != ScalarOp::kSigmoid) return false;
  return (nonpositive && by_halves_) || rounded_[static_cast<size_t>(in.results[0])];
}

}  // namespace weft
