#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "import/hlo/scalar_computation.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// A key by which operands are ordered: the value `root` of the comparator, made from one of its
/// parameters.
struct SortKey {
  size_t operand = 0;
  bool descending = false;
  ValueId root = kNoValue;
};

/// Reads a comparator: parameters 2i and 2i+1 are the elements of operand i that are compared.
///     lt(key(p0), key(p1))   or(lt(…), and(eq(…), next comparison))   select(eq(…), next, lt(…))
class ComparatorReader {
 public:
  explicit ComparatorReader(const Graph& graph) : graph_(graph), made_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (const ValueId v : node.results) made_[static_cast<size_t>(v)] = &node;
    }
  }

  /// The keys, the first decides; none where the comparator is of another form.
  std::vector<SortKey> run() {
    std::vector<SortKey> keys;
    ValueId v = graph_.outputs[0];
    constexpr size_t kMaxKeys = 64;
    while (keys.size() < kMaxKeys) {
      if (const auto key = read_key(v)) {
        keys.push_back(*key);
        return keys;
      }
      const auto [first, rest] = split(v);
      const auto key = read_key(first);
      if (!key) return {};
      keys.push_back(*key);
      v = rest;
    }
    return {};
  }

 private:
  const Node* maker(ValueId v, ScalarOp op) const {
    const Node* node = v >= 0 ? made_[static_cast<size_t>(v)] : nullptr;
    const bool fits = node != nullptr && node->op == GraphOp::kElementwise &&
                      std::get<ElementwiseAttrs>(node->attrs).op == op;
    return fits ? node : nullptr;
  }

  /// A comparison and what decides where it finds its values equal.
  std::pair<ValueId, ValueId> split(ValueId v) const {
    if (const Node* either = maker(v, ScalarOp::kOr)) {
      for (const size_t i : {0, 1}) {
        const Node* both = maker(either->operands[1 - i], ScalarOp::kAnd);
        if (both == nullptr) continue;
        for (const size_t k : {0, 1}) {
          if (equal_keys(both->operands[k], either->operands[i])) {
            return {either->operands[i], both->operands[1 - k]};
          }
        }
      }
    }
    if (const Node* select = maker(v, ScalarOp::kSelect)) {
      if (equal_keys(select->operands[0], select->operands[2])) {
        return {select->operands[2], select->operands[1]};
      }
    }
    return {kNoValue, kNoValue};
  }

  /// Whether `v` asks for equality of what `comparison` compares.
  bool equal_keys(ValueId v, ValueId comparison) const {
    const Node* equal = maker(v, ScalarOp::kEq);
    const Node* less = comparison >= 0 ? made_[static_cast<size_t>(comparison)] : nullptr;
    if (equal == nullptr || less == nullptr || less->operands.size() != 2) return false;
    const auto text = [&](const Node* node, size_t i) { return written(node->operands[i]); };
    return (text(equal, 0) == text(less, 0) && text(equal, 1) == text(less, 1)) ||
           (text(equal, 0) == text(less, 1) && text(equal, 1) == text(less, 0));
  }

  std::optional<SortKey> read_key(ValueId v) const {
    for (const auto& [op, descending] : {std::pair{ScalarOp::kLt, false},
                                         {ScalarOp::kLe, false},
                                         {ScalarOp::kGt, true},
                                         {ScalarOp::kGe, true}}) {
      const Node* node = maker(v, op);
      if (node == nullptr) continue;
      const auto left = only_input(node->operands[0]), right = only_input(node->operands[1]);
      if (!left || !right || *left / 2 != *right / 2 || *left == *right) return std::nullopt;
      if (written(node->operands[0], *left) != written(node->operands[1], *right)) {
        return std::nullopt;
      }
      const bool swapped = *left > *right;
      return SortKey{*left / 2, descending != swapped, node->operands[swapped ? 1 : 0]};
    }
    return std::nullopt;
  }

  void collect(ValueId v, std::vector<bool>& seen) const {
    std::vector<ValueId> todo{v};
    while (!todo.empty()) {
      const ValueId at = todo.back();
      todo.pop_back();
      if (seen[static_cast<size_t>(at)]) continue;
      seen[static_cast<size_t>(at)] = true;
      const Node* node = made_[static_cast<size_t>(at)];
      if (node != nullptr) todo.insert(todo.end(), node->operands.begin(), node->operands.end());
    }
  }

  /// The number of the only input that a value follows from.
  std::optional<size_t> only_input(ValueId v) const {
    std::vector<bool> seen(graph_.values.size(), false);
    collect(v, seen);
    std::optional<size_t> found;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (!seen[static_cast<size_t>(graph_.inputs[i])]) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }

  /// What a value is made of as text, in the order of operands; `input` is written as x, so that
  /// two functions of different inputs read alike.
  std::string written(ValueId v, std::optional<size_t> input = {}) const {
    std::map<ValueId, size_t> numbers;
    std::string text;
    std::vector<ValueId> todo{v};
    while (!todo.empty()) {
      const ValueId at = todo.back();
      const Node* node = made_[static_cast<size_t>(at)];
      const size_t waiting = todo.size();
      if (node != nullptr && !numbers.contains(at)) {
        for (size_t i = node->operands.size(); i-- > 0;) {
          if (!numbers.contains(node->operands[i])) todo.push_back(node->operands[i]);
        }
      }
      if (todo.size() > waiting) continue;
      todo.pop_back();
      if (!numbers.emplace(at, numbers.size()).second) continue;
      text += node != nullptr ? describe(*node) : describe_input(at, input);
      if (node == nullptr) continue;
      for (const ValueId operand : node->operands) text += fmt::format(" {}", numbers.at(operand));
      text += ';';
    }
    return text;
  }

  std::string describe_input(ValueId v, std::optional<size_t> input) const {
    const auto at =
        static_cast<size_t>(std::ranges::find(graph_.inputs, v) - graph_.inputs.begin());
    return input == at ? "x;" : fmt::format("p{};", at);
  }

  std::string describe(const Node& node) const {
    std::string text(graph_op_name(node.op));
    if (const auto* attrs = std::get_if<ElementwiseAttrs>(&node.attrs)) {
      text += fmt::format(" {}", scalar_op_name(attrs->op));
    }
    if (const auto* attrs = std::get_if<ConstantAttrs>(&node.attrs)) {
      text += fmt::format(" {}", content_hash(attrs->value));
    }
    return text + " " + print(graph_.type(node.results[0]));
  }

  const Graph& graph_;
  std::vector<const Node*> made_;  ///< by value
};

