#include "expr/products/constant_axes.h"

#include <algorithm>

namespace weft {

std::vector<int> digits_of(const TensorExpr& e, const IndexExpr& index, int64_t extent) {
  AffineForm form;
  if (!as_affine(index, &form) || form.constant != 0) return {};
  std::ranges::sort(form.terms, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<int> digits;
  int64_t weight = extent;
  for (const auto& [var, c] : form.terms) {
    if (var >= kRuntimeIndexBase || c <= 0 || c * (e.range(var).hi + 1) != weight) return {};
    weight = c;
    digits.push_back(var);
  }
  return weight == 1 ? digits : std::vector<int>{};
}

ScalarRef ConstantAxes::given(const TensorExpr& e, const ScalarRef& read) {
  const Tensor& t = program_.tensors[static_cast<size_t>(read->symbol)];
  if (t.kind != Tensor::Kind::kConstant || !read->operands.empty() || read->fill) return read;
  Shape shape;
  std::vector<IndexExpr> indices;
  for (size_t d = 0; d < read->indices.size(); ++d) {
    const std::vector<int> digits = digits_of(e, read->indices[d], t.type.shape[d]);
    if (digits.size() < 2) {
      shape.push_back(t.type.shape[d]);
      indices.push_back(read->indices[d]);
      continue;
    }
    for (const int v : digits) {
      shape.push_back(e.range(v).hi + 1);
      indices.push_back(IndexExpr::var(v));
    }
  }
  if (shape.size() == t.type.shape.size()) return read;
  const auto [made, is_new] = made_.try_emplace({read->symbol, shape}, -1);
  if (is_new) {
    const HostTensor value = t.value.reshaped(shape);
    made->second =
        new_tensors_.add(t.name + "_axes", {t.type.dtype, shape}, Tensor::Kind::kConstant);
    program_.tensors.back().value = value;
  }
  return scalar_read(made->second, read->type, std::move(indices));
}

}  // namespace weft
