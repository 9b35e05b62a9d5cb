#include "import/builder/normalization.h"

#include <algorithm>

#include "import/builder/precision.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

using onnx::inverse_deviation;
using onnx::Moments;
using onnx::widen;

/// What the three instructions have in common: x, of which an axis counts features, and a scale for
/// each feature. Arithmetic is in x's working type; statistics have extent 1 along other axes.
struct BatchNormalization {
  explicit BatchNormalization(InstructionContext& n)
      : b(n.b),
        x(widen(n.b, n.operand(0))),
        epsilon(n.number("epsilon")),
        feature(GraphBuilder::normal_axis(n.integer("feature_index"), b.rank(x), "feature_index")),
        type(b.dtype(n.operand(0))),
        parameter_type(b.dtype(n.operand(1))) {
    for (int64_t axis = 0; axis < b.rank(x); ++axis) {
      if (axis != feature) axes.push_back(axis);
    }
  }

  /// An operand with a value for each feature.
  ValueId parameter(InstructionContext& n, size_t i) const {
    const ValueId values = n.operand(i);
    n.require(b.shape(values) == Shape{b.extent(x, feature)},
              "scale, offset, mean and variance have one value for each feature");
    return onnx::per_channel(b, b.convert(values, b.dtype(x)), b.rank(x), feature);
  }
  ValueId as_parameter(ValueId statistics) const {
    return b.convert(b.reshape(statistics, {b.extent(x, feature)}), parameter_type);
  }
  /// What a centred value is multiplied by.
  ValueId factor(InstructionContext& n, ValueId variance) const {
    return b.mul(parameter(n, 1), inverse_deviation(b, variance, epsilon));
  }

  GraphBuilder& b;
  ValueId x;
  double epsilon;
  int64_t feature;
  DType type, parameter_type;
  std::vector<int64_t> axes;
};

/// (x, scale, offset) -> (y, mean, variance), both of the batch.
void translate_training(InstructionContext& n) {
  n.expect_operands(3);
  const BatchNormalization norm(n);
  GraphBuilder& b = n.b;
  const Moments moments(b, norm.x, norm.axes);
  const ValueId scaled = b.mul(moments.centred, norm.factor(n, moments.variance));
  const ValueId y = b.convert(b.add(scaled, norm.parameter(n, 2)), norm.type);
  n.set_results({y, norm.as_parameter(moments.mean), norm.as_parameter(moments.variance)});
}

/// (x, scale, offset, mean, variance) -> y: x a + c, of which a and c do not depend on x.
void translate_inference(InstructionContext& n) {
  n.expect_operands(5);
  const BatchNormalization norm(n);
  GraphBuilder& b = n.b;
  const ValueId factor = norm.factor(n, norm.parameter(n, 4));
  const ValueId shift = b.sub(norm.parameter(n, 2), b.mul(norm.parameter(n, 3), factor));
  n.set_result(b.convert(b.add(b.mul(norm.x, factor), shift), norm.type));
}

/// (x, scale, mean, variance, dy) -> (dx, dscale, doffset). With N elements to a feature, centred x
/// c, and d = 1 / sqrt(variance + epsilon):
///     doffset = sum dy      dscale = d sum (c dy)
///     dx = scale d (dy - doffset / N - c d dscale / N)
void translate_gradient(InstructionContext& n) {
  n.expect_operands(5);
  const BatchNormalization norm(n);
  GraphBuilder& b = n.b;
  const ValueId dy = b.convert(n.operand(4), b.dtype(norm.x));
  n.require(b.shape(dy) == b.shape(norm.x), "the gradient has another shape than the operand");
  const ValueId centred = b.sub(norm.x, norm.parameter(n, 2));
  const ValueId deviation = inverse_deviation(b, norm.parameter(n, 3), norm.epsilon);
  const ValueId offset = b.reduce(Combiner::kSum, dy, norm.axes, true);
  const ValueId scale =
      b.mul(b.reduce(Combiner::kSum, b.mul(centred, dy), norm.axes, true), deviation);
  const auto count = static_cast<double>(b.size(norm.x)) /
                     static_cast<double>(std::max<int64_t>(b.size(offset), 1));
  const ValueId along = b.mul(b.mul(centred, deviation), b.div(scale, count));
  const ValueId rest = b.sub(b.sub(dy, b.div(offset, count)), along);
  const ValueId dx = b.mul(b.mul(norm.parameter(n, 1), deviation), rest);
  n.set_results({b.convert(dx, norm.type), norm.as_parameter(scale), norm.as_parameter(offset)});
}

const Translator kRows[] = {
    {"batch-norm-training", translate_training},
    {"batch-norm-inference", translate_inference},
    {"batch-norm-grad", translate_gradient},
};

}  // namespace

TranslatorTable normalization_translators() { return kRows; }

}  // namespace weft::hlo
