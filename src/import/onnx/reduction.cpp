#include <numeric>

#include "import/builder/precision.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// The axes that a Reduce* operator names (as attribute or as input 1), and its keepdims.
struct ReductionAxes {
  explicit ReductionAxes(OpContext& n) : keep_dims(n.bool_attr("keepdims", true)) {
    int64_t rank = n.b.rank(n.input(0));
    if (auto named = n.ints_attr("axes")) {
      axes = *named;
    } else if (n.has_input(1)) {
      axes = n.ints_input(1, "axes");
    }
    if (axes.empty() && !n.bool_attr("noop_with_empty_axes", false)) {
      axes.resize(static_cast<size_t>(rank));
      std::iota(axes.begin(), axes.end(), 0);
    }
    axes = GraphBuilder::normal_axes(std::move(axes), rank);
  }
  ValueId reduce(GraphBuilder& b, Combiner combiner, ValueId x) const {
    return b.reduce(combiner, x, axes, keep_dims);
  }

  std::vector<int64_t> axes;
  bool keep_dims;
};

/// Sets output 0 to y in the type of input 0.
void finish(OpContext& n, ValueId y) { n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0)))); }

void translate_reduce_sum(OpContext& n) {
  ReductionAxes r(n);
  finish(n, r.reduce(n.b, Combiner::kSum, widen(n.b, n.input(0))));
}

void translate_reduce_prod(OpContext& n) {
  ReductionAxes r(n);
  finish(n, r.reduce(n.b, Combiner::kProd, widen(n.b, n.input(0))));
}

void translate_reduce_max(OpContext& n) {
  ReductionAxes r(n);
  ValueId x = n.input(0);
  bool logical = n.b.dtype(x) == DType::kBool;
  finish(n, r.reduce(n.b, logical ? Combiner::kOr : Combiner::kMax, x));
}

void translate_reduce_min(OpContext& n) {
  ReductionAxes r(n);
  ValueId x = n.input(0);
  bool logical = n.b.dtype(x) == DType::kBool;
  finish(n, r.reduce(n.b, logical ? Combiner::kAnd : Combiner::kMin, x));
}

void translate_reduce_mean(OpContext& n) {
  ReductionAxes r(n);
  finish(n, n.b.reduce_mean(widen(n.b, n.input(0)), r.axes, r.keep_dims));
}

void translate_reduce_l1(OpContext& n) {
  ReductionAxes r(n);
  ValueId x = widen(n.b, n.input(0));
  finish(n, r.reduce(n.b, Combiner::kSum, n.b.unary(ScalarOp::kAbs, x)));
}

void translate_reduce_l2(OpContext& n) {
  ReductionAxes r(n);
  ValueId x = to_floating(n.b, n.input(0));
  finish(n, n.b.sqrt(r.reduce(n.b, Combiner::kSum, n.b.mul(x, x))));
}

void translate_reduce_sum_square(OpContext& n) {
  ReductionAxes r(n);
  ValueId x = widen(n.b, n.input(0));
  finish(n, r.reduce(n.b, Combiner::kSum, n.b.mul(x, x)));
}

void translate_reduce_log_sum(OpContext& n) {
  ReductionAxes r(n);
  ValueId x = to_floating(n.b, n.input(0));
  finish(n, n.b.log(r.reduce(n.b, Combiner::kSum, x)));
}

/// max + log(sum(exp(x - max))), where an infinite max (an empty or all -inf row, or a +inf in it)
/// counts as 0: inf - inf would make a NaN of a result that is well defined.
void translate_reduce_log_sum_exp(OpContext& n) {
  GraphBuilder& b = n.b;
  ReductionAxes r(n);
  ValueId x = to_floating(b, n.input(0));
  ValueId max = b.reduce(Combiner::kMax, x, r.axes, true);
  max = b.select(b.unary(ScalarOp::kIsInf, max), b.scalar(b.dtype(max), 0), max);
  ValueId sum = r.reduce(b, Combiner::kSum, b.exp(b.sub(x, max)));
  finish(n, b.add(b.log(sum), r.keep_dims ? max : b.squeeze(max, r.axes)));
}

void translate_arg(OpContext& n, Combiner combiner) {
  ValueId x = n.input(0);
  int64_t axis = n.axis_attr("axis", 0, n.b.rank(x));
  n.require(n.b.extent(x, axis) > 0, "there is no element to choose along an empty axis");
  n.set_output(0, n.b.arg_reduce(combiner, x, axis, n.bool_attr("keepdims", true),
                                 n.bool_attr("select_last_index", false)));
}

void translate_arg_max(OpContext& n) { translate_arg(n, Combiner::kArgMax); }
void translate_arg_min(OpContext& n) { translate_arg(n, Combiner::kArgMin); }

void translate_cumulative(OpContext& n, Combiner combiner) {
  ValueId x = n.input(0);
  CumulativeAttrs attrs;
  attrs.axis = GraphBuilder::normal_axis(n.int_input(1, "axis"), n.b.rank(x));
  attrs.combiner = combiner;
  attrs.exclusive = n.bool_attr("exclusive", false);
  attrs.reverse = n.bool_attr("reverse", false);
  finish(n, n.b.cumulative(widen(n.b, x), attrs));
}

void translate_cum_sum(OpContext& n) { translate_cumulative(n, Combiner::kSum); }
void translate_cum_prod(OpContext& n) { translate_cumulative(n, Combiner::kProd); }

const Translator kRows[] = {
    {"", "ArgMax", 1, translate_arg_max},
    {"", "ArgMin", 1, translate_arg_min},
    {"", "CumProd", 26, translate_cum_prod},
    {"", "CumSum", 11, translate_cum_sum},
    {"", "ReduceL1", 1, translate_reduce_l1},
    {"", "ReduceL2", 1, translate_reduce_l2},
    {"", "ReduceLogSum", 1, translate_reduce_log_sum},
    {"", "ReduceLogSumExp", 1, translate_reduce_log_sum_exp},
    {"", "ReduceMax", 1, translate_reduce_max},
    {"", "ReduceMean", 1, translate_reduce_mean},
    {"", "ReduceMin", 1, translate_reduce_min},
    {"", "ReduceProd", 1, translate_reduce_prod},
    {"", "ReduceSum", 1, translate_reduce_sum},
    {"", "ReduceSumSquare", 1, translate_reduce_sum_square},
};

}  // namespace

TranslatorTable reduction_translators() { return kRows; }

}  // namespace weft::onnx
