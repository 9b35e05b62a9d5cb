#include "kernel/clone_block.h"

#include <utility>

namespace weft {

Reg new_register(KernelFunction& kernel, KernelType type) {
  kernel.types.push_back(type);
  return static_cast<Reg>(kernel.types.size()) - 1;
}

namespace {

std::vector<Reg> read(const std::vector<Reg>& regs, const std::map<Reg, Reg>& renamed) {
  std::vector<Reg> out;
  for (const Reg r : regs) {
    const auto it = renamed.find(r);
    out.push_back(it == renamed.end() ? r : it->second);
  }
  return out;
}

std::vector<Reg> define(KernelFunction& kernel, const std::vector<Reg>& regs,
                        std::map<Reg, Reg>& renamed) {
  std::vector<Reg> out;
  for (const Reg r : regs) {
    const KernelType type = kernel.type(r);
    out.push_back(new_register(kernel, type));
    renamed[r] = out.back();
  }
  return out;
}

}  // namespace

KernelInstruction clone_instruction(KernelFunction& kernel, const KernelInstruction& instruction,
                                    std::map<Reg, Reg>& renamed) {
  KernelInstruction out = instruction;
  out.operands = read(instruction.operands, renamed);
  out.regions.clear();
  for (const KernelBlock& region : instruction.regions)
    out.regions.push_back(clone_block(kernel, region, renamed));
  out.results = define(kernel, instruction.results, renamed);
  return out;
}

KernelBlock clone_block(KernelFunction& kernel, const KernelBlock& block,
                        std::map<Reg, Reg>& renamed) {
  KernelBlock out;
  out.parameters = define(kernel, block.parameters, renamed);
  for (const KernelInstruction& in : block.body)
    out.body.push_back(clone_instruction(kernel, in, renamed));
  out.yields = read(block.yields, renamed);
  return out;
}

Reg append(KernelFunction& kernel, std::vector<KernelInstruction>& body,
           KernelInstruction instruction, KernelType type) {
  const Reg r = new_register(kernel, type);
  instruction.results = {r};
  body.push_back(std::move(instruction));
  return r;
}

Reg append_apply(KernelFunction& kernel, std::vector<KernelInstruction>& body, ScalarOp op,
                 std::vector<Reg> operands, DType type) {
  const int32_t lanes = kernel.type(operands.back()).lanes;
  return append(kernel, body, {KernelOp::kApply, ApplyPayload{op}, std::move(operands)},
                {type, lanes});
}

Reg append_constant(KernelFunction& kernel, std::vector<KernelInstruction>& body, KernelType type,
                    ScalarValue value) {
  return append(kernel, body, {KernelOp::kConst, ConstPayload{value}}, type);
}

}  // namespace weft
