#include "runtime/tensor_ref.h"

#include <cstring>

namespace weft {
namespace {

/// Copies a tensor axis by axis; the innermost run that is contiguous on both sides moves as one.
/// Recursion is as deep as the rank.
struct StridedCopy {
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;
  int64_t element_bytes;
  size_t run_axis;    ///< axes from here on are contiguous
  int64_t run_bytes;  ///< of them all

  StridedCopy(std::span<const int64_t> extents, std::span<const int64_t> steps, int64_t bytes)
      : shape(extents),
        strides(steps),
        element_bytes(bytes),
        run_axis(extents.size()),
        run_bytes(bytes) {
    while (run_axis > 0 && strides[run_axis - 1] * element_bytes == run_bytes) {
      run_bytes *= shape[--run_axis];
    }
  }

  /// move(strided, dense, bytes) for every run; returns the dense position after the last.
  template <typename Move>
  int64_t visit(size_t axis, int64_t strided, int64_t dense, const Move& move) const {
    if (axis == run_axis) {
      move(strided, dense, static_cast<size_t>(run_bytes));
      return dense + run_bytes;
    }
    for (int64_t i = 0; i < shape[axis]; ++i) {
      dense = visit(axis + 1, strided + i * strides[axis] * element_bytes, dense, move);
    }
    return dense;
  }
};

bool is_empty(std::span<const int64_t> shape) {
  for (int64_t extent : shape) {
    if (extent == 0) return true;
  }
  return false;
}

/// a += b * c unless it overflows.
bool add_product(int64_t& a, int64_t b, int64_t c) {
  int64_t product = 0;
  return !__builtin_mul_overflow(b, c, &product) && !__builtin_add_overflow(a, product, &a);
}

}  // namespace

std::optional<ByteRange> touched_bytes(const void* data, DType dtype,
                                       std::span<const int64_t> shape,
                                       std::span<const int64_t> strides) {
  const auto start = reinterpret_cast<uintptr_t>(data);
  if (is_empty(shape)) return ByteRange{start, start};
  int64_t low = 0, high = 1, dense = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t stride = strides.empty() ? dense : strides[axis];
    if (!add_product(stride < 0 ? low : high, shape[axis] - 1, stride)) return std::nullopt;
    dense *= shape[axis];
  }
  int64_t low_bytes = 0, high_bytes = 0;
  if (!add_product(low_bytes, low, byte_size(dtype))) return std::nullopt;
  if (!add_product(high_bytes, high, byte_size(dtype))) return std::nullopt;
  ByteRange range;
  if (__builtin_sub_overflow(start, static_cast<uintptr_t>(-low_bytes), &range.begin)) {
    return std::nullopt;
  }
  if (__builtin_add_overflow(start, static_cast<uintptr_t>(high_bytes), &range.end)) {
    return std::nullopt;
  }
  return range;
}

bool is_dense(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (strides.empty() || is_empty(shape)) return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

bool elements_are_distinct(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (strides.empty() || is_empty(shape)) return true;
  // Axes by growing stride, picked one at a time: ranks are small and nothing is allocated.
  uint64_t span = 1;  // elements from the first to behind the last, of the axes so far
  uint64_t last_stride = 0;
  size_t last_axis = 0;
  for (size_t done = 0; done < shape.size(); ++done) {
    size_t next = shape.size();
    uint64_t next_stride = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const auto raw = static_cast<uint64_t>(strides[axis]);
      const uint64_t stride = strides[axis] < 0 ? uint64_t{0} - raw : raw;
      const bool after =
          done == 0 || stride > last_stride || (stride == last_stride && axis > last_axis);
      if (after && (next == shape.size() || stride < next_stride)) {
        next = axis;
        next_stride = stride;
      }
    }
    last_stride = next_stride;
    last_axis = next;
    if (shape[next] == 1) continue;
    if (next_stride < span) return false;
    span += static_cast<uint64_t>(shape[next] - 1) * next_stride;
  }
  return true;
}

void copy_from_strided(std::byte* dense, const void* strided, int64_t element_bytes,
                       std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (is_empty(shape)) return;
  const auto* from = static_cast<const std::byte*>(strided);
  const auto move = [&](int64_t at, int64_t dense_at, size_t bytes) {
    std::memcpy(dense + dense_at, from + at, bytes);
  };
  StridedCopy(shape, strides, element_bytes).visit(0, 0, 0, move);
}

void copy_to_strided(void* strided, const std::byte* dense, int64_t element_bytes,
                     std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (is_empty(shape)) return;
  auto* to = static_cast<std::byte*>(strided);
  const auto move = [&](int64_t at, int64_t dense_at, size_t bytes) {
    std::memcpy(to + at, dense + dense_at, bytes);
  };
  StridedCopy(shape, strides, element_bytes).visit(0, 0, 0, move);
}

}  // namespace weft
