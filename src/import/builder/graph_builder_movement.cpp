#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "import/builder/graph_builder.h"

namespace weft::onnx {
namespace {

std::string print_shape(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::vector<int64_t> ascending(int64_t first, int64_t count) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

}  // namespace

ValueId GraphBuilder::broadcast_to(ValueId x, const Shape& to) {
  if (shape(x) == to) return x;
  const auto target_rank = static_cast<int64_t>(to.size());
  if (rank(x) > target_rank) {
    refuse_invalid(fmt::format("{} does not broadcast to {}", print(type(x)), print_shape(to)));
  }
  return broadcast_in_dim(x, to, ascending(target_rank - rank(x), rank(x)));
}

ValueId GraphBuilder::broadcast_in_dim(ValueId x, const Shape& to, std::vector<int64_t> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t from = shape(x)[i];
    const int64_t extent = to[static_cast<size_t>(dims[i])];
    if (from != extent && from != 1) {
      refuse_invalid(fmt::format("{} does not broadcast to {}", print(type(x)), print_shape(to)));
    }
  }
  return node1(GraphOp::kBroadcast, BroadcastAttrs{std::move(dims)}, {x}, {dtype(x), to});
}

ValueId GraphBuilder::reshape(ValueId x, Shape to) {
  if (shape(x) == to) return x;
  const std::optional<int64_t> count = element_count(to);
  if (!count || *count != size(x)) {
    refuse_invalid(fmt::format("{} cannot become {}", print(type(x)), print_shape(to)));
  }
  return node1(GraphOp::kReshape, ReshapeAttrs{}, {x}, {dtype(x), std::move(to)});
}

ValueId GraphBuilder::unsqueeze(ValueId x, const std::vector<int64_t>& axes) {
  const int64_t to_rank = rank(x) + static_cast<int64_t>(axes.size());
  const std::vector<int64_t> added = normal_axes(axes, to_rank);
  Shape to = shape(x);
  for (int64_t axis : added) to.insert(to.begin() + axis, 1);
  return reshape(x, std::move(to));
}

ValueId GraphBuilder::squeeze(ValueId x, const std::vector<int64_t>& axes) {
  const std::vector<int64_t> removed = normal_axes(axes, rank(x));
  Shape to = shape(x);
  for (const int64_t axis : std::views::reverse(removed)) {
    if (to[static_cast<size_t>(axis)] != 1) {
      refuse_invalid(fmt::format("axis {} of {} is not 1", axis, print(type(x))));
    }
    to.erase(to.begin() + axis);
  }
  return reshape(x, std::move(to));
}

ValueId GraphBuilder::transpose(ValueId x, std::vector<int64_t> permutation) {
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != ascending(0, rank(x))) {
    refuse_invalid(fmt::format("[{}] is not a permutation of the axes of {}",
                               fmt::join(permutation, ","), print(type(x))));
  }
  if (sorted == permutation) return x;
  Shape to;
  for (int64_t axis : permutation) to.push_back(shape(x)[static_cast<size_t>(axis)]);
  return node1(GraphOp::kTranspose, TransposeAttrs{std::move(permutation)}, {x},
               {dtype(x), std::move(to)});
}

ValueId GraphBuilder::swap_axes(ValueId x, int64_t a, int64_t b) {
  std::vector<int64_t> permutation = ascending(0, rank(x));
  std::swap(permutation[static_cast<size_t>(normal_axis(a, rank(x)))],
            permutation[static_cast<size_t>(normal_axis(b, rank(x)))]);
  return transpose(x, std::move(permutation));
}

ValueId GraphBuilder::slice(ValueId x, std::vector<int64_t> start, std::vector<int64_t> step,
                            Shape extents) {
  const bool whole = extents == shape(x) &&
                     std::all_of(start.begin(), start.end(), [](int64_t s) { return s == 0; }) &&
                     std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; });
  if (whole) return x;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 0) start[i] = 0;
    if (extents[i] <= 1) step[i] = 1;
  }
  return node1(GraphOp::kSlice, SliceAttrs{std::move(start), std::move(step)}, {x},
               {dtype(x), std::move(extents)});
}

ValueId GraphBuilder::slice_axis(ValueId x, int64_t axis, int64_t begin, int64_t end) {
  axis = normal_axis(axis, rank(x));
  if (begin < 0 || end < begin || end > extent(x, axis)) {
    refuse_invalid(fmt::format("elements {} to {} of axis {} are not within {}", begin, end, axis,
                               print(type(x))));
  }
  std::vector<int64_t> start(shape(x).size(), 0);
  start[static_cast<size_t>(axis)] = begin;
  Shape extents = shape(x);
  extents[static_cast<size_t>(axis)] = end - begin;
  return slice(x, std::move(start), std::vector<int64_t>(extents.size(), 1), extents);
}

ValueId GraphBuilder::pick(ValueId x, int64_t axis, int64_t index) {
  return squeeze(slice_axis(x, axis, index, index + 1), {axis});
}

ValueId GraphBuilder::reverse(ValueId x, int64_t axis) {
  axis = normal_axis(axis, rank(x));
  const int64_t n = extent(x, axis);
  if (n <= 1) return x;
  std::vector<int64_t> start(shape(x).size(), 0), step(shape(x).size(), 1);
  start[static_cast<size_t>(axis)] = n - 1;
  step[static_cast<size_t>(axis)] = -1;
  return slice(x, std::move(start), std::move(step), shape(x));
}

ValueId GraphBuilder::pad(ValueId x, ValueId fill, std::vector<int64_t> low,
                          std::vector<int64_t> high) {
  const auto zero = [](int64_t amount) { return amount == 0; };
  if (std::all_of(low.begin(), low.end(), zero) && std::all_of(high.begin(), high.end(), zero)) {
    return x;
  }
  WEFT_CHECK(low.size() == shape(x).size() && high.size() == low.size(), "one amount per axis");
  Shape to = shape(x);
  for (size_t i = 0; i < to.size(); ++i) {
    if (__builtin_add_overflow(to[i], low[i], &to[i]) ||
        __builtin_add_overflow(to[i], high[i], &to[i]) || to[i] < 0) {
      refuse_invalid(fmt::format("cannot pad {} by [{}] before and [{}] after", print(type(x)),
                                 fmt::join(low, ","), fmt::join(high, ",")));
    }
  }
  return node1(GraphOp::kPad, PadAttrs{std::move(low), std::move(high)}, {x, fill},
               {dtype(x), std::move(to)});
}

ValueId GraphBuilder::concat(const std::vector<ValueId>& xs, int64_t axis) {
  if (xs.empty()) refuse_invalid("nothing to concatenate");
  if (xs.size() == 1) return xs[0];
  axis = normal_axis(axis, rank(xs[0]));
  return node1(GraphOp::kConcat, ConcatAttrs{axis}, xs, {});
}

}  // namespace weft::onnx
