#include "expr/movement/read_composer.h"

#include <algorithm>

namespace weft {
namespace {

/// Runtime indices of the read that is being replaced, while the body put in its place has its own.
constexpr int kOuterRuntimeBase = kRuntimeIndexBase + (1 << 16);
/// Indices beyond this size are not worth having.
constexpr int64_t kMaxIndexSize = 256;

IndexExpr without_constant(const IndexExpr& e, int64_t* constant) {
  *constant = 0;
  if (e.op() != IndexOp::kAdd || !e.rhs().is_const()) return e;
  *constant = e.rhs().constant();
  return e - IndexExpr(*constant);
}

Interval intersection(const Interval& a, const Interval& b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

bool is_index_comparison(const Scalar& s) {
  return s.kind == Scalar::Kind::kApply && scalar_op_is_comparison(s.op) &&
         s.operands[0]->kind == Scalar::Kind::kIndex && s.operands[0]->type == DType::kI64 &&
         s.operands[1]->kind == Scalar::Kind::kConstant;
}

constexpr Interval kEverything{-(int64_t{1} << 60), int64_t{1} << 60};

/// Where `index op value` holds, as an interval; everything if it is none.
Interval holds_in(ScalarOp op, int64_t value, bool truth) {
  switch (op) {
    case ScalarOp::kLt:
      return truth ? Interval{kEverything.lo, value - 1} : Interval{value, kEverything.hi};
    case ScalarOp::kLe:
      return truth ? Interval{kEverything.lo, value} : Interval{value + 1, kEverything.hi};
    case ScalarOp::kGt:
      return holds_in(ScalarOp::kLe, value, !truth);
    case ScalarOp::kGe:
      return holds_in(ScalarOp::kLt, value, !truth);
    case ScalarOp::kEq:
      return truth ? Interval{value, value} : kEverything;
    case ScalarOp::kNe:
      return truth ? kEverything : Interval{value, value};
    default:
      return kEverything;
  }
}

bool contains_outer(const IndexExpr& e) {
  for (const int id : variables(e)) {
    if (id >= kOuterRuntimeBase) return true;
  }
  return false;
}

}  // namespace

Interval KnownRanges::range(int var) const {
  for (const auto& [id, r] : extra) {
    if (id == var) return r;
  }
  return var >= 0 && static_cast<size_t>(var) < ranges_.size() ? ranges_[static_cast<size_t>(var)]
                                                               : kUnbounded;
}

Interval KnownRanges::bounds(const IndexExpr& index) const {
  Interval r = range_of(index, [this](int id) { return range(id); });
  if (facts_.empty()) return r;
  int64_t constant = 0;
  const IndexExpr base = without_constant(index, &constant);
  for (const Fact& fact : facts_) {
    if (!(fact.base == base)) continue;
    r = intersection(r, {fact.range.lo + constant, fact.range.hi + constant});
  }
  return r;
}

int KnownRanges::decide(const Scalar& comparison) const {
  if (!is_index_comparison(comparison)) return -1;
  const Interval r = bounds(comparison.operands[0]->index);
  const int64_t value = comparison.operands[1]->value.i;
  const auto inside = [&](const Interval& all) { return all.lo <= r.lo && r.hi <= all.hi; };
  switch (comparison.op) {
    case ScalarOp::kEq:
    case ScalarOp::kNe: {
      const bool equal = comparison.op == ScalarOp::kEq;
      if (!r.contains(value)) return equal ? 0 : 1;
      return r.lo == r.hi ? (equal ? 1 : 0) : -1;
    }
    default:
      if (inside(holds_in(comparison.op, value, true))) return 1;
      return inside(holds_in(comparison.op, value, false)) ? 0 : -1;
  }
}

void KnownRanges::assume(const ScalarRef& condition, bool truth) {
  if (condition->kind != Scalar::Kind::kApply) return;
  const bool splits =
      (condition->op == ScalarOp::kAnd && truth) || (condition->op == ScalarOp::kOr && !truth);
  if (splits) {
    for (const ScalarRef& part : condition->operands) assume(part, truth);
  } else if (condition->op == ScalarOp::kNot) {
    assume(condition->operands[0], !truth);
  } else if (is_index_comparison(*condition)) {
    narrow(condition->operands[0]->index,
           holds_in(condition->op, condition->operands[1]->value.i, truth));
  }
}

void KnownRanges::narrow(const IndexExpr& index, const Interval& to) {
  if (to == kEverything) return;
  AffineForm form;
  if (as_affine(index, &form) && form.terms.size() == 1 && std::abs(form.terms[0].second) == 1) {
    const auto [var, sign] = form.terms[0];
    const Interval values = sign > 0 ? Interval{to.lo - form.constant, to.hi - form.constant}
                                     : Interval{form.constant - to.hi, form.constant - to.lo};
    const Interval narrowed = intersection(range(var), values);
    if (narrowed.empty() || var < 0 || static_cast<size_t>(var) >= ranges_.size()) return;
    ranges_[static_cast<size_t>(var)] = narrowed;
    return;
  }
  int64_t constant = 0;
  const IndexExpr base = without_constant(index, &constant);
  facts_.push_back({base, {to.lo - constant, to.hi - constant}});
}

ReadComposer::ReadComposer(const TensorProgram& program, const TensorExpr& expr, BodyOf body_of)
    : program_(program), expr_(expr), body_of_(std::move(body_of)) {}

ScalarRef ReadComposer::run() {
  std::vector<Interval> ranges;
  for (int v = 0; v < expr_.axis_count(); ++v) ranges.push_back(expr_.range(v));
  ScalarRef body = transform(expr_.body, {}, KnownRanges(std::move(ranges)));
  return failed_ ? nullptr : body;
}

IndexExpr ReadComposer::in_own_variables(const IndexExpr& index, const Frame& frame,
                                         const KnownRanges& known) const {
  const IndexExpr own = frame.indices == nullptr ? index : substitute(index, [&](int id) {
    return id >= kRuntimeIndexBase ? IndexExpr::var(id) : (*frame.indices)[static_cast<size_t>(id)];
  });
  return simplify(own, [&](int id) { return known.range(id); });
}

ScalarRef ReadComposer::value_of(const IndexExpr& index, const Frame& frame,
                                 const KnownRanges& known) const {
  const auto constant = [](int64_t v) { return scalar_constant(int_value(DType::kI64, v)); };
  std::vector<ScalarRef> clamped;
  for (size_t i = 0; i < frame.outer->size(); ++i) {
    const int64_t top = (*frame.outer_extents)[i] - 1;
    ScalarRef v = scalar_convert((*frame.outer)[i], DType::kI64);
    v = scalar_apply(ScalarOp::kMax, {v, constant(0)}, DType::kI64);
    clamped.push_back(scalar_apply(ScalarOp::kMin, {v, constant(top)}, DType::kI64));
  }
  const auto shifted = [](int id) {
    return IndexExpr::var(id >= kOuterRuntimeBase ? id - kOuterRuntimeBase + kRuntimeIndexBase
                                                  : id);
  };
  return scalar_of_index(substitute(index, shifted), clamped, [&](int id) {
    return known.range(id >= kRuntimeIndexBase ? id - kRuntimeIndexBase + kOuterRuntimeBase : id);
  });
}

ScalarRef ReadComposer::transform(const ScalarRef& s, const Frame& frame,
                                  const KnownRanges& known) {
  if (failed_ || --budget_ < 0) {
    failed_ = true;
    return s;
  }
  switch (s->kind) {
    case Scalar::Kind::kConstant:
      return s;
    case Scalar::Kind::kIndex: {
      IndexExpr index = in_own_variables(s->index, frame, known);
      if (!contains_outer(index)) {
        return index == s->index ? s : scalar_index(std::move(index), s->type);
      }
      const ScalarRef value = value_of(index, frame, known);
      failed_ = failed_ || !value;
      return failed_ ? s : scalar_convert(value, s->type);
    }
    case Scalar::Kind::kRead:
      return transform_read(s, frame, known);
    case Scalar::Kind::kApply:
      return transform_apply(s, frame, known);
  }
  return s;
}

ScalarRef ReadComposer::transform_apply(const ScalarRef& s, const Frame& frame,
                                        const KnownRanges& known) {
  std::vector<ScalarRef> operands = {transform(s->operands[0], frame, known)};
  if (s->op == ScalarOp::kSelect) {
    const ScalarRef condition = operands[0];
    if (condition->kind == Scalar::Kind::kConstant) {
      return transform(s->operands[condition->value.i != 0 ? 1 : 2], frame, known);
    }
    for (const size_t branch : {size_t{1}, size_t{2}}) {
      KnownRanges inside = known;
      inside.assume(condition, branch == 1);
      operands.push_back(transform(s->operands[branch], frame, inside));
    }
  } else {
    for (size_t i = 1; i < s->operands.size(); ++i) {
      operands.push_back(transform(s->operands[i], frame, known));
    }
  }
  const ScalarRef result =
      operands == s->operands
          ? s
          : (s->op == ScalarOp::kConvert ? scalar_convert(operands[0], s->type)
                                         : scalar_apply(s->op, std::move(operands), s->type));
  const int decided = known.decide(*result);
  return decided < 0 ? result : scalar_constant(int_value(DType::kBool, decided));
}

ScalarRef ReadComposer::transform_read(const ScalarRef& s, const Frame& frame,
                                       const KnownRanges& known) {
  std::vector<ScalarRef> operands;
  for (const ScalarRef& o : s->operands) operands.push_back(transform(o, frame, known));
  std::vector<IndexExpr> indices;
  bool same = operands == s->operands;
  const Shape& shape = program_.tensors[static_cast<size_t>(s->symbol)].type.shape;
  for (size_t a = 0; a < s->indices.size(); ++a) {
    IndexExpr index = in_own_variables(s->indices[a], frame, known);
    if (contains_outer(index)) {
      // Alone on an axis of the same extent the reader clamps as before.
      const int slot = index.is_var() ? index.var_id() - kOuterRuntimeBase : -1;
      const bool alone = slot >= 0 && (*frame.outer_extents)[static_cast<size_t>(slot)] == shape[a];
      ScalarRef value =
          alone ? (*frame.outer)[static_cast<size_t>(slot)] : value_of(index, frame, known);
      if (!value) {
        failed_ = true;
        return s;
      }
      index = IndexExpr::var(kRuntimeIndexBase + static_cast<int>(operands.size()));
      operands.push_back(std::move(value));
    }
    failed_ = failed_ || index.tree_size() > kMaxIndexSize;
    same = same && index == s->indices[a];
    indices.push_back(std::move(index));
  }
  ScalarRef fill = s->fill ? transform(s->fill, frame, known) : nullptr;
  if (failed_) return s;
  ScalarRef read = same && fill == s->fill ? s
                                           : scalar_read(s->symbol, s->type, std::move(indices),
                                                         std::move(operands), std::move(fill));
  // Bodies put in place are final: their own reads were composed before.
  if (frame.indices != nullptr || read->fill) return read;
  const ScalarRef body = body_of_(*read);
  return body ? composed(*read, body, known) : read;
}

ScalarRef ReadComposer::composed(const Scalar& read, const ScalarRef& body,
                                 const KnownRanges& known) {
  const Shape& shape = program_.tensors[static_cast<size_t>(read.symbol)].type.shape;
  KnownRanges inner = known;
  std::vector<IndexExpr> indices;
  std::vector<int64_t> extents(read.operands.size(), 1);
  for (size_t a = 0; a < read.indices.size(); ++a) {
    const IndexExpr& index = read.indices[a];
    if (!index.is_var() || index.var_id() < kRuntimeIndexBase) {
      indices.push_back(index);
      continue;
    }
    const int slot = index.var_id() - kRuntimeIndexBase;
    extents[static_cast<size_t>(slot)] = shape[a];
    const int outer = kOuterRuntimeBase + slot;
    indices.push_back(IndexExpr::var(outer));
    inner.extra.emplace_back(outer, Interval{0, shape[a] - 1});
  }
  return transform(body, {&indices, &read.operands, &extents}, inner);
}

}  // namespace weft
