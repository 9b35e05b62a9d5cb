#include "import/hlo/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace weft::hlo {
namespace {

/// A scan holds its counter as an array.
constexpr int64_t kMaxTrips = int64_t{1} << 24;
/// Captures of a region are looked up one by one.
constexpr size_t kMaxLeaves = 4096;

const HloInstruction& root_of(const HloComputation& c) {
  return c.instructions[static_cast<size_t>(c.root)];
}

/// Whether the root is a tuple of arrays, as nearly every loop's is.
bool is_flat_tuple(const HloComputation& body) {
  const HloInstruction& root = root_of(body);
  return root.opcode == "tuple" && root.operands.size() == root.shape.elements.size() &&
         std::ranges::all_of(root.shape.elements, [](const HloShape& element) {
           return element.kind == HloShape::Kind::kArray;
         });
}

/// Which element of the root's tuple of arrays is this one and nothing else.
std::optional<size_t> element_of(const HloComputation& body, size_t leaf) {
  if (!is_flat_tuple(body)) return std::nullopt;
  const std::vector<HloShape>& elements = root_of(body).shape.elements;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].first_leaf == leaf && elements[i].leaf_count == 1) return i;
  }
  return std::nullopt;
}

/// By value: whether the body's root takes it straight from the parameter.
std::vector<bool> find_invariants(InstructionContext& n, const HloComputation& body,
                                  size_t leaves) {
  std::vector<bool> invariant(leaves, false);
  const HloInstruction& root = root_of(body);
  if (!is_flat_tuple(body) || root.shape.leaf_count != leaves) return invariant;
  for (size_t i = 0; i < root.operands.size(); ++i) {
    const HloInstruction* at = &body.instructions[static_cast<size_t>(root.operands[i])];
    while (at->opcode == "copy" && at->operands.size() == 1) {
      at = &body.instructions[static_cast<size_t>(at->operands[0])];
    }
    if (at->opcode != "get-tuple-element" || at->operands != body.parameters) continue;
    for (const HloAttribute& attribute : at->attributes) {
      if (attribute.name != "index") continue;
      const TextScanner value(n.importer().module().text, attribute.value);
      const bool same = parse_ints(value) == std::vector<int64_t>{static_cast<int64_t>(i)};
      const HloShape& element = root.shape.elements[i];
      for (size_t k = 0; k < element.leaf_count; ++k) invariant[element.first_leaf + k] = same;
    }
  }
  return invariant;
}

Loop read_loop(InstructionContext& n) {
  n.expect_operands(1);
  Loop loop{n.computation("condition"), n.computation("body"), {}, {}};
  n.require(loop.condition.parameters.size() == 1 && loop.body.parameters.size() == 1,
            "condition and body take one parameter");
  for (const ValueId v : n.leaves(0)) loop.inits.push_back(n.importer().whole(v));
  if (loop.inits.size() > kMaxLeaves) {
    refuse_unsupported(fmt::format("a loop of more than {} values", kMaxLeaves));
  }
  loop.invariant = find_invariants(n, loop.body, loop.inits.size());
  return loop;
}

/// A condition that compares a value that changes with a number.
struct Bound {
  size_t leaf = 0;
  ScalarOp comparison = ScalarOp::kLt;  ///< value ? limit
  int64_t limit = 0;
};

ScalarOp mirrored(ScalarOp comparison) {
  switch (comparison) {
    case ScalarOp::kLt:
      return ScalarOp::kGt;
    case ScalarOp::kGt:
      return ScalarOp::kLt;
    case ScalarOp::kLe:
      return ScalarOp::kGe;
    case ScalarOp::kGe:
      return ScalarOp::kLe;
    default:
      return comparison;
  }
}

std::optional<int64_t> known_integer(GraphBuilder& b, ValueId v) {
  if (!is_integer(b.dtype(v)) || b.size(v) != 1) return std::nullopt;
  const HostTensor* known = b.constant_value(v);
  if (known == nullptr) return std::nullopt;
  return known->at_int(0);
}

std::optional<size_t> position_of(const Leaves& leaves, ValueId v) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i] == v) return i;
  }
  return std::nullopt;
}

std::optional<ScalarOp> elementwise_op(const Node* node) {
  if (node == nullptr || node->op != GraphOp::kElementwise) return std::nullopt;
  return std::get<ElementwiseAttrs>(node->attrs).op;
}

std::optional<Bound> find_bound(InstructionContext& n, const Loop& loop) {
  GraphBuilder region(&n.b);
  InvariantArrays invariants(loop, region);
  const Leaves arguments = invariants.arguments(n);
  const Leaves results =
      n.importer().translate(loop.condition, {arguments}, n.called_frame(region));
  n.require(results.size() == 1, "the condition is not one pred");
  const ValueId goes_on = n.importer().whole(results[0]);
  n.require(region.type(goes_on) == TensorType{DType::kBool, {}}, "the condition is not one pred");
  const Node* node = region.maker(goes_on);
  const auto op = elementwise_op(node);
  if (!op || !scalar_op_is_comparison(*op)) return std::nullopt;
  const ValueId left = node->operands[0], right = node->operands[1];
  for (const bool swapped : {false, true}) {
    const auto leaf = position_of(arguments, swapped ? right : left);
    if (!leaf) continue;
    const auto limit = known_integer(region, swapped ? left : right);
    if (limit) return Bound{*leaf, swapped ? mirrored(*op) : *op, *limit};
  }
  return std::nullopt;
}

