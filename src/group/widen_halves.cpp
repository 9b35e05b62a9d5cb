#include "group/widen_halves.h"

#include <algorithm>
#include <optional>

#include "expr/products/bfloat_products.h"
#include "expr/products/widen_halves.h"
#include "target/multiplies_bfloat16.h"

namespace weft {

namespace {

/// Tensors that contractions read in 16 bits stay what they are: of a CPU's, those that it makes of
/// pairs of bfloat16.
void keep_operands(const TensorProgram& program, const Target& target, std::vector<bool>* widened) {
  for (const TensorExpr& e : program.exprs) {
    const bool in_halves =
        target.is_gpu() || (multiplies_bfloat16(target) && sums_bfloat_pairs(program, e));
    if (!e.is_contraction || !in_halves) continue;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) (*widened)[static_cast<size_t>(s.symbol)] = false;
    });
  }
}

/// Vectors that a tile multiplies with one that it has converted, about.
constexpr double kUsesOfConverted = 8;

/// Constants that a contraction multiplies so often that converting them again for every tile takes
/// longer than reading twice the bytes. Axes whose extents the model leaves open count as long.
void widen_weights(const TensorProgram& program, const Target& target, std::vector<bool>* widened) {
  for (const TensorExpr& e : program.exprs) {
    if (!e.is_contraction || (multiplies_bfloat16(target) && sums_bfloat_pairs(program, e)))
      continue;
    double products = 1;
    for (int v = 0; v < e.axis_count(); ++v)
      products *= e.is_open(v) ? 1e6 : static_cast<double>(e.range(v).hi + 1);
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || !is_half(s.type)) return;
      const Tensor& t = program.tensors[static_cast<size_t>(s.symbol)];
      const std::optional<int64_t> elements = element_count(t.type.shape);
      if (t.kind != Tensor::Kind::kConstant || !elements || *elements == 0) return;
      const double uses = products / static_cast<double>(*elements);
      const double converting = uses / kUsesOfConverted * 2 / target.peak_gflops;  // ns an element
      const double reading = 2 / target.bandwidth_gb_per_s(4 * *elements);
      if (converting > reading) (*widened)[static_cast<size_t>(s.symbol)] = true;
    });
  }
}

}  // namespace

bool holds_halves(const TensorProgram& program) {
  return std::ranges::any_of(program.exprs, [](const TensorExpr& e) {
    bool half = false;
    visit(e.body, [&](const Scalar& s) { half |= is_half(s.type); });
    return half;
  });
}

void widen_halves(GroupView* view, const Target& target) {
  TensorProgram& program = view->program;
  if (!holds_halves(program)) return;
  std::vector<bool> widened(program.tensors.size(), false);
  for (const TensorExpr& e : program.exprs) {
    widened[static_cast<size_t>(e.output)] =
        is_half(program.tensors[static_cast<size_t>(e.output)].type.dtype);
  }
  keep_operands(program, target, &widened);
  if (!target.is_gpu()) widen_weights(program, target, &widened);
  for (const TensorId t : view->group.outputs) widened[static_cast<size_t>(t)] = false;
  compute_in_float32(program, widened);
}

}  // namespace weft
