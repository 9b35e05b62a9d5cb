#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {
namespace {

/// The type that products are summed in: double for floats; integers wrap, so that the unsigned sum
/// is the exact one modulo the result's width.
template <typename T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

/// Rows of `a` are read in groups and columns of `b` in strips, so that the sums of a group stay in
/// the first-level cache and each element of b is converted once a group.
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 256;

/// c[m,n] = sum over k of a[m,k] * b[k,n], all row-major and dense; the sum over k is sequential in
/// double.
template <typename T, typename Store>
void multiply(int64_t m_extent, int64_t n_extent, int64_t k_extent, const T* a, const T* b,
              Store&& store) {
  const auto sums = std::make_unique<Sum<T>[]>(kRows * kColumns);
  for (int64_t m0 = 0; m0 < m_extent; m0 += kRows) {
    const int64_t rows = std::min(kRows, m_extent - m0);
    for (int64_t n0 = 0; n0 < n_extent; n0 += kColumns) {
      const int64_t columns = std::min(kColumns, n_extent - n0);
      std::fill_n(sums.get(), kRows * kColumns, Sum<T>{0});
      for (int64_t k = 0; k < k_extent; ++k) {
        const T* b_row = b + k * n_extent + n0;
        for (int64_t r = 0; r < rows; ++r) {
          const auto factor = static_cast<Sum<T>>(a[(m0 + r) * k_extent + k]);
          Sum<T>* sum = sums.get() + r * kColumns;
          for (int64_t n = 0; n < columns; ++n) sum[n] += factor * static_cast<Sum<T>>(b_row[n]);
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < columns; ++n) store(m0 + r, n0 + n, sums[r * kColumns + n]);
      }
    }
  }
}

/// The numbers that products are made of: float for the 16-bit types, int64 for integers.
template <typename S>
using Factor =
    std::conditional_t<std::is_floating_point_v<typename S::Value>, typename S::Value, int64_t>;

template <typename S, typename T>
typename S::Raw stored(Sum<T> sum) {
  return S::store(static_cast<typename S::Value>(sum));
}

/// x with its axes in the given order, as factors.
template <typename S>
std::vector<Factor<S>> packed(const HostTensor& x, const std::vector<int64_t>& order) {
  const std::vector<int64_t> strides = row_major_strides(x.shape());
  StridedPair pair;
  for (int64_t axis : order) {
    pair.extents.push_back(x.shape()[static_cast<size_t>(axis)]);
    pair.from_strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  pair.to_strides = row_major_strides(pair.extents);
  std::vector<Factor<S>> result(static_cast<size_t>(x.size()));
  const auto* from = x.data<typename S::Raw>();
  for_each_row(pair, [&](int64_t t, int64_t f, int64_t n, int64_t t_step, int64_t f_step) {
    for (int64_t i = 0; i < n; ++i) {
      result[static_cast<size_t>(t + i * t_step)] =
          static_cast<Factor<S>>(S::load(from[f + i * f_step]));
    }
  });
  return result;
}

std::vector<int64_t> free_axes(size_t rank, const std::vector<int64_t>& batch,
                               const std::vector<int64_t>& contract) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
    if (std::find(batch.begin(), batch.end(), i) == batch.end() &&
        std::find(contract.begin(), contract.end(), i) == contract.end()) {
      result.push_back(i);
    }
  }
  return result;
}

std::vector<int64_t> joined(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                            const std::vector<int64_t>& c) {
  std::vector<int64_t> result = a;
  result.insert(result.end(), b.begin(), b.end());
  result.insert(result.end(), c.begin(), c.end());
  return result;
}

int64_t product(const Shape& shape, const std::vector<int64_t>& axes) {
  int64_t result = 1;
  for (int64_t axis : axes) result *= shape[static_cast<size_t>(axis)];
  return result;
}

/// Per spatial axis, for window element k and output o: the element of x that they meet, -1 for
/// padding and for the gaps of a dilated x.
std::vector<int64_t> meeting_points(const ConvolutionAttrs& attrs, size_t axis, int64_t extent,
                                    int64_t window, int64_t outputs) {
  std::vector<int64_t> result;
  for (int64_t k = 0; k < window; ++k) {
    for (int64_t o = 0; o < outputs; ++o) {
      const int64_t at = o * attrs.strides[axis] - attrs.low[axis] + k * attrs.rhs_dilations[axis];
      const int64_t dilation = attrs.lhs_dilations[axis];
      const bool inside = at >= 0 && at % dilation == 0 && at / dilation < extent;
      result.push_back(inside ? at / dilation : -1);
    }
  }
  return result;
}

/// The geometry of one convolution, and the columns that turn it into a product of matrices.
struct Columns {
  std::vector<int64_t> x_extents, windows, outputs;
  std::vector<std::vector<int64_t>> points;
  int64_t window_size = 1, output_size = 1, x_size = 1;

  Columns(const ConvolutionAttrs& attrs, const Shape& x, const Shape& w, const Shape& result) {
    for (size_t axis = 0; axis + 2 < x.size(); ++axis) {
      x_extents.push_back(x[axis + 2]);
      windows.push_back(w[axis + 2]);
      outputs.push_back(result[axis + 2]);
      x_size *= x[axis + 2];
      window_size *= w[axis + 2];
      output_size *= result[axis + 2];
      points.push_back(meeting_points(attrs, axis, x[axis + 2], w[axis + 2], result[axis + 2]));
    }
  }

