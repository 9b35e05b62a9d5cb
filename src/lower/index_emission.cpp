#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

IndexExpr Lowering::bind(const IndexExpr& e) const {
  return substitute(e, [&](int id) -> IndexExpr {
    if (id < kKernelVarBase && bound_[static_cast<size_t>(id)].has_value()) {
      return *bound_[static_cast<size_t>(id)];
    }
    return IndexExpr::var(id);
  });
}

Interval Lowering::range_of_var(int id) const {
  if (id >= kRuntimeIndexBase) return kUnbounded;
  if (id == kLaneVar) return {0, box_.lanes - 1};
  if (id >= kKernelVarBase) return kernel_vars_[static_cast<size_t>(id - kKernelVarBase)].range;
  const TileVar& var = program_.vars[static_cast<size_t>(id)];
  if (var.kind == TileVar::Kind::kOrigin) return kUnbounded;
  if (var.kind == TileVar::Kind::kSize && var.extent == 0) return kUnbounded;
  const auto& valid = valid_[static_cast<size_t>(id)];
  if (valid && valid->count > 0) return {0, valid->count - 1};
  return {0, var.extent - 1};
}

PreparedIndex Lowering::prepare(const IndexExpr& e) {
  PreparedIndex p;
  p.expr = bind(e);
  p.affine = as_affine_of_products(p.expr, &p);
  if (!p.affine) {
    p.expr = simplify(p.expr, [this](int id) { return range_of_var(id); });
    p.affine = as_affine_of_products(p.expr, &p);
  }
  return p;
}

namespace {

/// The variables whose product an expression is; false for anything else.
bool collect_factors(const IndexExpr& e, std::vector<int>* factors) {
  if (e.is_var()) {
    factors->push_back(e.var_id());
    return true;
  }
  return e.op() == IndexOp::kMul && collect_factors(e.lhs(), factors) &&
         collect_factors(e.rhs(), factors);
}

/// The parts of a sum, each a constant or a coefficient and what it stands before.
void collect_parts(const IndexExpr& e, std::vector<std::pair<IndexExpr, int64_t>>* parts) {
  if (e.op() == IndexOp::kAdd) {
    collect_parts(e.lhs(), parts);
    collect_parts(e.rhs(), parts);
  } else if (e.op() == IndexOp::kMul && e.rhs().is_const()) {
    parts->emplace_back(e.lhs(), e.rhs().constant());
  } else {
    parts->emplace_back(e, 1);
  }
}

}  // namespace

bool Lowering::as_affine_of_products(const IndexExpr& e, PreparedIndex* out) {
  out->scaled.clear();
  if (as_affine(e, &out->form)) return true;
  if (arguments_ == 0) return false;
  std::vector<std::pair<IndexExpr, int64_t>> parts;
  collect_parts(e, &parts);
  std::map<int, int64_t> terms;
  int64_t constant = 0;
  for (const auto& [atom, c] : parts) {
    std::vector<int> factors, box;
    if (atom.is_const()) {
      constant += atom.constant() * c;
      continue;
    }
    if (!collect_factors(atom, &factors)) return false;
    std::sort(factors.begin(), factors.end());
    const auto kernel = std::lower_bound(factors.begin(), factors.end(), kKernelVarBase);
    box.assign(factors.begin(), kernel);
    factors.erase(factors.begin(), kernel);
    if (box.size() > 1) return false;
    if (box.empty()) {
      terms[product_var(std::move(factors))] += c;
    } else if (factors.empty()) {
      terms[box[0]] += c;
    } else {
      out->scaled.push_back({box[0], product_var(std::move(factors)), c});
    }
  }
  out->form.terms.assign(terms.begin(), terms.end());
  out->form.constant = constant;
  // What changes last comes first: its partial sums are invariant.
  const auto innermost = [&](int id) {
    const bool product = id > kKernelVarBase && id < kRuntimeIndexBase;
    const auto& factors = product ? kernel_vars_[static_cast<size_t>(id - kKernelVarBase)].factors
                                  : std::vector<int>{};
    return std::pair(factors.empty() ? id : factors.back(), id);
  };
  std::sort(out->form.terms.begin(), out->form.terms.end(),
            [&](const auto& a, const auto& b) { return innermost(a.first) < innermost(b.first); });
  return true;
}

bool Lowering::affine_in_kernel_vars(const IndexExpr& e, AffineForm* form) {
  PreparedIndex index;
  if (!as_affine_of_products(e, &index) || !index.scaled.empty()) return false;
  *form = std::move(index.form);
  return true;
}

