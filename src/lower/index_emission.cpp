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
  const auto& valid = valid_[static_cast<size_t>(id)];
  if (valid && valid->reg == kNoReg) return {0, valid->count - 1};
  return {0, var.extent - 1};
}

PreparedIndex Lowering::prepare(const IndexExpr& e) {
  PreparedIndex p;
  p.expr = bind(e);
  p.affine = as_affine(p.expr, &p.form);
  if (!p.affine) {
    p.expr = simplify(p.expr, [this](int id) { return range_of_var(id); });
    p.affine = as_affine(p.expr, &p.form);
  }
  return p;
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
                                                               const Point& point) const {
  PointOffset out;
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
    return out;
  }
  const IndexExpr e = simplify(at_point(index, point), [this](int id) { return range_of_var(id); });
  AffineForm form;
  if (!as_affine(e, &form)) return std::nullopt;
  out.constant = form.constant;
  for (const auto& [id, c] : form.terms) {
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
  return var.digit ? emit_digit(*var.digit) : var.reg;
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
