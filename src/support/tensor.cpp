#include "support/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "support/check.h"

namespace weft {
namespace {

constexpr std::align_val_t kAlignment{64};

int64_t checked_count(DType type, const Shape& shape) {
  WEFT_CHECK(checked_byte_size(type, shape).has_value(), "tensor too large or extent negative");
  return *element_count(shape);
}

template <typename T>
T load(const std::byte* data, int64_t i) {
  T value;  // by memcpy: a view into a mapped file need not be aligned
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* data, int64_t i, T value) {
  std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

int64_t truncate_saturating(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

/// The aligned copy of a view, made by the first thread that asks.
struct HostTensor::Realigned {
  std::once_flag once;
  HostTensor copy;
};

HostTensor::HostTensor(DType type, Shape shape)
    : dtype_(type), shape_(std::move(shape)), size_(checked_count(dtype_, shape_)) {
  // At least one byte, so that raw() is never null and every tensor has its own address.
  const auto bytes = static_cast<size_t>(size_ == 0 ? 1 : size_ * byte_size(dtype_));
  owner_ = std::shared_ptr<void>(::operator new(bytes, kAlignment),
                                 [](void* p) { ::operator delete(p, kAlignment); });
  data_ = static_cast<const std::byte*>(owner_.get());
}

HostTensor::HostTensor(DType type, Shape shape, std::shared_ptr<const void> owner,
                       std::span<const std::byte> bytes)
    : dtype_(type),
      shape_(std::move(shape)),
      size_(checked_count(dtype_, shape_)),
      owner_(std::move(owner)),
      data_(bytes.data()) {
  WEFT_CHECK(static_cast<int64_t>(bytes.size()) == size_ * byte_size(dtype_),
             "the bytes do not match the shape");
  const auto alignment = static_cast<uintptr_t>(byte_size(dtype_));
  if (reinterpret_cast<uintptr_t>(data_) % alignment != 0) {
    realigned_ = std::make_shared<Realigned>();
  }
}

const std::byte* HostTensor::aligned_data() const {
  std::call_once(realigned_->once, [&] {
    realigned_->copy = HostTensor(dtype_, shape_);
    std::memcpy(realigned_->copy.mutable_raw(), data_, static_cast<size_t>(bytes()));
  });
  return realigned_->copy.data_;
}

double HostTensor::at_double(int64_t i) const {
  switch (dtype_) {
    case DType::kF32:
      return load<float>(data_, i);
    case DType::kF64:
      return load<double>(data_, i);
    case DType::kF16:
      return half_to_float(load<uint16_t>(data_, i));
    case DType::kBF16:
      return bfloat16_to_float(load<uint16_t>(data_, i));
    case DType::kU64:
      return static_cast<double>(load<uint64_t>(data_, i));
    default:
      return static_cast<double>(at_int(i));
  }
}

int64_t HostTensor::at_int(int64_t i) const {
  switch (dtype_) {
    case DType::kBool:
      return load<uint8_t>(data_, i) != 0;
    case DType::kI8:
      return load<int8_t>(data_, i);
    case DType::kI16:
      return load<int16_t>(data_, i);
    case DType::kI32:
      return load<int32_t>(data_, i);
    case DType::kI64:
      return load<int64_t>(data_, i);
    case DType::kU8:
      return load<uint8_t>(data_, i);
    case DType::kU16:
      return load<uint16_t>(data_, i);
    case DType::kU32:
      return load<uint32_t>(data_, i);
    case DType::kU64:
      return static_cast<int64_t>(load<uint64_t>(data_, i));
    default:
      return truncate_saturating(at_double(i));
  }
}

void HostTensor::set_double(int64_t i, double value) {
  switch (dtype_) {
    case DType::kF32:
      return store(mutable_raw(), i, static_cast<float>(value));
    case DType::kF64:
      return store(mutable_raw(), i, value);
    case DType::kF16:
      return store(mutable_raw(), i, float_to_half(static_cast<float>(value)));
    case DType::kBF16:
      return store(mutable_raw(), i, float_to_bfloat16(static_cast<float>(value)));
    case DType::kBool:
      return store(mutable_raw(), i, static_cast<uint8_t>(value != 0));
    default:
      return set_int(i, truncate_saturating(value));
  }
}

void HostTensor::set_int(int64_t i, int64_t value) {
  switch (dtype_) {
    case DType::kBool:
      return store(mutable_raw(), i, static_cast<uint8_t>(value != 0));
    case DType::kI8:
    case DType::kU8:
      return store(mutable_raw(), i, static_cast<uint8_t>(value));
    case DType::kI16:
    case DType::kU16:
      return store(mutable_raw(), i, static_cast<uint16_t>(value));
    case DType::kI32:
    case DType::kU32:
      return store(mutable_raw(), i, static_cast<uint32_t>(value));
    case DType::kI64:
    case DType::kU64:
      return store(mutable_raw(), i, value);
    default:
      return set_double(i, static_cast<double>(value));
  }
}

HostTensor HostTensor::reshaped(Shape shape) const {
  HostTensor result = *this;
  WEFT_CHECK(element_count(shape) == size_, "reshaped() must keep the number of elements");
  result.shape_ = std::move(shape);
  return result;
}

}  // namespace weft
