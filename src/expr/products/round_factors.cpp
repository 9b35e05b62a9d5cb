#include "expr/products/round_factors.h"

#include <map>
#include <utility>

#include "expr/new_tensors.h"
#include "expr/products/bfloat_products.h"
#include "support/check.h"
#include "support/dtype.h"
#include "support/float32_tensor.h"

namespace weft {

namespace {

/// Of what is larger there is no rounded copy: all read what is rounded.
constexpr int64_t kCopiedBytes = int64_t{1} << 20;

HostTensor rounded_tensor(const HostTensor& from) {
  HostTensor out(DType::kBF16, from.shape());
  auto* to = out.mutable_data<uint16_t>();
  const int64_t size = from.size();
  const HostTensor wide = float32_tensor(from);
  const auto* values = wide.data<float>();
  for (int64_t i = 0; i < size; ++i) to[i] = float_to_bfloat16(values[i]);
  return out;
}

class FactorRounding {
 public:
  explicit FactorRounding(TensorProgram& program)
      : program_(program),
        stays_(program.tensors.size(), false),
        made_by_(program.tensors.size(), -1),
        new_tensors_(program) {}

  std::vector<TensorId> run() {
    find_contractions();
    find_tensors_that_stay();
    std::vector<std::vector<TensorProgram::Step>> before(program_.steps.size());
    std::vector<TensorId> done;
    for (step_ = 0; step_ < before.size(); ++step_) {
      const TensorProgram::Step step = program_.steps[step_];
      added_ = &before[step_];
      const auto found = step.opaque ? sides_.end() : sides_.find(step.index);
      if (found == sides_.end()) continue;
      round_factors_of(static_cast<size_t>(step.index), found->second);
      done.push_back(program_.exprs[static_cast<size_t>(step.index)].output);
    }
    std::vector<TensorProgram::Step> steps;
    for (size_t s = 0; s < before.size(); ++s) {
      steps.insert(steps.end(), before[s].begin(), before[s].end());
      steps.push_back(program_.steps[s]);
    }
    program_.steps = std::move(steps);
    return done;
  }

 private:
  Tensor& tensor(TensorId t) { return program_.tensors[static_cast<size_t>(t)]; }

  /// Contractions of which some factor is of another type than bfloat16.
  void find_contractions() {
    for (size_t e = 0; e < program_.exprs.size(); ++e) {
      const TensorExpr& expr = program_.exprs[e];
      const std::optional<size_t> constant = constant_of_pairs(program_, expr);
      if (constant && !as_bfloat_product(expr.body))
        sides_.emplace(static_cast<int32_t>(e), *constant);
    }
  }

  /// Intermediates that something else than the contractions reads, or that no expression makes.
  void find_tensors_that_stay() {
    for (size_t e = 0; e < program_.exprs.size(); ++e) {
      const TensorExpr& expr = program_.exprs[e];
      made_by_[static_cast<size_t>(expr.output)] = static_cast<int>(e);
      const auto found = sides_.find(static_cast<int32_t>(e));
      const Scalar* rounded = nullptr;
      if (found != sides_.end())
        rounded = as_float_product(expr.body)->reads[1 - found->second].get();
      visit(expr.body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || &s == rounded) return;
        const Tensor& read = program_.tensors[static_cast<size_t>(s.symbol)];
        const int64_t bytes = checked_byte_size(read.type.dtype, read.type.shape).value_or(0);
        if (expr.is_contraction || bytes <= kCopiedBytes)
          stays_[static_cast<size_t>(s.symbol)] = true;
      });
    }
    for (const OpaqueExpr& o : program_.opaques) {
      for (const TensorId t : o.operands) stays_[static_cast<size_t>(t)] = true;
    }
    for (size_t t = 0; t < stays_.size(); ++t) {
      const Tensor& own = program_.tensors[t];
      const bool is_made = own.kind == Tensor::Kind::kIntermediate && made_by_[t] >= 0;
      stays_[t] = stays_[t] || own.is_output || !is_made;
    }
  }

