#pragma once

#include <string>

#include "kernel/kernel_function.h"
#include "runtime/kernel_image.h"
#include "support/result.h"
#include "target/target.h"

namespace weft {

/// Machine code of a verified kernel for `target`: one entry point per phase.
///
/// Explicit vectors, as the kernel writes them; a vector wider than the target's is cut by LLVM.
/// Products and sums are contracted only where the kernel says fma. Elementary functions are code
/// of the image itself: within 4 ulp for float32, 1e-14 relative for float64, special values and
/// denormals as in graph/scalar_ops.def. The buffers of a kernel must not overlap, inputs excepted.
///
/// The same kernel and target give the same bytes. Any number of threads may call this at once:
/// each call has its own LLVM context. (LLVM's table of targets is the one thing that is filled
/// once per process, under std::call_once.)
///
/// kUnsupported: a target that is no x86-64 CPU. kInternal: LLVM refuses what we wrote.
Result<KernelImage> compile_kernel(const KernelFunction& kernel, const Target& target);

/// What compile_kernel makes, as text: LLVM's assembly, or its IR after our passes.
enum class CodeText { kAssembly, kIr };
Result<std::string> kernel_code_text(const KernelFunction& kernel, const Target& target,
                                     CodeText form = CodeText::kAssembly);

/// "LLVM 22.1.0, generator 2": images made under another one are not used.
std::string cpu_codegen_version();

}  // namespace weft
