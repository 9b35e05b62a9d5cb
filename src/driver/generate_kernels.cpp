#include "driver/generate_kernels.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "codegen/cpu/compile_kernels.h"
#include "driver/kernel_notes.h"
#include "runtime/thread_pool.h"

namespace weft {

std::string default_cache_dir() {
  if (const char* dir = std::getenv("WEFT_CACHE"); dir != nullptr && *dir != '\0') return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir != nullptr && *dir != '\0')
    return std::string(dir) + "/weft";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.cache/weft";
  return {};
}

std::unique_ptr<CacheFolder> open_cache(const CompileOptions& options) {
  if (options.cache_dir.empty()) return nullptr;
  CacheFolder::Options folder;
  folder.directory = options.cache_dir;
  folder.verify = options.verify_cache;
  folder.warn = options.warn ? options.warn : [](const std::string&) {};
  return std::make_unique<CacheFolder>(std::move(folder));
}

Result<std::vector<KernelImage>> generate_kernels(Compilation& c, CacheFolder* cache) {
  std::optional<KernelCache> kernels;
  if (cache != nullptr) kernels.emplace(*cache);
  WEFT_ASSIGN_OR_RETURN(CompiledKernels made,
                        compile_kernels(c.kernels, c.target, available_cores(),
                                        kernels ? &*kernels : nullptr, c.known_code));
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    if (c.note_keys[k] && !c.known_code[k])
      KernelNotes(*cache).insert(*c.note_keys[k], made.keys[k]);
  }
  c.known_code.clear();
  c.image_of = std::move(made.image_of);
  c.kernels_from_cache = made.from_cache;
  c.unique_kernels = static_cast<int64_t>(made.images.size());
  return std::move(made.images);
}

Result<std::vector<KernelImage>> describe_device_kernels(Compilation& c) {
  std::vector<KernelImage> images;
  for (const KernelFunction& kernel : c.kernels) {
    KernelImage image;
    image.name = kernel.name;
    image.phase_entries.assign(kernel.phases.size(), 0);
    c.image_of.push_back(static_cast<int32_t>(images.size()));
    images.push_back(std::move(image));
  }
  c.unique_kernels = static_cast<int64_t>(images.size());
  return images;
}

}  // namespace weft
