#include <fmt/format.h>

#include <span>

#include "import/builder/precision.h"
#include "import/builder/quantize.h"
#include "import/onnx/recurrent_activation.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

using Activations = std::span<const RecurrentActivation>;

/// What RNN, GRU and LSTM share: shapes, directions, initial states, sequence lengths, outputs.
/// A cell only says how one step makes the next states.
///
/// The projection X * W' + biases of all steps is one contraction before the scan; the scan's body
/// holds the recurrent product and the gates.
struct Recurrence {
  /// `quantizes`: the weights, transposed, are integers with scales in inputs 8 to 11, and what
  /// they are multiplied with is rounded to uint8.
  Recurrence(OpContext& context, int64_t gate_count, bool quantizes = false)
      : n(context),
        b(context.b),
        gates(gate_count),
        type(b.dtype(n.input(0))),
        quantized(quantizes) {
    time_second = n.int_attr("layout", 0) == 1;
    x = widen(b, n.input(0));
    n.require(b.rank(x) == 3, "X must have three axes");
    if (time_second) x = b.swap_axes(x, 0, 1);
    w = quantized ? dequantized(1, 8) : b.convert(n.input(1), b.dtype(x));
    r = quantized ? dequantized(2, 10) : b.convert(n.input(2), b.dtype(x));
    if (quantized) x = rounded(b, x);
    n.require(b.rank(w) == 3 && b.rank(r) == 3, "W and R must have three axes");
    steps = b.extent(x, 0);
    batch = b.extent(x, 1);
    hidden = b.extent(r, 2);
    read_directions();
    expect_shape(w, {directions, gates * hidden, b.extent(x, 2)}, "W");
    expect_shape(r, {directions, gates * hidden, hidden}, "R");
    n.require(n.int_attr("hidden_size", hidden) == hidden, "hidden_size differs from R's");
    if (n.has_input(3)) {
      bias = b.convert(n.input(3), b.dtype(x));
      expect_shape(bias, {directions, 2 * gates * hidden}, "B");
    }
    read_lengths();
  }

  /// Weights [directions, inputs, rows] times their scale, as [directions, rows, inputs]; a scale
  /// for each direction or for each of its rows.
  ValueId dequantized(int weights, int scale) {
    n.require(b.rank(n.input(weights)) == 3, "W and R must have three axes");
    const auto parameter = [&](int index) {
      ValueId v = n.input(index);
      n.require(b.rank(v) == 1 || b.rank(v) == 2, "a scale or zero point has too many axes");
      return b.rank(v) == 1 ? b.unsqueeze(v, {1, 2}) : b.unsqueeze(v, {1});
    };
    ValueId zero_point = n.has_input(scale + 1) ? parameter(scale + 1) : kNoValue;
    ValueId v = b.convert(without_zero_point(b, n.input(weights), zero_point), b.dtype(x));
    return b.swap_axes(b.mul(v, parameter(scale)), 1, 2);
  }

  /// v as its nearest uint8 says it.
  static ValueId rounded(GraphBuilder& b, ValueId v) {
    const DynamicQuantization q = quantize_dynamically(b, v);
    ValueId steps = b.convert(without_zero_point(b, q.values, q.zero_point), b.dtype(v));
    return b.mul(steps, q.scale);
  }

  void read_directions() {
    std::string direction = n.string_attr("direction", "forward");
    if (direction == "bidirectional") {
      directions = 2;
    } else if (direction == "reverse") {
      first_is_reverse = true;
    } else if (direction != "forward") {
      n.invalid("direction \"" + direction + "\" is not one that ONNX has");
    }
  }

  /// A mask [T, N, 1] of the steps inside each sequence, unless all are known to be inside.
  void read_lengths() {
    if (!n.has_input(4)) return;
    ValueId lengths = n.input(4);
    expect_shape(lengths, {batch}, "sequence_lens");
    if (const HostTensor* known = n.known_input(4)) {
      bool full = true;
      for (int64_t i = 0; i < known->size(); ++i) full = full && known->at_int(i) >= steps;
      if (full) return;
    }
    Shape shape = {steps, batch, 1};
    ValueId step = b.iota(b.dtype(lengths), shape, 0);
    mask = b.binary(ScalarOp::kLt, step, b.reshape(lengths, {1, batch, 1}));
  }

  void expect_shape(ValueId v, const Shape& shape, std::string_view name) const {
    if (b.shape(v) == shape) return;
    refuse_invalid(
        fmt::format("{} is {}, not [{}]", name, print(b.type(v)), fmt::join(shape, ",")));
  }

