#include <algorithm>

#include "interp/accumulate.h"
#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {
namespace {

/// A tensor around one axis: element (o, k, i) lies at (o * extent + k) * inner + i.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
  AxisView(const Shape& shape, int64_t axis)
      : outer(extent_between(shape, 0, static_cast<size_t>(axis))),
        extent(shape[static_cast<size_t>(axis)]),
        inner(extent_between(shape, static_cast<size_t>(axis) + 1, shape.size())) {}
};

/// Whether `candidate` takes the place of `best`, which stands at a lower index.
template <typename T>
bool wins(T candidate, T best, bool max, bool last_on_ties) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(best)) return std::isnan(candidate) && last_on_ties;
    if (std::isnan(candidate)) return true;
  }
  if (candidate == best) return last_on_ties;
  return max ? candidate > best : candidate < best;
}

}  // namespace

HostTensor evaluate_reduce(const ReduceAttrs& attrs, const HostTensor& x, const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  // x is walked in its own order; every element goes to the accumulator of its kept axes.
  StridedPair pair{x.shape(), std::vector<int64_t>(x.shape().size(), 0),
                   row_major_strides(x.shape())};
  const std::vector<int64_t> result_strides = row_major_strides(type.shape);
  size_t kept = 0;
  for (size_t i = 0; i < x.shape().size(); ++i) {
    if (!std::binary_search(attrs.axes.begin(), attrs.axes.end(), static_cast<int64_t>(i))) {
      pair.to_strides[i] = result_strides[kept++];
    }
  }
  with_storage(x.dtype(), [&](auto s) {
    using S = decltype(s);
    using A = Accumulator<typename S::Value>;
    const auto* from = x.data<typename S::Raw>();
    with_combiner<typename S::Value>(attrs.combiner, [&](auto combine, A identity) {
      const auto count = static_cast<size_t>(result.size());
      const auto sums = std::make_unique<A[]>(count);
      std::fill_n(sums.get(), count, identity);
      for_each_row(pair, [&](int64_t t, int64_t f, int64_t n, int64_t t_step, int64_t f_step) {
        A* to = sums.get() + t;
        if (t_step == 0) {
          A sum = *to;
          for (int64_t i = 0; i < n; ++i) sum = combine(sum, A(S::load(from[f + i * f_step])));
          *to = sum;
        } else {
          for (int64_t i = 0; i < n; ++i) {
            to[i * t_step] = combine(to[i * t_step], A(S::load(from[f + i * f_step])));
          }
        }
      });
      auto* to = result.mutable_data<typename S::Raw>();
      for (size_t i = 0; i < count; ++i) {
        to[i] = S::store(static_cast<typename S::Value>(sums[i]));
      }
    });
  });
  return result;
}

HostTensor evaluate_arg_reduce(const ArgReduceAttrs& attrs, const HostTensor& x,
                               const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;  // the other extents may be huge
  const AxisView view(x.shape(), attrs.axis);
  const bool max = attrs.combiner == Combiner::kArgMax;
  auto* to = result.mutable_data<int64_t>();
  with_storage(x.dtype(), [&](auto s) {
    using S = decltype(s);
    const auto* from = x.data<typename S::Raw>();
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto* lane = from + o * view.extent * view.inner + i;
        auto best = S::load(lane[0]);
        int64_t index = 0;
        for (int64_t k = 1; k < view.extent; ++k) {
          const auto candidate = S::load(lane[k * view.inner]);
          if (!wins(candidate, best, max, attrs.last_on_ties)) continue;
          best = candidate;
          index = k;
        }
        to[o * view.inner + i] = index;
      }
    }
  });
  return result;
}

HostTensor evaluate_cumulative(const CumulativeAttrs& attrs, const HostTensor& x,
                               const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;
  const AxisView view(x.shape(), attrs.axis);
  const int64_t step = attrs.reverse ? -view.inner : view.inner;
  const int64_t first = attrs.reverse ? (view.extent - 1) * view.inner : 0;
  with_storage(x.dtype(), [&](auto s) {
    using S = decltype(s);
    using A = Accumulator<typename S::Value>;
    with_combiner<typename S::Value>(attrs.combiner, [&](auto combine, A identity) {
      for (int64_t o = 0; o < view.outer; ++o) {
        for (int64_t i = 0; i < view.inner; ++i) {
          const int64_t lane = o * view.extent * view.inner + first + i;
          const auto* from = x.data<typename S::Raw>() + lane;
          auto* to = result.mutable_data<typename S::Raw>() + lane;
          A sum = identity;
          for (int64_t k = 0; k < view.extent; ++k) {
            const A next = combine(sum, A(S::load(from[k * step])));
            to[k * step] = S::store(static_cast<typename S::Value>(attrs.exclusive ? sum : next));
            sum = next;
          }
        }
      }
    });
  });
  return result;
}

}  // namespace weft
