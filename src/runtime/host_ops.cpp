#include "runtime/host_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "support/storage.h"

namespace weft {
namespace {

using Op = HostStep::Op;
using Operands = std::span<const HostOperand>;

/// HostStep::combiner.
constexpr uint8_t kSum = 0, kProd = 1, kMin = 2, kMax = 3, kAnd = 4, kOr = 5;

int64_t extent(const HostOperand& x, size_t axis) { return (*x.shape)[axis]; }
int64_t count(const HostOperand& x) { return *element_count(*x.shape); }
int64_t rank(const HostOperand& x) { return static_cast<int64_t>(x.shape->size()); }

/// A tensor as [outer, extent, inner] around an axis.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};

AxisView around(const Shape& shape, int64_t axis) {
  AxisView view;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    (at < axis ? view.outer : at == axis ? view.extent : view.inner) *= shape[i];
  }
  return view;
}

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

/// Less-than with NaN above every number.
template <typename T>
bool orders_below(T a, T b) {
  if (is_nan(a)) return false;
  if (is_nan(b)) return true;
  return a < b;
}

template <typename T>
T wrapping_sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <typename T>
T wrapping_product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// graph/scalar_op.h's combine(): NaN wins in min and max, integers wrap, and/or are bitwise.
template <typename T>
T combine_values(uint8_t combiner, T a, T b) {
  switch (combiner) {
    case kSum:
      return wrapping_sum(a, b);
    case kProd:
      return wrapping_product(a, b);
    case kMin:
      return is_nan(a) || (!is_nan(b) && !(b < a)) ? a : b;
    case kMax:
      return is_nan(a) || (!is_nan(b) && !(a < b)) ? a : b;
    default:
      if constexpr (std::is_floating_point_v<T>) {
        return combiner == kAnd ? T(a != 0 && b != 0) : T(a != 0 || b != 0);
      } else {
        return static_cast<T>(combiner == kAnd ? a & b : a | b);
      }
  }
}

template <typename T>
T combiner_start(uint8_t combiner) {
  using Limits = std::numeric_limits<T>;
  switch (combiner) {
    case kProd:
      return T{1};
    case kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case kAnd:
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        return static_cast<T>(~T{0});
      } else {
        return T{1};
      }
    default:
      return T{0};
  }
}

void run_copy(const HostOperand& from, const HostOperand& to) {
  const int64_t bytes = count(from) * byte_size(from.dtype);
  if (from.data != to.data && bytes > 0) {
    std::memmove(to.data, from.data, static_cast<size_t>(bytes));
  }
}

/// One line along the axis, in scratch: its values, and the order of their indices.
template <typename Raw>
struct Line {
  Raw* values;
  int64_t* order;
  int64_t extent;

  Line(std::byte* scratch, int64_t line_extent)
      : values(reinterpret_cast<Raw*>(scratch + line_extent * 8)),
        order(reinterpret_cast<int64_t*>(scratch)),
        extent(line_extent) {}

  void read(const Raw* from, int64_t stride) {
    for (int64_t i = 0; i < extent; ++i) {
      values[i] = from[i * stride];
      order[i] = i;
    }
  }
  void write(Raw* to, int64_t* indices, int64_t stride, int64_t how_many) const {
    for (int64_t i = 0; i < how_many; ++i) {
      to[i * stride] = values[order[i]];
      indices[i * stride] = order[i];
    }
  }
};

