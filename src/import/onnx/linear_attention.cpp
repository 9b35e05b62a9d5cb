#include <cmath>

#include "import/builder/precision.h"
#include "import/onnx/attention.h"
#include "import/onnx/low_bit_numbers.h"

namespace weft::onnx {
namespace {

/// [B, T, heads * D] as [T, B, heads, D], the order in which a scan takes its slices.
ValueId by_step(OpContext& n, ValueId x, int64_t heads) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(x);
  n.require(shape.size() == 3, "packed heads need three axes");
  n.require(heads > 0 && shape[2] % heads == 0, "the heads do not divide the last axis");
  x = b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  return b.transpose(x, {1, 0, 2, 3});
}

/// What a step reads.
struct LinearStep {
  ValueId query, key, value;                  ///< [B, H, group, Dk], [B, H, Dk], [B, H, Dv]
  ValueId decay = kNoValue, beta = kNoValue;  ///< [B, H, 1 or Dk], [B, H or 1, 1]
};

/// v [B, H, D] contracted with axis `axis` of the state [B, H, Dk, Dv].
ValueId contract_state(GraphBuilder& b, ValueId v, ValueId state, int64_t v_axis) {
  DotAttrs attrs;
  attrs.lhs_batch = attrs.rhs_batch = {0, 1};
  attrs.lhs_contract = {v_axis};
  attrs.rhs_contract = {2};
  return b.dot_general(v, state, attrs, b.dtype(v));
}

/// One step of the recurrence: the next state, and group rows of output [B, H, group, Dv].
std::pair<ValueId, ValueId> advance(GraphBuilder& b, ValueId state, const LinearStep& step,
                                    double scale) {
  if (step.decay != kNoValue) state = b.mul(state, b.unsqueeze(b.exp(step.decay), {3}));
  ValueId value = step.value;
  if (step.beta != kNoValue) {
    value = b.mul(step.beta, b.sub(value, contract_state(b, step.key, state, 2)));
  }
  state = b.add(state, b.mul(b.unsqueeze(step.key, {3}), b.unsqueeze(value, {2})));
  return {state, b.mul(contract_state(b, step.query, state, 3), scale)};
}

/// Whether a rule forgets by a decay, and corrects by what the state holds already.
struct UpdateRule {
  bool gated = false, delta = false;
};

UpdateRule read_rule(OpContext& n) {
  std::string name = n.string_attr("update_rule", "gated_delta");
  UpdateRule rule{name == "gated" || name == "gated_delta",
                  name == "delta" || name == "gated_delta"};
  n.require(rule.gated || rule.delta || name == "linear", "update_rule is not one that ONNX has");
  n.require(n.has_input(4) == rule.gated, "decay is needed by gated rules and by no others");
  n.require(n.has_input(5) == rule.delta, "beta is needed by delta rules and by no others");
  return rule;
}

/// The final state, then the outputs [T, B, H, group, Dv].
std::vector<ValueId> scan_steps(GraphBuilder& b, ValueId initial, const std::vector<ValueId>& xs,
                                UpdateRule rule, double scale) {
  GraphBuilder body(&b);
  ValueId state = body.input(b.type(initial));
  std::vector<ValueId> slices;
  for (ValueId x : xs) {
    slices.push_back(body.input({b.dtype(x), Shape(b.shape(x).begin() + 1, b.shape(x).end())}));
  }
  LinearStep step{slices[0], slices[1], slices[2]};
  if (rule.gated) step.decay = slices[3];
  if (rule.delta) step.beta = slices.back();
  auto [next, output] = advance(body, state, step, scale);
  body.result(next);
  body.result(output);
  return b.make_scan({initial}, xs, body, std::vector<bool>(xs.size(), false), {false});
}

}  // namespace

/// A scan over the tokens whose carry is the state [B, kv heads, Dk, Dv], in float32.
void translate_linear_attention(OpContext& n) {
  GraphBuilder& b = n.b;
  int64_t heads = n.int_attr("q_num_heads"), key_heads = n.int_attr("kv_num_heads");
  n.require(key_heads > 0 && heads > 0 && (heads % key_heads == 0 || key_heads % heads == 0),
            "of q_num_heads and kv_num_heads one must be a multiple of the other");
  if (n.int_attr("state_window", 0) != 0) n.unsupported("states of several tokens");
  UpdateRule rule = read_rule(n);
  DType type = DType::kF32;
  const auto step_input = [&](int i, int64_t count) {
    return b.convert(by_step(n, n.input(i), count), type);
  };
  ValueId query = step_input(0, heads), key = step_input(1, key_heads);
  ValueId value = step_input(2, key_heads);
  if (heads < key_heads) {
    query = repeated(b, query, 2, key_heads / heads, key_heads);
    heads = key_heads;
  }
  const Shape shape = b.shape(query);
  int64_t steps = shape[0], batch = shape[1], depth = shape[3], width = b.extent(value, 3);
  query = b.reshape(query, {steps, batch, key_heads, heads / key_heads, depth});
  std::vector<ValueId> xs = {query, key, value};
  if (rule.gated) xs.push_back(step_input(4, key_heads));
  if (rule.delta) xs.push_back(step_input(5, b.extent(n.input(5), -1) == 1 ? 1 : key_heads));
  Shape state_shape = {batch, key_heads, depth, width};
  n.require(!n.has_input(3) || b.shape(n.input(3)) == state_shape,
            "past_state has the wrong shape");
  ValueId initial = n.has_input(3) ? b.convert(n.input(3), type) : b.full(type, state_shape, 0);
  double scale = n.float_attr("scale", 0.0f);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(depth));
  std::vector<ValueId> results = scan_steps(b, initial, xs, rule, scale);
  ValueId y = b.reshape(b.swap_axes(results[1], 0, 1), {batch, steps, heads * width});
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
  n.set_output(1, b.convert(results[0], b.dtype(n.input(n.has_input(3) ? 3 : 0))));
}

}  // namespace weft::onnx
