#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "codegen/cpu/compile_kernel.h"
#include "kernel/kernel_builder.h"
#include "support/storage.h"
#include "target/target.h"

namespace weft {

/// The machines of 16, 32 and 64 bytes of vector that this one can be.
inline std::vector<Target> machine_widths() {
  std::vector<Target> targets;
  for (const int bytes : {16, 32, 64}) {
    Target target = host_cpu_target(1, bytes);
    if (target.vector_bytes == bytes) targets.push_back(std::move(target));
  }
  return targets;
}

/// A buffer with room before and after that must stay as it was, at an address that is aligned no
/// better than the elements.
class GuardedBuffer {
 public:
  GuardedBuffer(DType dtype, int64_t elements)
      : size_(static_cast<size_t>(elements * byte_size(dtype))),
        bytes_(size_ + 3 * kGuard, kPattern) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
    offset_ = kGuard + (64 - address % 64) % 64;
  }
  std::byte* data() { return bytes_.data() + offset_; }
  const std::byte* data() const { return bytes_.data() + offset_; }
  std::span<std::byte> span() { return {data(), size_}; }
  bool guards_intact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= offset_ && i < offset_ + size_;
      if (!inside && bytes_[i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kPattern{0xA5};
  size_t size_, offset_ = 0;
  std::vector<std::byte> bytes_;
};

/// Of those, the ones to try vectors of `lanes` on: scalars on the narrowest and the widest, whole
/// registers of float32, and vectors that have to be cut.
inline std::vector<Target> machines_for_lanes(int32_t lanes) {
  std::vector<Target> targets;
  for (Target& target : machine_widths()) {
    const int32_t own = target.lanes(4);
    const bool scalar = lanes == 1 && own != 8;
    if (scalar || lanes == own || lanes == 2 * own || (lanes == 4 && own == 16)) {
      targets.push_back(std::move(target));
    }
  }
  return targets;
}

/// The kernel in executable memory; null after a failure.
inline std::shared_ptr<const LoadedKernels> load_compiled(const KernelFunction& kernel,
                                                          const Target& target) {
  const Status verified = verify_kernel(kernel);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  if (!verified.ok()) return nullptr;
  const auto image = compile_kernel(kernel, target);
  EXPECT_TRUE(image.ok()) << image.error().message;
  if (!image.ok()) return nullptr;
  const KernelImage* images[] = {&*image};
  auto loaded = LoadedKernels::load(images);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? std::move(*loaded) : nullptr;
}

/// Runs all phases on the given buffers (scratch excepted).
inline void run_loaded(const LoadedKernels& loaded, const KernelFunction& kernel,
                       const std::vector<void*>& buffers,
                       const std::vector<int64_t>& arguments = {}) {
  GuardedBuffer scratch(DType::kU8, kernel.scratch_bytes);
  for (size_t p = 0; p < kernel.phases.size(); ++p) {
    loaded.entry(0, p)(buffers.data(), arguments.data(), 0, kernel.phases[p].work_items,
                       scratch.data());
  }
  EXPECT_TRUE(scratch.guards_intact());
}

inline void run_compiled(const KernelFunction& kernel, const Target& target,
                         const std::vector<void*>& buffers) {
  const auto loaded = load_compiled(kernel, target);
  ASSERT_NE(loaded, nullptr);
  run_loaded(*loaded, kernel, buffers);
}

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span<T>(values));
}

inline KernelBuffer make_buffer(std::string name, DType dtype, KernelBuffer::Kind kind,
                                int64_t elements) {
  return {std::move(name), dtype, kind, elements, 0, static_cast<int32_t>(byte_size(dtype))};
}

}  // namespace weft
