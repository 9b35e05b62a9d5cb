#pragma once

#include <map>

#include "kernel/kernel_function.h"

namespace weft {

/// A register that nothing defines yet.
Reg new_register(KernelFunction& kernel, KernelType type);

/// A copy of `block` in which everything defined gets a new register; `renamed` maps old registers
/// to new ones, those that it holds already (of values from outside) included, and takes up the
/// rest.
KernelBlock clone_block(KernelFunction& kernel, const KernelBlock& block,
                        std::map<Reg, Reg>& renamed);
/// The same for one instruction.
KernelInstruction clone_instruction(KernelFunction& kernel, const KernelInstruction& instruction,
                                    std::map<Reg, Reg>& renamed);

/// An instruction that computes one register, appended to `body`.
Reg append(KernelFunction& kernel, std::vector<KernelInstruction>& body,
           KernelInstruction instruction, KernelType type);
Reg append_apply(KernelFunction& kernel, std::vector<KernelInstruction>& body, ScalarOp op,
                 std::vector<Reg> operands, DType type);
Reg append_constant(KernelFunction& kernel, std::vector<KernelInstruction>& body, KernelType type,
                    ScalarValue value);

}  // namespace weft
