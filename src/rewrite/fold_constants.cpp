#include "rewrite/fold_constants.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>

#include "graph/transcendental.h"
#include "interp/interpreter.h"
#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

constexpr int64_t kMaxProducts = int64_t{1} << 30;
constexpr int64_t kMaxIterations = 4096;
/// Broadcasts, reshapes and transposes one after another that are looked through.
constexpr int kMostMoves = 8;
/// Of a value that is stored though it is made of less.
constexpr int64_t kMostStoredBytes = int64_t{1} << 24;
/// Bytes for one of what a value is made of, from which that is no packed form of it, as weights of
/// four bits are.
constexpr int64_t kMadeOfLittle = 16;

int64_t bytes_of(const TensorType& type) { return *checked_byte_size(type.dtype, type.shape); }

bool is_uniform(const HostTensor& value) {
  const auto width = static_cast<size_t>(byte_size(value.dtype()));
  const auto bytes = static_cast<size_t>(value.bytes());
  return bytes >= width && std::memcmp(value.raw(), value.raw() + width, bytes - width) == 0;
}

/// Element 0 as a scalar.
HostTensor first_element(const HostTensor& value) {
  HostTensor scalar(value.dtype(), {});
  std::memcpy(scalar.mutable_raw(), value.raw(), static_cast<size_t>(scalar.bytes()));
  return scalar;
}

/// Ops whose results have equal elements when their operands have: the result's scalar is the op on
/// scalars, or that of the first operand.
bool keeps_uniformity(GraphOp op) {
  return op == GraphOp::kElementwise || op == GraphOp::kBroadcast || op == GraphOp::kReshape ||
         op == GraphOp::kTranspose || op == GraphOp::kSlice;
}

/// Finds what lies between 8-bit integers and the contractions that multiply them.
class ByteFactors {
 public:
  explicit ByteFactors(const Graph& graph)
      : graph_(graph), maker_(graph.values.size(), nullptr), found_(graph.values.size(), false) {
    for (const Node& node : graph.nodes) {
      for (const ValueId v : node.results) maker_[static_cast<size_t>(v)] = &node;
    }
    for (const Node& node : graph.nodes) {
      if (is_deep(node)) add(node);
    }
  }
  /// By value.
  std::vector<bool> take() { return std::move(found_); }

 private:
  /// A sum along one axis of the shortest length that is worth multiplying in bytes.
  bool is_deep(const Node& node) const {
    constexpr int64_t kShortest = 4;
    constexpr int64_t kWorthFilling = 16;  // the whole sum, where an axis is filled up to that
    if (node.op == GraphOp::kConvolution) {
      const Shape& weights = graph_.type(node.operands[1]).shape;
      const int64_t depth = element_count(weights).value_or(0) / std::max<int64_t>(1, weights[0]);
      return weights.at(1) >= kShortest || (weights[1] > 1 && depth >= kWorthFilling);
    }
    if (node.op != GraphOp::kDotGeneral) return false;
    return std::ranges::any_of(std::get<DotAttrs>(node.attrs).lhs_contract, [&](int64_t axis) {
      return graph_.type(node.operands[0]).shape[static_cast<size_t>(axis)] >= kShortest;
    });
  }

  void add(const Node& contraction) {
    std::vector<ValueId> ways;
    for (const ValueId factor : contraction.operands) {
      if (!comes_from_bytes(factor, &ways)) return;
    }
    for (const ValueId v : ways) found_[static_cast<size_t>(v)] = true;
  }

  /// Whether what a dequantisation does leads from 8 bits to the value; what it makes is `way`.
  bool comes_from_bytes(ValueId v, std::vector<ValueId>* way) const {
    while (byte_size(graph_.type(v).dtype) != 1) {
      const Node* node = maker_[static_cast<size_t>(v)];
      if (node == nullptr) return false;
      const auto* applied = std::get_if<ElementwiseAttrs>(&node->attrs);
      const bool moves = node->op == GraphOp::kReshape || node->op == GraphOp::kTranspose ||
                         node->op == GraphOp::kBroadcast || node->op == GraphOp::kPad;
      const bool scales =
          applied != nullptr && (applied->op == ScalarOp::kConvert ||
                                 applied->op == ScalarOp::kSub || applied->op == ScalarOp::kMul);
      if (!moves && !scales) return false;
      way->push_back(v);
      v = node->operands[0];
    }
    return is_integer(graph_.type(v).dtype);
  }

  const Graph& graph_;
  std::vector<const Node*> maker_;  ///< by value
  std::vector<bool> found_;
};

