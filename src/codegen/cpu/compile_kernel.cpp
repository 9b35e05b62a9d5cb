#include "codegen/cpu/compile_kernel.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/cpu/code_features.h"
#include "codegen/cpu/emit_kernel.h"
#include "codegen/cpu/flatten_object.h"
#include "codegen/cpu/machine.h"
#include "support/hash.h"

namespace weft {
namespace {

/// Raised with every change of what is generated.
constexpr int kGeneratorVersion = 9;

uint64_t image_hash(const KernelImage& image) {
  Hasher hasher;
  for (const uint64_t entry : image.phase_entries) hasher.add_value(entry);
  hasher.add_bytes(image.bytes);
  return hasher.digest64();
}

}  // namespace

std::string cpu_codegen_version() {
  return "LLVM " LLVM_VERSION_STRING ", generator " + std::to_string(kGeneratorVersion);
}

Result<KernelImage> compile_kernel(const KernelFunction& kernel, const Target& for_target) {
  const Target target = target_of_kernel(kernel, for_target);
  WEFT_ASSIGN_OR_RETURN(const auto machine, cpu::make_machine(target));
  llvm::LLVMContext context;  // outlives the module
  const auto module = cpu::emit_kernel(context, kernel, target);
  WEFT_RETURN_IF_ERROR(cpu::optimise(*module, *machine));
  WEFT_ASSIGN_OR_RETURN(const std::string object,
                        cpu::generate(*module, *machine, cpu::OutputKind::kObject));
  std::vector<std::string> symbols;
  for (size_t p = 0; p < kernel.phases.size(); ++p) symbols.push_back(cpu::phase_symbol(p));
  auto flat = cpu::flatten_object(object, symbols);
  if (!flat.ok()) {
    return Error{flat.error().code, "kernel '" + kernel.name + "': " + flat.error().message};
  }
  KernelImage image;
  image.name = kernel.name;
  image.bytes = std::move(flat->bytes);
  image.phase_entries = std::move(flat->entries);
  image.hash = image_hash(image);
  return image;
}

Result<std::string> kernel_code_text(const KernelFunction& kernel, const Target& for_target,
                                     CodeText form) {
  const Target target = target_of_kernel(kernel, for_target);
  WEFT_ASSIGN_OR_RETURN(const auto machine, cpu::make_machine(target));
  llvm::LLVMContext context;
  const auto module = cpu::emit_kernel(context, kernel, target);
  WEFT_RETURN_IF_ERROR(cpu::optimise(*module, *machine));
  if (form == CodeText::kAssembly) {
    return cpu::generate(*module, *machine, cpu::OutputKind::kAssembly);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

}  // namespace weft
