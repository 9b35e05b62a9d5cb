#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "import/hlo/interior_padding.h"
#include "import/hlo/scalar_computation.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// Windows of no primitive's kind are written out element by element, up to this many.
constexpr int64_t kMaxTaps = 1024;

WindowValue read_window(InstructionContext& n, size_t rank) {
  WindowValue window = parse_window(n.attribute("window"));
  n.require(window.size.size() == rank, "the window has another number of axes than the array");
  for (size_t i = 0; i < rank; ++i) {
    n.require(window.size[i] >= 1 && window.stride[i] >= 1 && window.lhs_dilation[i] >= 1 &&
                  window.rhs_dilation[i] >= 1,
              "the window's sizes, strides and dilations are at least 1");
    if (window.reversal[i] != 0) refuse_unsupported("a reversed window");
  }
  return window;
}

bool is_trivial(const WindowValue& w, size_t axis) {
  return w.size[axis] == 1 && w.stride[axis] == 1 && w.lhs_dilation[axis] == 1 &&
         w.padding[axis].low == 0 && w.padding[axis].high == 0;
}

/// A window over all elements up to one, or from one on: a running sum.
std::optional<CumulativeAttrs> as_cumulative(const WindowValue& w, const Shape& shape,
                                             Combiner combiner) {
  std::optional<size_t> axis;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (is_trivial(w, i)) continue;
    if (axis) return std::nullopt;
    axis = i;
  }
  if (!axis) return std::nullopt;
  const int64_t extent = shape[*axis];
  const PaddingAmount& pad = w.padding[*axis];
  if (w.size[*axis] != extent || w.stride[*axis] != 1 || w.lhs_dilation[*axis] != 1 ||
      w.rhs_dilation[*axis] != 1) {
    return std::nullopt;
  }
  CumulativeAttrs attrs{static_cast<int64_t>(*axis), combiner, false, false};
  if (pad.low == extent - 1 && pad.high == 0) return attrs;
  attrs.reverse = true;
  if (pad.low == 0 && pad.high == extent - 1) return attrs;
  attrs.exclusive = true;
  if (pad.low == -1 && pad.high == extent) return attrs;
  attrs.reverse = false;
  if (pad.low == extent && pad.high == -1) return attrs;
  return std::nullopt;
}

std::vector<PaddingAmount> padding_with_dilation(const WindowValue& w, bool only_between) {
  std::vector<PaddingAmount> amounts = w.padding;
  for (size_t i = 0; i < amounts.size(); ++i) {
    if (only_between) amounts[i] = {};
    amounts[i].interior = w.lhs_dilation[i] - 1;
  }
  return amounts;
}

ValueId reduce_by_combiner(InstructionContext& n, const WindowValue& w, Combiner combiner,
                           ValueId x, ValueId init) {
  GraphBuilder& b = n.b;
  ValueId y = kNoValue;
  if (const auto cumulative = as_cumulative(w, b.shape(x), combiner)) {
    y = b.cumulative(x, *cumulative);
  } else {
    const ValueId neutral = neutral_value(b, combiner, b.dtype(x));
    WindowAttrs attrs{w.size, w.stride, w.rhs_dilation, {}, {}, combiner};
    for (const PaddingAmount& amount : w.padding) {
      attrs.low.push_back(amount.low);
      attrs.high.push_back(amount.high);
    }
    y = b.reduce_window(pad_between(b, x, neutral, padding_with_dilation(w, true)),
                        std::move(attrs));
  }
  return is_identity(b, init, combiner) ? y : b.binary(*combiner_op(combiner), init, y);
}

/// The elements of a window in row-major order.
class Taps {
 public:
  Taps(InstructionContext& n, const WindowValue& w, Shape out) : w_(w), out_(std::move(out)) {
    int64_t count = 1;
    for (const int64_t size : w.size) {
      if (__builtin_mul_overflow(count, size, &count) || count > kMaxTaps) {
        refuse_unsupported(
            fmt::format("windows of more than {} elements, joined by a computation that is no "
                        "sum, product, minimum, maximum, and, or",
                        kMaxTaps));
      }
    }
    count_ = count;
    n.importer().spend(8 * count);
  }