  bool is_reverse(int64_t direction) const { return first_is_reverse || direction == 1; }

  /// Initial state [N, H] of one direction from an optional input of shape [directions, N, H].
  ValueId initial_state(int index, int64_t direction) {
    if (!n.has_input(index)) return b.full(b.dtype(x), {batch, hidden}, 0);
    ValueId all = b.convert(n.input(index), b.dtype(x));
    n.require(b.rank(all) == 3, "an initial state must have three axes");
    if (time_second) all = b.swap_axes(all, 0, 1);
    expect_shape(all, {directions, batch, hidden}, "an initial state");
    return b.pick(all, 0, direction);
  }

  /// Part `part` of B (input biases, then recurrent biases, in units of `size` gates); kNoValue
  /// without B.
  ValueId bias_part(int64_t direction, int64_t first_gate, int64_t count) {
    if (bias == kNoValue) return kNoValue;
    ValueId row = b.pick(bias, 0, direction);
    return b.slice_axis(row, 0, first_gate * hidden, (first_gate + count) * hidden);
  }

  /// X * W' [T, N, gates * H] of one direction.
  ValueId project(int64_t direction) {
    DotAttrs attrs;
    attrs.lhs_contract = {2};
    attrs.rhs_contract = {1};
    return b.dot_general(x, b.pick(w, 0, direction), attrs, b.dtype(x));
  }

  OpContext& n;
  GraphBuilder& b;
  int64_t gates;
  DType type;
  bool quantized = false, time_second = false, first_is_reverse = false;
  int64_t directions = 1, steps = 0, batch = 0, hidden = 0;
  ValueId x = kNoValue, w = kNoValue, r = kNoValue, bias = kNoValue, mask = kNoValue;
};

/// Inside a scan's body: the projected input, the states, and the tools of a step.
struct Step {
  GraphBuilder& b;
  int64_t hidden;
  ValueId projected;            ///< [N, gates * H]
  std::vector<ValueId> states;  ///< [N, H] each
  bool quantized = false;

  /// Columns [first, first + count) gates of [N, gates * H].
  ValueId gate(ValueId all, int64_t first, int64_t count = 1) {
    return b.slice_axis(all, 1, first * hidden, (first + count) * hidden);
  }
  /// h * weights' for weights [rows, H] of the parent.
  ValueId recur(ValueId h, ValueId weights) {
    if (quantized) h = Recurrence::rounded(b, h);
    DotAttrs attrs;
    attrs.lhs_contract = {1};
    attrs.rhs_contract = {1};
    return b.dot_general(h, b.capture(weights), attrs, b.dtype(h));
  }
  /// v + a vector of the parent, where there is one.
  ValueId add_captured(ValueId v, ValueId vector) {
    return vector == kNoValue ? v : b.add(v, b.capture(vector));
  }
};

/// Results of one direction.
struct DirectionResult {
  ValueId sequence = kNoValue;  ///< [T, N, H]
  std::vector<ValueId> states;  ///< [N, H] each
};

/// Scans `cell` over the steps of one direction. Outside a sequence states keep their value and
/// the output is 0.
template <typename Cell>
DirectionResult scan_direction(Recurrence& rec, int64_t direction, ValueId projected,
                               const std::vector<ValueId>& initial, const Cell& cell) {
  GraphBuilder& b = rec.b;
  bool wants_sequence = rec.n.wants_output(0), reverse = rec.is_reverse(direction);
  GraphBuilder body(&b);
  Step step{body, rec.hidden, kNoValue, {}, rec.quantized};
  for (ValueId state : initial) step.states.push_back(body.input(b.type(state)));
  DType type = b.dtype(projected);
  step.projected = body.input({type, {rec.batch, b.extent(projected, 2)}});
  std::vector<ValueId> scanned = {projected};
  ValueId inside = kNoValue;
  if (rec.mask != kNoValue) {
    scanned.push_back(rec.mask);
    inside = body.broadcast_to(body.input({DType::kBool, {rec.batch, 1}}), {rec.batch, rec.hidden});
  }
  std::vector<ValueId> next = cell(step);
  ValueId output = next[0];
  if (inside != kNoValue) {
    for (size_t i = 0; i < next.size(); ++i) {
      next[i] = body.select(inside, next[i], step.states[i]);
    }
    output = body.select(inside, output, body.scalar(type, 0));
  }
  for (ValueId state : next) body.result(state);
  if (wants_sequence) body.result(output);
  std::vector<bool> y_reverse;
  if (wants_sequence) y_reverse.push_back(reverse);
  std::vector<ValueId> results = b.make_scan(
      initial, scanned, body, std::vector<bool>(scanned.size(), reverse), std::move(y_reverse));
  DirectionResult result;
  result.states.assign(results.begin(), results.begin() + static_cast<int64_t>(initial.size()));
  if (wants_sequence) result.sequence = results.back();
  return result;
}