/// By value: whether it is what a loop reads, or moves to there.
std::vector<bool> operands_of_loops(const Graph& graph) {
  std::vector<bool> out(graph.values.size(), false);
  for (const Node& node : graph.nodes | std::views::reverse) {
    const bool moves = node.op == GraphOp::kReshape || node.op == GraphOp::kTranspose;
    if (node.op != GraphOp::kScan && !(moves && out[static_cast<size_t>(node.results[0])]))
      continue;
    for (const ValueId v : node.operands) out[static_cast<size_t>(v)] = true;
  }
  return out;
}

bool is_transcendental(const Node& node) {
  const auto* applied = std::get_if<ElementwiseAttrs>(&node.attrs);
  return applied != nullptr && is_transcendental(applied->op);
}

/// By value: whether a contraction or a transcendental function reads it, through what has an
/// element for each of its own. A contraction would have it made in memory by each run, and the
/// function takes longer than a load.
std::vector<bool> dear_operands(const Graph& graph) {
  std::vector<bool> out(graph.values.size(), false);
  for (const Node& node : graph.nodes | std::views::reverse) {
    const bool reads_often = node.op == GraphOp::kDotGeneral || node.op == GraphOp::kConvolution;
    const bool passes_on = node.op == GraphOp::kElementwise || node.op == GraphOp::kReshape ||
                           node.op == GraphOp::kTranspose;
    const bool is_dear = passes_on && out[static_cast<size_t>(node.results[0])];
    if (!reads_often && !is_dear && !is_transcendental(node)) continue;
    for (const ValueId v : node.operands) out[static_cast<size_t>(v)] = true;
  }
  return out;
}

class Folder {
 public:
  Folder(Graph& graph, int64_t max_bytes, std::vector<bool> kept, std::vector<bool> widened)
      : graph_(graph),
        kept_(std::move(kept)),
        widened_(std::move(widened)),
        dear_(dear_operands(graph)),
        rebuild_(graph),
        max_bytes_(max_bytes),
        known_(graph.values.size()) {}

  bool run() {
    for (Node& node : rebuild_.take_nodes()) {
      rebuild_.forward_operands(node);
      fold(std::move(node));
    }
    return rebuild_.finish();
  }

 private:
  /// What is known of a value: all of it, or the one element that it consists of.
  struct Known {
    std::optional<HostTensor> whole;
    std::optional<HostTensor> uniform;
    bool spread = false;  ///< the same elements over and over, which a broadcast makes
  };

  Known& known(ValueId v) {
    if (known_.size() < graph_.values.size()) known_.resize(graph_.values.size());
    return known_[static_cast<size_t>(v)];
  }

  void note_constant(ValueId v, const HostTensor& value) {
    known(v).whole = value;
    if (value.size() == 1) known(v).uniform = first_element(value);
  }

  void fold(Node node) {
    if (node.op == GraphOp::kConstant) {
      note_constant(node.results[0], std::get<ConstantAttrs>(node.attrs).value);
      return rebuild_.keep(std::move(node));
    }
    if (std::optional<HostTensor> element = uniform_result(node)) {
      return replace_by_uniform(std::move(node), *element);
    }
    if (is_kept(node)) return rebuild_.keep(std::move(node));
    const std::optional<std::vector<HostTensor>> results = evaluate(node);
    if (!results) return rebuild_.keep(std::move(node));
    const bool spread = is_growing_broadcast(node) || moves_spread(node);
    if (node.op == GraphOp::kIota || spread) {
      known(node.results[0]).whole = (*results)[0];  // stays, but its readers may fold
      known(node.results[0]).spread = spread;
      return rebuild_.keep(std::move(node));
    }
    replace_by_constants(node, *results);
  }

  bool is_kept(const Node& node) const {
    const auto result = static_cast<size_t>(node.results[0]);
    return result < kept_.size() && kept_[result];
  }

  /// Reading the operand again is cheaper than loading what it is repeated to.
  bool is_growing_broadcast(const Node& node) const {
    return node.op == GraphOp::kBroadcast &&
           bytes_of(graph_.type(node.results[0])) > bytes_of(graph_.type(node.operands[0]));
  }

  /// The elements of a broadcast in another order.
  bool moves_spread(const Node& node) {
    const bool moves = node.op == GraphOp::kReshape || node.op == GraphOp::kTranspose ||
                       node.op == GraphOp::kSlice;
    return moves && known(node.operands[0]).spread &&
           bytes_of(graph_.type(node.results[0])) > max_bytes_;
  }

