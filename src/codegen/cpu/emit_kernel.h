#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft::cpu {

/// Name of the function that a phase becomes.
std::string phase_symbol(size_t phase);

/// A verified kernel as an LLVM module with one function per phase. Buffers have alias scopes of
/// their own, so that loads move over stores to other buffers.
std::unique_ptr<llvm::Module> emit_kernel(llvm::LLVMContext& context, const KernelFunction& kernel,
                                          const Target& target);

}  // namespace weft::cpu