  int64_t count() const { return count_; }

  /// Offsets of an element from its window's first.
  std::vector<int64_t> offsets(int64_t tap) const {
    std::vector<int64_t> at(w_.size.size());
    for (size_t i = at.size(); i-- > 0;) {
      at[i] = tap % w_.size[i] * w_.rhs_dilation[i];
      tap /= w_.size[i];
    }
    return at;
  }

  /// That element of every window of the padded array.
  ValueId slice(GraphBuilder& b, ValueId padded, int64_t tap) const {
    return b.slice(padded, offsets(tap), w_.stride, out_);
  }

 private:
  const WindowValue& w_;
  Shape out_;
  int64_t count_ = 0;
};

void reduce_by_taps(InstructionContext& n, const WindowValue& w, const HloComputation& reducer,
                    const std::vector<ValueId>& values, const std::vector<ValueId>& inits,
                    const Shape& out) {
  const Taps taps(n, w, out);
  std::vector<ValueId> padded, held;
  for (size_t i = 0; i < values.size(); ++i) {
    padded.push_back(pad_between(n.b, values[i], inits[i], padding_with_dilation(w, false)));
    held.push_back(n.b.broadcast_to(inits[i], out));
  }
  for (int64_t tap = 0; tap < taps.count(); ++tap) {
    std::vector<ValueId> arguments = held;
    for (const ValueId v : padded) arguments.push_back(taps.slice(n.b, v, tap));
    held = apply_to_lanes(n, n.b, reducer, arguments, out);
    n.require(held.size() == values.size(), "the reducer's results do not fit");
  }
  n.set_results(std::move(held));
}

void translate_reduce_window(InstructionContext& n) {
  const size_t count = n.operand_count() / 2;
  n.require(count >= 1 && 2 * count == n.operand_count(), "takes values and as many inits");
  const std::vector<ValueId> values = n.operands(0, count);
  const std::vector<ValueId> inits = n.operands(count, 2 * count);
  const WindowValue w = read_window(n, n.b.shape(values[0]).size());
  std::vector<DType> types;
  for (size_t i = 0; i < count; ++i) {
    types.push_back(n.b.dtype(values[i]));
    n.require(n.b.shape(values[i]) == n.b.shape(values[0]), "the values' shapes differ");
    n.require(n.b.type(inits[i]) == TensorType{types[i], {}},
              "an init is a scalar of its value's type");
  }
  const HloComputation& computation = n.computation("to_apply");
  const Reducer reducer = recognise_reducer(n, computation, types);
  if (reducer.combiners.size() == count) {
    Leaves results;
    for (size_t i = 0; i < count; ++i) {
      results.push_back(reduce_by_combiner(n, w, reducer.combiners[i], values[i], inits[i]));
    }
    return n.set_results(std::move(results));
  }
  const HloShape& shape = n.shape();
  const bool is_tuple = shape.kind == HloShape::Kind::kTuple && !shape.elements.empty();
  reduce_by_taps(n, w, computation, values, inits, is_tuple ? shape.elements[0].dims : shape.dims);
}

/// select-and-scatter: of each window of x one element is selected, which gets the source's.
struct Selection {
  ValueId tap = kNoValue;     ///< which element of its window, s32
  ValueId exists = kNoValue;  ///< whether the window has any; none: all have
};

