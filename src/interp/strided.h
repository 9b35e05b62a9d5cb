#pragma once

#include <cstdint>
#include <vector>

#include "support/dtype.h"
#include "support/tensor.h"

namespace weft {

/// Row-major strides in elements: [2,3,4] -> [12,4,1].
std::vector<int64_t> row_major_strides(const Shape& shape);

/// The product of shape[begin, end).
int64_t extent_between(const Shape& shape, size_t begin, size_t end);

/// A box of elements as seen from two tensors: element i of the box lies at to_offset +
/// i·to_strides in one and at from_offset + i·from_strides in the other. Strides may be 0 or
/// negative.
struct StridedPair {
  Shape extents;
  std::vector<int64_t> to_strides, from_strides;
  int64_t to_offset = 0, from_offset = 0;
};

/// Drops axes of extent 1 and merges neighbours that both tensors walk as one. Afterwards there is
/// at least one axis.
void merge_axes(StridedPair& pair);

/// Calls row(to, from, count, to_stride, from_stride) for each innermost row of the box, in
/// row-major order; never for an empty box.
template <typename Row>
void for_each_row(StridedPair pair, Row&& row) {
  merge_axes(pair);
  const size_t last = pair.extents.size() - 1;
  for (int64_t extent : pair.extents) {
    if (extent == 0) return;
  }
  std::vector<int64_t> index(last, 0);
  int64_t to = pair.to_offset;
  int64_t from = pair.from_offset;
  while (true) {
    row(to, from, pair.extents[last], pair.to_strides[last], pair.from_strides[last]);
    size_t axis = last;
    while (axis > 0) {
      --axis;
      to += pair.to_strides[axis];
      from += pair.from_strides[axis];
      if (++index[axis] < pair.extents[axis]) break;
      to -= pair.to_strides[axis] * pair.extents[axis];
      from -= pair.from_strides[axis] * pair.extents[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (last == 0) return;
  }
}

/// Copies the box from `from` into `to`, tensors of one element width.
void copy_box(HostTensor& to, const HostTensor& from, const StridedPair& pair);

}  // namespace weft