int Lowering::product_var(std::vector<int> factors) {
  if (factors.size() == 1) return factors[0];
  std::sort(factors.begin(), factors.end());
  if (const auto it = product_vars_.find(factors); it != product_vars_.end()) return it->second;
  IndexExpr product = 1;
  for (const int id : factors) product = product * IndexExpr::var(id);
  const Interval range = range_of(product, [this](int id) { return range_of_var(id); });
  const IndexExpr var = add_kernel_var(kNoReg, range);
  kernel_vars_.back().factors = factors;
  product_vars_.emplace(std::move(factors), var.var_id());
  return var.var_id();
}

bool Lowering::is_invariant_size(int id) const {
  if (id <= kKernelVarBase || id >= kRuntimeIndexBase) return false;
  const KernelVar& var = kernel_vars_[static_cast<size_t>(id - kKernelVarBase)];
  return var.argument >= 0 ||
         (!var.factors.empty() && std::all_of(var.factors.begin(), var.factors.end(),
                                              [this](int f) { return is_invariant_size(f); }));
}

IndexExpr Lowering::at_point(const PreparedIndex& index, const Point& point) const {
  return substitute(index.expr, [&](int id) -> IndexExpr {
    const int axis = id < kKernelVarBase ? box_.find(id) : -1;
    if (axis < 0) return IndexExpr::var(id);
    const Box::Axis& a = box_.axes[static_cast<size_t>(axis)];
    IndexExpr value = a.start(point[static_cast<size_t>(axis)]);
    for (const auto& [digit, step] : a.threads) {
      value = value + IndexExpr::var(thread_vars_.at(digit)) * step;
    }
    for (const Box::Axis::LoopDigit& loop : a.loops) {
      value = value + IndexExpr::var(loop.var) * loop.step;
    }
    if (a.lanes > 1) value = value + IndexExpr::var(kLaneVar);
    return value;
  });
}

std::optional<Lowering::PointOffset> Lowering::affine_at_point(const PreparedIndex& index,
                                                               const Point& point) {
  PointOffset out;
  for (const PreparedIndex::Scaled& s : index.scaled) {
    const int axis = box_.find(s.box_var);
    if (axis < 0 || box_.axes[static_cast<size_t>(axis)].lanes > 1) return std::nullopt;
  }
  if (index.affine) {
    out.constant = index.form.constant;
    for (const auto& [id, c] : index.form.terms) {
      const int axis = id < kKernelVarBase ? box_.find(id) : -1;
      if (axis < 0) {
        out.terms.emplace_back(id, c);
        continue;
      }
      const Box::Axis& a = box_.axes[static_cast<size_t>(axis)];
      out.constant += c * a.start(point[static_cast<size_t>(axis)]);
      for (const auto& [digit, step] : a.threads) {
        out.terms.emplace_back(thread_vars_.at(digit), c * step);
      }
      for (const Box::Axis::LoopDigit& loop : a.loops) {
        out.terms.emplace_back(loop.var, c * loop.step);
      }
      if (a.lanes > 1) out.lane_coefficient += c;
    }
    for (const PreparedIndex::Scaled& s : index.scaled) {
      const auto axis = static_cast<size_t>(box_.find(s.box_var));
      const int64_t start = box_.axes[axis].start(point[axis]);
      if (start != 0) out.terms.emplace_back(s.factor, s.coefficient * start);
    }
    return out;
  }
  const IndexExpr e = simplify(at_point(index, point), [this](int id) { return range_of_var(id); });
  AffineForm form;
  if (!affine_in_kernel_vars(e, &form)) return std::nullopt;
  out.constant = form.constant;
  for (const auto& [id, c] : form.terms) {
    if (product_has_lane(id)) return std::nullopt;
    if (id == kLaneVar) {
      out.lane_coefficient = c;
    } else {
      out.terms.emplace_back(id, c);
    }
  }
  return out;
}

Reg Lowering::kernel_var(int id) {
  if (id >= kRuntimeIndexBase) {
    for (const auto& [var, reg] : runtime_indices_) {
      if (var == id) return reg;
    }
    throw_internal_error(__FILE__, __LINE__, "runtime index", "not bound");
  }
  if (id == kLaneVar) return builder_.ramp(DType::kI64, box_.lanes);
  WEFT_CHECK(id > kKernelVarBase,
             "tile variable " +
                 (id >= 0 && id < kKernelVarBase ? program_.vars[static_cast<size_t>(id)].name
                                                 : std::to_string(id)) +
                 " is not bound here in " + program_.name);
  const KernelVar& var = kernel_vars_[static_cast<size_t>(id - kKernelVarBase)];
  if (var.argument >= 0) return builder_.argument(var.argument);
  if (!var.factors.empty()) {
    const std::vector<int> factors = var.factors;
    Reg product = kernel_var(factors[0]);
    for (size_t f = 1; f < factors.size(); ++f) {
      const Reg factor = kernel_var(factors[f]);
      const int32_t lanes = std::max(builder_.type(product).lanes, builder_.type(factor).lanes);
      product = builder_.apply(ScalarOp::kMul, {to_lanes(product, lanes), to_lanes(factor, lanes)},
                               DType::kI64);
    }
    return product;
  }
  return var.digit ? emit_digit(*var.digit) : var.reg;
}

