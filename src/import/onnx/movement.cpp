#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

void translate_reshape(OpContext& n) {
  const ValueId x = n.input(0);
  Shape to = n.ints_input(1, "the shape");
  const bool allow_zero = n.bool_attr("allowzero", false);
  std::optional<size_t> inferred;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !allow_zero) {
      n.require(i < n.b.shape(x).size(), "a 0 in the shape stands for no axis of the input");
      to[i] = n.b.shape(x)[i];
    } else if (to[i] == -1) {
      n.require(!inferred, "the shape has more than one -1");
      inferred = i;
      to[i] = 1;
    }
  }
  if (inferred) {
    const std::optional<int64_t> rest = element_count(to);
    const bool divides = rest && *rest > 0 && n.b.size(x) % *rest == 0;
    n.require(divides, fmt::format("{} does not fit the shape [{}]", print(n.b.type(x)),
                                   fmt::join(to, ",")));
    to[*inferred] = n.b.size(x) / *rest;
  }
  n.set_output(0, n.b.reshape(x, std::move(to)));
}

void translate_flatten(OpContext& n) {
  const ValueId x = n.input(0);
  const int64_t rank = n.b.rank(x);
  int64_t axis = n.int_attr("axis", 1);
  n.require(axis >= -rank && axis <= rank, "axis is out of range");
  if (axis < 0) axis += rank;
  const Shape shape = n.b.shape(x);
  const auto product = [&](int64_t from, int64_t to) {
    return std::accumulate(shape.begin() + from, shape.begin() + to, int64_t{1},
                           std::multiplies<>());
  };
  n.set_output(0, n.b.reshape(x, {product(0, axis), product(axis, rank)}));
}

/// Axes as an attribute up to opset 12, then as an input.
std::optional<std::vector<int64_t>> axes_of(OpContext& n) {
  if (n.opset() < 13) return n.ints_attr("axes");
  if (!n.has_input(1)) return std::nullopt;
  return n.ints_input(1, "axes");
}

void translate_squeeze(OpContext& n) {
  const ValueId x = n.input(0);
  std::optional<std::vector<int64_t>> axes = axes_of(n);
  if (!axes) {
    axes.emplace();
    for (int64_t i = 0; i < n.b.rank(x); ++i) {
      if (n.b.extent(x, i) == 1) axes->push_back(i);
    }
  }
  n.set_output(0, n.b.squeeze(x, *axes));
}

void translate_unsqueeze(OpContext& n) {
  const auto axes = axes_of(n);
  n.require(axes.has_value(), "axes are missing");
  n.set_output(0, n.b.unsqueeze(n.input(0), *axes));
}

void translate_transpose(OpContext& n) {
  const ValueId x = n.input(0);
  std::vector<int64_t> reversed(static_cast<size_t>(n.b.rank(x)));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  n.set_output(0, n.b.transpose(x, n.ints_attr("perm", reversed)));
}

void translate_concat(OpContext& n) {
  std::vector<ValueId> xs;
  for (int i = 0; i < n.input_count(); ++i) xs.push_back(n.input(i));
  const int64_t axis = n.opset() < 4 ? n.int_attr("axis", 1) : n.int_attr("axis");
  n.require(!xs.empty(), "nothing to concatenate");
  GraphBuilder::normal_axis(axis, n.b.rank(xs[0]));
  n.set_output(0, n.b.concat(xs, axis));
}

/// Sizes of the pieces, however this opset gives them.
std::vector<int64_t> split_sizes(OpContext& n, int64_t extent) {
  if (n.opset() < 13 && n.has_attr("split")) return *n.ints_attr("split");
  if (n.opset() >= 13 && n.has_input(1)) return n.ints_input(1, "the sizes of a split");
  int64_t count = n.output_count();
  if (n.opset() >= 18 && n.has_attr("num_outputs")) count = n.int_attr("num_outputs");
  n.require(count >= 1 && count <= std::max(n.output_count(), 1), "num_outputs is wrong");
  const int64_t size = (extent + count - 1) / count;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < count; ++i) {
    sizes.push_back(std::clamp(extent - i * size, int64_t{0}, size));
  }
  return sizes;
}

void translate_split(OpContext& n) {
  const ValueId x = n.input(0);
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(x));
  const int64_t extent = n.b.extent(x, axis);
  const std::vector<int64_t> sizes = split_sizes(n, extent);
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    n.require(sizes[i] >= 0 && sizes[i] <= extent - begin,
              fmt::format("pieces of [{}] do not make up {}", fmt::join(sizes, ","), extent));
    if (n.wants_output(static_cast<int>(i))) {
      n.set_output(static_cast<int>(i), n.b.slice_axis(x, axis, begin, begin + sizes[i]));
    }
    begin += sizes[i];
  }
  n.require(begin == extent,
            fmt::format("pieces of [{}] do not make up {}", fmt::join(sizes, ","), extent));
}

struct SliceSpec {
  std::vector<int64_t> starts, ends, axes, steps;
};

SliceSpec read_slice(OpContext& n, int64_t rank) {
  SliceSpec spec;
  const auto first_axes = [&] {
    std::vector<int64_t> axes(spec.starts.size());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  };
  if (n.opset() < 10) {
    spec.starts = n.ints_attr("starts", {});
    spec.ends = n.ints_attr("ends", {});
    spec.axes = n.ints_attr("axes", first_axes());
  } else {
    spec.starts = n.ints_input(1, "starts");
    spec.ends = n.ints_input(2, "ends");
    spec.axes = n.has_input(3) ? n.ints_input(3, "axes") : first_axes();
    if (n.has_input(4)) spec.steps = n.ints_input(4, "steps");
  }
  if (spec.steps.empty()) spec.steps.assign(spec.starts.size(), 1);
  n.require(spec.ends.size() == spec.starts.size() && spec.axes.size() == spec.starts.size() &&
                spec.steps.size() == spec.starts.size(),
            "starts, ends, axes and steps differ in length");
  for (int64_t& axis : spec.axes) axis = GraphBuilder::normal_axis(axis, rank);
  return spec;
}

