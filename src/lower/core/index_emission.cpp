#include "lower/core/index_emission.h"

#include <algorithm>
#include <limits>
#include <map>

#include "lower/core/lanes.h"
#include "lower/core/thread_digits.h"

namespace weft::lowering {

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

int product_var(KernelWriter& w, std::vector<int> factors) {
  if (factors.size() == 1) return factors[0];
  std::sort(factors.begin(), factors.end());
  if (const auto it = w.vars.products.find(factors); it != w.vars.products.end()) return it->second;
  IndexExpr product = 1;
  for (const int id : factors) product = product * IndexExpr::var(id);
  const Interval range = range_of(product, [&](int id) { return range_of_var(w, id); });
  const IndexExpr var = add_kernel_var(w, kNoReg, range);
  w.vars.all.back().factors = factors;
  w.vars.products.emplace(std::move(factors), var.var_id());
  return var.var_id();
}

bool product_has_lane(const KernelWriter& w, int id) {
  if (id <= kKernelVarBase || id >= kRuntimeIndexBase) return false;
  const std::vector<int>& factors = w.vars.all[static_cast<size_t>(id - kKernelVarBase)].factors;
  return std::find(factors.begin(), factors.end(), kLaneVar) != factors.end();
}

}  // namespace

IndexExpr add_kernel_var(KernelWriter& w, Reg reg, Interval range) {
  w.vars.all.push_back({reg, range, {}, -1, {}});
  return IndexExpr::var(kKernelVarBase + static_cast<int>(w.vars.all.size()) - 1);
}

IndexExpr bind(const KernelWriter& w, const IndexExpr& e) {
  return substitute(e, [&](int id) -> IndexExpr {
    if (id < kKernelVarBase && w.bindings.bound[static_cast<size_t>(id)].has_value()) {
      return *w.bindings.bound[static_cast<size_t>(id)];
    }
    return IndexExpr::var(id);
  });
}

Interval range_of_var(const KernelWriter& w, int id) {
  if (id >= kRuntimeIndexBase) {
    const auto& known = w.vars.runtime_indices;
    const auto it = std::ranges::find(known, id, &KernelVars::Runtime::id);
    return it == known.end() ? kUnbounded : it->range;
  }
  if (id == kLaneVar) return {0, w.at_hand.box.lanes - 1};
  if (id >= kKernelVarBase) return w.vars.all[static_cast<size_t>(id - kKernelVarBase)].range;
  const TileVar& var = w.program.vars[static_cast<size_t>(id)];
  if (var.kind == TileVar::Kind::kOrigin) return kUnbounded;
  if (var.kind == TileVar::Kind::kSize && var.extent == 0) return kUnbounded;
  const auto& valid = w.bindings.valid[static_cast<size_t>(id)];
  if (valid && valid->count > 0) return {0, valid->count - 1};
  return {0, var.extent - 1};
}

PreparedIndex prepare(KernelWriter& w, const IndexExpr& e) {
  PreparedIndex p;
  p.expr = bind(w, e);
  p.affine = as_affine_of_products(w, p.expr, &p);
  if (!p.affine) {
    p.expr = simplify(p.expr, [&](int id) { return range_of_var(w, id); });
    p.affine = as_affine_of_products(w, p.expr, &p);
  }
  return p;
}

bool as_affine_of_products(KernelWriter& w, const IndexExpr& e, PreparedIndex* out) {
  out->scaled.clear();
  if (as_affine(e, &out->form)) return true;
  if (w.vars.arguments == 0) return false;
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
      terms[product_var(w, std::move(factors))] += c;
    } else if (factors.empty()) {
      terms[box[0]] += c;
    } else {
      out->scaled.push_back({box[0], product_var(w, std::move(factors)), c});
    }
  }
  out->form.terms.assign(terms.begin(), terms.end());
  out->form.constant = constant;
  // What changes last comes first: its partial sums are invariant.
  const auto innermost = [&](int id) {
    const bool product = id > kKernelVarBase && id < kRuntimeIndexBase;
    const auto& factors =
        product ? w.vars.all[static_cast<size_t>(id - kKernelVarBase)].factors : std::vector<int>{};
    return std::pair(factors.empty() ? id : factors.back(), id);
  };
  std::sort(out->form.terms.begin(), out->form.terms.end(),
            [&](const auto& a, const auto& b) { return innermost(a.first) < innermost(b.first); });
  return true;
}

bool affine_in_kernel_vars(KernelWriter& w, const IndexExpr& e, AffineForm* form) {
  PreparedIndex index;
  if (!as_affine_of_products(w, e, &index) || !index.scaled.empty()) return false;
  *form = std::move(index.form);
  return true;
}