/// Joins the directions: Y [T, D, N, H] (layout 1: [N, T, D, H]), states [D, N, H] ([N, D, H]).
void set_outputs(Recurrence& rec, const std::vector<DirectionResult>& results) {
  GraphBuilder& b = rec.b;
  OpContext& n = rec.n;
  const auto join = [&](int64_t axis, const auto& part) {
    std::vector<ValueId> parts;
    for (const DirectionResult& result : results) {
      parts.push_back(b.unsqueeze(part(result), {axis}));
    }
    return b.convert(b.concat(parts, axis), rec.type);
  };
  if (n.wants_output(0)) {
    ValueId y = join(1, [](const DirectionResult& result) { return result.sequence; });
    n.set_output(0, rec.time_second ? b.transpose(y, {2, 0, 1, 3}) : y);
  }
  for (size_t i = 0; i < results[0].states.size(); ++i) {
    int output = static_cast<int>(i) + 1;
    if (!n.wants_output(output)) continue;
    ValueId state = join(0, [i](const DirectionResult& result) { return result.states[i]; });
    n.set_output(output, rec.time_second ? b.swap_axes(state, 0, 1) : state);
  }
}

/// v + a + c, leaving out what is absent.
ValueId add_biases(GraphBuilder& b, ValueId v, ValueId a, ValueId c) {
  if (a == kNoValue) return v;
  return b.add(v, c == kNoValue ? a : b.add(a, c));
}

void translate_rnn(OpContext& n) {
  Recurrence rec(n, 1);
  auto activations = read_recurrent_activations(n, rec.directions, {"Tanh"});
  std::vector<DirectionResult> results;
  for (int64_t d = 0; d < rec.directions; ++d) {
    const RecurrentActivation& f = activations[static_cast<size_t>(d)];
    ValueId projected =
        add_biases(n.b, rec.project(d), rec.bias_part(d, 0, 1), rec.bias_part(d, 1, 1));
    ValueId recurrent = n.b.pick(rec.r, 0, d);
    results.push_back(scan_direction(rec, d, projected, {rec.initial_state(5, d)}, [&](Step& s) {
      ValueId sum = s.b.add(s.projected, s.recur(s.states[0], recurrent));
      return std::vector<ValueId>{f.apply(s.b, sum)};
    }));
  }
  set_outputs(rec, results);
}

/// Gates z, r, h. With linear_before_reset the reset gate scales the recurrent product (its bias
/// included) instead of the state.
struct GruCell {
  const RecurrentActivation &f, &g;
  bool linear_before_reset;
  ValueId recurrent_zr, recurrent_h;  ///< rows of R
  ValueId late_bias;                  ///< Rb of h, when it goes inside the reset; else kNoValue

  std::vector<ValueId> operator()(Step& s) const {
    GraphBuilder& b = s.b;
    ValueId h = s.states[0];
    ValueId zr = f.apply(b, b.add(s.gate(s.projected, 0, 2), s.recur(h, recurrent_zr)));
    ValueId z = s.gate(zr, 0), reset = s.gate(zr, 1);
    ValueId inner = kNoValue;
    if (linear_before_reset) {
      inner = b.mul(reset, s.add_captured(s.recur(h, recurrent_h), late_bias));
    } else {
      inner = s.recur(b.mul(reset, h), recurrent_h);
    }
    ValueId candidate = g.apply(b, b.add(s.gate(s.projected, 2), inner));
    ValueId one = b.scalar(b.dtype(h), 1);
    return {b.add(b.mul(b.sub(one, z), candidate), b.mul(z, h))};
  }
};