/// Sort and top_k: the first `keep` of each line in order. Ties go by index, which makes any
/// sorting algorithm a stable one.
void run_sort(const HostStep& step, const HostOperand& x, const HostOperand& values,
              const HostOperand& indices, int64_t keep, std::byte* scratch) {
  with_storage(x.dtype, [&](auto storage) {
    using S = decltype(storage);
    using Raw = typename S::Raw;
    const AxisView view = around(*x.shape, step.axis);
    if (view.extent == 0 || keep == 0) return;
    Line<Raw> line(scratch, view.extent);
    const auto before = [&](int64_t i, int64_t j) {
      const auto a = S::load(line.values[i]), b = S::load(line.values[j]);
      if (orders_below(a, b)) return !step.descending;
      if (orders_below(b, a)) return step.descending;
      return i < j;
    };
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t i = 0; i < view.inner; ++i) {
        line.read(reinterpret_cast<const Raw*>(x.data) + o * view.extent * view.inner + i,
                  view.inner);
        int64_t* const order = line.order;
        if (keep == view.extent) {
          std::sort(order, order + view.extent, before);
        } else {
          std::partial_sort(order, order + keep, order + view.extent, before);
        }
        const int64_t at = o * keep * view.inner + i;
        line.write(reinterpret_cast<Raw*>(values.data) + at,
                   reinterpret_cast<int64_t*>(indices.data) + at, view.inner, keep);
      }
    }
  });
}

/// Index `i`, clamped into [0, extent): what is asked for outside lands on the border.
int64_t clamped_index(const HostOperand& indices, int64_t i, int64_t extent) {
  const int64_t index = indices.dtype == DType::kI32
                            ? reinterpret_cast<const int32_t*>(indices.data)[i]
                            : reinterpret_cast<const int64_t*>(indices.data)[i];
  return std::clamp<int64_t>(index, 0, extent - 1);
}

template <typename S>
void put(const HostStep& step, typename S::Raw* to, typename S::Raw update) {
  *to = step.combines ? S::store(combine_values(step.combiner, S::load(*to), S::load(update)))
                      : update;
}

void run_scatter_elements(const HostStep& step, Operands in, const HostOperand& result) {
  const HostOperand &data = in[0], &indices = in[1], &updates = in[2];
  run_copy(data, result);
  if (count(data) == 0) return;
  with_storage(data.dtype, [&](auto storage) {
    using S = decltype(storage);
    using Raw = typename S::Raw;
    const auto* from = reinterpret_cast<const Raw*>(updates.data);
    auto* to = reinterpret_cast<Raw*>(result.data);
    const int64_t n = count(updates);
    for (int64_t u = 0; u < n; ++u) {
      const int64_t index = clamped_index(indices, u, extent(data, static_cast<size_t>(step.axis)));
      int64_t rest = u, stride = 1, offset = 0;
      for (size_t d = updates.shape->size(); d-- > 0;) {
        const int64_t at = rest % extent(updates, d);
        rest /= extent(updates, d);
        offset += (static_cast<int64_t>(d) == step.axis ? index : at) * stride;
        stride *= extent(data, d);
      }
      put<S>(step, to + offset, from[u]);
    }
  });
}

void run_scatter_nd(const HostStep& step, Operands in, const HostOperand& result) {
  const HostOperand &data = in[0], &indices = in[1], &updates = in[2];
  run_copy(data, result);
  if (count(data) == 0) return;
  const int64_t depth = indices.shape->back();
  int64_t slice = 1;
  for (size_t d = static_cast<size_t>(depth); d < data.shape->size(); ++d) slice *= extent(data, d);
  with_storage(data.dtype, [&](auto storage) {
    using S = decltype(storage);
    using Raw = typename S::Raw;
    const auto* from = reinterpret_cast<const Raw*>(updates.data);
    auto* to = reinterpret_cast<Raw*>(result.data);
    const int64_t n = count(updates) / slice;
    for (int64_t u = 0; u < n; ++u) {
      int64_t offset = 0;
      for (int64_t d = 0; d < depth; ++d) {
        const int64_t axis = extent(data, static_cast<size_t>(d));
        offset = offset * axis + clamped_index(indices, u * depth + d, axis);
      }
      for (int64_t i = 0; i < slice; ++i) {
        put<S>(step, to + offset * slice + i, from[u * slice + i]);
      }
    }
  });
}

/// Lines of a cumulative operation that run together: neighbours in memory where the axis is not
/// the last one.
constexpr int64_t kLinesTogether = 64;

