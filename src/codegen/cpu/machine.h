#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "support/result.h"
#include "target/target.h"

namespace weft::cpu {

/// LLVM's machine for an x86-64 target: its code_features alone decide what may be executed (the
/// name of its CPU only how instructions are ordered). Not shared between threads.
Result<std::unique_ptr<llvm::TargetMachine>> make_machine(const Target& target);

/// Few and cheap passes: kernels come with their vectors, unrolling and hoisting already chosen.
/// Requires: a module of emit_kernel. kInternal when it does not verify.
Status optimise(llvm::Module& module, llvm::TargetMachine& machine);

enum class OutputKind { kObject, kAssembly };
Result<std::string> generate(llvm::Module& module, llvm::TargetMachine& machine, OutputKind kind);

}  // namespace weft::cpu
