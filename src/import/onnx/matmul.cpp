#include "import/builder/numpy_matmul.h"
#include "import/builder/precision.h"
#include "import/onnx/contraction.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

/// The transpositions are only a choice of the contracted axes.
ValueId gemm(OpContext& n, ValueId x, ValueId y, ValueId c) {
  GraphBuilder& b = n.b;
  n.require(b.rank(x) == 2 && b.rank(y) == 2, "A and B must be matrices");
  n.require(b.dtype(x) == b.dtype(y), "A and B must have one type");
  double alpha = n.float_attr("alpha", 1.0f), beta = n.float_attr("beta", 1.0f);
  DType type = b.dtype(x);
  DotAttrs attrs;
  attrs.lhs_contract = {n.bool_attr("transA", false) ? 0 : 1};
  attrs.rhs_contract = {n.bool_attr("transB", false) ? 1 : 0};
  ValueId product = b.dot_general(x, y, attrs, working_type(type));
  // Integers with a fractional factor: scaled as floating-point numbers, then truncated.
  bool scales = alpha != 1.0 || beta != 1.0;
  DType sum_type = scales ? floating_type(type) : working_type(type);
  product = b.convert(product, sum_type);
  if (alpha != 1.0) product = b.mul(product, alpha);
  if (c != kNoValue && beta != 0.0) {
    c = b.broadcast_to(b.convert(c, sum_type), b.shape(product));
    product = b.add(product, beta != 1.0 ? b.mul(c, beta) : c);
  }
  return b.convert(product, type);
}

namespace {

void translate_matmul(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0), y = n.input(1);
  n.require(b.dtype(x) == b.dtype(y), "both factors must have one type");
  DType type = b.dtype(x);
  n.set_output(0, b.convert(numpy_matmul(b, x, y, working_type(type)), type));
}

void translate_gemm(OpContext& n) {
  n.set_output(0, gemm(n, n.input(0), n.input(1), n.optional_input(2)));
}

const Translator kRows[] = {
    {"", "Einsum", 12, translate_einsum},
    {"", "Gemm", 1, translate_gemm},
    {"", "MatMul", 1, translate_matmul},
};

}  // namespace

TranslatorTable matmul_translators() { return kRows; }

}  // namespace weft::onnx