template <uint8_t kCombiner, typename S, int64_t kMostLines>
void accumulate_lines(const HostStep& step, const AxisView& view, const typename S::Raw* from,
                      typename S::Raw* to, int64_t lines) {
  using Value = typename S::Value;
  using Running = std::conditional_t<std::is_floating_point_v<Value>, double, Value>;
  if (kMostLines == 1) lines = 1;  // keeps the running value in a register
  Running running[kMostLines];
  std::fill_n(running, lines, combiner_start<Running>(kCombiner));
  for (int64_t k = 0; k < view.extent; ++k) {
    const int64_t at = (step.reverse ? view.extent - 1 - k : k) * view.inner;
    for (int64_t i = 0; i < lines; ++i) {
      const auto next = combine_values<Running>(kCombiner, running[i], S::load(from[at + i]));
      to[at + i] = S::store(static_cast<Value>(step.exclusive ? running[i] : next));
      running[i] = next;
    }
  }
}

/// Calls f with the combiner as a compile-time constant.
template <typename F>
void with_combiner(uint8_t combiner, F&& f) {
  switch (combiner) {
    case kSum:
      return f(std::integral_constant<uint8_t, kSum>());
    case kProd:
      return f(std::integral_constant<uint8_t, kProd>());
    case kMin:
      return f(std::integral_constant<uint8_t, kMin>());
    case kMax:
      return f(std::integral_constant<uint8_t, kMax>());
    case kAnd:
      return f(std::integral_constant<uint8_t, kAnd>());
    default:
      return f(std::integral_constant<uint8_t, kOr>());
  }
}

void run_cumulative(const HostStep& step, const HostOperand& x, const HostOperand& y) {
  with_storage(x.dtype, [&](auto storage) {
    using S = decltype(storage);
    using Raw = typename S::Raw;
    const AxisView view = around(*x.shape, step.axis);
    const auto* from = reinterpret_cast<const Raw*>(x.data);
    auto* to = reinterpret_cast<Raw*>(y.data);
    with_combiner(step.combiner, [&](auto combiner) {
      constexpr uint8_t kCombiner = decltype(combiner)::value;
      for (int64_t o = 0; o < view.outer; ++o) {
        const int64_t first = o * view.extent * view.inner;
        if (view.inner == 1) {
          accumulate_lines<kCombiner, S, 1>(step, view, from + first, to + first, 1);
          continue;
        }
        for (int64_t i = 0; i < view.inner; i += kLinesTogether) {
          accumulate_lines<kCombiner, S, kLinesTogether>(step, view, from + first + i,
                                                         to + first + i,
                                                         std::min(kLinesTogether, view.inner - i));
        }
      }
    });
  });
}

const char* op_name(Op op) {
  switch (op) {
    case Op::kCopy:
      return "copy";
    case Op::kSort:
      return "sort";
    case Op::kTopK:
      return "top_k";
    case Op::kScatterElements:
      return "scatter_elements";
    case Op::kScatterNd:
      return "scatter_nd";
    case Op::kCumulative:
      return "cumulative";
  }
  return "host operation";
}

struct Arity {
  size_t operands, results;
};

Arity arity_of(Op op) {
  switch (op) {
    case Op::kSort:
    case Op::kTopK:
      return {1, 2};
    case Op::kScatterElements:
    case Op::kScatterNd:
      return {3, 1};
    default:
      return {1, 1};
  }
}

bool same_type(const HostOperand& a, const HostOperand& b) {
  return a.dtype == b.dtype && *a.shape == *b.shape;
}

/// An empty string when the step is sound, else what is wrong.
std::string fault_of_sort(const HostStep& step, Operands in, Operands out) {
  const int64_t line = extent(in[0], static_cast<size_t>(step.axis));
  const bool top_k = step.op == Op::kTopK;
  if (top_k && (step.k < 0 || step.k > line)) {
    return "k is " + std::to_string(step.k) + " of " + std::to_string(line);
  }
  Shape expected = *in[0].shape;
  if (top_k) expected[static_cast<size_t>(step.axis)] = step.k;
  if (out[0].dtype != in[0].dtype || *out[0].shape != expected) return "values of another type";
  if (out[1].dtype != DType::kI64 || *out[1].shape != expected) return "indices of another type";
  return {};
}

