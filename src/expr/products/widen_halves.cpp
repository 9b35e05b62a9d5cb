#include "expr/products/widen_halves.h"

#include <algorithm>
#include <map>

#include "expr/products/bfloat_products.h"

namespace weft {

namespace {

class Widener {
 public:
  Widener(TensorProgram& program, const std::vector<bool>& widened)
      : program_(program), widened_(widened) {}

  void run() {
    for (size_t t = 0; t < widened_.size(); ++t) {
      if (widened_[t]) program_.tensors[t].type.dtype = DType::kF32;
    }
    for (TensorExpr& e : program_.exprs) {
      if (e.is_contraction && !reads_widened(e)) continue;
      const DType stored = program_.tensors[static_cast<size_t>(e.output)].type.dtype;
      const bool half = is_half(e.body->type);
      e.body = half ? wide(e.body) : same(e.body);
      if (is_half(e.accumulator)) e.accumulator = DType::kF32;
      if (half && is_half(stored) && e.reduce_extents.empty()) e.body = rounded(e.body, stored);
    }
  }

 private:
  bool reads_widened(const TensorExpr& e) const {
    bool any = false;
    visit(e.body, [&](const Scalar& s) {
      any |= s.kind == Scalar::Kind::kRead && widened_[static_cast<size_t>(s.symbol)];
    });
    return any;
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

  TensorProgram& program_;
  const std::vector<bool>& widened_;  ///< by tensor
  std::map<ScalarRef, ScalarRef> wide_, same_;
};

}  // namespace

void compute_in_float32(TensorProgram& program, const std::vector<bool>& widened) {
  Widener(program, widened).run();
}

bool widen_operands(TensorProgram& program, bool multiplies_bfloat16) {
  std::vector<bool> widened(program.tensors.size(), false);
  std::vector<bool> in_pairs(program.tensors.size(), false);
  for (const TensorExpr& e : program.exprs) {
    if (!e.is_contraction) continue;
    const bool pairs = multiplies_bfloat16 && sums_bfloat_pairs(program, e);
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && is_half(s.type))
        (pairs ? in_pairs : widened)[static_cast<size_t>(s.symbol)] = true;
    });
  }
  for (size_t t = 0; t < widened.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.kind != Tensor::Kind::kIntermediate || tensor.is_output || in_pairs[t])
      widened[t] = false;
  }
  for (const OpaqueExpr& o : program.opaques) {
    for (const TensorId t : o.operands) widened[static_cast<size_t>(t)] = false;
    for (const TensorId t : o.results) widened[static_cast<size_t>(t)] = false;
  }
  if (std::find(widened.begin(), widened.end(), true) == widened.end()) return false;
  compute_in_float32(program, widened);
  return true;
}

}  // namespace weft
