#include <algorithm>
#include <cmath>
#include <numeric>

#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {
namespace {

/// A total order up to equality: NaN lies above every number, and equals itself.
template <typename T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return false;
    if (std::isnan(b)) return true;
  }
  return a < b;
}

/// The first `keep` elements of each lane along `axis` in order, equals in that of their indices.
std::vector<HostTensor> ordered(const HostTensor& x, int64_t axis, int64_t keep, bool descending,
                                const TensorType& type) {
  HostTensor values(type.dtype, type.shape);
  HostTensor indices(DType::kI64, type.shape);
  if (values.size() == 0) return {std::move(values), std::move(indices)};
  const auto a = static_cast<size_t>(axis);
  const int64_t outer = extent_between(x.shape(), 0, a);
  const int64_t inner = extent_between(x.shape(), a + 1, x.shape().size());
  const int64_t extent = x.shape()[a];
  std::vector<int64_t> order(static_cast<size_t>(extent));
  with_storage(x.dtype(), [&](auto s) {
    using S = decltype(s);
    const auto* from = x.data<typename S::Raw>();
    for (int64_t lane = 0; lane < outer * inner; ++lane) {
      const auto* source = from + lane / inner * extent * inner + lane % inner;
      const auto before = [&](int64_t i, int64_t j) {
        const auto left = S::load(source[i * inner]);
        const auto right = S::load(source[j * inner]);
        if (less(left, right)) return !descending;
        if (less(right, left)) return descending;
        return i < j;
      };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + keep, order.end(), before);
      for (int64_t k = 0; k < keep; ++k) {
        const int64_t to = (lane / inner * keep + k) * inner + lane % inner;
        const int64_t index = order[static_cast<size_t>(k)];
        values.mutable_data<typename S::Raw>()[to] = source[index * inner];
        indices.mutable_data<int64_t>()[to] = index;
      }
    }
  });
  return {std::move(values), std::move(indices)};
}

}  // namespace

std::vector<HostTensor> evaluate_sort(const SortAttrs& attrs, const HostTensor& x,
                                      const TensorType& type) {
  const int64_t extent = x.shape()[static_cast<size_t>(attrs.axis)];
  return ordered(x, attrs.axis, extent, attrs.descending, type);
}

std::vector<HostTensor> evaluate_top_k(const TopKAttrs& attrs, const HostTensor& x,
                                       const TensorType& type) {
  return ordered(x, attrs.axis, attrs.k, attrs.largest, type);
}

}  // namespace weft
