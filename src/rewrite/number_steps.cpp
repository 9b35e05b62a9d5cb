#include "rewrite/number_steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

/// Elements of what the steps will be.
constexpr int64_t kMostElements = int64_t{1} << 20;

/// What makes the values of a loop's body.
class Body {
 public:
  explicit Body(const Graph& graph) : graph_(graph), maker_(graph.values.size(), nullptr) {
    for (const Node& node : graph.nodes) {
      for (const ValueId v : node.results) maker_[static_cast<size_t>(v)] = &node;
    }
  }

  /// By how much the carry grows in each step.
  std::optional<int64_t> step_of(size_t carry) const {
    const DType type = graph_.type(graph_.inputs[carry]).dtype;
    if (type != DType::kI32 && type != DType::kI64) return std::nullopt;
    const Node* node = maker(graph_.outputs[carry]);
    if (node == nullptr || node->op != GraphOp::kElementwise) return std::nullopt;
    const ScalarOp op = std::get<ElementwiseAttrs>(node->attrs).op;
    if (op != ScalarOp::kAdd && op != ScalarOp::kSub) return std::nullopt;
    const ValueId counter = graph_.inputs[carry];
    if (node->operands[0] == counter) {
      const auto step = uniform_number(node->operands[1]);
      if (!step || *step == std::numeric_limits<int64_t>::min()) return std::nullopt;
      return op == ScalarOp::kAdd ? *step : -*step;
    }
    if (op == ScalarOp::kAdd && node->operands[1] == counter)
      return uniform_number(node->operands[0]);
    return std::nullopt;
  }

 private:
  /// Null for an input.
  const Node* maker(ValueId v) const { return maker_[static_cast<size_t>(v)]; }

  /// The one number that all elements of `v` are.
  std::optional<int64_t> uniform_number(ValueId v) const {
    const Node* node = maker(v);
    if (node != nullptr && node->op == GraphOp::kBroadcast) node = maker(node->operands[0]);
    if (node == nullptr || node->op != GraphOp::kConstant) return std::nullopt;
    const HostTensor& value = std::get<ConstantAttrs>(node->attrs).value;
    return value.size() == 1 ? std::optional(value.at_int(0)) : std::nullopt;
  }

  const Graph& graph_;
  std::vector<const Node*> maker_;
};

/// The steps' numbers, an axis more, and what the last step leaves; nothing where one of them
/// leaves its type.
struct Numbers {
  HostTensor all, last;
};

std::optional<Numbers> numbers_of(const HostTensor& first, int64_t step, int64_t trips,
                                  bool reversed) {
  int64_t elements = 0;
  if (__builtin_mul_overflow(first.size(), trips, &elements) || elements > kMostElements)
    return std::nullopt;
  Shape shape = first.shape();
  shape.insert(shape.begin(), trips);
  Numbers out{HostTensor(first.dtype(), std::move(shape)),
              HostTensor(first.dtype(), first.shape())};
  const bool is_narrow = first.dtype() == DType::kI32;
  for (int64_t e = 0; e < first.size(); ++e) {
    for (int64_t t = 0; t <= trips; ++t) {
      int64_t moved = 0, value = 0;
      if (__builtin_mul_overflow(step, t, &moved) ||
          __builtin_add_overflow(first.at_int(e), moved, &value))
        return std::nullopt;
      if (is_narrow && value != static_cast<int32_t>(value)) return std::nullopt;
      if (t == trips) {
        out.last.set_int(e, value);
      } else {
        out.all.set_int((reversed ? trips - 1 - t : t) * first.size() + e, value);
      }
    }
  }
  return out;
}

class StepNumbering {
 public:
  StepNumbering(GraphRebuilder& rebuild, const Node& scan)
      : rebuild_(rebuild), scan_(scan), attrs_(std::get<ScanAttrs>(scan.attrs)) {}

  /// The scan with slices in the place of carries.
  bool run() {
    if (attrs_.scanned_count == 0) return false;
    const int64_t trips = rebuild_.type(scan_.operands[carries()]).shape[0];
    const bool reversed = std::ranges::count(attrs_.x_reverse, false) == 0;
    const Body body(*scan_.regions[0]);
    int64_t elements = 0;
    for (size_t c = 0; c < carries(); ++c) {
      const HostTensor* first = rebuild_.constant(scan_.operands[c]);
      const auto step = body.step_of(c);
      if (first == nullptr || !step) continue;
      auto numbers = numbers_of(*first, *step, trips, reversed);
      if (!numbers || numbers->all.size() > kMostElements - elements) continue;
      elements += numbers->all.size();
      numbered_.emplace(c, std::move(*numbers));
    }
    if (!numbered_.empty()) rebuild_scan(reversed);
    return !numbered_.empty();
  }

 private:
  size_t carries() const { return static_cast<size_t>(attrs_.carry_count); }

  void rebuild_scan(bool reversed) {
    auto body = std::make_shared<Graph>(*scan_.regions[0]);
    ScanAttrs attrs = attrs_;
    std::vector<ValueId> inputs, operands, outputs;
    std::vector<std::string> output_names;
    const auto take = [&](size_t i) {
      inputs.push_back(body->inputs[i]);
      operands.push_back(scan_.operands[i]);
    };
    for (size_t c = 0; c < carries(); ++c) {
      if (!numbered_.contains(c)) take(c);
    }
    const size_t behind_slices = carries() + static_cast<size_t>(attrs_.scanned_count);
    for (size_t i = carries(); i < behind_slices; ++i) take(i);
    for (const auto& [c, numbers] : numbered_) {
      inputs.push_back(body->inputs[c]);
      operands.push_back(rebuild_.add_constant(numbers.all, scan_.origin));
      attrs.x_reverse.push_back(reversed);
      --attrs.carry_count;
      ++attrs.scanned_count;
    }
    for (size_t i = behind_slices; i < body->inputs.size(); ++i) take(i);
    for (size_t o = 0; o < body->outputs.size(); ++o) {
      if (numbered_.contains(o)) continue;
      outputs.push_back(body->outputs[o]);
      output_names.push_back(std::move(body->output_names[o]));
    }
    body->inputs = std::move(inputs);
    body->outputs = std::move(outputs);
    body->output_names = std::move(output_names);
    std::vector<ValueId> results = rebuild_.add_node(GraphOp::kScan, std::move(attrs),
                                                     std::move(operands), {body}, scan_.origin);
    for (const auto& [c, numbers] : numbered_)
      results.insert(results.begin() + static_cast<std::ptrdiff_t>(c),
                     rebuild_.add_constant(numbers.last, scan_.origin));
    rebuild_.replace(scan_, results);
  }

  GraphRebuilder& rebuild_;
  const Node& scan_;
  const ScanAttrs& attrs_;
  std::map<size_t, Numbers> numbered_;  ///< by carry
};

}  // namespace

bool number_steps(Graph& graph) {
  const bool regions_changed = rewrite_regions(graph, number_steps);
  GraphRebuilder rebuild(graph);
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    if (node.op == GraphOp::kScan && StepNumbering(rebuild, node).run()) continue;
    rebuild.keep(std::move(node));
  }
  return rebuild.finish() || regions_changed;
}

}  // namespace weft
