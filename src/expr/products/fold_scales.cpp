#include "expr/products/fold_scales.h"

#include <algorithm>
#include <map>

#include "expr/new_tensors.h"

namespace weft {

namespace {

/// Divisors beyond these might leave float32's range with what they are folded into.
constexpr float kLeast = 0x1p-60F, kMost = 0x1p60F;
/// Operations of a chain that is folded, at most, and expressions in a row.
constexpr int64_t kMostOperations = 24;
constexpr int kMostSteps = 8;

bool is_apply(const ScalarRef& s, ScalarOp op) {
  return s->kind == Scalar::Kind::kApply && s->op == op;
}

class FoldScales {
 public:
  explicit FoldScales(TensorProgram& program)
      : program_(program), made_by_(program.tensors.size(), -1), new_tensors_(program) {
    for (size_t x = 0; x < program.exprs.size(); ++x)
      made_by_[static_cast<size_t>(program.exprs[x].output)] = static_cast<int>(x);
  }

  std::vector<TensorId> run() {
    std::vector<TensorId> folded;
    for (TensorExpr& e : program_.exprs) {
      if (fold_in(&e)) folded.push_back(e.output);
    }
    return folded;
  }

 private:
  bool fold_in(TensorExpr* e);
  ScalarRef divided(const ScalarRef& s, int depth);
  ScalarRef divided_read(const ScalarRef& s, int depth);
  ScalarRef body_of(const ScalarRef& read);
  ScalarRef integer_behind(const ScalarRef& s, int depth);
  ScalarRef divided_apply(const ScalarRef& s, int depth);
  TensorId divided_constant(TensorId constant);
  bool is_constant(const ScalarRef& s) const {
    return s->kind == Scalar::Kind::kConstant ||
           (s->kind == Scalar::Kind::kRead && s->operands.empty() && !s->fill &&
            tensor(s->symbol).kind == Tensor::Kind::kConstant);
  }
  const Tensor& tensor(int t) const { return program_.tensors[static_cast<size_t>(t)]; }