bool is_invariant_size(const KernelWriter& w, int id) {
  if (id <= kKernelVarBase || id >= kRuntimeIndexBase) return false;
  const KernelVar& var = w.vars.all[static_cast<size_t>(id - kKernelVarBase)];
  return var.argument >= 0 ||
         (!var.factors.empty() && std::all_of(var.factors.begin(), var.factors.end(),
                                              [&](int f) { return is_invariant_size(w, f); }));
}

IndexExpr at_point(const KernelWriter& w, const PreparedIndex& index, const Point& point) {
  return substitute(index.expr, [&](int id) -> IndexExpr {
    const int axis = id < kKernelVarBase ? w.at_hand.box.find(id) : -1;
    if (axis < 0) return IndexExpr::var(id);
    const Box::Axis& a = w.at_hand.box.axes[static_cast<size_t>(axis)];
    IndexExpr value = a.start(point[static_cast<size_t>(axis)]);
    for (const auto& [digit, step] : a.threads) {
      value = value + IndexExpr::var(w.vars.digits.at(digit)) * step;
    }
    for (const Box::Axis::LoopDigit& loop : a.loops) {
      value = value + IndexExpr::var(loop.var) * loop.step;
    }
    if (a.lanes > 1) value = value + IndexExpr::var(kLaneVar);
    return value;
  });
}

std::optional<PointOffset> affine_at_point(KernelWriter& w, const PreparedIndex& index,
                                           const Point& point) {
  PointOffset out;
  for (const PreparedIndex::Scaled& s : index.scaled) {
    const int axis = w.at_hand.box.find(s.box_var);
    if (axis < 0 || w.at_hand.box.axes[static_cast<size_t>(axis)].lanes > 1) return std::nullopt;
  }
  if (index.affine) {
    out.constant = index.form.constant;
    for (const auto& [id, c] : index.form.terms) {
      const int axis = id < kKernelVarBase ? w.at_hand.box.find(id) : -1;
      if (axis < 0) {
        out.terms.emplace_back(id, c);
        continue;
      }
      const Box::Axis& a = w.at_hand.box.axes[static_cast<size_t>(axis)];
      out.constant += c * a.start(point[static_cast<size_t>(axis)]);
      for (const auto& [digit, step] : a.threads) {
        out.terms.emplace_back(w.vars.digits.at(digit), c * step);
      }
      for (const Box::Axis::LoopDigit& loop : a.loops) {
        out.terms.emplace_back(loop.var, c * loop.step);
      }
      if (a.lanes > 1) out.lane_coefficient += c;
    }
    for (const PreparedIndex::Scaled& s : index.scaled) {
      const auto axis = static_cast<size_t>(w.at_hand.box.find(s.box_var));
      const int64_t start = w.at_hand.box.axes[axis].start(point[axis]);
      if (start != 0) out.terms.emplace_back(s.factor, s.coefficient * start);
    }
    return out;
  }
  const IndexExpr e =
      simplify(at_point(w, index, point), [&](int id) { return range_of_var(w, id); });
  AffineForm form;
  if (!affine_in_kernel_vars(w, e, &form)) return std::nullopt;
  out.constant = form.constant;
  for (const auto& [id, c] : form.terms) {
    if (product_has_lane(w, id)) return std::nullopt;
    if (id == kLaneVar) {
      out.lane_coefficient = c;
    } else {
      out.terms.emplace_back(id, c);
    }
  }
  return out;
}

std::optional<int64_t> lane_step(const IndexExpr& e, IndexExpr* first) {
  std::vector<std::pair<IndexExpr, int64_t>> parts;
  collect_parts(e, &parts);
  int64_t step = 0;
  IndexExpr rest = 0;
  for (const auto& [atom, c] : parts) {
    if (atom.is_var() && atom.var_id() == kLaneVar) {
      step += c;
    } else if (uses_var(atom, kLaneVar)) {
      return std::nullopt;
    } else {
      rest = rest + atom * c;
    }
  }
  *first = rest;
  return step;
}

Reg kernel_var(KernelWriter& w, int id) {
  if (id >= kRuntimeIndexBase) {
    for (const auto& [var, reg, range] : w.vars.runtime_indices) {
      if (var == id) return reg;
    }
    throw_internal_error(__FILE__, __LINE__, "runtime index", "not bound");
  }
  if (id == kLaneVar) return w.builder.ramp(DType::kI64, w.at_hand.box.lanes);
  WEFT_CHECK(id > kKernelVarBase,
             "tile variable " +
                 (id >= 0 && id < kKernelVarBase ? w.program.vars[static_cast<size_t>(id)].name
                                                 : std::to_string(id)) +
                 " is not bound here in " + w.program.name);
  const KernelVar& var = w.vars.all[static_cast<size_t>(id - kKernelVarBase)];
  if (var.argument >= 0) return w.builder.argument(var.argument);
  if (!var.factors.empty()) {
    const std::vector<int> factors = var.factors;
    Reg product = kernel_var(w, factors[0]);
    for (size_t f = 1; f < factors.size(); ++f) {
      const Reg factor = kernel_var(w, factors[f]);
      const int32_t lanes = std::max(w.builder.type(product).lanes, w.builder.type(factor).lanes);
      product = w.builder.apply(
          ScalarOp::kMul, {to_lanes(w, product, lanes), to_lanes(w, factor, lanes)}, DType::kI64);
    }
    return product;
  }
  return var.digit ? emit_digit(w, *var.digit) : var.reg;
}