std::string fault_of_scatter(const HostStep& step, Operands in, Operands out) {
  const HostOperand &data = in[0], &indices = in[1], &updates = in[2];
  if (!same_type(data, out[0])) return "a result of another type than the data";
  if (updates.dtype != data.dtype) return "updates of another type than the data";
  if (indices.dtype != DType::kI64 && indices.dtype != DType::kI32) return "indices not integers";
  if (step.combines && step.combiner > kOr) return "an unknown combiner";
  if (step.op == Op::kScatterElements) {
    if (*indices.shape != *updates.shape || rank(updates) != rank(data)) return "shapes differ";
    for (size_t d = 0; d < data.shape->size(); ++d) {
      const bool free_axis = static_cast<int64_t>(d) == step.axis;
      if (!free_axis && extent(updates, d) > extent(data, d)) return "more updates than data";
    }
    return {};
  }
  if (rank(indices) < 1) return "indices without an axis";
  const int64_t depth = indices.shape->back();
  if (depth > rank(data)) return "indices longer than the rank of the data";
  Shape expected(indices.shape->begin(), indices.shape->end() - 1);
  expected.insert(expected.end(), data.shape->begin() + depth, data.shape->end());
  if (*updates.shape != expected) return "updates of another shape than the indices select";
  return {};
}

std::string fault_of(const HostStep& step, Operands in, Operands out) {
  if (step.op == Op::kCopy) {
    const bool same = in[0].dtype == out[0].dtype && count(in[0]) == count(out[0]);
    return same ? "" : "the result is of another size or type";
  }
  const bool has_axis = step.op != Op::kScatterNd;
  if (has_axis && (step.axis < 0 || step.axis >= rank(in[0]))) {
    return "axis " + std::to_string(step.axis) + " of rank " + std::to_string(rank(in[0]));
  }
  switch (step.op) {
    case Op::kSort:
    case Op::kTopK:
      return fault_of_sort(step, in, out);
    case Op::kCumulative:
      if (step.combiner > kOr) return "an unknown combiner";
      return same_type(in[0], out[0]) ? "" : "the result is of another type";
    default:
      return fault_of_scatter(step, in, out);
  }
}

}  // namespace

Status verify_host_step(const HostStep& step, Operands operands, Operands results) {
  const std::string name = op_name(step.op);
  if (step.op > Op::kCumulative) return invalid_input("an unknown host operation");
  const Arity arity = arity_of(step.op);
  if (operands.size() != arity.operands || results.size() != arity.results) {
    return invalid_input(name + ": wrong number of operands or results");
  }
  const std::string fault = fault_of(step, operands, results);
  if (!fault.empty()) return invalid_input(name + ": " + fault);
  return {};
}

int64_t host_step_scratch_bytes(const HostStep& step, Operands operands) {
  if (step.op != Op::kSort && step.op != Op::kTopK) return 0;
  // A verified tensor has fewer than 2^63 bytes, but a line of it may be of one-byte elements.
  const int64_t line = extent(operands[0], static_cast<size_t>(step.axis));
  constexpr int64_t kPerElement = 16;  // index and value
  return line > std::numeric_limits<int64_t>::max() / kPerElement ? -1 : line * kPerElement;
}

void run_host_step(const HostStep& step, Operands operands, Operands results, std::byte* scratch) {
  switch (step.op) {
    case Op::kCopy:
      return run_copy(operands[0], results[0]);
    case Op::kSort:
      return run_sort(step, operands[0], results[0], results[1],
                      extent(operands[0], static_cast<size_t>(step.axis)), scratch);
    case Op::kTopK:
      return run_sort(step, operands[0], results[0], results[1], step.k, scratch);
    case Op::kScatterElements:
      return run_scatter_elements(step, operands, results[0]);
    case Op::kScatterNd:
      return run_scatter_nd(step, operands, results[0]);
    case Op::kCumulative:
      return run_cumulative(step, operands[0], results[0]);
  }
}

}  // namespace weft
