#include "import/hlo/scalar_computation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/builder/prune_graph.h"
#include "interp/interpreter.h"

namespace weft::hlo {
namespace {

constexpr Combiner kCombiners[] = {Combiner::kSum, Combiner::kProd, Combiner::kMin,
                                   Combiner::kMax, Combiner::kAnd,  Combiner::kOr};

/// A graph of scalars with the node that makes each value.
class MadeValues {
 public:
  explicit MadeValues(const Graph& graph) : graph_(graph), made_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (const ValueId v : node.results) made_[static_cast<size_t>(v)] = &node;
    }
  }

  /// The combiner when `v` is one operation on `a` and `b`.
  std::optional<Combiner> single_operation(ValueId v, ValueId a, ValueId b) const {
    const Node* node = maker(through_float_conversions(v));
    if (node == nullptr || node->operands.size() != 2) return std::nullopt;
    const ValueId left = through_float_conversions(node->operands[0]);
    const ValueId right = through_float_conversions(node->operands[1]);
    if (!(left == a && right == b) && !(left == b && right == a)) return std::nullopt;
    for (const Combiner combiner : kCombiners) {
      if (is_op(node, *combiner_op(combiner))) return combiner;
    }
    return std::nullopt;
  }

 private:
  /// nullptr for an input.
  const Node* maker(ValueId v) const { return made_[static_cast<size_t>(v)]; }

  static bool is_op(const Node* node, ScalarOp op) {
    return node != nullptr && node->op == GraphOp::kElementwise &&
           std::get<ElementwiseAttrs>(node->attrs).op == op;
  }

  /// A sum in 16 bits is written as one in 32, rounded.
  ValueId through_float_conversions(ValueId v) const {
    const Node* node = maker(v);
    while (is_op(node, ScalarOp::kConvert) && is_float(graph_.type(v).dtype) &&
           is_float(graph_.type(node->operands[0]).dtype)) {
      v = node->operands[0];
      node = maker(v);
    }
    return v;
  }

  const Graph& graph_;
  std::vector<const Node*> made_;  ///< by value
};

/// Whether the graph only compares, selects and joins truth values. What it gives then follows from
/// the order of its inputs alone.
bool only_compares(const Graph& graph) {
  return std::ranges::all_of(graph.nodes, [&](const Node& node) {
    if (node.op != GraphOp::kElementwise) return false;
    const ScalarOp op = std::get<ElementwiseAttrs>(node.attrs).op;
    const bool on_truth = graph.type(node.operands[0]).dtype == DType::kBool;
    const bool logical =
        op == ScalarOp::kAnd || op == ScalarOp::kOr || op == ScalarOp::kXor || op == ScalarOp::kNot;
    return scalar_op_is_predicate(op) || op == ScalarOp::kSelect || (logical && on_truth);
  });
}

constexpr int64_t kLevels = 5;  // 0 to 3, which four inputs can differ by, and NaN

