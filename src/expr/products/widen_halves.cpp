#include "expr/products/widen_halves.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "expr/movement/copy_tensor.h"
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

/// Reads of an element from which on a copy in float32 takes less time than conversions: a vector
/// is converted once, where a tile of a product converts what it broadcasts one by one.
constexpr double kReadsOften = 4;

/// Finds what contractions read in 16 bits, makes it float32, or copies it where it has to stay.
class OperandWidening {
 public:
  OperandWidening(TensorProgram& program, bool multiplies_bfloat16)
      : program_(program), pairs_(multiplies_bfloat16), operands_(program.tensors.size()) {}

  bool run() {
    for (const TensorExpr& e : program_.exprs) {
      if (e.is_contraction) note_reads(e);
    }
    find_tensors_that_stay();
    std::vector<bool> widened;
    for (const Operand& o : operands_) widened.push_back(o.reads > 0 && !o.stays && !o.in_pairs);
    copy_operands();
    widened.resize(program_.tensors.size(), true);  // the copies
    if (std::ranges::find(widened, true) == widened.end()) return false;
    compute_in_float32(program_, widened);
    return true;
  }

 private:
  struct Operand {
    double reads = 0;  ///< of all elements, by contractions in float32
    bool in_pairs = false, stays = false;
  };
  Operand& operand(TensorId t) { return operands_[static_cast<size_t>(t)]; }
  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }

  void note_reads(const TensorExpr& e) {
    const bool in_pairs = pairs_ && sums_bfloat_pairs(program_, e);
    double steps = 1;
    for (int v = 0; v < e.axis_count(); ++v) steps *= static_cast<double>(e.range(v).hi) + 1;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || !is_half(s.type)) return;
      if (in_pairs)
        operand(s.symbol).in_pairs = true;
      else
        operand(s.symbol).reads += steps;
    });
  }

  void find_tensors_that_stay() {
    const std::vector<bool> of_model = have_types_of_model(program_);
    for (size_t t = 0; t < operands_.size(); ++t) operands_[t].stays = of_model[t];
  }

  /// Constants are widened where they are laid out.
  bool is_copied(TensorId t) {
    const Operand& o = operand(t);
    if (!o.stays || o.in_pairs || tensor(t).kind == Tensor::Kind::kConstant) return false;
    return o.reads >= kReadsOften * static_cast<double>(*element_count(tensor(t).type.shape));
  }

  void copy_operands() {
    read_copies(program_, "_f32", std::nullopt, [this](const TensorExpr& e) {
      std::vector<TensorId> copied;
      visit(e.body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && is_half(s.type) && is_copied(s.symbol))
          copied.push_back(s.symbol);
      });
      return copied;
    });
  }

  TensorProgram& program_;
  bool pairs_;
  std::vector<Operand> operands_;  ///< by tensor
};

}  // namespace

void compute_in_float32(TensorProgram& program, const std::vector<bool>& widened) {
  Widener(program, widened).run();
}

bool widen_operands(TensorProgram& program, bool multiplies_bfloat16) {
  return OperandWidening(program, multiplies_bfloat16).run();
}

}  // namespace weft
