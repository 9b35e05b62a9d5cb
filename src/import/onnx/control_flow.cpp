#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "import/onnx/count_iterations.h"
#include "import/onnx/graph_importer.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

ValueId as_condition(OpContext& n, ValueId v) {
  n.require(n.b.dtype(v) == DType::kBool && n.b.size(v) == 1, "the condition is not one bool");
  return n.b.reshape(v, {});
}

void set_outputs(OpContext& n, const std::vector<ValueId>& results) {
  n.require(static_cast<int>(results.size()) >= n.output_count(), "the graph has few outputs");
  for (int i = 0; i < n.output_count(); ++i) n.set_output(i, results[static_cast<size_t>(i)]);
}

void add_results(OpContext& n, GraphBuilder& region, const std::vector<ValueId>& results) {
  for (ValueId v : results) {
    if (is_sequence(v)) n.unsupported("a sequence out of a graph that may not run");
    region.result(v);
  }
}

std::vector<ValueId> import_both_branches(OpContext& n, ValueId condition) {
  GraphBuilder then(&n.b), otherwise(&n.b);
  then.runs_once();
  otherwise.runs_once();
  add_results(n, then, n.importer().import_subgraph(n.graph_attr("then_branch"), n, then, {}));
  add_results(n, otherwise,
              n.importer().import_subgraph(n.graph_attr("else_branch"), n, otherwise, {}));
  n.require(then.results().size() == otherwise.results().size(), "the branches differ");
  for (size_t i = 0; i < then.results().size(); ++i) {
    const TensorType& a = then.type(then.results()[i]);
    const TensorType& b = otherwise.type(otherwise.results()[i]);
    if (a == b) continue;
    n.unsupported(fmt::format("the branches give different types: {} and {}", print(a), print(b)));
  }
  return n.b.make_if(condition, then, otherwise);
}

/// A branch may not fit at all (a model for two sampling rates, given a chunk of one): then the
/// condition must be known.
std::vector<ValueId> import_if(OpContext& n, ValueId condition) {
  const size_t mark = n.importer().mark();
  std::string reason;
  try {
    return import_both_branches(n, condition);
  } catch (const Refusal& refusal) {
    reason = fmt::format("the condition ({})", refusal.error().message);
  } catch (const DependsOnRefused&) {
    const std::set<std::string> inputs = n.importer().known_inputs_behind(n.b, condition);
    if (inputs.empty()) throw;
    throw NeedsInputs{inputs};
  }
  n.importer().forget(mark);
  n.constant_input(0, reason);
  WEFT_CHECK(false, "a condition that is known");
}

void translate_if(OpContext& n) {
  const ValueId condition = as_condition(n, n.input(0));
  std::vector<ValueId> results;
  if (const HostTensor* known = n.known_input(0)) {
    const bool taken = known->at_int(0) != 0;
    results = n.importer().import_subgraph(n.graph_attr(taken ? "then_branch" : "else_branch"), n,
                                           n.b, {});
  } else {
    results = import_if(n, condition);
  }
  set_outputs(n, results);
}

/// What an ONNX Loop node says: inputs (trip count, condition, carries), body (iteration,
/// condition, carries) -> (condition, carries, slices).
struct LoopParts {
  const GraphDef& body;
  std::vector<ValueId> carries;
  size_t slice_count = 0;
  std::optional<int64_t> trip_count;  ///< when known now
  bool endless = false;               ///< no trip count at all
  std::optional<bool> condition;      ///< the first one, when known now
};