/// Every order of `count` inputs, one a lane: digit i of the lane's number is input i.
std::vector<HostTensor> every_order(const std::vector<DType>& types) {
  int64_t lanes = 1;
  for (size_t i = 0; i < types.size(); ++i) lanes *= kLevels;
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    HostTensor input(types[i], {lanes});
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t digit = lane;
      for (size_t k = 0; k < i; ++k) digit /= kLevels;
      digit %= kLevels;
      const bool nan = digit == kLevels - 1 && is_float(types[i]);
      input.set_double(lane,
                       nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(digit));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Whether a later value takes the place of an earlier one.
bool takes_over(double later, double earlier, bool max, bool last_on_ties) {
  if (std::isnan(earlier)) return std::isnan(later) && last_on_ties;
  if (std::isnan(later)) return true;
  if (later == earlier) return last_on_ties;
  return max ? later > earlier : later < earlier;
}

/// The results of a comparing computation in every order of its inputs.
struct Trial {
  std::vector<HostTensor> inputs, outputs;
};

std::optional<Trial> try_every_order(InstructionContext& n, const HloComputation& computation,
                                     const std::vector<DType>& types) {
  Trial trial;
  trial.inputs = every_order(types);
  const Graph graph = scalar_graph(n, computation, types, trial.inputs[0].size());
  if (!only_compares(graph)) return std::nullopt;
  auto outputs = interpret(graph, trial.inputs);
  if (!outputs.ok()) return std::nullopt;
  trial.outputs = std::move(*outputs);
  return trial;
}

std::optional<Combiner> extremum(const Trial& trial) {
  for (const Combiner combiner : {Combiner::kMax, Combiner::kMin}) {
    bool fits = true;
    for (int64_t lane = 0; fits && lane < trial.outputs[0].size(); ++lane) {
      const double a = trial.inputs[0].at_double(lane), b = trial.inputs[1].at_double(lane);
      const bool later = takes_over(b, a, combiner == Combiner::kMax, false);
      fits = same(trial.outputs[0].at_double(lane), later ? b : a);
    }
    if (fits) return combiner;
  }
  return std::nullopt;
}

/// Places ascend from the values so far to those that join.
bool is_arg_form(const Trial& trial, bool max, bool last_on_ties) {
  for (int64_t lane = 0; lane < trial.outputs[0].size(); ++lane) {
    const auto in = [&](size_t i) { return trial.inputs[i].at_double(lane); };
    if (in(1) > in(3) || std::isnan(in(1)) || std::isnan(in(3))) continue;
    const bool later = takes_over(in(2), in(0), max, last_on_ties);
    if (!same(trial.outputs[0].at_double(lane), in(later ? 2 : 0)) ||
        !same(trial.outputs[1].at_double(lane), in(later ? 3 : 1))) {
      return false;
    }
  }
  return true;
}

void recognise_by_order(InstructionContext& n, const HloComputation& computation,
                        const std::vector<DType>& types, Reducer& reducer) {
  const size_t values = types.size() / 2;
  if (values > 2 || (values == 2 && !is_integer(types[1]))) return;
  const auto trial = try_every_order(n, computation, types);
  if (!trial) return;
  if (values == 1) {
    if (const auto combiner = extremum(*trial)) reducer.combiners = {*combiner};
    return;
  }
  for (const bool max : {true, false}) {
    for (const bool last : {false, true}) {
      if (!is_arg_form(*trial, max, last)) continue;
      reducer.arg = max ? Combiner::kArgMax : Combiner::kArgMin;
      reducer.last_on_ties = last;
      return;
    }
  }
}

/// One part of what the computation makes of complex numbers. The arguments are that part of each;
/// the other is a further input.
ValueId apply_to_parts(InstructionContext& n, GraphBuilder& b, const HloComputation& computation,
                       const std::vector<ValueId>& arguments, const Shape& lanes) {
  const size_t part = *n.part(0);
  std::vector<Leaves> numbers;
  for (const ValueId v : arguments) {
    const ValueId other = b.input({b.dtype(v), lanes});
    numbers.push_back(part == 0 ? Leaves{v, other} : Leaves{other, v});
  }
  const Leaves results = n.importer().translate(computation, numbers, n.called_frame(b, &lanes));
  n.require(results.size() == 2, "the computation's results do not fit");
  return b.broadcast_to(results[part], lanes);
}

}  // namespace

Leaves apply_to_lanes(InstructionContext& n, GraphBuilder& b, const HloComputation& computation,
                      const std::vector<ValueId>& arguments, const Shape& lanes) {
  if (n.part(0)) refuse_unsupported("complex numbers joined by other than a sum or a replacement");
  std::vector<Leaves> wrapped;
  for (const ValueId v : arguments) wrapped.push_back({v});
  const Shape held = lanes;  // it may be a shape of the graph, which moves
  Leaves results = n.importer().translate(computation, wrapped, n.called_frame(b, &held));
  for (ValueId& v : results) v = b.broadcast_to(v, held);
  return results;
}

Graph scalar_graph(InstructionContext& n, const HloComputation& computation,
                   const std::vector<DType>& types, int64_t lanes) {
  GraphBuilder builder;
  std::vector<ValueId> arguments;
  for (const DType type : types) arguments.push_back(builder.input({type, {lanes}}));
  const Leaves results = n.part(0)
                             ? Leaves{apply_to_parts(n, builder, computation, arguments, {lanes})}
                             : apply_to_lanes(n, builder, computation, arguments, {lanes});
  for (const ValueId v : results) {
    builder.graph().add_output(v, "out" + std::to_string(builder.graph().outputs.size()));
  }
  return onnx::prune_graph(builder.graph(), {});
}

Reducer recognise_reducer(InstructionContext& n, const HloComputation& computation,
                          const std::vector<DType>& types) {
  std::vector<DType> pairs = types;
  pairs.insert(pairs.end(), types.begin(), types.end());
  const Graph graph = scalar_graph(n, computation, pairs);
  n.require(graph.outputs.size() == types.size(), "the computation's results do not fit");
  const MadeValues values(graph);
  Reducer reducer;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto combiner =
        values.single_operation(graph.outputs[i], graph.inputs[i], graph.inputs[i + types.size()]);
    if (!combiner) {
      reducer.combiners.clear();
      break;
    }
    reducer.combiners.push_back(*combiner);
  }
  if (reducer.combiners.empty()) recognise_by_order(n, computation, pairs, reducer);
  return reducer;
}

bool is_identity(GraphBuilder& b, ValueId v, Combiner combiner) {
  const HostTensor* known = b.constant_value(v);
  if (known == nullptr || known->size() != 1) return false;
  const ScalarValue identity = combiner_identity(combiner, known->dtype());
  return is_float(known->dtype()) ? known->at_double(0) == identity.f
                                  : known->at_int(0) == identity.i;
}

ValueId neutral_value(GraphBuilder& b, Combiner combiner, DType type) {
  const ScalarValue identity = combiner_identity(combiner, type);
  if (!is_float(type)) return b.scalar_int(type, identity.i);
  return b.scalar(type, combiner == Combiner::kSum ? -0.0 : identity.f);
}

}  // namespace weft::hlo