  TensorProgram& program_;
  std::vector<int> made_by_;  ///< by tensor of the program as it came; -1 for others
  NewTensors new_tensors_;
  float by_ = 1;
  bool integers_ = false;         ///< some leaf is made of integers
  std::vector<int32_t> origins_;  ///< of the expressions on the way
  std::map<std::pair<TensorId, float>, TensorId> constants_;
};

TensorId FoldScales::divided_constant(TensorId constant) {
  const auto [found, is_new] = constants_.try_emplace({constant, by_}, -1);
  if (!is_new) return found->second;
  const HostTensor value = tensor(constant).value;
  HostTensor quotients(DType::kF32, value.shape());
  for (int64_t i = 0; i < value.size(); ++i) quotients.set_double(i, value.at_double(i) / by_);
  const TensorId made = new_tensors_.add(tensor(constant).name + "_folded",
                                         {DType::kF32, value.shape()}, Tensor::Kind::kConstant);
  program_.tensors.back().value = std::move(quotients);
  return found->second = made;
}

/// The scalar over the divisor, null where that is no matter of constants.
ScalarRef FoldScales::divided(const ScalarRef& s, int depth) {
  if (s->type != DType::kF32) return nullptr;
  if (s->kind == Scalar::Kind::kConstant)
    return scalar_constant(float_value(DType::kF32, s->value.f / static_cast<double>(by_)));
  if (s->kind == Scalar::Kind::kRead) return divided_read(s, depth);
  return s->kind == Scalar::Kind::kApply ? divided_apply(s, depth) : nullptr;
}

/// The body that stands for a read of what an element-wise expression makes; null for others.
ScalarRef FoldScales::body_of(const ScalarRef& read) {
  if (read->kind != Scalar::Kind::kRead || !read->operands.empty() || read->fill) return nullptr;
  const auto symbol = static_cast<size_t>(read->symbol);
  const int x = symbol < made_by_.size() ? made_by_[symbol] : -1;
  if (x < 0) return nullptr;
  const TensorExpr& made = program_.exprs[static_cast<size_t>(x)];
  if (!made.reduce_extents.empty() || made.is_contraction) return nullptr;
  origins_.insert(origins_.end(), made.origins.begin(), made.origins.end());
  return rewrite(made.body, [&](int v) {
    return v < kRuntimeIndexBase ? read->indices[static_cast<size_t>(v)] : IndexExpr::var(v);
  });
}

/// An integer as float32, also from behind a read.
ScalarRef FoldScales::integer_behind(const ScalarRef& s, int depth) {
  if (is_apply(s, ScalarOp::kConvert)) return is_integer(s->operands[0]->type) ? s : nullptr;
  if (depth == kMostSteps) return nullptr;
  const ScalarRef body = body_of(s);
  return body ? integer_behind(body, depth + 1) : nullptr;
}

ScalarRef FoldScales::divided_read(const ScalarRef& s, int depth) {
  if (!s->operands.empty() || s->fill) return nullptr;
  if (is_constant(s)) {
    return scalar_read(divided_constant(static_cast<TensorId>(s->symbol)), s->type, s->indices);
  }
  if (depth == kMostSteps) return nullptr;
  const ScalarRef body = body_of(s);
  return body ? divided(body, depth + 1) : nullptr;
}

ScalarRef FoldScales::divided_apply(const ScalarRef& s, int depth) {
  const std::vector<ScalarRef>& operands = s->operands;
  switch (s->op) {
    case ScalarOp::kConvert: {
      if (!is_integer(operands[0]->type)) return nullptr;
      integers_ = true;
      const ScalarRef factor = scalar_constant(float_value(DType::kF32, 1.0 / by_));
      return scalar_apply(ScalarOp::kMul, {s, factor}, DType::kF32);
    }
    case ScalarOp::kMul:
      for (const size_t side : {size_t{1}, size_t{0}}) {
        if (!is_constant(operands[side])) continue;
        if (const ScalarRef integer = integer_behind(operands[1 - side], depth)) {
          integers_ = true;
          return scalar_apply(ScalarOp::kMul, {integer, divided(operands[side], depth)}, s->type);
        }
        const ScalarRef rest = divided(operands[1 - side], depth);
        return rest ? scalar_apply(ScalarOp::kMul, {rest, operands[side]}, s->type) : nullptr;
      }
      return nullptr;
    case ScalarOp::kMax:
    case ScalarOp::kMin:
    case ScalarOp::kAdd:
    case ScalarOp::kSub: {
      const ScalarRef a = divided(operands[0], depth);
      const ScalarRef b = a ? divided(operands[1], depth) : nullptr;
      return b ? scalar_apply(s->op, {a, b}, DType::kF32) : nullptr;
    }
    default:
      return nullptr;
  }
}

bool FoldScales::fold_in(TensorExpr* e) {
  if (!e->reduce_extents.empty() || !is_apply(e->body, ScalarOp::kDiv) ||
      e->body->type != DType::kF32)
    return false;
  const ScalarRef& by = e->body->operands[1];
  if (by->kind != Scalar::Kind::kConstant) return false;
  by_ = static_cast<float>(by->value.f);
  if (!(by_ >= kLeast && by_ <= kMost)) return false;
  integers_ = false;
  origins_ = e->origins;
  const ScalarRef body = divided(e->body->operands[0], 0);
  if (body == nullptr || !integers_ || operation_count(body) > kMostOperations) return false;
  e->body = body;
  std::ranges::sort(origins_);
  origins_.erase(std::ranges::unique(origins_).begin(), origins_.end());
  e->origins = origins_;
  return true;
}

}  // namespace

std::vector<TensorId> fold_scales(TensorProgram& program) { return FoldScales(program).run(); }

}  // namespace weft