Reg emit_terms(KernelWriter& w, const std::vector<std::pair<int, int64_t>>& terms,
               int64_t constant) {
  // Outer loops have the smaller numbers: their partial sums are the invariant ones.
  Reg sum = kNoReg;
  for (const auto& [id, c] : terms) {
    Reg term = kernel_var(w, id);
    const int32_t lanes = w.builder.type(term).lanes;
    if (c != 1) {
      term = w.builder.apply(ScalarOp::kMul, {term, to_lanes(w, w.builder.int_constant(c), lanes)},
                             DType::kI64);
    }
    if (sum == kNoReg) {
      sum = term;
    } else {
      const int32_t wide = std::max(w.builder.type(sum).lanes, lanes);
      sum = w.builder.apply(ScalarOp::kAdd, {to_lanes(w, sum, wide), to_lanes(w, term, wide)},
                            DType::kI64);
    }
  }
  if (sum == kNoReg) return w.builder.int_constant(constant);
  if (constant == 0) return sum;
  return w.builder.apply(
      ScalarOp::kAdd,
      {sum, to_lanes(w, w.builder.int_constant(constant), w.builder.type(sum).lanes)}, DType::kI64);
}

/// Of an index that a word of 32 bits holds.
constexpr int64_t kMostOfWord = std::numeric_limits<int32_t>::max();

Reg emit_index(KernelWriter& w, const IndexExpr& e) {
  const auto binary = [&](ScalarOp op, Reg a, Reg b, DType type = DType::kI64) {
    const int32_t lanes = std::max(w.builder.type(a).lanes, w.builder.type(b).lanes);
    return w.builder.apply(op, {to_lanes(w, a, lanes), to_lanes(w, b, lanes)}, type);
  };
  switch (e.op()) {
    case IndexOp::kConst:
      return w.builder.int_constant(e.constant());
    case IndexOp::kVar:
      return kernel_var(w, e.var_id());
    case IndexOp::kAdd:
      return binary(ScalarOp::kAdd, emit_index(w, e.lhs()), emit_index(w, e.rhs()));
    case IndexOp::kMul:
      return binary(ScalarOp::kMul, emit_index(w, e.lhs()), emit_index(w, e.rhs()));
    case IndexOp::kMin:
      return binary(ScalarOp::kMin, emit_index(w, e.lhs()), emit_index(w, e.rhs()));
    case IndexOp::kMax:
      return binary(ScalarOp::kMax, emit_index(w, e.lhs()), emit_index(w, e.rhs()));
    case IndexOp::kFloorDiv:
    case IndexOp::kMod: {
      const Reg x = emit_index(w, e.lhs());
      const Reg d = w.builder.int_constant(e.rhs().constant());
      const bool is_div = e.op() == IndexOp::kFloorDiv;
      const Interval range = range_of(e.lhs(), [&](int id) { return range_of_var(w, id); });
      const ScalarOp op = is_div ? ScalarOp::kDiv : ScalarOp::kRem;
      const bool are_words =
          range.lo >= 0 && range.hi <= kMostOfWord && e.rhs().constant() <= kMostOfWord;
      if (are_words && w.builder.type(x).lanes > 1) {
        // Of lanes a CPU divides words by a constant at once, and longer integers one by one.
        const auto word = [&](Reg r) {
          return w.builder.apply(ScalarOp::kConvert, {r}, DType::kI32);
        };
        const Reg quotient = binary(op, word(x), word(d), DType::kI32);
        return w.builder.apply(ScalarOp::kConvert, {quotient}, DType::kI64);
      }
      const Reg truncated = binary(op, x, d);
      if (range.lo >= 0) return truncated;
      // Truncation rounds a negative numerator up; correct where a remainder is left below zero.
      const Reg zero = w.builder.int_constant(0);
      const Reg remainder = is_div ? binary(ScalarOp::kRem, x, d) : truncated;
      const Reg negative = binary(ScalarOp::kLt, remainder, zero, DType::kBool);
      const Reg corrected = is_div ? binary(ScalarOp::kSub, truncated, w.builder.int_constant(1))
                                   : binary(ScalarOp::kAdd, truncated, d);
      const int32_t lanes = w.builder.type(x).lanes;
      return w.builder.apply(ScalarOp::kSelect,
                             {to_lanes(w, negative, lanes), to_lanes(w, corrected, lanes),
                              to_lanes(w, truncated, lanes)},
                             DType::kI64);
    }
  }
  return kNoReg;
}

}  // namespace weft::lowering
