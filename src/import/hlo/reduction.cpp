#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "import/hlo/scalar_computation.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// reduce(values, inits), dimensions={axes}, to_apply=reducer.
struct Reduce {
  std::vector<ValueId> values, inits;
  std::vector<int64_t> axes, kept;
  Shape kept_shape;
  const HloComputation& reducer;
};

Reduce read_reduce(InstructionContext& n) {
  const size_t count = n.operand_count() / 2;
  n.require(count >= 1 && 2 * count == n.operand_count(), "takes values and as many inits");
  Reduce r{n.operands(0, count),     n.operands(count, 2 * count), {}, {}, {},
           n.computation("to_apply")};
  r.axes = GraphBuilder::normal_axes(n.ints("dimensions"), n.b.rank(r.values[0]));
  for (size_t i = 0; i < count; ++i) {
    n.require(n.b.shape(r.values[i]) == n.b.shape(r.values[0]), "the values' shapes differ");
    n.require(n.b.type(r.inits[i]) == TensorType{n.b.dtype(r.values[i]), {}},
              "an init is a scalar of its value's type");
  }
  for (int64_t axis = 0; axis < n.b.rank(r.values[0]); ++axis) {
    if (std::ranges::binary_search(r.axes, axis)) continue;
    r.kept.push_back(axis);
    r.kept_shape.push_back(n.b.extent(r.values[0], axis));
  }
  return r;
}

ValueId joined(GraphBuilder& b, Combiner combiner, ValueId init, ValueId x) {
  if (is_identity(b, init, combiner)) return x;
  return b.binary(*combiner_op(combiner), init, x);
}

/// The axis of `from` that is this one of `to`, where a reshape between them moves axes of 1 alone.
std::optional<int64_t> axis_before(const Shape& from, const Shape& to, int64_t axis) {
  std::optional<int64_t> found;
  size_t i = 0;
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] == 1) continue;
    while (i < from.size() && from[i] == 1) ++i;
    if (i == from.size() || from[i] != to[k]) return std::nullopt;
    if (static_cast<int64_t>(k) == axis) found = static_cast<int64_t>(i);
    ++i;
  }
  return found;
}

/// Whether a constant counts 0, 1, … along the axis.
bool counts_along(const HostTensor& known, int64_t axis) {
  const auto at = known.shape().begin() + axis;
  const int64_t inner = std::accumulate(at + 1, known.shape().end(), int64_t{1}, std::multiplies());
  for (int64_t i = 0; i < known.size(); ++i) {
    if (known.at_int(i) != i / inner % *at) return false;
  }
  return true;
}

/// Whether v counts 0, 1, … along the axis.
bool counts_along(GraphBuilder& b, ValueId v, int64_t axis) {
  for (const Node* node = b.maker(v); node != nullptr; node = b.maker(v)) {
    if (node->op == GraphOp::kConstant) return counts_along(*b.constant_value(v), axis);
    if (node->op == GraphOp::kIota) return std::get<IotaAttrs>(node->attrs).axis == axis;
    v = node->operands.empty() ? kNoValue : node->operands[0];
    if (node->op == GraphOp::kBroadcast) {
      const std::vector<int64_t>& dims = std::get<BroadcastAttrs>(node->attrs).dims;
      const auto at = std::ranges::find(dims, axis);
      if (at == dims.end() || b.extent(v, at - dims.begin()) != b.extent(node->results[0], axis)) {
        return false;
      }
      axis = at - dims.begin();
    } else if (node->op == GraphOp::kReshape) {
      const auto before = axis_before(b.shape(v), b.shape(node->results[0]), axis);
      if (!before) return false;
      axis = *before;
    } else if (node->op != GraphOp::kElementwise ||
               std::get<ElementwiseAttrs>(node->attrs).op != ScalarOp::kConvert) {
      return false;
    }
  }
  return false;
}

/// The largest or smallest value along one axis and its place.
bool reduce_to_place(InstructionContext& n, const Reduce& r, const Reducer& reducer) {
  if (!reducer.arg || r.axes.size() != 1 || n.b.extent(r.values[0], r.axes[0]) == 0) return false;
  const Combiner value = *reducer.arg == Combiner::kArgMax ? Combiner::kMax : Combiner::kMin;
  const HostTensor* first = n.b.constant_value(r.inits[1]);
  const bool from_zero = first != nullptr && first->at_int(0) == 0;
  if (!from_zero || reducer.last_on_ties || !is_identity(n.b, r.inits[0], value) ||
      !counts_along(n.b, r.values[1], r.axes[0])) {
    return false;
  }
  const ValueId place = n.b.arg_reduce(*reducer.arg, r.values[0], r.axes[0], false);
  n.set_results(
      {n.b.reduce(value, r.values[0], r.axes, false), n.b.convert(place, n.b.dtype(r.values[1]))});
  return true;
}

/// Any reducer: a scan over the reduced elements that keeps a value for each of the others.
void reduce_by_scan(InstructionContext& n, const Reduce& r) {
  int64_t trips = 1;
  for (const int64_t axis : r.axes) trips *= n.b.extent(r.values[0], axis);
  std::vector<int64_t> order = r.axes;
  order.insert(order.end(), r.kept.begin(), r.kept.end());
  Shape rows = r.kept_shape;
  rows.insert(rows.begin(), trips);
  GraphBuilder body(&n.b);
  std::vector<ValueId> carries, xs, arguments;
  for (size_t i = 0; i < r.values.size(); ++i) {
    carries.push_back(n.b.broadcast_to(r.inits[i], r.kept_shape));
    xs.push_back(n.b.reshape(n.b.transpose(r.values[i], order), rows));
  }
  for (const auto& values : {carries, xs}) {
    for (const ValueId v : values) arguments.push_back(body.input({n.b.dtype(v), r.kept_shape}));
  }
  const Leaves next = apply_to_lanes(n, body, r.reducer, arguments, r.kept_shape);
  n.require(next.size() == carries.size(), "the reducer's results do not fit");
  for (const ValueId v : next) body.result(v);
  n.set_results(n.b.make_scan(carries, xs, body, std::vector<bool>(xs.size(), false), {}));
}

void translate_reduce(InstructionContext& n) {
  const Reduce r = read_reduce(n);
  std::vector<DType> types;
  for (const ValueId v : r.values) types.push_back(n.b.dtype(v));
  const Reducer reducer = recognise_reducer(n, r.reducer, types);
  if (reducer.combiners.size() == r.values.size()) {
    Leaves results;
    for (size_t i = 0; i < r.values.size(); ++i) {
      const Combiner combiner = reducer.combiners[i];
      const ValueId reduced = n.b.reduce(combiner, r.values[i], r.axes, false);
      results.push_back(joined(n.b, combiner, r.inits[i], reduced));
    }
    return n.set_results(std::move(results));
  }
  if (reduce_to_place(n, r, reducer)) return;
  reduce_by_scan(n, r);
}

const Translator kRows[] = {
    {"reduce", translate_reduce},
};

}  // namespace

TranslatorTable reduction_translators() { return kRows; }

}  // namespace weft::hlo
