#include <algorithm>

#include "import/builder/determinant.h"
#include "import/builder/precision.h"
#include "import/onnx/data_dependent.h"
#include "import/onnx/ngram_counts.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

void translate_top_k(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  TopKAttrs attrs;
  attrs.axis = n.axis_attr("axis", -1, b.rank(x));
  attrs.k = n.opset() >= 10 ? n.int_input(1, "k") : n.int_attr("k");
  attrs.largest = n.bool_attr("largest", true);
  n.require(attrs.k >= 0 && attrs.k <= b.extent(x, attrs.axis), "k is out of range");
  auto [values, indices] = b.top_k(x, attrs);
  n.set_output(0, values);
  n.set_output(1, indices);
}

/// on where an index equals the position along the new axis; an index out of range is all off.
void translate_one_hot(OpContext& n) {
  GraphBuilder& b = n.b;
  HostTensor depth_value = n.constant_input(1, "depth");
  n.require(depth_value.size() == 1, "depth must be one number");
  int64_t depth = is_float(depth_value.dtype()) ? static_cast<int64_t>(depth_value.at_double(0))
                                                : depth_value.at_int(0);
  n.require(depth >= 0, "depth must not be negative");
  ValueId values = n.input(2);
  n.require(b.shape(values) == Shape{2}, "values must be [off, on]");
  ValueId indices = b.convert(n.input(0), DType::kI64);
  int64_t axis = n.axis_attr("axis", -1, b.rank(indices) + 1);
  indices = b.unsqueeze(b.wrap_indices(indices, depth), {axis});
  Shape shape = b.shape(indices);
  shape[static_cast<size_t>(axis)] = depth;
  ValueId hit = b.binary(ScalarOp::kEq, b.iota(DType::kI64, shape, axis), indices);
  n.set_output(0, b.select(hit, b.pick(values, 0, 1), b.pick(values, 0, 0)));
}

/// Column index less row index of the last two axes, [rows, columns].
ValueId diagonal_number(GraphBuilder& b, int64_t rows, int64_t columns) {
  Shape shape = {rows, columns};
  return b.sub(b.iota(DType::kI64, shape, 1), b.iota(DType::kI64, shape, 0));
}

void translate_trilu(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  n.require(b.rank(x) >= 2, "the input must have two axes");
  ValueId k = b.scalar_int(DType::kI64, 0);
  if (n.has_input(1)) {
    n.require(b.size(n.input(1)) == 1, "k must be one number");
    k = b.reshape(b.convert(n.input(1), DType::kI64), {});
  }
  ScalarOp side = n.bool_attr("upper", true) ? ScalarOp::kGe : ScalarOp::kLe;
  ValueId stays = b.binary(side, diagonal_number(b, b.extent(x, -2), b.extent(x, -1)), k);
  n.set_output(0, b.select(stays, x, b.scalar_int(b.dtype(x), 0)));
}

int64_t block_size(OpContext& n) {
  n.require(n.b.rank(n.input(0)) == 4, "the input must be [N, C, H, W]");
  int64_t size = n.int_attr("blocksize");
  n.require(size >= 1 && size < (int64_t{1} << 20), "blocksize is out of range");
  return size;
}

void translate_depth_to_space(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  int64_t s = block_size(n);
  const Shape in = b.shape(x);
  n.require(in[1] % (s * s) == 0, "blocksize does not fit the channels");
  int64_t channels = in[1] / (s * s);
  std::string mode = n.string_attr("mode", "DCR");
  n.require(mode == "DCR" || mode == "CRD", "mode must be DCR or CRD");
  if (mode == "DCR") {
    x = b.reshape(x, {in[0], s, s, channels, in[2], in[3]});
    x = b.transpose(x, {0, 3, 4, 1, 5, 2});
  } else {
    x = b.reshape(x, {in[0], channels, s, s, in[2], in[3]});
    x = b.transpose(x, {0, 1, 4, 2, 5, 3});
  }
  n.set_output(0, b.reshape(x, {in[0], channels, in[2] * s, in[3] * s}));
}

void translate_space_to_depth(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  int64_t s = block_size(n);
  const Shape in = b.shape(x);
  n.require(in[2] % s == 0 && in[3] % s == 0, "blocksize does not divide height and width");
  x = b.reshape(x, {in[0], in[1], in[2] / s, s, in[3] / s, s});
  std::string mode = n.string_attr("mode", "DCR");
  n.require(mode == "DCR" || mode == "CRD", "mode must be DCR or CRD");
  if (mode == "DCR") {
    x = b.transpose(x, {0, 3, 5, 1, 2, 4});
  } else {
    x = b.transpose(x, {0, 1, 3, 5, 2, 4});
  }
  n.set_output(0, b.reshape(x, {in[0], in[1] * s * s, in[2] / s, in[3] / s}));
}

void translate_det(OpContext& n) {
  ValueId y = determinant(n.b, widen(n.b, n.input(0)));
  n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0))));
}

const Translator kRows[] = {
    {"", "DepthToSpace", 1, translate_depth_to_space},
    {"", "Det", 11, translate_det},
    {"", "NonMaxSuppression", 10, translate_non_max_suppression},
    {"", "OneHot", 9, translate_one_hot},
    {"", "SpaceToDepth", 1, translate_space_to_depth},
    {"", "TfIdfVectorizer", 9, translate_tf_idf_vectorizer},
    {"", "TopK", 1, translate_top_k},
    {"", "Trilu", 14, translate_trilu},
    {"", "Unique", 11, translate_unique},
    {"com.microsoft", "Trilu", 1, translate_trilu},
};

}  // namespace

TranslatorTable selection_translators() { return kRows; }

}  // namespace weft::onnx