void translate_gru(OpContext& n) {
  GraphBuilder& b = n.b;
  Recurrence rec(n, 3);
  auto activations = read_recurrent_activations(n, rec.directions, {"Sigmoid", "Tanh"});
  bool linear_before_reset = n.bool_attr("linear_before_reset", false);
  std::vector<DirectionResult> results;
  for (int64_t d = 0; d < rec.directions; ++d) {
    Activations acts(activations.data() + 2 * d, 2);
    // The recurrent biases of z and r always join the projection; that of h unless it is reset.
    ValueId early = rec.bias_part(d, 3, 3), late = kNoValue;
    if (early != kNoValue && linear_before_reset) {
      late = rec.bias_part(d, 5, 1);
      early = b.concat({rec.bias_part(d, 3, 2), b.full(b.dtype(rec.x), {rec.hidden}, 0)}, 0);
    }
    ValueId projected = add_biases(b, rec.project(d), rec.bias_part(d, 0, 3), early);
    ValueId recurrent = b.pick(rec.r, 0, d);
    GruCell cell{acts[0],
                 acts[1],
                 linear_before_reset,
                 b.slice_axis(recurrent, 0, 0, 2 * rec.hidden),
                 b.slice_axis(recurrent, 0, 2 * rec.hidden, 3 * rec.hidden),
                 late};
    results.push_back(scan_direction(rec, d, projected, {rec.initial_state(5, d)}, cell));
  }
  set_outputs(rec, results);
}

/// Gates i, o, f, c; peepholes i, o, f.
struct LstmCell {
  const RecurrentActivation &f, &g, &h;
  bool input_forget;
  ValueId recurrent;  ///< [4H, H]
  ValueId peephole[3] = {kNoValue, kNoValue, kNoValue};

  ValueId peep(Step& s, ValueId gate, int which, ValueId cell) const {
    if (peephole[which] == kNoValue) return gate;
    return s.b.add(gate, s.b.mul(cell, s.b.capture(peephole[which])));
  }

  std::vector<ValueId> operator()(Step& s) const {
    GraphBuilder& b = s.b;
    ValueId hidden = s.states[0], cell = s.states[1];
    ValueId all = b.add(s.projected, s.recur(hidden, recurrent));
    ValueId input = f.apply(b, peep(s, s.gate(all, 0), 0, cell));
    ValueId forget = input_forget ? b.sub(b.scalar(b.dtype(cell), 1), input)
                                  : f.apply(b, peep(s, s.gate(all, 2), 2, cell));
    ValueId candidate = g.apply(b, s.gate(all, 3));
    ValueId next_cell = b.add(b.mul(forget, cell), b.mul(input, candidate));
    ValueId output = f.apply(b, peep(s, s.gate(all, 1), 1, next_cell));
    return {b.mul(output, h.apply(b, next_cell)), next_cell};
  }
};

void translate_lstm(OpContext& n, bool quantized) {
  GraphBuilder& b = n.b;
  Recurrence rec(n, 4, quantized);
  auto activations = read_recurrent_activations(n, rec.directions, {"Sigmoid", "Tanh", "Tanh"});
  ValueId peepholes = kNoValue;
  if (n.has_input(7)) {
    peepholes = b.convert(n.input(7), b.dtype(rec.x));
    rec.expect_shape(peepholes, {rec.directions, 3 * rec.hidden}, "P");
  }
  std::vector<DirectionResult> results;
  for (int64_t d = 0; d < rec.directions; ++d) {
    // The clip bounds the gates; the cell state enters h as it is.
    activations[static_cast<size_t>(3 * d + 2)].clip = 0;
    Activations acts(activations.data() + 3 * d, 3);
    ValueId projected =
        add_biases(b, rec.project(d), rec.bias_part(d, 0, 4), rec.bias_part(d, 4, 4));
    LstmCell cell{acts[0], acts[1], acts[2], n.bool_attr("input_forget", false),
                  b.pick(rec.r, 0, d)};
    for (int64_t i = 0; peepholes != kNoValue && i < 3; ++i) {
      ValueId row = b.pick(peepholes, 0, d);
      cell.peephole[i] = b.slice_axis(row, 0, i * rec.hidden, (i + 1) * rec.hidden);
    }
    std::vector<ValueId> initial = {rec.initial_state(5, d), rec.initial_state(6, d)};
    results.push_back(scan_direction(rec, d, projected, initial, cell));
  }
  set_outputs(rec, results);
}

void translate_plain_lstm(OpContext& n) { translate_lstm(n, false); }
void translate_dynamic_quantize_lstm(OpContext& n) { translate_lstm(n, true); }

const Translator kRows[] = {
    {"", "GRU", 7, translate_gru},
    {"", "LSTM", 7, translate_plain_lstm},
    {"", "RNN", 7, translate_rnn},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, translate_dynamic_quantize_lstm},
};

}  // namespace

TranslatorTable recurrent_translators() { return kRows; }

}  // namespace weft::onnx