bool Lowering::product_has_lane(int id) const {
  if (id <= kKernelVarBase || id >= kRuntimeIndexBase) return false;
  const std::vector<int>& factors = kernel_vars_[static_cast<size_t>(id - kKernelVarBase)].factors;
  return std::find(factors.begin(), factors.end(), kLaneVar) != factors.end();
}

Reg Lowering::emit_terms(const std::vector<std::pair<int, int64_t>>& terms, int64_t constant) {
  // Outer loops have the smaller numbers: their partial sums are the invariant ones.
  Reg sum = kNoReg;
  for (const auto& [id, c] : terms) {
    Reg term = kernel_var(id);
    const int32_t lanes = builder_.type(term).lanes;
    if (c != 1) {
      term = builder_.apply(ScalarOp::kMul, {term, to_lanes(builder_.int_constant(c), lanes)},
                            DType::kI64);
    }
    if (sum == kNoReg) {
      sum = term;
    } else {
      const int32_t wide = std::max(builder_.type(sum).lanes, lanes);
      sum =
          builder_.apply(ScalarOp::kAdd, {to_lanes(sum, wide), to_lanes(term, wide)}, DType::kI64);
    }
  }
  if (sum == kNoReg) return builder_.int_constant(constant);
  if (constant == 0) return sum;
  return builder_.apply(ScalarOp::kAdd,
                        {sum, to_lanes(builder_.int_constant(constant), builder_.type(sum).lanes)},
                        DType::kI64);
}

Reg Lowering::emit_index(const IndexExpr& e) {
  const auto binary = [&](ScalarOp op, Reg a, Reg b, DType type = DType::kI64) {
    const int32_t lanes = std::max(builder_.type(a).lanes, builder_.type(b).lanes);
    return builder_.apply(op, {to_lanes(a, lanes), to_lanes(b, lanes)}, type);
  };
  switch (e.op()) {
    case IndexOp::kConst:
      return builder_.int_constant(e.constant());
    case IndexOp::kVar:
      return kernel_var(e.var_id());
    case IndexOp::kAdd:
      return binary(ScalarOp::kAdd, emit_index(e.lhs()), emit_index(e.rhs()));
    case IndexOp::kMul:
      return binary(ScalarOp::kMul, emit_index(e.lhs()), emit_index(e.rhs()));
    case IndexOp::kMin:
      return binary(ScalarOp::kMin, emit_index(e.lhs()), emit_index(e.rhs()));
    case IndexOp::kMax:
      return binary(ScalarOp::kMax, emit_index(e.lhs()), emit_index(e.rhs()));
    case IndexOp::kFloorDiv:
    case IndexOp::kMod: {
      const Reg x = emit_index(e.lhs());
      const Reg d = builder_.int_constant(e.rhs().constant());
      const bool is_div = e.op() == IndexOp::kFloorDiv;
      const Interval range = range_of(e.lhs(), [this](int id) { return range_of_var(id); });
      const Reg truncated = binary(is_div ? ScalarOp::kDiv : ScalarOp::kRem, x, d);
      if (range.lo >= 0) return truncated;
      // Truncation rounds a negative numerator up; correct where a remainder is left below zero.
      const Reg zero = builder_.int_constant(0);
      const Reg remainder = is_div ? binary(ScalarOp::kRem, x, d) : truncated;
      const Reg negative = binary(ScalarOp::kLt, remainder, zero, DType::kBool);
      const Reg corrected = is_div ? binary(ScalarOp::kSub, truncated, builder_.int_constant(1))
                                   : binary(ScalarOp::kAdd, truncated, d);
      const int32_t lanes = builder_.type(x).lanes;
      return builder_.apply(
          ScalarOp::kSelect,
          {to_lanes(negative, lanes), to_lanes(corrected, lanes), to_lanes(truncated, lanes)},
          DType::kI64);
    }
  }
  return kNoReg;
}

}  // namespace weft::lowering
