#include "schedule/cpu/clip_bounds.h"

#include <utility>
#include <vector>

namespace weft {

namespace {

IndexExpr quotient(const IndexExpr& e, int64_t divisor) {
  return divisor == 1 ? e : simplify(floor_div(e, divisor), [](int) { return kUnbounded; });
}

}  // namespace

void add_conjuncts(const ScalarRef& s, std::vector<ScalarRef>* out) {
  if (s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kAnd) {
    add_conjuncts(s->operands[0], out);
    add_conjuncts(s->operands[1], out);
  } else {
    out->push_back(s);
  }
}

void clip_bounds(const TileBuilder& builder, const TensorExpr& e, TileLoop* loop, ScalarRef* body) {
  const TileProgram& program = builder.program();
  const ScalarValue identity = combiner_identity(e.combiner, (*body)->type);
  const auto clip = [&](const ScalarRef& select, const ScalarValue& excluded) -> ScalarRef {
    if (select->kind != Scalar::Kind::kApply || select->op != ScalarOp::kSelect) return select;
    const ScalarRef& other = select->operands[2];
    if (other->kind != Scalar::Kind::kConstant || other->value.f != excluded.f ||
        other->value.i != excluded.i)
      return select;
    std::vector<ScalarRef> parts, rest;
    add_conjuncts(select->operands[0], &parts);
    for (const ScalarRef& part : parts) {
      bool bound = false;
      if (part->kind == Scalar::Kind::kApply && scalar_op_is_comparison(part->op) &&
          part->operands[0]->kind == Scalar::Kind::kIndex &&
          part->operands[1]->kind == Scalar::Kind::kConstant) {
        AffineForm form;
        const int64_t limit = part->operands[1]->value.i;
        const bool lower = part->op == ScalarOp::kGe || part->op == ScalarOp::kGt;
        const bool upper = part->op == ScalarOp::kLt || part->op == ScalarOp::kLe;
        if ((lower || upper) && as_affine(part->operands[0]->index, &form)) {
          for (TileLoop::Dim& dim : loop->dims) {
            const int64_t each = form.coefficient(dim.origin);
            if (each < 1) continue;
            IndexExpr others = form.constant;
            bool plain = true;
            for (const auto& [var, c] : form.terms) {
              if (var == dim.origin) continue;
              plain &= program.vars[static_cast<size_t>(var)].kind == TileVar::Kind::kOrigin;
              for (const TileLoop::Dim& d : loop->dims) plain &= d.origin != var;
              // An origin with an offset beside it is a tile: undecided within.
              for (const auto& [o, k] : form.terms) {
                plain &= program.vars[static_cast<size_t>(o)].kind != TileVar::Kind::kOffset;
                (void)k;
              }
              others = others + IndexExpr::var(var) * c;
            }
            if (!plain || form.terms.size() < 2) break;
            if (lower) {
              const int64_t least = limit + (part->op == ScalarOp::kGt ? 1 : 0);
              dim.begin = max(dim.begin, quotient(IndexExpr(least + each - 1) - others, each));
            } else {
              const int64_t end = limit + (part->op == ScalarOp::kLe ? 1 : 0);
              dim.end = min(dim.end, quotient(IndexExpr(end + each - 1) - others, each));
            }
            dim.unroll = 1;
            bound = true;
            break;
          }
        }
      }
      if (!bound) rest.push_back(part);
    }
    if (rest.size() == parts.size()) return select;
    if (rest.empty()) return select->operands[1];
    ScalarRef condition = rest[0];
    for (size_t i = 1; i < rest.size(); ++i)
      condition = scalar_apply(ScalarOp::kAnd, {condition, rest[i]}, DType::kBool);
    return scalar_apply(ScalarOp::kSelect, {condition, select->operands[1], other}, select->type);
  };
  const ScalarRef& b = *body;
  if (b->kind != Scalar::Kind::kApply) return;
  if (b->op == ScalarOp::kSelect) {
    *body = clip(b, identity);
  } else if (b->op == ScalarOp::kMul && e.combiner == Combiner::kSum) {
    ScalarValue zero = is_float(b->type) ? float_value(b->type, 0) : int_value(b->type, 0);
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const ScalarRef factor = clip(b->operands[k], zero);
      if (factor == b->operands[k]) continue;
      std::vector<ScalarRef> operands = b->operands;
      operands[k] = factor;
      *body = scalar_apply(ScalarOp::kMul, std::move(operands), b->type);
      break;
    }
  }
}

}  // namespace weft
