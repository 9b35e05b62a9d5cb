#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/program.h"
#include "support/dtype.h"

namespace weft {

/// A caller's tensor, not owned. `strides` count elements, one per axis, and may be zero or
/// negative (zero for outputs only where the extent is 1); empty means dense row-major. `data` is
/// the element at index 0 of every axis. One `on_device` lies in the memory of the GPU that the
/// program runs on, dense; whatever makes it has ended.
struct InputRef {
  DType dtype = DType::kF32;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  std::span<const int64_t> strides = {};
  bool on_device = false;
};
struct OutputRef {
  DType dtype = DType::kF32;
  std::span<const int64_t> shape;
  void* data = nullptr;
  std::span<const int64_t> strides = {};
  bool on_device = false;
};

/// Addresses [begin, end) that a tensor touches.
struct ByteRange {
  uintptr_t begin = 0, end = 0;
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};
/// nullopt when an offset does not fit in the address space. `strides` as above.
std::optional<ByteRange> touched_bytes(const void* data, DType dtype,
                                       std::span<const int64_t> shape,
                                       std::span<const int64_t> strides);

/// Whether the strides are those of a dense row-major tensor (axes of extent 1 do not count).
bool is_dense(std::span<const int64_t> shape, std::span<const int64_t> strides);

/// Whether no two elements share an address, by the sufficient rule that strides nest: each is at
/// least the span of the axes with smaller ones.
bool elements_are_distinct(std::span<const int64_t> shape, std::span<const int64_t> strides);

/// dense[...] = strided[...] and the reverse.
void copy_from_strided(std::byte* dense, const void* strided, int64_t element_bytes,
                       std::span<const int64_t> shape, std::span<const int64_t> strides);
void copy_to_strided(void* strided, const std::byte* dense, int64_t element_bytes,
                     std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace weft
