#include "rewrite/index_lines.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weft {
namespace {

/// Longer lines are left to the run.
constexpr int64_t kMostValues = int64_t{1} << 22;
constexpr int kMostNodes = 64;

/// A part of a tensor: of one axis a single index is looked at.
struct Part {
  int axis = -1;  ///< -1: all of it
  int64_t index = 0;
};

class LineReader {
 public:
  explicit LineReader(const GraphRebuilder& rebuild) : rebuild_(rebuild) {}

  std::optional<IndexLine> line(ValueId v, Part part, int depth = 0) {
    if (depth > kMostNodes) return std::nullopt;
    const auto key = std::tuple(v, part.axis, part.index);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    std::optional<IndexLine> out = read(v, part, depth);
    if (out && out->values.size() == 1) out->axis = -1;
    known_.emplace(key, out);
    return out;
  }

 private:
  const Shape& shape(ValueId v) const { return rebuild_.type(v).shape; }

  std::optional<IndexLine> read(ValueId v, Part part, int depth) {
    if (is_float(rebuild_.type(v).dtype)) return std::nullopt;
    if (const auto element = rebuild_.uniform_element(v))
      return IndexLine{-1, {element->at_int(0)}};
    if (const HostTensor* constant = rebuild_.constant(v)) return of_constant(*constant, part);
    const Node* node = rebuild_.definition(v);
    if (node == nullptr) return std::nullopt;
    switch (node->op) {
      case GraphOp::kIota:
        return of_iota(v, std::get<IotaAttrs>(node->attrs), part);
      case GraphOp::kBroadcast:
        return of_broadcast(v, *node, part, depth);
      case GraphOp::kReshape:
        return of_reshape(v, *node, part, depth);
      case GraphOp::kConcat:
        return of_concat(*node, part, depth);
      case GraphOp::kElementwise:
        return of_elementwise(v, *node, part, depth);
      default:
        return std::nullopt;
    }
  }

  static std::optional<IndexLine> of_constant(const HostTensor& constant, Part part) {
    int64_t offset = 0, step = 0, stride = 1;
    IndexLine out;
    for (auto a = static_cast<int>(constant.shape().size()); a-- > 0;) {
      const int64_t extent = constant.shape()[static_cast<size_t>(a)];
      if (a == part.axis) {
        offset = part.index * stride;
      } else if (extent != 1) {
        if (step != 0) return std::nullopt;
        out.axis = a, step = stride;
      }
      stride *= extent;
    }
    const int64_t count = out.axis < 0 ? 1 : constant.shape()[static_cast<size_t>(out.axis)];
    if (count > kMostValues || constant.size() == 0) return std::nullopt;
    for (int64_t i = 0; i < count; ++i) out.values.push_back(constant.at_int(offset + i * step));
    return out;
  }

  std::optional<IndexLine> of_iota(ValueId v, const IotaAttrs& attrs, Part part) const {
    if (attrs.axis == part.axis) return IndexLine{-1, {part.index}};
    IndexLine out{static_cast<int>(attrs.axis), {}};
    const int64_t extent = shape(v)[static_cast<size_t>(attrs.axis)];
    if (extent > kMostValues) return std::nullopt;
    for (int64_t i = 0; i < extent; ++i) out.values.push_back(i);
    return out;
  }

  std::optional<IndexLine> of_broadcast(ValueId v, const Node& node, Part part, int depth) {
    const ValueId from = node.operands[0];
    const auto& dims = std::get<BroadcastAttrs>(node.attrs).dims;
    Part inside;
    for (size_t a = 0; a < dims.size(); ++a) {
      if (dims[a] != part.axis) continue;
      inside = {static_cast<int>(a), shape(from)[a] == 1 ? 0 : part.index};
    }
    std::optional<IndexLine> out = line(from, inside, depth + 1);
    if (!out || out->axis < 0) return out;
    out->axis = static_cast<int>(dims[static_cast<size_t>(out->axis)]);
    // An axis of one element has one value; longer ones stay as they are.
    const auto length = static_cast<int64_t>(out->values.size());
    return shape(v)[static_cast<size_t>(out->axis)] == length ? out : std::nullopt;
  }

