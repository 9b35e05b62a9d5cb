#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "support/dtype.h"

namespace weft {

/// A dense row-major tensor on the host. The bytes are shared and may belong to a mapped file:
/// treat them as read-only unless this object allocated them.
class HostTensor {
 public:
  HostTensor() = default;
  /// Uninitialised storage, aligned to 64 bytes.
  HostTensor(DType type, Shape shape);
  /// A view of `bytes` kept alive by `owner`. No copy, unless data() is asked for where they are
  /// not aligned for the type: that makes one, once, shared by all copies of this tensor.
  HostTensor(DType type, Shape shape, std::shared_ptr<const void> owner,
             std::span<const std::byte> bytes);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size() const { return size_; }
  int64_t bytes() const { return size_ * byte_size(dtype_); }

  /// The bytes, aligned to 64 if this object allocated them, anyhow in a view.
  const std::byte* raw() const { return data_; }
  /// What keeps the bytes.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  std::byte* mutable_raw() { return const_cast<std::byte*>(data_); }

  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(realigned_ == nullptr ? data_ : aligned_data());
  }
  template <typename T>
  T* mutable_data() {
    return reinterpret_cast<T*>(mutable_raw());
  }

  /// Element `i` in row-major order, converted. Integers above 2^53 lose digits through the double
  /// form.
  double at_double(int64_t i) const;
  int64_t at_int(int64_t i) const;
  void set_double(int64_t i, double value);
  void set_int(int64_t i, int64_t value);

  /// The same bytes under another shape with as many elements.
  HostTensor reshaped(Shape shape) const;

 private:
  struct Realigned;
  const std::byte* aligned_data() const;

  DType dtype_ = DType::kF32;
  Shape shape_;
  int64_t size_ = 0;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::shared_ptr<Realigned> realigned_;  ///< of a view that is not aligned for its type
};

}  // namespace weft
