#include "tools/limit_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_SANITIZER_MAPS_MUCH 1  // their shadow memory is far beyond any machine's
#endif
#endif

namespace weft {

void limit_memory() {
#if !defined(WEFT_SANITIZER_MAPS_MUCH)
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  struct rlimit limit{};
  if (pages <= 0 || page <= 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  rlim_t most = static_cast<rlim_t>(pages) * static_cast<rlim_t>(page);
  std::ifstream group("/sys/fs/cgroup/memory.max");
  if (rlim_t bytes = 0; group >> bytes) most = std::min(most, bytes);
  limit.rlim_cur = std::min(limit.rlim_cur, most);
  setrlimit(RLIMIT_DATA, &limit);
#endif
}

}  // namespace weft
