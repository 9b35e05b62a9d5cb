#include "driver/generate_kernels.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>

#include "codegen/cpu/compile_kernel.h"
#include "runtime/thread_pool.h"

namespace weft {

std::string default_cache_dir() {
  if (const char* dir = std::getenv("WEFT_CACHE"); dir != nullptr && *dir != '\0') return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir != nullptr && *dir != '\0') return std::string(dir) + "/weft";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/weft";
  return {};
}

Result<std::vector<KernelImage>> generate_kernels(Compilation& c, const std::vector<const KernelFunction*>& kernels) {
  std::vector<std::optional<Result<KernelImage>>> made(kernels.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t k = next++; k < kernels.size(); k = next++) made[k] = compile_kernel(*kernels[k], c.target);
  };
  const auto helpers = std::min<size_t>(kernels.size(), static_cast<size_t>(available_cores()));
  std::vector<std::thread> threads;
  for (size_t t = 1; t < helpers; ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  std::vector<KernelImage> images;
  for (auto& result : made) {
    if (!result->ok()) return result->take_error();
    images.push_back(std::move(*result).value());
  }
  return images;
}

}  // namespace weft