LoopParts read_loop(OpContext& n) {
  LoopParts parts{n.graph_attr("body"), {}, 0, {}, false, {}};
  for (int i = 2; i < n.input_count(); ++i) parts.carries.push_back(n.any_input(i));
  n.require(parts.body.outputs.size() >= parts.carries.size() + 1 &&
                parts.body.inputs.size() == parts.carries.size() + 2,
            "the body does not fit the loop");
  for (ValueId carry : parts.carries) n.require(carry != kNoValue, "a carried value is missing");
  parts.slice_count = parts.body.outputs.size() - parts.carries.size() - 1;
  // Slices are stacked to one tensor, whose extent must be known.
  if (parts.slice_count > 0 && n.has_input(0)) n.int_input(0, "the trip count");
  if (parts.slice_count > 0 && n.has_input(1)) n.constant_input(1, "the condition");
  parts.endless = !n.has_input(0);
  if (const HostTensor* count = n.known_input(0)) {
    n.require(count->size() == 1 && count->dtype() == DType::kI64, "the trip count is not one i64");
    parts.trip_count = std::max<int64_t>(count->at_int(0), 0);
  }
  if (const HostTensor* first = n.known_input(1)) {
    n.require(first->size() == 1, "the condition is not one bool");
    parts.condition = first->at_int(0) != 0;
  } else if (!n.has_input(1)) {
    parts.condition = true;
  }
  return parts;
}

/// The loop's body as a region: (iteration, condition, carries) -> (condition, carries, slices).
struct BodyRegion {
  std::unique_ptr<GraphBuilder> builder;
  ValueId iteration = kNoValue;
  ValueId condition = kNoValue;
  std::vector<ValueId> results;

  bool always_continues() {
    if (results[0] == condition) return true;
    const HostTensor* known = builder->constant_value(results[0]);
    return known != nullptr && known->size() == 1 && known->at_int(0) != 0;
  }
};

/// `condition_known`: the condition going in is always true.
BodyRegion import_body(OpContext& n, const LoopParts& parts, bool condition_known) {
  BodyRegion region;
  region.builder = std::make_unique<GraphBuilder>(&n.b);
  std::vector<ValueId> arguments;
  for (ValueId carry : parts.carries) arguments.push_back(region.builder->input(n.b.type(carry)));
  region.iteration = region.builder->input({DType::kI64, {}});
  region.builder->set_iteration(region.iteration);
  region.condition = condition_known ? region.builder->scalar_int(DType::kBool, 1)
                                     : region.builder->input({DType::kBool, {}});
  arguments.insert(arguments.begin(), {region.iteration, region.condition});
  region.results = n.importer().import_subgraph(parts.body, n, *region.builder, arguments);
  return region;
}

bool keeps_types(OpContext& n, const LoopParts& parts, const BodyRegion& region) {
  if (std::any_of(region.results.begin(), region.results.end(), is_sequence)) return false;
  for (size_t i = 0; i < parts.carries.size(); ++i) {
    if (region.builder->type(region.results[i + 1]) != n.b.type(parts.carries[i])) return false;
  }
  return true;
}

/// A trip count that is known, and a condition that never ends the loop: a scan over the iteration
/// number.
void make_counted_loop(OpContext& n, const LoopParts& parts, BodyRegion& region) {
  for (size_t i = 1; i < region.results.size(); ++i) region.builder->result(region.results[i]);
  const ValueId numbers = n.b.iota(DType::kI64, {*parts.trip_count}, 0);
  set_outputs(n, n.b.make_scan(parts.carries, {numbers}, *region.builder, {false},
                               std::vector<bool>(parts.slice_count, false)));
}

constexpr int64_t kMaxUnrolled = 256;