  std::optional<HostTensor> uniform_result(const Node& node) {
    if (!keeps_uniformity(node.op) || *element_count(graph_.type(node.results[0]).shape) == 0) {
      return std::nullopt;
    }
    std::vector<HostTensor> elements;
    for (ValueId v : node.operands) {
      if (!known(v).uniform) return std::nullopt;
      elements.push_back(*known(v).uniform);
    }
    if (node.op != GraphOp::kElementwise) return elements[0];
    return evaluate_on_scalars(node, elements);
  }

  std::optional<HostTensor> evaluate_on_scalars(const Node& node,
                                                const std::vector<HostTensor>& elements) {
    Graph scalars;
    for (size_t i = 0; i < elements.size(); ++i) {
      scalars.add_input("x" + std::to_string(i), {elements[i].dtype(), {}});
    }
    const TensorType hint{graph_.type(node.results[0]).dtype, {}};
    const Result<ValueId> result =
        scalars.add1(GraphOp::kElementwise, node.attrs, scalars.inputs, hint);
    WEFT_CHECK(result.ok(), result.error().message);
    Result<std::vector<HostTensor>> values = interpret_node(scalars, scalars.nodes[0], elements);
    if (!values.ok()) return std::nullopt;
    return std::move((*values)[0]);
  }

  void replace_by_uniform(Node node, const HostTensor& element) {
    const ValueId result = node.results[0];
    const TensorType type = graph_.type(result);
    const bool is_final = node.op == GraphOp::kBroadcast &&
                          rebuild_.constant(node.operands[0]) != nullptr &&
                          *element_count(type.shape) > 1;
    if (is_final) {
      rebuild_.keep(std::move(node));
      return note_uniform(result, element);
    }
    const ValueId value = add_uniform(type, element, node.origin);
    rebuild_.replace(node, {&value, 1});
  }

  /// `v` is a broadcast of a constant that is `element`.
  void note_uniform(ValueId v, const HostTensor& element) {
    known(v).uniform = element;
    if (const auto results = evaluate(*rebuild_.definition(v))) known(v).whole = (*results)[0];
  }

  /// A value of the type that consists of `element`. Neither may be part of the graph, which grows.
  ValueId add_uniform(const TensorType& type, const HostTensor& element, int32_t origin) {
    const bool is_one = *element_count(type.shape) == 1;
    const HostTensor value = is_one ? element.reshaped(type.shape) : element;
    const ValueId constant = rebuild_.add_constant(value, origin);
    note_constant(constant, value);
    if (is_one) return constant;
    const ValueId result =
        rebuild_.add(GraphOp::kBroadcast, BroadcastAttrs{}, {constant}, origin, type);
    note_uniform(result, element);
    return result;
  }