Selection select_taps(InstructionContext& n, const WindowValue& w, const Taps& taps, ValueId x,
                      const Shape& out) {
  GraphBuilder& b = n.b;
  const HloComputation& select = n.computation("select");
  const bool pads = std::ranges::any_of(
      w.padding, [](const PaddingAmount& a) { return a.low > 0 || a.high > 0; });
  const Shape from = b.shape(x);
  const ValueId padded = pad_between(b, x, b.scalar(b.dtype(x), 0), w.padding);
  const ValueId inside = pads ? pad_between(b, b.full_int(DType::kBool, from, 1),
                                            b.scalar_int(DType::kBool, 0), w.padding)
                              : kNoValue;
  ValueId best = taps.slice(b, padded, 0);
  Selection s{b.full_int(DType::kI32, out, 0), pads ? taps.slice(b, inside, 0) : kNoValue};
  for (int64_t tap = 1; tap < taps.count(); ++tap) {
    const ValueId next = taps.slice(b, padded, tap);
    const Leaves keeps = apply_to_lanes(n, b, select, {best, next}, out);
    n.require(keeps.size() == 1 && b.dtype(keeps[0]) == DType::kBool, "select is not one pred");
    ValueId takes = b.logical_not(keeps[0]);
    if (pads) {
      const ValueId valid = taps.slice(b, inside, tap);
      const ValueId first = b.logical_not(s.exists);
      takes = b.binary(ScalarOp::kAnd, valid, b.binary(ScalarOp::kOr, first, takes));
      s.exists = b.binary(ScalarOp::kOr, s.exists, valid);
    }
    best = b.select(takes, next, best);
    s.tap = b.select(takes, b.scalar_int(DType::kI32, tap), s.tap);
  }
  return s;
}

/// Where an element of every window lies in x.
std::vector<PaddingAmount> place_of_tap(const WindowValue& w, const Taps& taps, int64_t tap,
                                        const Shape& x, const Shape& out) {
  const std::vector<int64_t> offsets = taps.offsets(tap);
  std::vector<PaddingAmount> amounts(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t spread = out[i] > 0 ? (out[i] - 1) * w.stride[i] + 1 : 0;
    const int64_t low = offsets[i] - w.padding[i].low;
    amounts[i] = {low, x[i] - low - spread, w.stride[i] - 1};
  }
  return amounts;
}

void translate_select_and_scatter(InstructionContext& n) {
  n.expect_operands(3);
  GraphBuilder& b = n.b;
  const ValueId x = n.operand(0), source = n.operand(1), init = n.operand(2);
  const WindowValue w = read_window(n, b.shape(x).size());
  const Shape from = b.shape(x), out = b.shape(source);
  n.require(out.size() == from.size() && b.dtype(source) == b.dtype(x) &&
                b.type(init) == TensorType{b.dtype(x), {}},
            "array, source and init do not fit");
  const Reducer scatter = recognise_reducer(n, n.computation("scatter"), {b.dtype(x)});
  if (scatter.combiners.empty()) {
    refuse_unsupported("its scatter computation is no sum, product, minimum, maximum, and, or");
  }
  const Combiner combiner = scatter.combiners[0];
  const ValueId neutral = neutral_value(b, combiner, b.dtype(x));
  const Taps taps(n, w, out);
  const Selection selection = select_taps(n, w, taps, x, out);
  ValueId sum = kNoValue;
  for (int64_t tap = 0; tap < taps.count(); ++tap) {
    ValueId chosen = b.binary(ScalarOp::kEq, selection.tap, b.scalar_int(DType::kI32, tap));
    if (selection.exists != kNoValue) chosen = b.binary(ScalarOp::kAnd, chosen, selection.exists);
    const ValueId part = b.select(chosen, source, neutral);
    const ValueId placed = pad_between(b, part, neutral, place_of_tap(w, taps, tap, from, out));
    sum = sum == kNoValue ? placed : b.binary(*combiner_op(combiner), sum, placed);
  }
  if (!is_identity(b, init, combiner)) sum = b.binary(*combiner_op(combiner), init, sum);
  n.set_result(sum);
}

const Translator kRows[] = {
    {"reduce-window", translate_reduce_window},
    {"select-and-scatter", translate_select_and_scatter},
};

}  // namespace

TranslatorTable window_translators() { return kRows; }

}  // namespace weft::hlo