/// Repeats the body in the graph: for shapes that change from one iteration to the next, where no
/// primitive fits.
void unroll_loop(OpContext& n, const LoopParts& parts) {
  if (!parts.trip_count && !parts.endless) n.int_input(0, "the trip count");
  if (!parts.condition) n.constant_input(1, "the condition");
  const int64_t count = parts.trip_count.value_or(std::numeric_limits<int64_t>::max());
  std::vector<ValueId> carries = parts.carries;
  std::vector<std::vector<ValueId>> slices(parts.slice_count);
  bool goes_on = parts.condition.value_or(true);
  for (int64_t i = 0; i < count && goes_on; ++i) {
    if (i >= kMaxUnrolled) n.unsupported("a loop whose values change shape more than 256 times");
    std::vector<ValueId> arguments = carries;
    arguments.insert(arguments.begin(),
                     {n.b.scalar_int(DType::kI64, i), n.b.scalar_int(DType::kBool, 1)});
    const std::vector<ValueId> results =
        n.importer().import_subgraph(parts.body, n, n.b, arguments);
    const HostTensor* next = n.b.constant_value(results[0]);
    if (next == nullptr)
      throw UnknownValue(
          unsupported("a loop whose values change shape and whose end is not known"));
    goes_on = next->size() == 1 && next->at_int(0) != 0;
    for (size_t k = 0; k < carries.size(); ++k) carries[k] = results[k + 1];
    for (size_t k = 0; k < slices.size(); ++k) {
      slices[k].push_back(n.b.unsqueeze(results[k + 1 + carries.size()], {0}));
    }
  }
  for (const std::vector<ValueId>& pieces : slices) {
    if (pieces.empty()) n.unsupported("slices of a loop that does not run");
    carries.push_back(n.b.concat(pieces, 0));
  }
  set_outputs(n, carries);
}

/// Carries (…, iteration, condition) while the condition holds and iterations are left.
void make_conditional_loop(OpContext& n, const LoopParts& parts, BodyRegion& region) {
  std::vector<ValueId> carries = parts.carries;
  carries.push_back(n.b.scalar_int(DType::kI64, 0));
  carries.push_back(n.has_input(1) ? as_condition(n, n.input(1)) : n.b.scalar_int(DType::kBool, 1));

  GraphBuilder test(&n.b);
  for (ValueId carry : parts.carries) test.input(n.b.type(carry));
  const ValueId iteration = test.input({DType::kI64, {}});
  ValueId goes_on = test.input({DType::kBool, {}});
  if (!parts.endless) {
    const ValueId count = test.capture(n.b.reshape(n.input(0), {}));
    goes_on = test.binary(ScalarOp::kAnd, goes_on, test.binary(ScalarOp::kLt, iteration, count));
  }
  test.result(goes_on);

  GraphBuilder& body = *region.builder;
  for (size_t i = 0; i < parts.carries.size(); ++i) body.result(region.results[i + 1]);
  body.result(body.add(region.iteration, 1.0));
  n.require(body.size(region.results[0]) == 1, "the condition is not one bool");
  body.result(body.reshape(region.results[0], {}));
  std::vector<ValueId> results = n.b.make_while(carries, test, body);
  results.resize(parts.carries.size());
  set_outputs(n, results);
}

void translate_loop(OpContext& n) {
  LoopParts parts = read_loop(n);
  const bool starts = parts.condition == true;
  // A sequence that grows: its loop exists only while importing.
  if (std::any_of(parts.carries.begin(), parts.carries.end(), is_sequence)) {
    return unroll_loop(n, parts);
  }
  const bool never_runs = parts.condition == false || parts.trip_count == 0;
  if (never_runs && parts.slice_count == 0) return set_outputs(n, parts.carries);
  const auto ends_where_counted = [&] {
    const auto count = count_iterations(n, parts.body, parts.carries, parts.trip_count);
    if (count) parts.trip_count = count;
    return count.has_value();
  };
  const bool is_counted = starts && parts.endless && ends_where_counted();
  if (starts && parts.trip_count) {
    const size_t mark = n.importer().mark();
    try {
      BodyRegion region = import_body(n, parts, true);
      if (!keeps_types(n, parts, region)) return unroll_loop(n, parts);
      if (is_counted || region.always_continues() || ends_where_counted())
        return make_counted_loop(n, parts, region);
    } catch (const DependsOnRefused&) {
      // What needs the iteration's number as a constant (a slice of that length) may do when
      // unrolled.
      if (*parts.trip_count > kMaxUnrolled) throw;
      n.importer().forget(mark);
      return unroll_loop(n, parts);
    }
  }
  if (parts.slice_count > 0) {
    throw UnknownValue(unsupported("slices of a loop whose number of iterations depends on data"));
  }
  try {
    BodyRegion region = import_body(n, parts, false);
    if (!keeps_types(n, parts, region)) return unroll_loop(n, parts);
    make_conditional_loop(n, parts, region);
  } catch (const DependsOnRefused&) {
    // With a number of steps that the caller knows, they may do one after another.
    std::set<std::string> inputs;
    if (!parts.trip_count && !parts.endless)
      inputs = n.importer().known_inputs_behind(n.b, n.input(0));
    if (!parts.condition) inputs.merge(n.importer().known_inputs_behind(n.b, n.input(1)));
    if (inputs.empty()) throw;
    throw NeedsInputs{inputs};
  }
}

