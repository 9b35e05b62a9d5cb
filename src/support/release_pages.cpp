#include "support/release_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace weft {

void release_pages(std::span<const std::byte> bytes) {
#ifdef MADV_PAGEOUT
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + bytes.size()) / page * page;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_PAGEOUT);
#else
  static_cast<void>(bytes);
#endif
}

}  // namespace weft
