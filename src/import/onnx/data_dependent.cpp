#include "import/onnx/data_dependent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "import/onnx/suppress_boxes.h"

namespace weft::onnx {
namespace {

HostTensor ints_tensor(const std::vector<int64_t>& values, Shape shape) {
  HostTensor tensor(DType::kI64, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_data<int64_t>());
  return tensor;
}

/// A tensor seen as [outer, extent, inner] around one axis.
struct AxisView {
  AxisView(const Shape& shape, int64_t axis) : extent(shape[static_cast<size_t>(axis)]) {
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
      if (i < axis) outer *= shape[static_cast<size_t>(i)];
      if (i > axis) inner *= shape[static_cast<size_t>(i)];
    }
  }
  int64_t at(int64_t o, int64_t slice, int64_t i) const { return (o * extent + slice) * inner + i; }

  int64_t outer = 1, extent, inner = 1;
};

/// -1, 0 or 1; a NaN comes after every number.
int compare_elements(const HostTensor& tensor, int64_t a, int64_t b) {
  if (!is_float(tensor.dtype())) {
    int64_t x = tensor.at_int(a), y = tensor.at_int(b);
    if (tensor.dtype() == DType::kU64) {
      return static_cast<uint64_t>(x) < static_cast<uint64_t>(y) ? -1 : (x == y ? 0 : 1);
    }
    return x < y ? -1 : (x == y ? 0 : 1);
  }
  double x = tensor.at_double(a), y = tensor.at_double(b);
  if (std::isnan(x) || std::isnan(y)) return static_cast<int>(std::isnan(x)) - std::isnan(y);
  return x < y ? -1 : (x == y ? 0 : 1);
}

int compare_slices(const HostTensor& tensor, const AxisView& view, int64_t a, int64_t b) {
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      int order = compare_elements(tensor, view.at(o, a, i), view.at(o, b, i));
      if (order != 0) return order;
    }
  }
  return 0;
}

HostTensor take_slices(const HostTensor& tensor, const Shape& shape, int64_t axis,
                       const std::vector<int64_t>& slices) {
  AxisView view(shape, axis);
  Shape result_shape = shape;
  result_shape[static_cast<size_t>(axis)] = static_cast<int64_t>(slices.size());
  HostTensor result(tensor.dtype(), result_shape);
  int64_t bytes = view.inner * byte_size(tensor.dtype());
  std::byte* to = result.mutable_raw();
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t slice : slices) {
      const std::byte* from = tensor.raw() + view.at(o, slice, 0) * byte_size(tensor.dtype());
      if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
  return result;
}

/// The groups of equal slices: the first member of each, the group of each slice, and its size.
struct Groups {
  std::vector<int64_t> first, group_of, count;
};

Groups group_slices(const HostTensor& tensor, const AxisView& view, bool sorted) {
  std::vector<int64_t> order(static_cast<size_t>(view.extent));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    int compared = compare_slices(tensor, view, a, b);
    return compared != 0 ? compared < 0 : a < b;
  });
  Groups groups;
  groups.group_of.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare_slices(tensor, view, order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.group_of[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  // In the order in which the groups first occur.
  std::vector<int64_t> by_first(groups.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  const auto at = [](std::vector<int64_t>& v, int64_t i) -> int64_t& {
    return v[static_cast<size_t>(i)];
  };
  std::sort(by_first.begin(), by_first.end(),
            [&](int64_t a, int64_t b) { return at(groups.first, a) < at(groups.first, b); });
  Groups result = groups;
  std::vector<int64_t> new_index(by_first.size());
  for (int64_t i = 0; i < static_cast<int64_t>(by_first.size()); ++i) {
    int64_t old = at(by_first, i);
    at(new_index, old) = i;
    at(result.first, i) = at(groups.first, old);
    at(result.count, i) = at(groups.count, old);
  }
  for (int64_t& group : result.group_of) group = at(new_index, group);
  return result;
}

/// [y1, x1, y2, x2] with the corners in any order, or [x, y, width, height] around a centre.
Box read_box(const float* v, bool centred) {
  if (centred) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

struct SuppressionLimits {
  int64_t max_boxes = 0;
  float overlap = 0;
  bool has_score = false;
  float score = 0;
  bool centred = false;
};

/// The boxes of one batch and class that stay, best score first.
std::vector<int64_t> suppress(const float* boxes, std::span<const float> scores,
                              const SuppressionLimits& limits) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool out = std::isnan(scores[i]) || (limits.has_score && scores[i] <= limits.score);
    if (!out) order.push_back(static_cast<int64_t>(i));
  }
  const auto score = [&](int64_t i) { return scores[static_cast<size_t>(i)]; };
  std::ranges::sort(order, [&](int64_t a, int64_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  std::vector<Box> best;
  for (const int64_t i : order) best.push_back(read_box(boxes + 4 * i, limits.centred));
  std::vector<int64_t> kept = suppress(best, limits.overlap, limits.max_boxes);
  for (int64_t& i : kept) i = order[static_cast<size_t>(i)];
  return kept;
}

}  // namespace

void translate_unique(OpContext& n) {
  HostTensor x = n.constant_input(0, "X");
  Shape shape = x.shape();
  int64_t axis = 0;
  if (n.has_attr("axis")) {
    axis = n.axis_attr("axis", 0, static_cast<int64_t>(shape.size()));
  } else {
    shape = {x.size()};
  }
  Groups groups = group_slices(x, AxisView(shape, axis), n.bool_attr("sorted", true));
  n.set_output(0, n.b.constant(take_slices(x, shape, axis, groups.first)));
  if (n.wants_output(1)) n.set_output(1, n.b.constant_ints(groups.first));
  if (n.wants_output(2)) n.set_output(2, n.b.constant_ints(groups.group_of));
  if (n.wants_output(3)) n.set_output(3, n.b.constant_ints(groups.count));
}

void translate_non_max_suppression(OpContext& n) {
  const HostTensor boxes = n.constant_input(0, "boxes"), scores = n.constant_input(1, "scores");
  n.require(boxes.shape().size() == 3 && boxes.shape()[2] == 4 && scores.shape().size() == 3 &&
                scores.shape()[0] == boxes.shape()[0] && scores.shape()[2] == boxes.shape()[1],
            "boxes must be [batches, boxes, 4] and scores [batches, classes, boxes]");
  n.require(boxes.dtype() == DType::kF32 && scores.dtype() == DType::kF32,
            "boxes and scores must be float32");
  SuppressionLimits limits;
  if (n.has_input(2)) limits.max_boxes = n.int_input(2, "max_output_boxes_per_class");
  if (n.has_input(3)) limits.overlap = static_cast<float>(n.double_input(3, "iou_threshold"));
  limits.has_score = n.has_input(4);
  if (limits.has_score) limits.score = static_cast<float>(n.double_input(4, "score_threshold"));
  limits.centred = n.int_attr("center_point_box", 0) == 1;
  int64_t batches = scores.shape()[0], classes = scores.shape()[1], count = scores.shape()[2];
  std::vector<int64_t> rows;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t c = 0; c < classes; ++c) {
      const float* first_box = boxes.data<float>() + batch * count * 4;
      const std::span<const float> of_class(scores.data<float>() + (batch * classes + c) * count,
                                            static_cast<size_t>(count));
      for (const int64_t i : suppress(first_box, of_class, limits)) {
        rows.insert(rows.end(), {batch, c, i});
      }
    }
  }
  n.set_output(0, n.b.constant(ints_tensor(rows, {static_cast<int64_t>(rows.size()) / 3, 3})));
}

}  // namespace weft::onnx