  void replace_by_constants(const Node& node, const std::vector<HostTensor>& results) {
    std::vector<ValueId> values;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].size() > 1 && is_uniform(results[i])) {
        const TensorType type = graph_.type(node.results[i]);
        values.push_back(add_uniform(type, first_element(results[i]), node.origin));
      } else {
        values.push_back(rebuild_.add_constant(results[i], node.origin));
        note_constant(values.back(), results[i]);
      }
    }
    rebuild_.replace(node, values);
  }

  /// The node that moves the elements of what is known to a value too large to be kept; null for
  /// other values.
  const Node* mover(ValueId v) {
    const Node* node = rebuild_.definition(v);
    const bool moves =
        node != nullptr && (node->op == GraphOp::kBroadcast || node->op == GraphOp::kReshape ||
                            node->op == GraphOp::kTranspose);
    return moves ? node : nullptr;
  }

  /// Of a known value; of a broadcast, what it repeats.
  std::optional<int64_t> stored_bytes(ValueId v, int moves = 0) {
    if (const Node* node = mover(v); node != nullptr && moves < kMostMoves) {
      if (const auto bytes = stored_bytes(node->operands[0], moves + 1)) return bytes;
    }
    if (known(v).whole) return known(v).whole->bytes();
    return std::nullopt;
  }

  /// Nothing of what would be larger than `most_bytes` on the way.
  std::optional<HostTensor> value_of(ValueId v, int64_t most_bytes, int moves = 0) {
    if (known(v).whole) return known(v).whole;
    const Node* node = mover(v);
    if (node == nullptr || moves == kMostMoves || bytes_of(graph_.type(v)) > most_bytes)
      return std::nullopt;
    std::optional<HostTensor> moved = value_of(node->operands[0], most_bytes, moves + 1);
    if (!moved) return std::nullopt;
    auto results = interpret_node(graph_, *node, std::vector{std::move(*moved)}, kMaxIterations);
    if (!results.ok()) return std::nullopt;
    return std::move((*results)[0]);
  }

  /// Whether it makes float32 of 16-bit floats for a loop, whose steps read it again and again.
  bool is_widened(const Node& node) const {
    const auto* applied = std::get_if<ElementwiseAttrs>(&node.attrs);
    const auto result = static_cast<size_t>(node.results[0]);
    return applied != nullptr && applied->op == ScalarOp::kConvert && result < widened_.size() &&
           widened_[result] && byte_size(graph_.type(node.operands[0]).dtype) == 2 &&
           graph_.type(node.results[0]).dtype == DType::kF32;
  }

  /// Whether each run would take long to make what little operands say.
  bool is_dear(const Node& node, int64_t operand_bytes, int64_t result_bytes) const {
    const auto result = static_cast<size_t>(node.results[0]);
    return node.op == GraphOp::kElementwise && result < dear_.size() && dear_[result] &&
           result_bytes <= kMostStoredBytes && result_bytes / kMadeOfLittle >= operand_bytes;
  }

  /// The node's results, when its operands are known and it is worth it.
  std::optional<std::vector<HostTensor>> evaluate(const Node& node) {
    int64_t operand_bytes = 0;
    for (ValueId v : node.operands) {
      const std::optional<int64_t> bytes = stored_bytes(v);
      if (!bytes) return std::nullopt;
      operand_bytes += *bytes;
    }
    int64_t result_bytes = 0;
    for (ValueId v : node.results) {
      if (__builtin_add_overflow(result_bytes, bytes_of(graph_.type(v)), &result_bytes)) {
        return std::nullopt;
      }
    }
    const int64_t most = is_widened(node) ? 2 * operand_bytes : operand_bytes;
    const bool is_worth_it = result_bytes <= max_bytes_ || result_bytes <= most ||
                             is_dear(node, operand_bytes, result_bytes);
    if (!is_worth_it) return std::nullopt;
    if (!is_short(node)) return std::nullopt;
    std::vector<HostTensor> operands;
    for (ValueId v : node.operands) {
      std::optional<HostTensor> value =
          value_of(v, std::max({max_bytes_, result_bytes, operand_bytes}));
      if (!value) return std::nullopt;
      operands.push_back(std::move(*value));
    }
    Result<std::vector<HostTensor>> results =
        interpret_node(graph_, node, operands, kMaxIterations);
    if (!results.ok()) return std::nullopt;
    return std::move(*results);
  }

  /// Products that an element of a product's or a convolution's result adds up.
  int64_t factors_of_an_element(const Node& node) const {
    const Shape& left = graph_.type(node.operands[0]).shape;
    const Shape& right = graph_.type(node.operands[1]).shape;
    int64_t factors = 1;
    if (node.op == GraphOp::kDotGeneral) {
      for (const int64_t axis : std::get<DotAttrs>(node.attrs).lhs_contract)
        factors *= left[static_cast<size_t>(axis)];
      return factors;
    }
    for (size_t axis = 1; axis < right.size(); ++axis) factors *= right[axis];
    return factors;
  }

  bool is_short(const Node& node) const {
    if (node.op == GraphOp::kWhile) return false;
    if (node.op != GraphOp::kDotGeneral && node.op != GraphOp::kConvolution) return true;
    const int64_t results = *element_count(graph_.type(node.results[0]).shape);
    int64_t products = 0;
    return !__builtin_mul_overflow(results, factors_of_an_element(node), &products) &&
           products <= kMaxProducts;
  }

  Graph& graph_;
  /// By value; of those that there were.
  std::vector<bool> kept_, widened_, dear_;
  GraphRebuilder rebuild_;
  int64_t max_bytes_;
  std::vector<Known> known_;
};

}  // namespace

bool fold_constants(Graph& graph, int64_t max_bytes, bool for_cpu) {
  const bool regions_changed = rewrite_regions(
      graph, [&](Graph& region) { return fold_constants(region, max_bytes, for_cpu); });
  std::vector<bool> kept, widened;
  if (for_cpu) {
    kept = ByteFactors(graph).take();
    widened = operands_of_loops(graph);
  }
  return Folder(graph, max_bytes, std::move(kept), std::move(widened)).run() || regions_changed;
}

}  // namespace weft
