#include <fmt/format.h>

#include <algorithm>

#include "import/hlo/index_tuples.h"
#include "import/hlo/permutation.h"
#include "import/hlo/scalar_computation.h"

namespace weft::hlo {
namespace {

constexpr AddressingNames kNames = {"inserted_window_dims", "scatter_dims_to_operand_dims",
                                    "input_batching_dims", "scatter_indices_batching_dims"};

/// How one array of a scatter takes its updates.
enum class Update : uint8_t { kKeep, kReplace, kCombine };
struct UpdateRule {
  Update kind = Update::kReplace;
  Combiner combiner = Combiner::kSum;
};

/// Of computation parameters (arrays…, updates…), for the array `i`.
UpdateRule update_rule(InstructionContext& n, const HloComputation& computation,
                       const std::vector<DType>& types, size_t i) {
  std::vector<DType> pairs = types;
  pairs.insert(pairs.end(), types.begin(), types.end());
  const Graph graph = scalar_graph(n, computation, pairs);
  n.require(graph.outputs.size() == types.size(), "the computation's results do not fit");
  if (graph.outputs[i] == graph.inputs[i]) return {Update::kKeep};
  if (graph.outputs[i] == graph.inputs[i + types.size()]) return {Update::kReplace};
  const Reducer reducer = recognise_reducer(n, computation, types);
  if (reducer.combiners.size() != types.size()) {
    refuse_unsupported(
        "its updates are joined by a computation that is no sum, product, minimum, maximum, and, "
        "or, or replacement");
  }
  return {Update::kCombine, reducer.combiners[i]};
}

/// Window sizes by axis of the array, from the shape of the updates.
std::vector<int64_t> window_sizes(InstructionContext& n, const Shape& array, const Shape& updates) {
  const std::vector<int64_t> window_dims = n.ints("update_window_dims");
  std::vector<int64_t> absent = n.ints_or_none(kNames.dropped);
  for (const int64_t axis : n.ints_or_none(kNames.array_batch)) absent.push_back(axis);
  n.require(window_dims.size() + absent.size() == array.size(), "update_window_dims do not fit");
  std::vector<int64_t> sizes(array.size(), 1);
  size_t k = 0;
  for (size_t i = 0; i < array.size(); ++i) {
    if (std::ranges::find(absent, static_cast<int64_t>(i)) != absent.end()) continue;
    n.require(k < window_dims.size() && window_dims[k] >= 0 &&
                  window_dims[k] < static_cast<int64_t>(updates.size()),
              "update_window_dims do not fit");
    sizes[i] = updates[static_cast<size_t>(window_dims[k++])];
    n.require(sizes[i] <= array[i], "an update is larger than the array");
  }
  return sizes;
}

/// What all arrays of a scatter share.
struct Places {
  Addressing addressing;
  std::vector<size_t> axes;     ///< along which the windows lie somewhere
  ValueId inside = kNoValue;    ///< [batch…]: whether the window is within; none: always
  std::vector<ValueId> starts;  ///< by entry of axes
};

/// A window that is not wholly inside is left out.
void find_places(InstructionContext& n, Places& p) {
  GraphBuilder& b = n.b;
  const Addressing& a = p.addressing;
  for (size_t i = 0; i < a.array.size(); ++i) {
    const bool partial = a.size[i] < a.array[i];
    if (a.component[i] >= 0) {
      const ValueId start = starts_of(b, a, i);
      const DType type = b.dtype(start);
      const ValueId from = b.binary(ScalarOp::kGe, start, b.scalar_int(type, 0));
      const ValueId until = b.binary(ScalarOp::kLe, start, b.scalar_int(type, a.last_start(i)));
      const ValueId inside = b.binary(ScalarOp::kAnd, from, until);
      p.inside = p.inside == kNoValue ? inside : b.binary(ScalarOp::kAnd, p.inside, inside);
    }
    if (!a.is_looked_up(i) && !partial) continue;
    p.axes.push_back(i);
    p.starts.push_back(a.is_looked_up(i) ? starts_of(b, a, i)
                                         : b.full_int(b.dtype(a.indices), a.batch, 0));
  }
}

/// The updates as scatter_nd has them: [batch…, window…, the other axes of the array].
ValueId ordered_updates(InstructionContext& n, const Places& p, ValueId updates) {
  const Addressing& a = p.addressing;
  const std::vector<int64_t> window_dims = n.ints("update_window_dims");
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n.b.rank(updates); ++i) {
    if (std::ranges::find(window_dims, i) == window_dims.end()) order.push_back(i);
  }
  n.require(order.size() == a.batch.size(), "updates and indices do not fit");
  std::vector<int64_t> axis_of(a.array.size(), -1);  // of the updates, by axis of the array
  size_t k = 0;
  for (size_t i = 0; i < a.array.size(); ++i) {
    if (!a.dropped[i]) axis_of[i] = window_dims[k++];
  }
  Shape to = a.batch;
  const auto append = [&](size_t axis) {
    if (axis_of[axis] >= 0) order.push_back(axis_of[axis]);
  };
  for (const size_t axis : p.axes) {
    append(axis);
    if (a.size[axis] != 1) to.push_back(a.size[axis]);
  }
  for (size_t i = 0; i < a.array.size(); ++i) {
    if (std::ranges::find(p.axes, i) != p.axes.end()) continue;
    append(i);
    to.push_back(a.array[i]);
  }
  return n.b.reshape(n.b.transpose(updates, order), to);
}

std::vector<int64_t> looked_up_first(const Places& p) {
  std::vector<int64_t> order(p.axes.begin(), p.axes.end());
  for (size_t i = 0; i < p.addressing.array.size(); ++i) {
    if (std::ranges::find(p.axes, i) == p.axes.end()) order.push_back(static_cast<int64_t>(i));
  }
  return order;
}

/// [batch…] as a condition on updates in the order of ordered_updates.
ValueId condition_on(GraphBuilder& b, const Places& p, const Shape& updates) {
  std::vector<int64_t> batch_axes;
  for (size_t i = 0; i < p.addressing.batch.size(); ++i) {
    batch_axes.push_back(static_cast<int64_t>(i));
  }
  return b.broadcast_in_dim(p.inside, updates, batch_axes);
}

/// Updates outside of the array count for nothing: they join as the neutral value.
ValueId combine(GraphBuilder& b, const Places& p, ValueId x, ValueId updates, Combiner combiner) {
  if (p.inside != kNoValue) {
    const Shape shape = b.shape(updates);
    updates =
        b.select(condition_on(b, p, shape), updates, neutral_value(b, combiner, b.dtype(updates)));
  }
  ScatterAttrs attrs;
  attrs.combines = true;
  attrs.combiner = combiner;
  return b.scatter_nd(x, index_tuples(b, p.addressing, p.axes, p.starts), updates, attrs);
}

/// Updates outside of the array go to a row behind its end, which is cut off again.
ValueId replace(GraphBuilder& b, const Places& p, ValueId x, ValueId updates) {
  std::vector<ValueId> starts = p.starts;
  const int64_t rows = b.extent(x, 0);
  const bool guarded = p.inside != kNoValue;
  if (guarded) {
    std::vector<int64_t> low(b.shape(x).size(), 0), high = low;
    high[0] = p.addressing.size[p.axes[0]];
    x = b.pad(x, b.scalar(b.dtype(x), 0), low, high);
    const ValueId outside = b.logical_not(p.inside);
    starts[0] = b.select(outside, b.scalar_int(b.dtype(starts[0]), rows), starts[0]);
  }
  const ValueId y =
      b.scatter_nd(x, index_tuples(b, p.addressing, p.axes, starts), updates, ScatterAttrs{});
  return guarded ? b.slice_axis(y, 0, 0, rows) : y;
}

ValueId scatter_one(InstructionContext& n, const Places& p, ValueId x, ValueId updates,
                    const UpdateRule& rule) {
  if (rule.kind == Update::kKeep || n.b.size(updates) == 0) return x;
  const std::vector<int64_t> order = looked_up_first(p);
  const ValueId ordered = ordered_updates(n, p, updates);
  const ValueId from = n.b.transpose(x, order);
  const ValueId y = rule.kind == Update::kReplace ? replace(n.b, p, from, ordered)
                                                  : combine(n.b, p, from, ordered, rule.combiner);
  return n.b.transpose(y, inverse_permutation(order));
}

/// A window as large as the array has no axis to be found along: it gets one.
Places places_of(InstructionContext& n, ValueId indices, const Shape& array, const Shape& updates) {
  Places p{read_addressing(n, indices, kNames, array, window_sizes(n, array, updates)),
           {},
           kNoValue,
           {}};
  find_places(n, p);
  if (!p.axes.empty()) return p;
  Addressing& a = p.addressing;
  a.array.insert(a.array.begin(), 1);
  a.size.insert(a.size.begin(), 1);
  a.dropped.insert(a.dropped.begin(), true);
  a.component.insert(a.component.begin(), -1);
  a.paired.insert(a.paired.begin(), -1);
  p.axes = {0};
  p.starts = {n.b.full_int(n.b.dtype(a.indices), a.batch, 0)};
  return p;
}

void translate_scatter(InstructionContext& n) {
  const size_t count = n.operand_count() / 2;
  n.require(count >= 1 && n.operand_count() == 2 * count + 1, "takes arrays, indices and updates");
  const std::vector<ValueId> arrays = n.operands(0, count);
  const std::vector<ValueId> updates = n.operands(count + 1, 2 * count + 1);
  const HloComputation& computation = n.computation("to_apply");
  std::vector<DType> types;
  for (const ValueId v : arrays) types.push_back(n.b.dtype(v));
  const Shape array = n.b.shape(arrays[0]), update = n.b.shape(updates[0]);
  const Places p = places_of(n, n.operand(count), array, update);
  Leaves results;
  for (size_t i = 0; i < count; ++i) {
    n.require(n.b.shape(arrays[i]) == array && n.b.shape(updates[i]) == update &&
                  n.b.dtype(updates[i]) == types[i],
              "arrays or updates differ");
    const UpdateRule rule = update_rule(n, computation, types, i);
    const ValueId x = n.b.reshape(arrays[i], p.addressing.array);
    results.push_back(n.b.reshape(scatter_one(n, p, x, updates[i], rule), array));
  }
  n.set_results(std::move(results));
}

const Translator kRows[] = {
    {"scatter", translate_scatter},
};

}  // namespace

TranslatorTable scatter_translators() { return kRows; }

}  // namespace weft::hlo
