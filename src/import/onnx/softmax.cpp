#include <numeric>

#include "import/builder/precision.h"
#include "import/builder/softmax.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// The axes over which the operator normalises. Until opset 12 the input counts as a matrix whose
/// columns are all the axes from `axis` (default 1) on; from 13 on it is one axis (default -1).
std::vector<int64_t> normalised_axes(OpContext& n) {
  int64_t rank = n.b.rank(n.input(0));
  if (n.opset() >= 13) return {n.axis_attr("axis", -1, rank)};
  int64_t axis = n.int_attr("axis", 1);
  if (axis != rank) axis = GraphBuilder::normal_axis(axis, rank);
  std::vector<int64_t> axes(static_cast<size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

void translate_softmax(OpContext& n) {
  ValueId y = softmax(n.b, widen(n.b, n.input(0)), normalised_axes(n));
  n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0))));
}

void translate_log_softmax(OpContext& n) {
  ValueId y = log_softmax(n.b, widen(n.b, n.input(0)), normalised_axes(n));
  n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0))));
}

/// 1 at the first largest element of each row, 0 elsewhere.
void translate_hardmax(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  Shape shape = b.shape(x);
  std::vector<int64_t> axes = normalised_axes(n);
  int64_t axis = axes.empty() ? b.rank(x) : axes.front();
  if (axes.size() != 1) {
    Shape matrix(shape.begin(), shape.begin() + axis);
    matrix.push_back(
        std::accumulate(shape.begin() + axis, shape.end(), int64_t{1}, std::multiplies<int64_t>()));
    x = b.reshape(x, matrix);
  }
  n.require(b.extent(x, axis) > 0, "an empty row has no largest element");
  ValueId best = b.arg_reduce(Combiner::kArgMax, x, axis, true);
  ValueId hit = b.binary(ScalarOp::kEq, b.iota(DType::kI64, b.shape(x), axis), best);
  n.set_output(0, b.reshape(b.convert(hit, b.dtype(x)), shape));
}

const Translator kRows[] = {
    {"", "Hardmax", 1, translate_hardmax},
    {"", "LogSoftmax", 1, translate_log_softmax},
    {"", "Softmax", 1, translate_softmax},
};

}  // namespace

TranslatorTable softmax_translators() { return kRows; }

}  // namespace weft::onnx