/// By how much each iteration moves the value.
std::optional<int64_t> find_step(InstructionContext& n, const Loop& loop, size_t leaf) {
  GraphBuilder region(&n.b);
  InvariantArrays invariants(loop, region);
  const Leaves arguments = invariants.arguments(n);
  const auto element = element_of(loop.body, leaf);
  const Leaves results =
      n.importer().translate(loop.body, {arguments}, n.called_frame(region), element);
  const size_t at = element ? 0 : leaf;
  if (at >= results.size()) return std::nullopt;
  const ValueId next = n.importer().whole(results[at]);
  const Node* node = region.maker(next);
  const auto op = elementwise_op(node);
  if (op != ScalarOp::kAdd && op != ScalarOp::kSub) return std::nullopt;
  const ValueId left = node->operands[0], right = node->operands[1];
  if (left == arguments[leaf]) {
    const auto step = known_integer(region, right);
    if (!step || *step == std::numeric_limits<int64_t>::min()) return std::nullopt;
    return op == ScalarOp::kAdd ? *step : -*step;
  }
  if (right == arguments[leaf] && op == ScalarOp::kAdd) return known_integer(region, left);
  return std::nullopt;
}

/// Iterations from `first` by `step` while the comparison with the limit holds.
std::optional<int64_t> count_trips(int64_t first, int64_t step, const Bound& bound) {
  __int128 distance = static_cast<__int128>(bound.limit) - first;
  __int128 stride = step;
  ScalarOp comparison = bound.comparison;
  if (comparison == ScalarOp::kGt || comparison == ScalarOp::kGe) {
    distance = -distance;
    stride = -stride;
    comparison = mirrored(comparison);
  }
  if (comparison == ScalarOp::kNe && stride < 0) {
    distance = -distance;
    stride = -stride;
  }
  if (comparison == ScalarOp::kLe) ++distance;
  const bool exact = comparison != ScalarOp::kNe || (stride > 0 && distance % stride == 0);
  const bool known =
      comparison == ScalarOp::kLt || comparison == ScalarOp::kLe || comparison == ScalarOp::kNe;
  if (!known || !exact) return std::nullopt;
  if (distance <= 0)
    return comparison == ScalarOp::kNe && distance < 0 ? std::nullopt : std::optional<int64_t>(0);
  if (stride <= 0) return std::nullopt;
  const __int128 trips = (distance + stride - 1) / stride;
  if (trips > kMaxTrips) return std::nullopt;
  return static_cast<int64_t>(trips);
}

/// Whether the counter's last value still fits its type.
bool stays_in_type(const LoopCounter& counter, DType type) {
  const __int128 last = counter.first + static_cast<__int128>(counter.step) * counter.trips;
  const int bits = static_cast<int>(8 * byte_size(type));
  const __int128 one = 1;
  const bool is_signed = is_signed_integer(type);
  const __int128 high = (one << (is_signed ? bits - 1 : bits)) - 1;
  return last <= high && last >= (is_signed ? -high - 1 : 0);
}

/// Any other loop: it runs while its condition holds.
Leaves make_open_loop(InstructionContext& n, const Loop& loop) {
  GraphBuilder condition(&n.b), body(&n.b);
  InvariantArrays of_condition(loop, condition), of_body(loop, body);
  const Leaves tested = n.importer().translate(loop.condition, {of_condition.arguments(n)},
                                               n.called_frame(condition));
  n.require(tested.size() == 1, "the condition is not one pred");
  condition.result(n.importer().whole(tested[0]));
  const Leaves next =
      n.importer().translate(loop.body, {of_body.arguments(n)}, n.called_frame(body));
  n.require(next.size() == loop.inits.size(), "the body's result is not its parameter's type");
  std::vector<ValueId> carries;
  for (size_t i = 0; i < next.size(); ++i) {
    if (loop.invariant[i]) continue;
    carries.push_back(loop.inits[i]);
    body.result(n.importer().whole(next[i]));
  }
  if (carries.empty()) refuse_unsupported("a loop that changes nothing never ends");
  const std::vector<ValueId> last = n.b.make_while(carries, condition, body);
  Leaves results;
  size_t carried = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    results.push_back(loop.invariant[i] ? loop.inits[i] : last[carried++]);
  }
  return results;
}

void translate_while(InstructionContext& n) {
  const Loop loop = read_loop(n);
  const auto counter = find_counter(n, loop);
  n.set_results(counter ? make_counted_loop(n, loop, *counter) : make_open_loop(n, loop));
}

const Translator kRows[] = {
    {"while", translate_while},
};

}  // namespace

Leaves InvariantArrays::arguments(InstructionContext& n) {
  Leaves leaves;
  for (size_t i = 0; i < loop_.inits.size(); ++i) {
    leaves.push_back(loop_.invariant[i] ? n.importer().defer({this, i})
                                        : region_.input(n.b.type(loop_.inits[i])));
  }
  return leaves;
}

std::optional<LoopCounter> find_counter(InstructionContext& n, const Loop& loop) {
  const auto bound = find_bound(n, loop);
  if (!bound || loop.invariant[bound->leaf]) return std::nullopt;
  const ValueId init = loop.inits[bound->leaf];
  const auto first = known_integer(n.b, init);
  if (!first || !n.b.shape(init).empty() || n.b.dtype(init) == DType::kU64) return std::nullopt;
  const auto step = find_step(n, loop, bound->leaf);
  if (!step) return std::nullopt;
  const auto trips = count_trips(*first, *step, *bound);
  if (!trips) return std::nullopt;
  const LoopCounter counter{bound->leaf, *first, *step, *trips};
  if (!stays_in_type(counter, n.b.dtype(init))) return std::nullopt;
  return counter;
}

TranslatorTable loop_translators() { return kRows; }

}  // namespace weft::hlo
