#include "driver/pack_constant.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace weft {

namespace {

template <typename T>
class Packer {
 public:
  Packer(const HostTensor& value, const Layout& layout, T* out)
      : from_(value.data<T>()),
        shape_(value.shape()),
        layout_(layout),
        to_(out),
        coordinate_(shape_.size(), 0) {
    stride_.assign(shape_.size(), 1);
    for (size_t d = shape_.size(); d-- > 1;) stride_[d - 1] = stride_[d] * shape_[d];
  }
  void run() { axis(0, 0); }

 private:
  void axis(size_t p, int64_t offset) {
    const Layout::Axis& a = layout_.axes[p];
    const auto d = static_cast<size_t>(a.axis);
    const int64_t step = a.divisor * stride_[d];
    if (p + 1 == layout_.axes.size()) {
      const int64_t room = (shape_[d] - coordinate_[d] + a.divisor - 1) / a.divisor;
      const int64_t count = std::clamp<int64_t>(inside_ ? room : 0, 0, a.extent);
      for (int64_t i = 0; i < count; ++i) to_[i] = from_[offset + i * step];
      std::memset(static_cast<void*>(to_ + count), 0,
                  static_cast<size_t>(a.extent - count) * sizeof(T));
      to_ += a.extent;
      return;
    }
    const bool outer_inside = inside_;
    for (int64_t i = 0; i < a.extent; ++i) {
      inside_ = outer_inside && coordinate_[d] < shape_[d];
      axis(p + 1, offset + i * step);
      coordinate_[d] += a.divisor;
    }
    coordinate_[d] -= a.divisor * a.extent;
    inside_ = outer_inside;
  }

  const T* from_;
  const Shape& shape_;
  const Layout& layout_;
  T* to_;
  std::vector<int64_t> coordinate_, stride_;
  bool inside_ = true;
};

}  // namespace

HostTensor pack_constant(const HostTensor& value, const Layout& layout) {
  HostTensor out(value.dtype(), {physical_size(layout, value.shape())});
  switch (byte_size(value.dtype())) {
    case 1:
      Packer<uint8_t>(value, layout, out.mutable_data<uint8_t>()).run();
      break;
    case 2:
      Packer<uint16_t>(value, layout, out.mutable_data<uint16_t>()).run();
      break;
    case 4:
      Packer<uint32_t>(value, layout, out.mutable_data<uint32_t>()).run();
      break;
    default:
      Packer<uint64_t>(value, layout, out.mutable_data<uint64_t>()).run();
      break;
  }
  return out;
}

}  // namespace weft
