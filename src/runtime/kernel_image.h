#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/result.h"

namespace weft {

/// How a GPU starts a kernel, and what its code was found to need.
struct DeviceLaunch {
  std::string entry;  ///< name of the entry point; empty: the kernel is code of a CPU
  int64_t blocks = 1;
  int32_t threads = 32;  ///< of a block
  int32_t cluster = 1;   ///< blocks of a cluster
  int64_t shared_bytes = 0;
  bool cooperative = false;   ///< has a barrier of the grid: all blocks must be resident at once
  int32_t blocks_per_sm = 1;  ///< that the code was bounded for
  int32_t registers = 0;      ///< of a thread
  int32_t spill_bytes = 0;    ///< stored to and loaded from local memory, by a thread
  /// Where a vendor's library does the work: the text of a LibraryCall (target/library_call.h) on
  /// the kernel's buffers. The image's bytes do the same for devices without the library; without
  /// bytes there is but the call.
  std::string library_call;
  friend bool operator==(const DeviceLaunch&, const DeviceLaunch&) = default;
};

/// Machine code of one kernel as a flat, position-independent image: code and constants with every
/// relocation inside the image already applied and no symbol left, so that loading is copying into
/// executable memory. Needs no linker, and the same bytes serve the process that compiled them, the
/// disk cache and an artefact. For a GPU: a cubin.
struct KernelImage {
  std::string name;
  std::vector<std::byte> bytes;
  std::vector<uint64_t> phase_entries;  ///< offset of each phase's entry point
  uint64_t hash = 0;                    ///< of bytes and entries
  DeviceLaunch device;
};

/// Every image starts at a multiple of this, so that its constants may be loaded as whole vectors.
inline constexpr size_t kKernelImageAlignment = 64;

/// Where the threads of a launch wait for each other inside a phase. The address of one stands
/// behind the buffers of every kernel that is called.
struct PhaseBarrier {
  /// Returns in all threads once all have called it; 0: the run stops, and the kernel returns.
  uint32_t (*wait)(void* context) = nullptr;
  void* context = nullptr;
};

using KernelEntry = void (*)(void* const* buffers, const int64_t* arguments, int64_t begin,
                             int64_t end, void* scratch);

/// Every entry lies inside the bytes; a launch is one that some GPU takes. Says nothing about the
/// code itself.
Status verify_kernel_image(const KernelImage& image);

/// Executable memory holding many images; entries stay valid as long as this lives. W^X: written,
/// then made executable.
class LoadedKernels {
 public:
  /// kInvalidInput for an entry outside its image or when memory is exhausted, kMissingDevice where
  /// the system forbids executable memory.
  static Result<std::shared_ptr<const LoadedKernels>> load(
      std::span<const KernelImage* const> images);
  /// The same interface over functions of this process, `functions[image][phase]`: kernels written
  /// by hand, which sanitizers can see into.
  static std::shared_ptr<const LoadedKernels> from_functions(
      std::vector<std::vector<KernelEntry>> functions);

  ~LoadedKernels();
  LoadedKernels(const LoadedKernels&) = delete;
  LoadedKernels& operator=(const LoadedKernels&) = delete;

  size_t image_count() const { return entries_.size(); }
  size_t phase_count(size_t image) const { return entries_[image].size(); }
  KernelEntry entry(size_t image, size_t phase) const { return entries_[image][phase]; }

 private:
  LoadedKernels() = default;
  std::byte* base_ = nullptr;
  size_t size_ = 0;
  std::vector<std::vector<KernelEntry>> entries_;
};

}  // namespace weft
