#include <algorithm>
#include <limits>

#include "import/hlo/loop.h"

namespace weft::hlo {
namespace {

/// A scan holds its counter as an array.
constexpr int64_t kMaxTrips = int64_t{1} << 24;
constexpr size_t kMaxBounds = 16;

/// Which element of the root's tuple is this one and nothing else.
std::optional<size_t> element_of(const HloComputation& body, size_t leaf) {
  const HloInstruction& root = body.instructions[static_cast<size_t>(body.root)];
  const std::vector<HloShape>& elements = root.shape.elements;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].first_leaf == leaf && elements[i].leaf_count == 1) return i;
  }
  return std::nullopt;
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

std::optional<Bound> read_bound(GraphBuilder& region, const Leaves& arguments, const Node* node) {
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

/// The bounds that a condition consists of, all of which must hold; none where it is anything else.
std::vector<Bound> find_bounds(InstructionContext& n, const Loop& loop) {
  GraphBuilder region(&n.b);
  InvariantArrays invariants(loop, region);
  const Leaves arguments = invariants.arguments(n);
  const Leaves results =
      n.importer().translate(loop.condition, {arguments}, n.called_frame(region));
  n.require(results.size() == 1, "the condition is not one pred");
  const ValueId goes_on = n.importer().whole(results[0]);
  n.require(region.type(goes_on) == TensorType{DType::kBool, {}}, "the condition is not one pred");
  std::vector<ValueId> open = {goes_on};
  std::vector<Bound> bounds;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const Node* node = region.maker(v);
    if (elementwise_op(node) == ScalarOp::kAnd && open.size() < kMaxBounds) {
      open.insert(open.end(), node->operands.rbegin(), node->operands.rend());
      continue;
    }
    const auto bound = read_bound(region, arguments, node);
    if (!bound || loop.invariant[bound->leaf] || bounds.size() == kMaxBounds) return {};
    bounds.push_back(*bound);
  }
  return bounds;
}

/// By how much `next` is more than the value.
std::optional<int64_t> step_between(GraphBuilder& region, ValueId value, ValueId next) {
  const Node* node = region.maker(next);
  const auto op = elementwise_op(node);
  if (op != ScalarOp::kAdd && op != ScalarOp::kSub) return std::nullopt;
  const ValueId left = node->operands[0], right = node->operands[1];
  if (left == value) {
    const auto step = known_integer(region, right);
    if (!step || *step == std::numeric_limits<int64_t>::min()) return std::nullopt;
    return op == ScalarOp::kAdd ? *step : -*step;
  }
  if (right == value && op == ScalarOp::kAdd) return known_integer(region, left);
  return std::nullopt;
}

/// By value: by how much each iteration moves it. Where the body's root says its elements, of the
/// bounds' values alone, which need not all of the body.
std::vector<std::optional<int64_t>> find_steps(InstructionContext& n, const Loop& loop,
                                               const std::vector<Bound>& bounds) {
  GraphBuilder region(&n.b);
  InvariantArrays invariants(loop, region);
  const Leaves arguments = invariants.arguments(n);
  const auto import = [&](std::optional<size_t> element) {
    return n.importer().translate(loop.body, {arguments}, n.called_frame(region), element);
  };
  std::vector<std::optional<int64_t>> steps(arguments.size());
  const auto note = [&](size_t leaf, ValueId next) {
    if (loop.invariant[leaf] || n.importer().deferred(next) != nullptr) return;
    steps[leaf] = step_between(region, arguments[leaf], next);
  };
  if (says_elements(loop.body)) {
    for (const Bound& bound : bounds) {
      const Leaves next = import(element_of(loop.body, bound.leaf));
      if (next.size() == 1) note(bound.leaf, next[0]);
    }
    return steps;
  }
  const Leaves next = import(std::nullopt);
  for (size_t i = 0; i < std::min(next.size(), arguments.size()); ++i) note(i, next[i]);
  return steps;
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

/// Whether the last value still fits its type.
bool stays_in_type(const Progression& p, int64_t trips, DType type) {
  const __int128 last = p.first + static_cast<__int128>(p.step) * trips;
  const int bits = static_cast<int>(8 * byte_size(type));
  const __int128 one = 1;
  const bool is_signed = is_signed_integer(type);
  const __int128 high = (one << (is_signed ? bits - 1 : bits)) - 1;
  return last <= high && last >= (is_signed ? -high - 1 : 0);
}

/// A scalar integer that is known before the loop, and moves by a known step.
std::optional<Progression> progression_of(InstructionContext& n, ValueId init,
                                          std::optional<int64_t> step) {
  if (!step || !n.b.shape(init).empty() || n.b.dtype(init) == DType::kU64) return std::nullopt;
  const auto first = known_integer(n.b, init);
  if (!first) return std::nullopt;
  return Progression{*first, *step};
}

/// The integers that move as the counter does, or against it.
void find_companions(InstructionContext& n, const Loop& loop,
                     const std::vector<std::optional<int64_t>>& steps, LoopCounter& counter) {
  counter.companions.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == counter.leaf || !is_small(counter.values) || !steps[i] ||
        (*steps[i] != counter.values.step && *steps[i] != -counter.values.step)) {
      continue;
    }
    const auto values = progression_of(n, loop.inits[i], steps[i]);
    const DType type = n.b.dtype(loop.inits[i]);
    if (!values || !is_small(*values) || !stays_in_type(*values, counter.trips, type)) continue;
    counter.companions[i] = values;
  }
}

}  // namespace

std::optional<LoopCounter> find_counter(InstructionContext& n, const Loop& loop) {
  const std::vector<Bound> bounds = find_bounds(n, loop);
  if (bounds.empty()) return std::nullopt;
  const auto steps = find_steps(n, loop, bounds);
  LoopCounter counter;
  for (const Bound& bound : bounds) {
    const auto values = progression_of(n, loop.inits[bound.leaf], steps[bound.leaf]);
    if (!values) return std::nullopt;
    const auto trips = count_trips(values->first, values->step, bound);
    if (!trips || !stays_in_type(*values, *trips, n.b.dtype(loop.inits[bound.leaf]))) {
      return std::nullopt;
    }
    const bool first = &bound == bounds.data();
    if (first || *trips < counter.trips) counter = {bound.leaf, *values, *trips, {}};
  }
  find_companions(n, loop, steps, counter);
  return counter;
}

}  // namespace weft::hlo
