#include <algorithm>
#include <cstring>

#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i] == 0 ? 1 : shape[i];
  }
  return strides;
}

int64_t extent_between(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

void merge_axes(StridedPair& pair) {
  size_t kept = 0;
  for (size_t i = 0; i < pair.extents.size(); ++i) {
    const int64_t extent = pair.extents[i];
    if (extent == 1) continue;
    const bool merges = kept > 0 && pair.to_strides[kept - 1] == pair.to_strides[i] * extent &&
                        pair.from_strides[kept - 1] == pair.from_strides[i] * extent;
    if (merges) {
      --kept;
      pair.extents[kept] *= extent;
    } else {
      pair.extents[kept] = extent;
    }
    pair.to_strides[kept] = pair.to_strides[i];
    pair.from_strides[kept] = pair.from_strides[i];
    ++kept;
  }
  if (kept == 0) {
    pair.extents.assign(1, 1);
    pair.to_strides.assign(1, 1);
    pair.from_strides.assign(1, 1);
    return;
  }
  pair.extents.resize(kept);
  pair.to_strides.resize(kept);
  pair.from_strides.resize(kept);
}

void copy_box(HostTensor& to, const HostTensor& from, const StridedPair& pair) {
  with_width(byte_size(to.dtype()), [&](auto word) {
    using Word = decltype(word);
    Word* to_data = to.mutable_data<Word>();
    const Word* from_data = from.data<Word>();
    for_each_row(pair, [&](int64_t t, int64_t f, int64_t count, int64_t t_step, int64_t f_step) {
      if (t_step == 1 && f_step == 1) {
        std::memcpy(to_data + t, from_data + f, static_cast<size_t>(count) * sizeof(Word));
        return;
      }
      for (int64_t i = 0; i < count; ++i) to_data[t + i * t_step] = from_data[f + i * f_step];
    });
  });
}

HostTensor evaluate_broadcast(const BroadcastAttrs& attrs, const HostTensor& x,
                              const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  const std::vector<int64_t> x_strides = row_major_strides(x.shape());
  StridedPair pair{type.shape, row_major_strides(type.shape),
                   std::vector<int64_t>(type.shape.size(), 0)};
  for (size_t i = 0; i < attrs.dims.size(); ++i) {
    if (x.shape()[i] != 1) pair.from_strides[static_cast<size_t>(attrs.dims[i])] = x_strides[i];
  }
  copy_box(result, x, pair);
  return result;
}

HostTensor evaluate_transpose(const TransposeAttrs& attrs, const HostTensor& x,
                              const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  const std::vector<int64_t> x_strides = row_major_strides(x.shape());
  StridedPair pair{type.shape, row_major_strides(type.shape), {}};
  for (int64_t axis : attrs.permutation) {
    pair.from_strides.push_back(x_strides[static_cast<size_t>(axis)]);
  }
  copy_box(result, x, pair);
  return result;
}

HostTensor evaluate_slice(const SliceAttrs& attrs, const HostTensor& x, const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;
  StridedPair pair{type.shape, row_major_strides(type.shape), row_major_strides(x.shape())};
  for (size_t i = 0; i < attrs.start.size(); ++i) {
    pair.from_offset += attrs.start[i] * pair.from_strides[i];
    // The step of a single element is never taken, and may be anything.
    if (type.shape[i] > 1) pair.from_strides[i] *= attrs.step[i];
  }
  copy_box(result, x, pair);
  return result;
}

HostTensor evaluate_pad(const PadAttrs& attrs, const Operands& operands, const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  const HostTensor& x = operands[0];
  StridedPair fill{type.shape, row_major_strides(type.shape),
                   std::vector<int64_t>(type.shape.size(), 0)};
  copy_box(result, operands[1], fill);
  // What is left of x: x[begin, end) lands at begin + low.
  StridedPair pair{type.shape, fill.to_strides, row_major_strides(x.shape())};
  for (size_t i = 0; i < type.shape.size(); ++i) {
    const int64_t begin = std::max<int64_t>(0, -attrs.low[i]);
    const int64_t end = std::min(x.shape()[i], type.shape[i] - attrs.low[i]);
    if (end <= begin) return result;
    pair.extents[i] = end - begin;
    pair.from_offset += begin * pair.from_strides[i];
    pair.to_offset += (begin + attrs.low[i]) * pair.to_strides[i];
  }
  copy_box(result, x, pair);
  return result;
}

HostTensor evaluate_concat(const ConcatAttrs& attrs, const Operands& operands,
                           const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  const auto axis = static_cast<size_t>(attrs.axis);
  StridedPair pair{{}, row_major_strides(type.shape), {}};
  for (const HostTensor& x : operands) {
    pair.extents = x.shape();
    pair.from_strides = row_major_strides(x.shape());
    copy_box(result, x, pair);
    pair.to_offset += x.shape()[axis] * pair.to_strides[axis];
  }
  return result;
}

}  // namespace weft
