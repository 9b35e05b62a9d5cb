#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/cubin_cache.h"
#include "codegen/cuda/nvrtc.h"
#include "support/cancelled.h"

namespace weft {

struct CudaText {
  std::string name;  ///< stands for the file in messages
  std::string text;
};

struct CompiledCubins {
  std::vector<CudaBinary> binaries;  ///< by text given
  int64_t from_cache = 0;
};

/// Compiles each text for one architecture, in up to `processes` helper processes, since NVRTC does
/// one compile at a time within a process; equal texts are compiled once. Takes from `cache`, when
/// there is one, what was compiled before. The result does not depend on either. A text that ends
/// NVRTC (some that are correct do) is compiled again without its optimisations. The first error in
/// the order of the texts; kInterrupted soon after `cancel` says so, whatever NVRTC is at.
Result<CompiledCubins> compile_cubins(std::span<const CudaText> texts, const Nvrtc& nvrtc,
                                      const NvrtcOptions& options, int processes,
                                      const CubinCache* cache = nullptr,
                                      CancelFlag cancel = nullptr);

/// Under which a text's binary is cached: the text, the prelude, the options and the version of
/// NVRTC.
Hash128 cubin_cache_key(const std::string& text, const Nvrtc& nvrtc, const NvrtcOptions& options);

}  // namespace weft
