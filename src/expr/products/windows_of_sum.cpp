#include "expr/products/windows_of_sum.h"

#include <algorithm>
#include <numeric>

#include "expr/body_uses.h"
#include "expr/leaves.h"
#include "expr/products/bfloat_products.h"
#include "index/index_terms.h"

namespace weft {
namespace {

constexpr size_t kMostAxes = 2;

/// Variables that no expression has.
constexpr int kFirstNew = kRuntimeIndexBase - 1, kSecondNew = kRuntimeIndexBase - 2;

/// Whether no index of `s` depends on `absent` once `var` is `value` of other variables.
bool is_without(const ScalarRef& s, int absent, int var, const IndexExpr& value,
                const RangeOf& range) {
  bool without = true;
  for (const Leaf& leaf : leaves_of(s)) {
    for (const IndexExpr& index : leaf.indices) {
      const IndexExpr there =
          substitute(index, [&](int v) { return v == var ? value : IndexExpr::var(v); });
      without &= !uses_var(simplify(there, range), absent);
    }
  }
  return without;
}

/// Whether all that `s` reads stands at result + place, wherever it depends on either.
bool reads_neighbours(const ScalarRef& s, const WindowAlong& axis, const RangeOf& range) {
  const int at = kFirstNew;
  return is_without(s, axis.result, axis.place, IndexExpr::var(at) - IndexExpr::var(axis.result),
                    [&](int v) { return v == at ? kUnbounded : range(v); });
}

/// Whether `s` depends on a variable's quotient by `n` alone.
bool reads_quotients(const ScalarRef& s, int var, int64_t n, const RangeOf& range) {
  const int quotient = kFirstNew, rest = kSecondNew;
  return is_without(s, rest, var, IndexExpr::var(quotient) * n + IndexExpr::var(rest), [&](int v) {
    if (v == rest) return Interval{0, n - 1};
    return v == quotient ? Interval{0, range(var).hi / n} : range(v);
  });
}

class WindowsFinder {
 public:
  WindowsFinder(const TensorProgram& program, const TensorExpr& e) : program_(program), e_(e) {}

  std::optional<WindowsOfSum> find() {
    if (!e_.is_contraction || e_.combiner != Combiner::kSum || e_.accumulator != DType::kF32)
      return std::nullopt;
    const std::optional<FloatProduct> product = as_float_product(e_.body);
    if (!product) return std::nullopt;
    const std::optional<size_t> constant = constant_factor(program_, *product);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      if (constant && side != *constant) continue;
      out_ = {};
      if (!take_factors(*product, side)) continue;
      find_axes();
      if (!out_.axes.empty() && take_variables()) return std::move(out_);
    }
    return std::nullopt;
  }

 private:
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  RangeOf ranges() const {
    return [this](int v) { return e_.range(v); };
  }

  /// Weights on that side. Those that vary may be walked backwards, as gradients of images do.
  bool take_factors(const FloatProduct& product, size_t side) {
    out_.weights = product.reads[side];
    out_.source = e_.body->operands[1 - side];
    out_.varies = tensor(out_.weights->symbol).kind != Tensor::Kind::kConstant;
    if (product.inside && product.padded_side == side) return false;
    // Padding is by indices: what data leave out has no neighbours to tell of.
    size_t reads = 0;
    visit(out_.source, [&](const Scalar& s) { reads += s.kind == Scalar::Kind::kRead; });
    return reads == 1 && out_.weights->operands.empty() && !out_.weights->fill &&
           std::ranges::all_of(out_.weights->indices, [&](const IndexExpr& index) {
             AffineForm form;
             return index.is_var() || index.is_const(0) ||
                    (out_.varies && as_affine(index, &form) && form.terms.size() <= 1);
           });
  }

  void find_axes() {
    for (int place = e_.output_rank(); place < e_.axis_count(); ++place) {
      if (e_.range(place).hi + 1 != kWindowPlaces || !body_uses(out_.weights, place)) continue;
      for (int result = 0; result < e_.output_rank(); ++result) {
        const WindowAlong axis{result, place};
        if (out_.axis_of(result) >= 0 || e_.is_open(result) || body_uses(out_.weights, result) ||
            !body_uses(out_.source, result) || !body_uses(out_.source, place) ||
            e_.extents[static_cast<size_t>(result)] < kWindowTile ||
            !reads_neighbours(out_.source, axis, ranges()))
          continue;
        out_.axes.push_back(axis);
        break;
      }
    }
  }

  bool take_variables() {
    if (out_.axes.size() > kMostAxes) return false;
    const auto is_window = [&](int v) {
      return std::ranges::any_of(out_.axes, [&](const WindowAlong& a) { return a.place == v; });
    };
    for (int v = 0; v < e_.axis_count(); ++v) {
      if (e_.range(v).hi == 0 && v >= e_.output_rank()) continue;
      const bool source = body_uses(out_.source, v), weights = body_uses(out_.weights, v);
      const VariableDigit all{v, e_.range(v).hi + 1};
      if (v >= e_.output_rank()) {
        if (is_window(v)) continue;
        if (!source || !weights || e_.is_open(v)) return false;
        out_.inputs.push_back(all);
      } else if (source && weights) {
        if (e_.is_open(v)) return false;
        take_group(all);
      } else {
        (weights ? out_.columns : out_.rows).push_back(all);
      }
    }
    return !out_.columns.empty() && !out_.inputs.empty();
  }

  /// A group for each step of the variable, or for each `columns` of them.
  void take_group(const VariableDigit& all) {
    int64_t columns = 0;
    for (const Leaf& leaf : leaves_of(out_.source)) {
      for (const IndexExpr& index : leaf.indices)
        columns = std::gcd(columns, divisor_of(index, all.var));
    }
    if (columns < 2 || all.extent % columns != 0 ||
        !reads_quotients(out_.source, all.var, columns, ranges())) {
      out_.groups.push_back(all);
      return;
    }
    out_.groups.push_back({all.var, all.extent / columns, columns});
    out_.columns.push_back({all.var, columns});
  }

  const TensorProgram& program_;
  const TensorExpr& e_;
  WindowsOfSum out_;
};

}  // namespace

int WindowsOfSum::axis_of(int result) const {
  const auto found = std::ranges::find(axes, result, &WindowAlong::result);
  return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

std::optional<WindowsOfSum> windows_of_sum(const TensorProgram& program, const TensorExpr& e) {
  return WindowsFinder(program, e).find();
}

}  // namespace weft