/// [start, end) by step within extent, as Python slices do: clamped, negative values count from the
/// end.
struct AxisRange {
  int64_t start = 0, count = 0;
};
AxisRange clamp_range(int64_t start, int64_t end, int64_t step, int64_t extent) {
  const auto from_end = [&](int64_t v) { return v < 0 ? v + extent : v; };
  if (step > 0) {
    const int64_t lo = std::clamp(from_end(start), int64_t{0}, extent);
    const int64_t hi = std::clamp(from_end(end), int64_t{0}, extent);
    return {lo, hi > lo ? (hi - lo - 1) / step + 1 : 0};
  }
  // The distance as unsigned: the most negative step has no positive counterpart.
  const int64_t hi = std::clamp(from_end(start), int64_t{-1}, extent - 1);
  const int64_t lo = std::clamp(from_end(end), int64_t{-1}, extent - 1);
  const uint64_t stride = uint64_t{0} - static_cast<uint64_t>(step);
  const int64_t count =
      hi > lo ? static_cast<int64_t>(static_cast<uint64_t>(hi - lo - 1) / stride) + 1 : 0;
  return {hi, count};
}

void translate_slice(OpContext& n) {
  const ValueId x = n.input(0);
  const SliceSpec spec = read_slice(n, n.b.rank(x));
  Shape extents = n.b.shape(x);
  std::vector<int64_t> start(extents.size(), 0), step(extents.size(), 1);
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(spec.axes[i]);
    n.require(spec.steps[i] != 0, "a step of 0");
    const AxisRange range =
        clamp_range(spec.starts[i], spec.ends[i], spec.steps[i], n.b.shape(x)[axis]);
    start[axis] = range.start;
    step[axis] = spec.steps[i];
    extents[axis] = range.count;
  }
  n.set_output(0, n.b.slice(x, std::move(start), std::move(step), std::move(extents)));
}

void translate_expand(OpContext& n) {
  const ValueId x = n.input(0);
  const Shape to = n.ints_input(1, "the shape");
  n.set_output(0, n.b.broadcast_to(x, GraphBuilder::broadcast_shape(n.b.shape(x), to)));
}

/// [a, b] repeated (2, 3) times is [2, a, 3, b] broadcast, then [2a, 3b].
void translate_tile(OpContext& n) {
  const ValueId x = n.input(0);
  const std::vector<int64_t> repeats = n.ints_input(1, "repeats");
  n.require(static_cast<int64_t>(repeats.size()) == n.b.rank(x), "one repeat per axis");
  Shape spread, to;
  std::vector<int64_t> dims;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t extent = n.b.shape(x)[i];
    n.require(repeats[i] >= 0, "a negative repeat");
    int64_t total = 0;
    n.require(!__builtin_mul_overflow(repeats[i], extent, &total), "the result is too large");
    if (repeats[i] != 1) spread.push_back(repeats[i]);
    dims.push_back(static_cast<int64_t>(spread.size()));
    spread.push_back(extent);
    to.push_back(total);
  }
  if (to == n.b.shape(x)) return n.set_output(0, x);
  n.set_output(0, n.b.reshape(n.b.broadcast_in_dim(x, spread, std::move(dims)), std::move(to)));
}

/// Crops or zero-pads around the centre; the odd element goes to the end.
void translate_center_crop_pad(OpContext& n) {
  const ValueId x = n.input(0);
  const std::vector<int64_t> wanted = n.ints_input(1, "the shape");
  std::vector<int64_t> axes(static_cast<size_t>(n.b.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  axes = n.ints_attr("axes", axes);
  n.require(axes.size() == wanted.size(), "one extent per axis");
  std::vector<int64_t> low(n.b.shape(x).size(), 0), high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(GraphBuilder::normal_axis(axes[i], n.b.rank(x)));
    n.require(wanted[i] >= 0, "a negative extent");
    int64_t extra = 0;
    n.require(!__builtin_sub_overflow(wanted[i], n.b.shape(x)[axis], &extra), "an extent");
    low[axis] = extra >= 0 ? extra / 2 : -((-extra) / 2);
    high[axis] = extra - low[axis];
  }
  n.set_output(0, n.b.pad(x, n.b.scalar(n.b.dtype(x), 0), std::move(low), std::move(high)));
}

const Translator kRows[] = {
    {"", "CenterCropPad", 1, translate_center_crop_pad},
    {"", "Concat", 1, translate_concat},
    {"", "Expand", 1, translate_expand},
    {"", "Flatten", 1, translate_flatten},
    {"", "Reshape", 5, translate_reshape},
    {"", "Slice", 1, translate_slice},
    {"", "Split", 1, translate_split},
    {"", "Squeeze", 1, translate_squeeze},
    {"", "Tile", 6, translate_tile},
    {"", "Transpose", 1, translate_transpose},
    {"", "Unsqueeze", 1, translate_unsqueeze},
};

}  // namespace

TranslatorTable movement_translators() { return kRows; }

}  // namespace weft::onnx
