#include "group/widen_bytes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "expr/products/integer_products.h"

namespace weft {

namespace {

/// Rows that a tile multiplies with a constant that it has widened, about.
constexpr double kRowsOfTile = 4;
/// Three operations widen a vector of 32 bytes; four of them take the time of a vector's 2 * 2 * 8
/// operations of float32.
constexpr double kFlopsOfWidening = 0.75;

/// How often each element of the constant is multiplied. Axes whose extents the model leaves open
/// count as long.
double uses_of(const TensorExpr& e, int64_t elements) {
  double products = 1;
  for (int v = 0; v < e.axis_count(); ++v)
    products *= e.is_open(v) ? 1e6 : static_cast<double>(e.range(v).hi + 1);
  return products / static_cast<double>(elements);
}

bool is_worth_widening(const TensorProgram& program, const TensorExpr& e, const Scalar& right,
                       const Target& target) {
  const Tensor& t = program.tensors[static_cast<size_t>(right.symbol)];
  const std::optional<int64_t> elements = element_count(t.type.shape);
  if (t.kind != Tensor::Kind::kConstant || !elements || *elements == 0) return false;
  const double widening =  // ns an element, as is reading one byte more
      uses_of(e, *elements) / kRowsOfTile * kFlopsOfWidening / target.peak_gflops;
  return widening > 1 / target.bandwidth_gb_per_s(2 * *elements);
}

/// The factors of a product with signed bytes on its right.
std::optional<IntegerProduct> byte_product(const TensorExpr& e) {
  if (!e.is_contraction) return std::nullopt;
  std::optional<IntegerProduct> product = as_integer_product(e.body);
  if (!product || product->right->type != DType::kI8) return std::nullopt;
  return product;
}

}  // namespace

bool holds_byte_products(const TensorProgram& program, const Target& target) {
  if (target.is_gpu() || multiplies_bytes(target)) return false;
  return std::ranges::any_of(program.exprs,
                             [](const TensorExpr& e) { return byte_product(e).has_value(); });
}

void widen_bytes(GroupView* view, const Target& target) {
  TensorProgram& program = view->program;
  if (!holds_byte_products(program, target)) return;
  std::map<TensorId, int> reads;
  for (const TensorExpr& e : program.exprs) {
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) ++reads[static_cast<TensorId>(s.symbol)];
    });
  }
  for (TensorExpr& e : program.exprs) {
    const std::optional<IntegerProduct> product = byte_product(e);
    if (!product) continue;
    const auto constant = static_cast<TensorId>(product->right->symbol);
    if (reads[constant] != 1 || !is_worth_widening(program, e, *product->right, target)) continue;
    program.tensors[static_cast<size_t>(constant)].type.dtype = DType::kI16;
    e.body = rewrite(
        e.body, [](int v) { return IndexExpr::var(v); },
        [&](const ScalarRef& read) {
          if (read->symbol != constant) return read;
          return scalar_read(constant, DType::kI16, read->indices, read->operands, read->fill);
        });
  }
}

}  // namespace weft
