#include "runtime/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace weft {
namespace {

/// From this size on, huge pages save more in address translation than they cost in zeroing.
constexpr int64_t kHugePageThreshold = int64_t{4} << 20;

}  // namespace

Result<Memory> Memory::allocate(int64_t bytes, const char* what) {
  Memory memory;
  if (bytes == 0) return memory;
  void* data = MAP_FAILED;
  errno = EINVAL;
  if (bytes > 0) {
    data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  }
  if (data == MAP_FAILED) {
    return invalid_input("cannot allocate " + std::to_string(bytes) + " bytes for " + what + ": " +
                         std::strerror(errno));
  }
  if (bytes >= kHugePageThreshold) madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace weft
