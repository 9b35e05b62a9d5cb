#include "expr/products/scale_sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "expr/movement/element_by_element.h"
#include "expr/new_tensors.h"
#include "expr/products/bfloat_products.h"

namespace weft {

namespace {

/// Scales beyond these might leave float32's range with what is summed.
constexpr double kLeast = 0x1p-16, kMost = 0x1p16;

/// What an element-wise expression makes of one read: `read * by`.
struct ScaledRead {
  ScalarRef read;
  double by = 1;
  std::vector<int32_t> origins;  ///< of that expression
};

std::optional<ScaledRead> as_scaled_read(const ScalarRef& body) {
  if (body->kind != Scalar::Kind::kApply) return std::nullopt;
  const bool divides = body->op == ScalarOp::kDiv;
  if (!divides && body->op != ScalarOp::kMul) return std::nullopt;
  const bool turned = !divides && body->operands[0]->kind == Scalar::Kind::kConstant;
  const ScalarRef &read = body->operands[turned ? 1 : 0], &by = body->operands[turned ? 0 : 1];
  if (by->kind != Scalar::Kind::kConstant || read->kind != Scalar::Kind::kRead ||
      !read->operands.empty() || read->fill || !is_float(read->type))
    return std::nullopt;
  const double size = std::abs(by->value.f);
  if (!(size >= kLeast && size <= kMost)) return std::nullopt;
  return ScaledRead{read, divides ? 1 / by->value.f : by->value.f, {}};
}

class SumScaling {
 public:
  explicit SumScaling(TensorProgram& program)
      : program_(program), uses_(tensor_uses(program)), new_tensors_(program) {}

  std::vector<TensorId> run() {
    std::vector<TensorId> scaled;
    std::vector<TensorProgram::Step> steps;
    for (const TensorProgram::Step step : program_.steps) {
      steps.push_back(step);
      if (step.opaque || !scale(step.index)) continue;
      steps.push_back({false, static_cast<int32_t>(program_.exprs.size()) - 1});
      scaled.push_back(program_.exprs.back().output);
    }
    program_.steps = std::move(steps);
    return scaled;
  }

 private:
  bool sums_products(const TensorExpr& e) const {
    return e.is_contraction && e.combiner == Combiner::kSum && e.accumulator == DType::kF32 &&
           is_float(program_.tensors[static_cast<size_t>(e.output)].type.dtype) &&
           as_float_product(e.body);
  }

  /// Whether all of a tensor is read in its order: what scales it is made in its own kernel then.
  bool is_read_as_made(const TensorExpr& scaled, const Scalar& read) const {
    const Shape& shape = program_.tensors[static_cast<size_t>(read.symbol)].type.shape;
    return is_element_by_element(scaled, read, shape) &&
           element_count(shape) == element_count(scaled.extents);
  }

  /// What a factor is a multiple of, where this sum alone reads it and it is moved, too.
  std::optional<ScaledRead> source_of(const Scalar& factor) const {
    const auto t = static_cast<size_t>(factor.symbol);
    const int32_t producer = uses_.producer[t];
    if (producer < 0 || uses_.consumers[t].size() != 1 || program_.tensors[t].is_output)
      return std::nullopt;
    const TensorProgram::Step& step = program_.steps[static_cast<size_t>(producer)];
    if (step.opaque) return std::nullopt;
    const TensorExpr& made = program_.exprs[static_cast<size_t>(step.index)];
    if (made.is_contraction || !made.reduce_extents.empty()) return std::nullopt;
    std::optional<ScaledRead> out = as_scaled_read(made.body);
    if (!out || out->read->type != factor.type || is_read_as_made(made, *out->read))
      return std::nullopt;
    out->origins = made.origins;
    out->read = rewrite(out->read, [&](int v) { return factor.indices[static_cast<size_t>(v)]; });
    return out;
  }

  /// Adds the expression that scales a sum, where its factors are multiples.
  bool scale(int32_t index) {
    TensorExpr sum = program_.exprs[static_cast<size_t>(index)];
    if (!sums_products(sum)) return false;
    TensorExpr scaling = elementwise_like(sum);
    double by = 1;
    std::vector<std::pair<ScalarRef, ScalarRef>> sources;
    const FloatProduct product = *as_float_product(sum.body);
    for (const ScalarRef& factor : product.reads) {
      const std::optional<ScaledRead> source = source_of(*factor);
      if (!source) continue;
      by *= source->by;
      std::ranges::copy(source->origins, std::back_inserter(scaling.origins));
      sources.emplace_back(factor, source->read);
    }
    if (sources.empty()) return false;
    std::ranges::sort(scaling.origins);
    scaling.origins.erase(std::ranges::unique(scaling.origins).begin(), scaling.origins.end());
    sum.body = rewrite(sum.body, IndexExpr::var, [&](const ScalarRef& read) {
      for (const auto& [factor, source] : sources) {
        if (equal(read, factor)) return source;
      }
      return read;
    });
    const Tensor scaled = program_.tensors[static_cast<size_t>(sum.output)];
    sum.output = new_tensors_.add(scaled.name + "_unscaled", {DType::kF32, scaled.type.shape},
                                  Tensor::Kind::kIntermediate);
    std::vector<IndexExpr> element;
    for (int v = 0; v < sum.output_rank(); ++v) element.push_back(IndexExpr::var(v));
    const ScalarRef read = scalar_read(sum.output, DType::kF32, element);
    const ScalarRef factor = scalar_constant(float_value(DType::kF32, by));
    scaling.body = scalar_convert(scalar_apply(ScalarOp::kMul, {read, factor}, DType::kF32),
                                  scaled.type.dtype);
    program_.exprs[static_cast<size_t>(index)] = std::move(sum);
    program_.exprs.push_back(std::move(scaling));
    return true;
  }

  /// An element-wise expression of what a sum makes, its body still to come.
  static TensorExpr elementwise_like(const TensorExpr& sum) {
    TensorExpr out;
    out.output = sum.output;
    out.extents = sum.extents;
    out.origins = sum.origins;
    return out;
  }

  TensorProgram& program_;
  TensorUses uses_;
  NewTensors new_tensors_;
};

}  // namespace

std::vector<TensorId> scale_sums(TensorProgram& program) { return SumScaling(program).run(); }

}  // namespace weft