  /// Element `window` of the window over one channel of x, for outputs [begin, end).
  template <typename S>
  void fill_row(const typename S::Raw* channel, int64_t window, int64_t begin, int64_t end,
                Factor<S>* row) const {
    const size_t rank = outputs.size();
    std::vector<const int64_t*> table(rank);
    for (size_t axis = rank; axis-- > 0; window /= windows[axis]) {
      table[axis] = points[axis].data() + window % windows[axis] * outputs[axis];
    }
    const int64_t inner = outputs[rank - 1];
    for (int64_t position = begin; position < end;) {
      int64_t outer = position / inner;
      const int64_t first = position % inner;
      const int64_t count = std::min(inner - first, end - position);
      int64_t base = 0;
      int64_t stride = x_extents[rank - 1];
      bool inside = true;
      for (size_t axis = rank - 1; axis-- > 0; outer /= outputs[axis]) {
        const int64_t at = table[axis][outer % outputs[axis]];
        inside = inside && at >= 0;
        base += at * stride;
        stride *= x_extents[axis];
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = table[rank - 1][first + i];
        *row++ =
            inside && at >= 0 ? static_cast<Factor<S>>(S::load(channel[base + at])) : Factor<S>{0};
      }
      position += count;
    }
  }
};

/// Elements of the column buffer: a few megabytes, whatever the image.
constexpr int64_t kColumnElements = int64_t{1} << 19;

template <typename S, typename R>
void convolve(const ConvolutionAttrs& attrs, const HostTensor& x, const HostTensor& w,
              HostTensor& result) {
  using T = Factor<S>;
  const Columns columns(attrs, x.shape(), w.shape(), result.shape());
  const int64_t channels = w.shape()[1];
  const int64_t features = w.shape()[0] / attrs.groups;
  const int64_t depth = channels * columns.window_size;
  std::vector<int64_t> order(w.shape().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const std::vector<T> weights = packed<S>(w, order);
  const int64_t strip =
      std::clamp<int64_t>(kColumnElements / std::max<int64_t>(1, depth), 1, columns.output_size);
  std::vector<T> buffer(static_cast<size_t>(strip * depth));
  auto* to = result.mutable_data<typename R::Raw>();
  const auto* from = x.data<typename S::Raw>();
  for (int64_t image = 0; image < x.shape()[0] * attrs.groups; ++image) {
    // x [N, groups, channels, ..] and result [N, groups, features, ..] are both walked by image = n
    // * groups + group.
    const T* group_weights = weights.data() + image % attrs.groups * features * depth;
    for (int64_t begin = 0; begin < columns.output_size; begin += strip) {
      const int64_t end = std::min(begin + strip, columns.output_size);
      for (int64_t d = 0; d < depth; ++d) {
        const auto* channel = from + (image * channels + d / columns.window_size) * columns.x_size;
        columns.fill_row<S>(channel, d % columns.window_size, begin, end,
                            buffer.data() + d * (end - begin));
      }
      multiply(features, end - begin, depth, group_weights, buffer.data(),
               [&](int64_t m, int64_t n, Sum<T> sum) {
                 to[(image * features + m) * columns.output_size + begin + n] = stored<R, T>(sum);
               });
    }
  }
}

/// Calls body(operand storage, result storage) for the pairs that infer_types lets through.
template <typename Body>
void with_contraction(DType operand, DType result, Body&& body) {
  with_storage(operand, [&](auto s) {
    with_storage(result, [&](auto r) {
      using T = typename decltype(s)::Value;
      using U = typename decltype(r)::Value;
      constexpr bool kIsBool = std::is_same_v<T, bool> || std::is_same_v<U, bool>;
      if constexpr (!kIsBool && std::is_floating_point_v<T> == std::is_floating_point_v<U>) {
        body(s, r);
      }
    });
  });
}

}  // namespace

HostTensor evaluate_dot_general(const DotAttrs& attrs, const Operands& operands,
                                const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;  // the other extents may be huge
  const Shape& a_shape = operands[0].shape();
  const Shape& b_shape = operands[1].shape();
  const std::vector<int64_t> a_free =
      free_axes(a_shape.size(), attrs.lhs_batch, attrs.lhs_contract);
  const std::vector<int64_t> b_free =
      free_axes(b_shape.size(), attrs.rhs_batch, attrs.rhs_contract);
  const int64_t batches = product(a_shape, attrs.lhs_batch);
  const int64_t m = product(a_shape, a_free);
  const int64_t n = product(b_shape, b_free);
  const int64_t k = product(a_shape, attrs.lhs_contract);
  with_contraction(operands[0].dtype(), type.dtype, [&](auto s, auto r) {
    using S = decltype(s);
    using R = decltype(r);
    using T = Factor<S>;
    const std::vector<T> a =
        packed<S>(operands[0], joined(attrs.lhs_batch, a_free, attrs.lhs_contract));
    const std::vector<T> b =
        packed<S>(operands[1], joined(attrs.rhs_batch, attrs.rhs_contract, b_free));
    auto* to = result.mutable_data<typename R::Raw>();
    for (int64_t i = 0; i < batches; ++i) {
      multiply(m, n, k, a.data() + i * m * k, b.data() + i * k * n,
               [&](int64_t row, int64_t column, Sum<T> sum) {
                 to[(i * m + row) * n + column] = stored<R, T>(sum);
               });
    }
  });
  return result;
}

HostTensor evaluate_convolution(const ConvolutionAttrs& attrs, const Operands& operands,
                                const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  if (result.size() == 0) return result;
  if (operands[1].size() == 0) {  // no channels, but perhaps a window of any extent
    std::memset(result.mutable_raw(), 0, static_cast<size_t>(result.bytes()));
    return result;
  }
  with_contraction(operands[0].dtype(), type.dtype, [&](auto s, auto r) {
    convolve<decltype(s), decltype(r)>(attrs, operands[0], operands[1], result);
  });
  return result;
}

}  // namespace weft