/// The comparator's function of one parameter, on the operand's array.
ValueId key_of(GraphBuilder& b, const Graph& graph, const SortKey& key, ValueId x) {
  const Shape shape = b.shape(x);
  std::map<ValueId, ValueId> made;
  made[graph.inputs[2 * key.operand]] = x;
  made[graph.inputs[2 * key.operand + 1]] = x;
  for (const Node& node : graph.nodes) {
    const ValueId result = node.results[0];
    std::vector<ValueId> operands;
    for (const ValueId v : node.operands) {
      if (made.contains(v)) operands.push_back(made.at(v));
    }
    if (operands.size() != node.operands.size()) continue;  // of another operand's key
    if (node.op == GraphOp::kConstant) {
      const HostTensor& value = std::get<ConstantAttrs>(node.attrs).value;
      made[result] = b.broadcast_to(b.reshape(b.constant(value), {}), shape);
    } else if (node.op == GraphOp::kElementwise) {
      made[result] = b.node1(node.op, node.attrs, operands, {graph.type(result).dtype, shape});
    } else {
      made[result] = operands[0];  // a broadcast of a scalar
    }
  }
  return made.at(key.root);
}

/// Places in the order of all keys: sorted by the last one first, each sort keeps what is equal.
ValueId sorted_places(InstructionContext& n, const Graph& comparator,
                      const std::vector<SortKey>& keys, const std::vector<ValueId>& xs,
                      int64_t axis) {
  ValueId places = kNoValue;
  for (size_t i = keys.size(); i-- > 0;) {
    ValueId key = key_of(n.b, comparator, keys[i], xs[keys[i].operand]);
    if (places != kNoValue) key = n.b.gather_elements(key, places, axis);
    const ValueId moved = n.b.sort(key, axis, keys[i].descending).second;
    places = places == kNoValue ? moved : n.b.gather_elements(places, moved, axis);
  }
  return places;
}

void translate_sort(InstructionContext& n) {
  n.require(n.operand_count() >= 1, "takes an operand");
  const std::vector<ValueId> xs = n.operands(0, n.operand_count());
  std::vector<DType> types;
  for (const ValueId x : xs) {
    n.require(n.b.shape(x) == n.b.shape(xs[0]), "the operands' shapes differ");
    types.insert(types.end(), 2, n.b.dtype(x));
  }
  const std::vector<int64_t> dimensions = n.ints("dimensions");
  n.require(dimensions.size() == 1, "dimensions: one axis");
  const int64_t axis = GraphBuilder::normal_axis(dimensions[0], n.b.rank(xs[0]));
  const Graph comparator = scalar_graph(n, n.computation("to_apply"), types);
  n.require(comparator.outputs.size() == 1 &&
                comparator.type(comparator.outputs[0]).dtype == DType::kBool,
            "the comparator is not one pred");
  const std::vector<SortKey> keys = ComparatorReader(comparator).run();
  if (keys.empty()) {
    refuse_unsupported(
        "its comparator is no comparison of one key after another (lt or gt of the same function "
        "of both elements)");
  }
  const bool plain = keys.size() == 1 && xs.size() == 1 &&
                     std::ranges::find(comparator.inputs, keys[0].root) != comparator.inputs.end();
  if (plain) return n.set_result(n.b.sort(xs[0], axis, keys[0].descending).first);
  const ValueId places = sorted_places(n, comparator, keys, xs, axis);
  Leaves results;
  for (const ValueId x : xs) results.push_back(n.b.gather_elements(x, places, axis));
  n.set_results(std::move(results));
}

const Translator kRows[] = {
    {"sort", translate_sort},
};

}  // namespace

TranslatorTable sort_translators() { return kRows; }

}  // namespace weft::hlo
