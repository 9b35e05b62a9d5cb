#include <algorithm>

#include "interp/accumulate.h"
#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {
namespace {

/// The elements of x that one window covers along one axis: count of them from `begin`, `step`
/// apart.
struct Run {
  int64_t begin = 0, count = 0, step = 1;
};

Run covered(const WindowAttrs& attrs, size_t axis, int64_t extent, int64_t output) {
  const int64_t dilation = attrs.dilations[axis];
  const int64_t origin = output * attrs.strides[axis] - attrs.low[axis];
  // The first and the last window element inside x: padding contributes nothing.
  const int64_t first = origin >= 0 ? 0 : (-origin + dilation - 1) / dilation;
  const int64_t room = extent - 1 - origin;
  const int64_t last = room < 0 ? -1 : std::min<int64_t>(attrs.window[axis] - 1, room / dilation);
  return {origin + first * dilation, std::max<int64_t>(0, last - first + 1), dilation};
}

}  // namespace

HostTensor evaluate_reduce_window(const WindowAttrs& attrs, const HostTensor& x,
                                  const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  const size_t rank = type.shape.size();
  const std::vector<int64_t> strides = row_major_strides(x.shape());
  std::vector<std::vector<Run>> runs(rank);
  for (size_t axis = 0; axis < rank && result.size() > 0; ++axis) {
    for (int64_t o = 0; o < type.shape[axis]; ++o) {
      runs[axis].push_back(covered(attrs, axis, x.shape()[axis], o));
    }
  }
  StridedPair window{Shape(rank), std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank)};
  std::vector<int64_t> index(rank, 0);
  with_storage(x.dtype(), [&](auto s) {
    using S = decltype(s);
    using A = Accumulator<typename S::Value>;
    const auto* from = x.data<typename S::Raw>();
    auto* to = result.mutable_data<typename S::Raw>();
    with_combiner<typename S::Value>(attrs.combiner, [&](auto combine, A identity) {
      for (int64_t out = 0; out < result.size(); ++out) {
        window.from_offset = 0;
        for (size_t axis = 0; axis < rank; ++axis) {
          const Run& run = runs[axis][static_cast<size_t>(index[axis])];
          window.extents[axis] = run.count;
          window.from_strides[axis] = run.step * strides[axis];
          window.from_offset += run.begin * strides[axis];
        }
        A sum = identity;
        for_each_row(window, [&](int64_t, int64_t f, int64_t n, int64_t, int64_t f_step) {
          for (int64_t i = 0; i < n; ++i) sum = combine(sum, A(S::load(from[f + i * f_step])));
        });
        to[out] = S::store(static_cast<typename S::Value>(sum));
        for (size_t axis = rank; axis-- > 0;) {
          if (++index[axis] < type.shape[axis]) break;
          index[axis] = 0;
        }
      }
    });
  });
  return result;
}

}  // namespace weft
