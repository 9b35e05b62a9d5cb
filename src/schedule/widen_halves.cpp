#include "schedule/widen_halves.h"

#include <algorithm>
#include <map>

namespace weft {

namespace {

bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }

class Widener {
 public:
  explicit Widener(GroupView& view) : view_(view), widened_(view.program.tensors.size(), false) {}

  void run() {
    choose();
    for (TensorExpr& e : view_.program.exprs) {
      if (e.is_contraction) continue;
      const DType stored = tensor(e.output).type.dtype;
      const bool half = is_half(e.body->type);
      e.body = half ? wide(e.body) : same(e.body);
      if (is_half(e.accumulator)) e.accumulator = DType::kF32;
      if (half && is_half(stored) && e.reduce_extents.empty()) e.body = rounded(e.body, stored);
    }
  }

 private:
  Tensor& tensor(TensorId t) { return view_.program.tensors[static_cast<size_t>(t)]; }

  void choose() {
    std::vector<bool> stays(widened_.size(), false);
    for (const TensorId t : view_.group.outputs) stays[static_cast<size_t>(t)] = true;
    for (const TensorExpr& e : view_.program.exprs) {
      if (!e.is_contraction) continue;
      visit(e.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) stays[static_cast<size_t>(s.symbol)] = true;
      });
    }
    for (const TensorExpr& e : view_.program.exprs) {
      if (stays[static_cast<size_t>(e.output)] || !is_half(tensor(e.output).type.dtype)) continue;
      widened_[static_cast<size_t>(e.output)] = true;
      tensor(e.output).type.dtype = DType::kF32;
    }
  }

  /// A scalar of 16 bits, before it is rounded.
  ScalarRef wide(const ScalarRef& s) {
    ScalarRef& out = wide_[s];
    if (out) return out;
    switch (s->kind) {
      case Scalar::Kind::kConstant:
        return out = scalar_constant(convert_value(s->value, DType::kF32));
      case Scalar::Kind::kIndex:
        return out = scalar_convert(s, DType::kF32);
      case Scalar::Kind::kRead:
        return out = scalar_convert(read(*s), DType::kF32);
      case Scalar::Kind::kApply:
        break;
    }
    if (s->op == ScalarOp::kConvert || s->op == ScalarOp::kBitcast)
      return out = scalar_convert(same_operands(*s), DType::kF32);
    std::vector<ScalarRef> operands;
    for (const ScalarRef& o : s->operands) operands.push_back(is_half(o->type) ? wide(o) : same(o));
    return out = scalar_apply(s->op, std::move(operands), DType::kF32);
  }

  /// A scalar of another type; conversions and comparisons see what was not rounded.
  ScalarRef same(const ScalarRef& s) {
    ScalarRef& out = same_[s];
    if (out) return out;
    if (s->kind == Scalar::Kind::kRead) return out = read(*s);
    return out = s->kind == Scalar::Kind::kApply ? same_operands(*s) : s;
  }

  ScalarRef same_operands(const Scalar& s) {
    std::vector<ScalarRef> operands;
    for (const ScalarRef& o : s.operands) {
      operands.push_back(!is_half(o->type)            ? same(o)
                         : s.op == ScalarOp::kBitcast ? rounded(wide(o), o->type)
                                                      : wide(o));
    }
    return s.op == ScalarOp::kConvert ? scalar_convert(operands[0], s.type)
                                      : scalar_apply(s.op, std::move(operands), s.type);
  }

  ScalarRef read(const Scalar& s) {
    auto copy = std::make_shared<Scalar>(s);
    for (ScalarRef& o : copy->operands) o = same(o);
    if (!widened_[static_cast<size_t>(s.symbol)]) return copy;
    copy->type = DType::kF32;
    if (copy->fill) copy->fill = wide(copy->fill);
    return copy;
  }

  /// To 16 bits, unless they are what it was made of.
  static ScalarRef rounded(const ScalarRef& s, DType type) {
    const bool converted = s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kConvert;
    if (converted && s->operands[0]->type == type) return s->operands[0];
    return scalar_convert(s, type);
  }

  GroupView& view_;
  std::vector<bool> widened_;  ///< by tensor
  std::map<ScalarRef, ScalarRef> wide_, same_;
};

}  // namespace

void widen_halves(GroupView* view) {
  const auto& exprs = view->program.exprs;
  const bool any = std::any_of(exprs.begin(), exprs.end(), [&](const TensorExpr& e) {
    return is_half(view->program.tensors[static_cast<size_t>(e.output)].type.dtype) ||
           is_half(e.body->type);
  });
  if (any) Widener(*view).run();
}

}  // namespace weft
