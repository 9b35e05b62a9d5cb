#include "codegen/cpu/machine.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>

#include "codegen/cpu/code_features.h"
#include "codegen/cpu/store_single_lanes.h"

namespace weft::cpu {
namespace {

/// What LLVM keeps for the process: its table of targets, which is empty at start, and its options.
/// Loop strength reduction is off: addresses come in a form that x86 takes as it is (a pointer that
/// LICM hoists, an index, a constant), and its search would take most of the time of a compilation.
void prepare_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    auto& options = llvm::cl::getRegisteredOptions();
    const auto set = [&](llvm::StringRef name, llvm::StringRef value) {
      const auto option = options.find(name);
      if (option != options.end()) option->second->addOccurrence(0, name, value);
    };
    set("disable-lsr", "true");
    set("x86-machine-combiner", "false");
  });
}

Error internal(std::string message) { return {ErrorCode::kInternal, std::move(message)}; }

}  // namespace

Result<std::unique_ptr<llvm::TargetMachine>> make_machine(const Target& target) {
#if !defined(__x86_64__)
  return unsupported("the CPU generator makes code for x86-64 only");
#endif
  if (target.kind != Target::Kind::kCpu) {
    return unsupported("target '" + target.name + "' is no CPU");
  }
  prepare_llvm();
  const llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target* registered = llvm::TargetRegistry::lookupTarget(triple, error);
  if (registered == nullptr) return unsupported("LLVM: " + error);
  std::string features;
  for (const std::string& feature : code_features(target)) {
    features += (features.empty() ? "+" : ",+") + feature;
  }
  // Every x86-64 processor takes a prefetch for writing; those that know none pass over it.
  features += features.empty() ? "+prfchw" : ",+prfchw";
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.MCOptions.AsmVerbose = true;  // spills are named in assembly
  std::unique_ptr<llvm::TargetMachine> machine(registered->createTargetMachine(
      triple, "x86-64", features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default, /*JIT=*/false));
  if (machine == nullptr) return unsupported("LLVM has no machine for " + triple.str());
  return machine;
}

Status optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream)) return internal("LLVM refuses the module: " + problem);

  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::SimplifyCFGPass());
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    passes.run(function, functions);
    store_single_lanes(function);
  }
  return {};
}

Result<std::string> generate(llvm::Module& module, llvm::TargetMachine& machine, OutputKind kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  const auto type = kind == OutputKind::kObject ? llvm::CodeGenFileType::ObjectFile
                                                : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    return internal("LLVM's machine writes no such file");
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace weft::cpu
