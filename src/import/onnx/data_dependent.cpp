#include "import/onnx/data_dependent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

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

/// A box as [y1, x1, y2, x2] with y1 <= y2 and x1 <= x2. In float32, as the boxes are: those that
/// are cut off at an image's border overlap by exactly a threshold, and then roundings decide.
struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

Box read_box(const HostTensor& boxes, int64_t at, bool centred) {
  float v[4];
  for (int64_t i = 0; i < 4; ++i) v[i] = static_cast<float>(boxes.at_double(at * 4 + i));
  if (centred) {
    return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  }
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  const float both = height * width, either = a.area() + b.area() - both;
  return either <= 0 ? 0 : both / either;
}

struct SuppressionLimits {
  int64_t max_boxes = 0;
  float overlap = 0;
  bool has_score = false;
  float score = 0;
  bool centred = false;
};

/// The boxes of one batch and class that stay, best score first.
std::vector<int64_t> suppress(const HostTensor& boxes, const HostTensor& scores, int64_t first_box,
                              int64_t first_score, int64_t count, const SuppressionLimits& limits) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < count; ++i) {
    double score = scores.at_double(first_score + i);
    if (std::isnan(score) || (limits.has_score && score <= limits.score)) continue;
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    double x = scores.at_double(first_score + a), y = scores.at_double(first_score + b);
    return x != y ? x > y : a < b;
  });
  std::vector<int64_t> kept;
  std::vector<Box> kept_boxes;
  for (int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= limits.max_boxes) break;
    const Box box = read_box(boxes, first_box + i, limits.centred);
    if (std::ranges::any_of(kept_boxes,
                            [&](const Box& k) { return overlap(box, k) > limits.overlap; }))
      continue;
    kept.push_back(i);
    kept_boxes.push_back(box);
  }
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
  HostTensor boxes = n.constant_input(0, "boxes"), scores = n.constant_input(1, "scores");
  n.require(boxes.shape().size() == 3 && boxes.shape()[2] == 4 && scores.shape().size() == 3 &&
                scores.shape()[0] == boxes.shape()[0] && scores.shape()[2] == boxes.shape()[1],
            "boxes must be [batches, boxes, 4] and scores [batches, classes, boxes]");
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
      int64_t first_score = (batch * classes + c) * count;
      for (int64_t i : suppress(boxes, scores, batch * count, first_score, count, limits)) {
        rows.insert(rows.end(), {batch, c, i});
      }
    }
  }
  n.set_output(0, n.b.constant(ints_tensor(rows, {static_cast<int64_t>(rows.size()) / 3, 3})));
}

}  // namespace weft::onnx
