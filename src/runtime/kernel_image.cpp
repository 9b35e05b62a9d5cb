#include "runtime/kernel_image.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

namespace weft {
namespace {

constexpr size_t kMaxCodeBytes = size_t{1} << 32;  ///< beyond any program: a damaged file

/// Offsets of the images in one block, and the size of the block. The first image does not start at
/// the block's first byte: code may be preceded by data that a checking caller looks at.
struct CodeLayout {
  std::vector<size_t> offsets;
  size_t bytes = kKernelImageAlignment;
};

Result<CodeLayout> lay_out(std::span<const KernelImage* const> images) {
  CodeLayout layout;
  for (const KernelImage* image : images) {
    WEFT_RETURN_IF_ERROR(verify_kernel_image(*image));
    layout.offsets.push_back(layout.bytes);
    layout.bytes += image->bytes.size();
    layout.bytes = (layout.bytes + kKernelImageAlignment - 1) & ~(kKernelImageAlignment - 1);
    if (layout.bytes > kMaxCodeBytes) return invalid_input("the kernels need more than 4 GiB");
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  layout.bytes = (layout.bytes + page - 1) & ~(page - 1);
  return layout;
}

bool is_possible(const DeviceLaunch& launch) {
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMostSharedBytes = int64_t{1} << 20;
  constexpr int32_t kMostThreads = 1024, kMostClusterBlocks = 16;
  return launch.blocks >= 1 && launch.blocks <= kMostBlocks && launch.threads >= 1 &&
         launch.threads <= kMostThreads && launch.cluster >= 1 &&
         launch.cluster <= kMostClusterBlocks && launch.blocks % launch.cluster == 0 &&
         launch.shared_bytes >= 0 && launch.shared_bytes <= kMostSharedBytes &&
         launch.entry.find('\0') == std::string::npos;
}

}  // namespace

Status verify_kernel_image(const KernelImage& image) {
  if (image.bytes.size() > kMaxCodeBytes) {
    return invalid_input("kernel '" + image.name + "' is larger than 4 GiB");
  }
  const bool is_call = !image.device.library_call.empty() && image.bytes.empty();
  for (uint64_t entry : image.phase_entries) {
    if (!is_call && entry >= image.bytes.size()) {
      return invalid_input("kernel '" + image.name + "': an entry point at " +
                           std::to_string(entry) + " lies outside its " +
                           std::to_string(image.bytes.size()) + " bytes");
    }
  }
  if (!image.device.entry.empty() && !is_possible(image.device)) {
    return invalid_input("kernel '" + image.name + "' has a launch that no device takes");
  }
  return {};
}

Result<std::shared_ptr<const LoadedKernels>> LoadedKernels::load(
    std::span<const KernelImage* const> images) {
  WEFT_ASSIGN_OR_RETURN(const CodeLayout layout, lay_out(images));
  void* memory = mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      /*fd=*/-1, /*offset=*/0);
  if (memory == MAP_FAILED) {
    return invalid_input("cannot allocate " + std::to_string(layout.bytes) +
                         " bytes for kernels: " + std::strerror(errno));
  }
  std::shared_ptr<LoadedKernels> loaded(new LoadedKernels);
  loaded->base_ = static_cast<std::byte*>(memory);
  loaded->size_ = layout.bytes;
  for (size_t i = 0; i < images.size(); ++i) {
    std::byte* start = loaded->base_ + layout.offsets[i];
    const KernelImage& image = *images[i];
    if (!image.bytes.empty()) std::memcpy(start, image.bytes.data(), image.bytes.size());
    std::vector<KernelEntry>& entries = loaded->entries_.emplace_back();
    for (uint64_t entry : image.phase_entries) {
      entries.push_back(reinterpret_cast<KernelEntry>(start + entry));
    }
  }
  if (mprotect(memory, layout.bytes, PROT_READ | PROT_EXEC) != 0) {
    return Error{ErrorCode::kMissingDevice,
                 std::string("the system does not allow generated code to be executed: ") +
                     std::strerror(errno)};
  }
  __builtin___clear_cache(static_cast<char*>(memory), static_cast<char*>(memory) + layout.bytes);
  return std::shared_ptr<const LoadedKernels>(std::move(loaded));
}

std::shared_ptr<const LoadedKernels> LoadedKernels::from_functions(
    std::vector<std::vector<KernelEntry>> functions) {
  std::shared_ptr<LoadedKernels> loaded(new LoadedKernels);
  loaded->entries_ = std::move(functions);
  return loaded;
}

LoadedKernels::~LoadedKernels() {
  if (base_ != nullptr) munmap(base_, size_);
}

}  // namespace weft
