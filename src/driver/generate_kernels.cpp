#include "driver/generate_kernels.h"

#include <optional>
#include <span>
#include <utility>

#include "codegen/cpu/compile_kernels.h"
#include "driver/cache/kernel_notes.h"
#include "runtime/thread_pool.h"

namespace weft {

Result<std::vector<KernelImage>> generate_kernels(Compilation& c, EntryCache* cache) {
  std::optional<KernelCache> kernels;
  if (cache != nullptr) kernels.emplace(*cache);
  std::vector<KernelToCompile> list;
  for (const CompiledKernel& k : c.kernels)
    list.push_back({&k.function, k.known_code ? &*k.known_code : nullptr});
  const auto watch = [&](int64_t done, int64_t total) {
    if (c.options.progress) c.options.progress({"generate", done, total});
    return check_cancelled(c.options);
  };
  WEFT_ASSIGN_OR_RETURN(GeneratedCode made, compile_kernels(list, c.target, available_cores(),
                                                            kernels ? &*kernels : nullptr, watch));
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    CompiledKernel& kernel = c.kernels[k];
    if (kernel.note_key && !kernel.known_code)
      KernelNotes(*cache).insert(*kernel.note_key, made.keys[k],
                                 std::span(kernel.arguments).last(kernel.literals));
    kernel.known_code.reset();
    kernel.image = made.image_of[k];
  }
  c.kernels_from_cache = made.from_cache;
  c.unique_kernels = static_cast<int64_t>(made.images.size());
  return std::move(made.images);
}

Result<std::vector<KernelImage>> describe_device_kernels(Compilation& c) {
  std::vector<KernelImage> images;
  for (CompiledKernel& kernel : c.kernels) {
    KernelImage image;
    image.name = kernel.function.name;
    image.phase_entries.assign(kernel.function.phases.size(), 0);
    kernel.image = static_cast<int32_t>(images.size());
    images.push_back(std::move(image));
  }
  c.unique_kernels = static_cast<int64_t>(images.size());
  return images;
}

}  // namespace weft
