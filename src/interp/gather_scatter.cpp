#include <algorithm>
#include <cstring>

#include "graph/scalar_math.h"
#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {
namespace {

/// Index `i` of an i32 or i64 tensor, clamped into [0, extent).
int64_t clamped(const HostTensor& indices, int64_t i, int64_t extent) {
  const int64_t value =
      indices.dtype() == DType::kI32 ? indices.data<int32_t>()[i] : indices.data<int64_t>()[i];
  return std::clamp<int64_t>(value, 0, extent - 1);
}

void copy_elements(HostTensor& to, int64_t to_index, const HostTensor& from, int64_t from_index,
                   int64_t count) {
  const int64_t width = byte_size(to.dtype());
  std::memcpy(to.mutable_raw() + to_index * width, from.raw() + from_index * width,
              static_cast<size_t>(count * width));
}

HostTensor copy_of(const HostTensor& x) {
  HostTensor copy(x.dtype(), x.shape());
  copy_elements(copy, 0, x, 0, x.size());
  return copy;
}

/// For each element of a box of shape `indices` (row-major, i): the element of `data` at the same
/// coordinates, but with the index itself on `axis`.
template <typename Visit>
void for_each_indexed_element(const HostTensor& indices, const Shape& data, int64_t axis,
                              Visit&& visit) {
  const std::vector<int64_t> strides = row_major_strides(data);
  const size_t rank = data.size();
  const auto a = static_cast<size_t>(axis);
  std::vector<int64_t> index(rank, 0);
  for (int64_t i = 0; i < indices.size(); ++i) {
    int64_t offset = clamped(indices, i, data[a]) * strides[a];
    for (size_t d = 0; d < rank; ++d) {
      if (d != a) offset += index[d] * strides[d];
    }
    visit(i, offset);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < indices.shape()[d]) break;
      index[d] = 0;
    }
  }
}

/// The first element of `data` that index tuple `t` names, within batch `batch` of the leading
/// axes.
struct TupleIndex {
  TupleIndex(const Shape& data, int64_t batch_dims, int64_t tuple_length)
      : depth(tuple_length),
        first(static_cast<size_t>(batch_dims)),
        shape(data),
        strides(row_major_strides(data)),
        batch_stride(extent_between(data, first, data.size())),
        slice(extent_between(data, first + static_cast<size_t>(depth), data.size())) {}

  int64_t offset(const HostTensor& indices, int64_t t) const {
    int64_t result = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const size_t axis = first + static_cast<size_t>(k);
      result += clamped(indices, t * depth + k, shape[axis]) * strides[axis];
    }
    return result;
  }

  int64_t depth;
  size_t first;
  Shape shape;
  std::vector<int64_t> strides;
  int64_t batch_stride;
  int64_t slice;  ///< elements that one tuple names
};

/// to[to_index + i] becomes, or is combined with, updates[from_index + i].
void apply_updates(const ScatterAttrs& attrs, HostTensor& to, int64_t to_index,
                   const HostTensor& updates, int64_t from_index, int64_t count) {
  if (!attrs.combines) return copy_elements(to, to_index, updates, from_index, count);
  with_storage(to.dtype(), [&](auto s) {
    using S = decltype(s);
    auto* target = to.mutable_data<typename S::Raw>() + to_index;
    const auto* update = updates.data<typename S::Raw>() + from_index;
    with_binary<typename S::Value>(*combiner_op(attrs.combiner), [&](auto combine) {
      for (int64_t i = 0; i < count; ++i) {
        target[i] = S::store(combine(S::load(target[i]), S::load(update[i])));
      }
    });
  });
}

}  // namespace

HostTensor evaluate_gather(const GatherAttrs& attrs, const Operands& operands,
                           const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;
  const HostTensor& data = operands[0];
  const HostTensor& indices = operands[1];
  const auto axis = static_cast<size_t>(attrs.axis);
  const auto batch = static_cast<size_t>(attrs.batch_dims);
  const int64_t batches = extent_between(data.shape(), 0, batch);
  const int64_t middle = extent_between(data.shape(), batch, axis);
  const int64_t extent = data.shape()[axis];
  const int64_t inner = extent_between(data.shape(), axis + 1, data.shape().size());
  const int64_t picks = indices.size() / batches;
  int64_t to = 0;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t m = b * middle; m < (b + 1) * middle; ++m) {
      for (int64_t p = b * picks; p < (b + 1) * picks; ++p, to += inner) {
        const int64_t from = (m * extent + clamped(indices, p, extent)) * inner;
        copy_elements(result, to, data, from, inner);
      }
    }
  }
  return result;
}

HostTensor evaluate_gather_elements(const AxisAttrs& attrs, const Operands& operands,
                                    const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  for_each_indexed_element(
      operands[1], operands[0].shape(), attrs.axis,
      [&](int64_t i, int64_t offset) { copy_elements(result, i, operands[0], offset, 1); });
  return result;
}

HostTensor evaluate_gather_nd(const GatherNdAttrs& attrs, const Operands& operands,
                              const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;
  const HostTensor& indices = operands[1];
  const TupleIndex tuples(operands[0].shape(), attrs.batch_dims, indices.shape().back());
  const auto batch_dims = static_cast<size_t>(attrs.batch_dims);
  const int64_t batches = extent_between(indices.shape(), 0, batch_dims);
  const int64_t per_batch = extent_between(indices.shape(), batch_dims, indices.shape().size() - 1);
  for (int64_t b = 0, t = 0; b < batches; ++b) {
    for (int64_t k = 0; k < per_batch; ++k, ++t) {
      const int64_t from = b * tuples.batch_stride + tuples.offset(indices, t);
      copy_elements(result, t * tuples.slice, operands[0], from, tuples.slice);
    }
  }
  return result;
}

HostTensor evaluate_scatter_elements(const ScatterAttrs& attrs, const Operands& operands,
                                     const TensorType&) {
  HostTensor result = copy_of(operands[0]);
  for_each_indexed_element(operands[1], result.shape(), attrs.axis, [&](int64_t i, int64_t offset) {
    apply_updates(attrs, result, offset, operands[2], i, 1);
  });
  return result;
}

HostTensor evaluate_scatter_nd(const ScatterAttrs& attrs, const Operands& operands,
                               const TensorType&) {
  HostTensor result = copy_of(operands[0]);
  const HostTensor& indices = operands[1];
  if (operands[2].size() == 0) return result;
  const TupleIndex tuples(result.shape(), 0, indices.shape().back());
  const int64_t count = extent_between(indices.shape(), 0, indices.shape().size() - 1);
  for (int64_t t = 0; t < count; ++t) {
    apply_updates(attrs, result, tuples.offset(indices, t), operands[2], t * tuples.slice,
                  tuples.slice);
  }
  return result;
}

}  // namespace weft
