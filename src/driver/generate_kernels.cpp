#include "driver/generate_kernels.h"

#include <cstdlib>

#include "codegen/cpu/compile_kernel.h"
#include "codegen/cpu/kernel_cache.h"
#include "runtime/thread_pool.h"

namespace weft {

std::string default_cache_dir() {
  if (const char* dir = std::getenv("WEFT_CACHE"); dir != nullptr && *dir != '\0') return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir != nullptr && *dir != '\0') return std::string(dir) + "/weft";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/weft";
  return {};
}

}  // namespace weft
