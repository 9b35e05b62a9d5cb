#include <numeric>

#include "import/builder/precision.h"
#include "import/builder/softmax.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// The loss of each position from log-probabilities [N, C, ...] and classes [N, ...], then reduced.
/// A position whose class is ignore_index counts neither in the sum nor in the mean's weight.
ValueId class_loss(OpContext& n, ValueId log_probability) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(log_probability);
  ValueId target = b.convert(n.input(1), DType::kI64);
  const Shape shape = b.shape(log_probability);
  n.require(shape.size() >= 2, "the scores must have a class axis");
  Shape expected = shape;
  expected.erase(expected.begin() + 1);
  n.require(b.shape(target) == expected, "the classes must have the scores' shape without axis 1");
  ValueId ignored = kNoValue;
  if (n.has_attr("ignore_index")) {
    ValueId index = b.scalar_int(DType::kI64, n.int_attr("ignore_index"));
    ignored = b.binary(ScalarOp::kEq, target, index);
    target = b.select(ignored, b.scalar_int(DType::kI64, 0), target);
  }
  ValueId chosen = b.gather_elements(log_probability, b.unsqueeze(target, {1}), 1);
  ValueId loss = b.neg(b.squeeze(chosen, {1}));
  ValueId weight = kNoValue;
  if (n.has_input(2)) {
    n.require(b.shape(n.input(2)) == Shape{shape[1]}, "weight must have one value per class");
    weight = b.gather(b.convert(n.input(2), type), target, 0);
    loss = b.mul(loss, weight);
  }
  if (ignored != kNoValue) {
    ValueId zero = b.scalar(type, 0);
    loss = b.select(ignored, zero, loss);
    weight = b.select(ignored, zero, weight == kNoValue ? b.full_like(loss, 1) : weight);
  }
  std::string reduction = n.string_attr("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction != "mean" && reduction != "sum") {
    n.invalid("reduction \"" + reduction + "\" is not one that ONNX has");
  }
  std::vector<int64_t> axes(static_cast<size_t>(b.rank(loss)));
  std::iota(axes.begin(), axes.end(), 0);
  if (reduction == "mean" && weight == kNoValue) return b.reduce_mean(loss, axes, false);
  ValueId sum = b.reduce(Combiner::kSum, loss, axes, false);
  return reduction == "sum" ? sum : b.div(sum, b.reduce(Combiner::kSum, weight, axes, false));
}

void translate_negative_log_likelihood_loss(OpContext& n) {
  ValueId loss = class_loss(n, widen(n.b, n.input(0)));
  n.set_output(0, n.b.convert(loss, n.b.dtype(n.input(0))));
}

void translate_softmax_cross_entropy_loss(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId scores = widen(b, n.input(0));
  n.require(b.rank(scores) >= 2, "the scores must have a class axis");
  ValueId log_probability = log_softmax(b, scores, {1});
  DType type = b.dtype(n.input(0));
  n.set_output(0, b.convert(class_loss(n, log_probability), type));
  if (n.wants_output(1)) n.set_output(1, b.convert(log_probability, type));
}

const Translator kRows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, translate_negative_log_likelihood_loss},
    {"", "SoftmaxCrossEntropyLoss", 12, translate_softmax_cross_entropy_loss},
};

}  // namespace

TranslatorTable loss_translators() { return kRows; }

}  // namespace weft::onnx
