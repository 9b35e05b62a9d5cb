#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/cpu/compile_kernel.h"
#include "codegen/cpu/kernel_cache.h"

namespace weft {

/// A kernel whose code was found before it was lowered.
struct KnownCode {
  Hash128 key;  ///< kernel_cache_key of the kernel
  KernelImage image;
};

struct KernelToCompile {
  const KernelFunction* function = nullptr;
  /// Code that is there already, or null; the function's instructions are not looked at then.
  const KnownCode* known = nullptr;
};

struct GeneratedCode {
  std::vector<KernelImage> images;  ///< of the distinct kernels, in order of first use
  std::vector<int32_t> image_of;    ///< by kernel given
  std::vector<Hash128> keys;        ///< by kernel given: kernel_cache_key
  int64_t from_cache = 0;           ///< images that were not compiled here
};

/// Compiles each distinct kernel once (names apart), on up to `threads` threads, and takes from
/// `cache`, when there is one, what was compiled before. The result does not depend on either.
/// The first error in the order of the kernels.
///
/// `watch`, when there is one, is called by one thread at a time after each distinct kernel, with
/// how many are done of how many; what it says other than success ends the work.
Result<GeneratedCode> compile_kernels(const std::vector<KernelToCompile>& kernels,
                                      const Target& target, int threads,
                                      KernelCache* cache = nullptr,
                                      const std::function<Status(int64_t, int64_t)>& watch = {});

/// Under which a kernel's code is cached: the kernel but for names, what the target gives the
/// generator, the version of LLVM and of the generator.
Hash128 kernel_cache_key(const KernelFunction& kernel, const Target& target);

}  // namespace weft