  void round_factors_of(size_t expr, size_t constant) {
    const FloatProduct product = *as_float_product(program_.exprs[expr].body);
    std::vector<ScalarRef> factors(2);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Scalar& read = *product.reads[side];
      const TensorId from = read.symbol;
      const TensorId rounded = side == constant ? rounded_constant(from) : rounded_operand(from);
      factors[side] = scalar_convert(scalar_read(rounded, DType::kBF16, read.indices), DType::kF32);
    }
    if (product.inside) {
      ScalarRef& padded = factors[product.padded_side];
      padded = scalar_apply(ScalarOp::kSelect,
                            {product.inside, padded, scalar_constant(float_value(DType::kF32, 0))},
                            DType::kF32);
    }
    program_.exprs[expr].body = scalar_apply(ScalarOp::kMul, std::move(factors), DType::kF32);
  }

  TensorId rounded_constant(TensorId from) {
    if (tensor(from).type.dtype == DType::kBF16) return from;
    const auto [found, is_new] = rounded_.try_emplace(from, -1);
    if (is_new) {
      HostTensor value = rounded_tensor(tensor(from).value);
      found->second = new_tensors_.add(tensor(from).name + "_bf16", {DType::kBF16, value.shape()},
                                       Tensor::Kind::kConstant);
      tensor(found->second).value = std::move(value);
    }
    return found->second;
  }

  TensorId rounded_operand(TensorId from) {
    if (tensor(from).type.dtype == DType::kBF16) return from;
    if (!stays_[static_cast<size_t>(from)]) return stored_rounded(from);
    const auto [found, is_new] = rounded_.try_emplace(from, -1);
    if (!is_new) return found->second;
    TensorExpr e;
    e.extents = tensor(from).type.shape;
    std::vector<IndexExpr> own;
    for (size_t d = 0; d < e.extents.size(); ++d)
      own.push_back(IndexExpr::var(static_cast<int>(d)));
    e.body =
        scalar_convert(scalar_read(from, tensor(from).type.dtype, std::move(own)), DType::kBF16);
    e.accumulator = DType::kBF16;
    const int producer = made_by_[static_cast<size_t>(from)];
    if (producer >= 0) e.origins = program_.exprs[static_cast<size_t>(producer)].origins;
    e.output = new_tensors_.add(tensor(from).name + "_bf16", {DType::kBF16, e.extents},
                                Tensor::Kind::kIntermediate);
    found->second = e.output;
    added_->push_back({false, static_cast<int32_t>(program_.exprs.size())});
    program_.exprs.push_back(std::move(e));
    return found->second;
  }

  /// Its producer rounds it: what a sum makes, once at its end.
  TensorId stored_rounded(TensorId t) {
    TensorExpr& producer = program_.exprs[static_cast<size_t>(made_by_[static_cast<size_t>(t)])];
    tensor(t).type.dtype = DType::kBF16;
    if (producer.reduce_extents.empty()) {
      producer.body = scalar_convert(producer.body, DType::kBF16);
      producer.accumulator = DType::kBF16;
    }
    read_rounded(t);
    return t;
  }

  /// Others than contractions that read it convert what they read.
  void read_rounded(TensorId t) {
    for (size_t e = 0; e < program_.exprs.size(); ++e) {
      TensorExpr& expr = program_.exprs[e];
      if (sides_.contains(static_cast<int32_t>(e))) continue;
      expr.body = rewrite(
          expr.body, [](int v) { return IndexExpr::var(v); },
          [&](const ScalarRef& read) {
            if (read->symbol != t || read->type == DType::kBF16) return read;
            const ScalarRef fill = read->fill ? scalar_convert(read->fill, DType::kBF16) : nullptr;
            return scalar_convert(scalar_read(t, DType::kBF16, read->indices, read->operands, fill),
                                  read->type);
          });
    }
  }

  TensorProgram& program_;
  std::map<int32_t, size_t> sides_;  ///< by expression to be rounded: the side of its constant
  std::vector<bool> stays_;          ///< by tensor of the model: its type must stay
  std::vector<int> made_by_;         ///< by tensor of the model: its expression
  std::map<TensorId, TensorId> rounded_;
  size_t step_ = 0;
  std::vector<TensorProgram::Step>* added_ = nullptr;  ///< before the step at hand
  NewTensors new_tensors_;
};

}  // namespace

std::vector<TensorId> round_factors(TensorProgram& program) {
  return FactorRounding(program).run();
}

}  // namespace weft