  /// Of one that puts axes of one element in or out.
  std::optional<IndexLine> of_reshape(ValueId v, const Node& node, Part part, int depth) {
    const auto long_axes = [](const Shape& s) {
      std::vector<int> out;
      for (size_t a = 0; a < s.size(); ++a) {
        if (s[a] != 1) out.push_back(static_cast<int>(a));
      }
      return out;
    };
    const ValueId from = node.operands[0];
    const std::vector<int> here = long_axes(shape(v)), there = long_axes(shape(from));
    const auto extent = [](const Shape& s, int a) { return s[static_cast<size_t>(a)]; };
    if (!std::ranges::equal(here, there, [&](int a, int b) {
          return extent(shape(v), a) == extent(shape(from), b);
        }))
      return std::nullopt;
    Part inside;
    if (const auto at = std::ranges::find(here, part.axis); at != here.end())
      inside = {there[static_cast<size_t>(at - here.begin())], part.index};
    std::optional<IndexLine> out = line(from, inside, depth + 1);
    if (!out || out->axis < 0) return out;
    const auto at = std::ranges::find(there, out->axis);
    out->axis = here[static_cast<size_t>(at - there.begin())];
    return out;
  }

  std::optional<IndexLine> of_concat(const Node& node, Part part, int depth) {
    const auto axis = static_cast<size_t>(std::get<ConcatAttrs>(node.attrs).axis);
    if (part.axis != static_cast<int>(axis)) return std::nullopt;
    for (const ValueId piece : node.operands) {
      const int64_t extent = shape(piece)[axis];
      if (part.index < extent) return line(piece, part, depth + 1);
      part.index -= extent;
    }
    return std::nullopt;
  }

  std::optional<IndexLine> of_elementwise(ValueId v, const Node& node, Part part, int depth) {
    std::vector<IndexLine> lines;
    IndexLine out;
    size_t count = 1;
    for (const ValueId operand : node.operands) {
      std::optional<IndexLine> own = line(operand, part, depth + 1);
      if (!own) return std::nullopt;
      if (own->axis >= 0) {
        if (out.axis >= 0 && out.axis != own->axis) return std::nullopt;
        out.axis = own->axis, count = own->values.size();
      }
      lines.push_back(std::move(*own));
    }
    const ScalarOp op = std::get<ElementwiseAttrs>(node.attrs).op;
    for (size_t i = 0; i < count; ++i) {
      std::vector<ScalarValue> operands;
      for (size_t k = 0; k < lines.size(); ++k) {
        operands.push_back(int_value(rebuild_.type(node.operands[k]).dtype,
                                     lines[k].values[lines[k].axis < 0 ? 0 : i]));
      }
      out.values.push_back(evaluate_scalar(op, operands, rebuild_.type(v).dtype).i);
    }
    return out;
  }

  const GraphRebuilder& rebuild_;
  std::map<std::tuple<ValueId, int, int64_t>, std::optional<IndexLine>> known_;
};

}  // namespace

std::optional<std::vector<IndexLine>> lines_of_tuples(const GraphRebuilder& rebuild,
                                                      ValueId tuples) {
  const Shape& shape = rebuild.type(tuples).shape;
  if (shape.empty() || shape.back() > static_cast<int64_t>(kMaxRank)) return std::nullopt;
  LineReader reader(rebuild);
  std::vector<IndexLine> out;
  for (int64_t k = 0; k < shape.back(); ++k) {
    std::optional<IndexLine> line = reader.line(tuples, {static_cast<int>(shape.size()) - 1, k});
    if (!line) return std::nullopt;
    out.push_back(std::move(*line));
  }
  return out;
}

}  // namespace weft