/// Per scanned value: an axis or direction attribute, 0 where absent.
std::vector<int64_t> per_value(OpContext& n, std::string_view attr, size_t count) {
  std::vector<int64_t> values = n.ints_attr(attr, std::vector<int64_t>(count, 0));
  n.require(values.size() == count, fmt::format("{}: one per value", attr));
  return values;
}

ValueId move_axis(GraphBuilder& b, ValueId x, int64_t from, int64_t to) {
  std::vector<int64_t> order(static_cast<size_t>(b.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return b.transpose(x, std::move(order));
}

void translate_scan(OpContext& n) {
  const GraphDef& graph = n.graph_attr("body");
  const int64_t x_count = n.int_attr("num_scan_inputs");
  n.require(x_count >= 1 && x_count <= n.input_count(), "num_scan_inputs is out of range");
  const int carry_count = n.input_count() - static_cast<int>(x_count);
  n.require(static_cast<int>(graph.outputs.size()) >= carry_count, "the body has few outputs");
  const size_t y_count = graph.outputs.size() - static_cast<size_t>(carry_count);
  const auto x_axes = per_value(n, "scan_input_axes", static_cast<size_t>(x_count));
  const auto x_directions = per_value(n, "scan_input_directions", static_cast<size_t>(x_count));
  const auto y_axes = per_value(n, "scan_output_axes", y_count);
  const auto y_directions = per_value(n, "scan_output_directions", y_count);

  GraphBuilder body(&n.b);
  std::vector<ValueId> carries, xs, arguments;
  for (int i = 0; i < carry_count; ++i) {
    carries.push_back(n.input(i));
    arguments.push_back(body.input(n.b.type(carries.back())));
  }
  for (size_t i = 0; i < x_axes.size(); ++i) {
    const ValueId x = n.input(carry_count + static_cast<int>(i));
    const int64_t axis = GraphBuilder::normal_axis(x_axes[i], n.b.rank(x));
    xs.push_back(move_axis(n.b, x, axis, 0));
    TensorType slice = n.b.type(xs.back());
    slice.shape.erase(slice.shape.begin());
    arguments.push_back(body.input(std::move(slice)));
  }
  add_results(n, body, n.importer().import_subgraph(graph, n, body, arguments));
  std::vector<ValueId> results =
      n.b.make_scan(carries, xs, body, {x_directions.begin(), x_directions.end()},
                    {y_directions.begin(), y_directions.end()});
  for (size_t i = 0; i < y_count; ++i) {
    ValueId& y = results[static_cast<size_t>(carry_count) + i];
    y = move_axis(n.b, y, 0, GraphBuilder::normal_axis(y_axes[i], n.b.rank(y)));
  }
  set_outputs(n, results);
}

void translate_scan_8(OpContext& n) { n.unsupported("the Scan of opset 8"); }

const Translator kRows[] = {
    {"", "If", 1, translate_if},
    {"", "Loop", 1, translate_loop},
    {"", "Scan", 8, translate_scan_8},
    {"", "Scan", 9, translate_scan},
};

}  // namespace

TranslatorTable control_flow_translators() { return kRows; }

}  // namespace weft::onnx
