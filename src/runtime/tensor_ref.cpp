#include "runtime/tensor_ref.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft {
namespace {

/// Copies a tensor axis by axis; the innermost run that is contiguous on both sides moves as one.
/// The axis along which the strided side goes in the smallest steps and the last one before the run
/// go together, in squares whose lines stay in the cache. Recursion is as deep as the rank.
class StridedCopy {
 public:
  StridedCopy(std::span<const int64_t> shape, std::span<const int64_t> strides,
              int64_t element_bytes)
      : shape_(shape),
        strides_(strides),
        element_bytes_(element_bytes),
        last_(shape.size()),
        run_bytes_(element_bytes),
        fast_(shape.size()) {
    while (last_ > 0 && strides[last_ - 1] * element_bytes == run_bytes_) {
      run_bytes_ *= shape[--last_];
    }
    all_bytes_ = fast_bytes_ = run_bytes_;
    if (last_-- == 0) return;
    int64_t least = std::abs(strides[last_]);
    for (size_t axis = last_ + 1; axis-- > 0;) {
      if (axis != last_ && shape[axis] > 1 && std::abs(strides[axis]) < least) {
        least = std::abs(strides[axis]);
        fast_ = axis;
        fast_bytes_ = all_bytes_;
      }
      all_bytes_ *= shape[axis];
    }
  }

  /// move(strided, dense, bytes) for every run, by positions in bytes.
  template <typename Move>
  void run(const Move& move) const {
    if (all_bytes_ == run_bytes_) return move(0, 0, run_bytes_);
    // The usual sizes as constants: moves are single instructions.
    switch (run_bytes_) {
      case 1:
        return visit<1>(0, 0, 0, all_bytes_, move);
      case 2:
        return visit<2>(0, 0, 0, all_bytes_, move);
      case 4:
        return visit<4>(0, 0, 0, all_bytes_, move);
      case 8:
        return visit<8>(0, 0, 0, all_bytes_, move);
      default:
        return visit<0>(0, 0, 0, all_bytes_, move);
    }
  }

 private:
  template <int64_t kRunBytes, typename Move>
  void visit(size_t axis, int64_t strided, int64_t dense, int64_t bytes, const Move& move) const {
    if (axis == last_) return plane<kRunBytes>(strided, dense, move);
    bytes /= shape_[axis];
    if (axis == fast_) return visit<kRunBytes>(axis + 1, strided, dense, bytes, move);
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      visit<kRunBytes>(axis + 1, strided + i * strides_[axis] * element_bytes_, dense + i * bytes,
                       bytes, move);
    }
  }

  template <int64_t kRunBytes, typename Move>
  void plane(int64_t strided, int64_t dense, const Move& move) const {
    constexpr int64_t kSquare = 32;
    const bool has_fast = fast_ < shape_.size();
    const int64_t fast = has_fast ? shape_[fast_] : 1, last = shape_[last_];
    const int64_t fast_step = has_fast ? strides_[fast_] * element_bytes_ : 0;
    const int64_t last_step = strides_[last_] * element_bytes_;
    const int64_t bytes = kRunBytes == 0 ? run_bytes_ : kRunBytes;
    for (int64_t f0 = 0; f0 < fast; f0 += kSquare) {
      for (int64_t l0 = 0; l0 < last; l0 += kSquare) {
        for (int64_t l = l0; l < std::min(last, l0 + kSquare); ++l) {
          for (int64_t f = f0; f < std::min(fast, f0 + kSquare); ++f) {
            move(strided + f * fast_step + l * last_step, dense + f * fast_bytes_ + l * bytes,
                 bytes);
          }
        }
      }
    }
  }

  std::span<const int64_t> shape_, strides_;
  int64_t element_bytes_;
  size_t last_;         ///< axes behind it are contiguous
  int64_t run_bytes_;   ///< of these
  size_t fast_;         ///< the rank where `last_` has the smallest steps
  int64_t fast_bytes_;  ///< a step along it, on the dense side
  int64_t all_bytes_;
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
  StridedCopy(shape, strides, element_bytes).run([&](int64_t at, int64_t dense_at, int64_t bytes) {
    std::memcpy(dense + dense_at, from + at, static_cast<size_t>(bytes));
  });
}

void copy_to_strided(void* strided, const std::byte* dense, int64_t element_bytes,
                     std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (is_empty(shape)) return;
  auto* to = static_cast<std::byte*>(strided);
  StridedCopy(shape, strides, element_bytes).run([&](int64_t at, int64_t dense_at, int64_t bytes) {
    std::memcpy(to + at, dense + dense_at, static_cast<size_t>(bytes));
  });
}

}  // namespace weft
