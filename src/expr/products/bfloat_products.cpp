#include "expr/products/bfloat_products.h"

#include <algorithm>

namespace weft {

namespace {

/// Columns below which a vector along them is mostly empty.
constexpr int64_t kFewestColumns = 4;

bool is_apply(const ScalarRef& s, ScalarOp op) {
  return s->kind == Scalar::Kind::kApply && s->op == op;
}

bool is_zero(const ScalarRef& s) { return s->kind == Scalar::Kind::kConstant && s->value.f == 0; }

/// The read of floats that a factor of float32 is, by itself or converted.
ScalarRef float_read(const ScalarRef& factor) {
  const ScalarRef& s = is_apply(factor, ScalarOp::kConvert) ? factor->operands[0] : factor;
  const bool half = s->type == DType::kF16 || s->type == DType::kBF16;
  const bool is_read = s->kind == Scalar::Kind::kRead && s->operands.empty() && !s->fill;
  return is_read && (s->type == DType::kF32 || half) ? s : nullptr;
}

bool runs_along(const Scalar& read, int axis) {
  return std::ranges::any_of(read.indices, [&](const IndexExpr& index) {
    return index.is_var() && index.var_id() == axis;
  });
}

bool depends(const Scalar& read, int axis) {
  return std::ranges::any_of(read.indices,
                             [&](const IndexExpr& index) { return uses_var(index, axis); });
}

}  // namespace

std::optional<FloatProduct> as_float_product(const ScalarRef& product) {
  if (!is_apply(product, ScalarOp::kMul) || product->type != DType::kF32) return std::nullopt;
  FloatProduct out;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    ScalarRef factor = product->operands[side];
    if (is_apply(factor, ScalarOp::kSelect)) {
      if (out.inside || !is_zero(factor->operands[2])) return std::nullopt;
      out.inside = factor->operands[0];
      out.padded_side = side;
      factor = factor->operands[1];
    }
    out.reads[side] = float_read(factor);
    if (out.reads[side] == nullptr) return std::nullopt;
  }
  return out;
}

std::optional<FloatProduct> as_bfloat_product(const ScalarRef& product) {
  std::optional<FloatProduct> out = as_float_product(product);
  if (!out || out->reads[0]->type != DType::kBF16 || out->reads[1]->type != DType::kBF16)
    return std::nullopt;
  return out;
}

std::optional<size_t> constant_factor(const TensorProgram& program, const FloatProduct& product) {
  const auto is_constant = [&](size_t side) {
    const auto t = static_cast<size_t>(product.reads[side]->symbol);
    return program.tensors[t].kind == Tensor::Kind::kConstant;
  };
  const size_t constant = is_constant(1) ? 1 : 0;
  if (!is_constant(constant) || is_constant(1 - constant) ||
      (product.inside && product.padded_side == constant))
    return std::nullopt;
  return constant;
}

std::optional<size_t> constant_of_pairs(const TensorProgram& program, const TensorExpr& e) {
  if (!e.is_contraction || e.combiner != Combiner::kSum || e.accumulator != DType::kF32)
    return std::nullopt;
  const std::optional<FloatProduct> product = as_float_product(e.body);
  const std::optional<size_t> constant =
      product ? constant_factor(program, *product) : std::nullopt;
  if (!constant) return std::nullopt;
  const Scalar &weights = *product->reads[*constant], &other = *product->reads[1 - *constant];
  bool along = false;
  for (int v = e.output_rank(); v < e.axis_count(); ++v)
    along |= e.range(v).hi >= 1 && runs_along(weights, v) && runs_along(other, v);
  int64_t columns = 1;
  for (int v = 0; v < e.output_rank(); ++v) {
    if (runs_along(weights, v) && !depends(other, v))
      columns = std::max(columns, e.range(v).hi + 1);
  }
  if (!along || columns < kFewestColumns) return std::nullopt;
  return constant;
}

bool sums_bfloat_pairs(const TensorProgram& program, const TensorExpr& e) {
  return e.is_contraction && as_bfloat_product(e.body) && constant_of_pairs(program, e);
}

}  // namespace weft
