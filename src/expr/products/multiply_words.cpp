#include "expr/products/multiply_words.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "expr/movement/copy_tensor.h"
#include "expr/products/integer_products.h"

namespace weft {

namespace {

class WordProducts {
 public:
  explicit WordProducts(TensorProgram& program)
      : program_(program), factors_(program.tensors.size()) {}

  bool run() {
    for (const TensorExpr& e : program_.exprs) {
      if (const Scalar* left = left_bytes(e)) factor(left->symbol).widened = true;
    }
    if (std::ranges::none_of(factors_, &Factor::widened)) return false;
    find_tensors_that_stay();
    copy_factors();
    for (TensorExpr& e : program_.exprs) {
      e.body = of_words(e.body);
      if (!is_in_words(e.output)) continue;
      e.body = scalar_convert(e.body, DType::kI16);
      e.accumulator = DType::kI16;
    }
    for (size_t t = 0; t < factors_.size(); ++t) {
      if (is_in_words(static_cast<TensorId>(t))) program_.tensors[t].type.dtype = DType::kI16;
    }
    return true;
  }

 private:
  struct Factor {
    bool widened = false, stays = false;
  };
  Factor& factor(int t) { return factors_[static_cast<size_t>(t)]; }
  const Tensor& tensor(int t) const { return program_.tensors[static_cast<size_t>(t)]; }
  /// Whether the tensor itself holds words.
  bool is_in_words(int t) {
    return static_cast<size_t>(t) < factors_.size() && factor(t).widened && !factor(t).stays;
  }

  /// The left factor of a product of bytes, where it varies.
  const Scalar* left_bytes(const TensorExpr& e) const {
    if (!e.is_contraction) return nullptr;
    const std::optional<IntegerProduct> product = as_integer_product(e.body);
    if (!product || product->in_words()) return nullptr;
    const bool varies = tensor(product->left->symbol).kind != Tensor::Kind::kConstant;
    return varies ? product->left.get() : nullptr;
  }

  void find_tensors_that_stay() {
    const std::vector<bool> of_model = have_types_of_model(program_);
    for (size_t t = 0; t < factors_.size(); ++t) factors_[t].stays = of_model[t];
    for (const TensorExpr& e : program_.exprs) {
      if (!e.reduce_extents.empty()) factor(e.output).stays = true;
    }
  }

  void copy_factors() {
    read_copies(program_, "_words", DType::kI16, [this](const TensorExpr& e) {
      std::vector<TensorId> copied;
      const Scalar* left = left_bytes(e);
      if (left != nullptr && factor(left->symbol).stays) copied.push_back(left->symbol);
      return copied;
    });
  }

  /// The scalar over tensors in words, of the same type. What was a byte has the same value as a
  /// word, so that a conversion of it to a wider type is one of the word.
  ScalarRef of_words(const ScalarRef& s) {
    if (s->kind != Scalar::Kind::kApply && s->kind != Scalar::Kind::kRead) return s;
    ScalarRef& out = of_words_[s];
    if (out) return out;
    const bool widens =
        s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kConvert && byte_size(s->type) > 1;
    const ScalarRef& value = widens ? s->operands[0] : s;
    if (value->kind == Scalar::Kind::kRead && is_in_words(value->symbol))
      return out = scalar_convert(word(*value), s->type);
    auto copy = std::make_shared<Scalar>(*s);
    bool changed = false;
    const auto take = [&](ScalarRef& part) {
      const ScalarRef made = of_words(part);
      changed |= made != part;
      part = made;
    };
    for (ScalarRef& o : copy->operands) take(o);
    if (copy->fill) take(copy->fill);
    return out = changed ? ScalarRef(copy) : s;
  }

  ScalarRef word(const Scalar& read) {
    auto out = std::make_shared<Scalar>(read);
    for (ScalarRef& o : out->operands) o = of_words(o);
    out->type = DType::kI16;
    if (out->fill) out->fill = scalar_convert(of_words(out->fill), DType::kI16);
    return out;
  }

  TensorProgram& program_;
  std::vector<Factor> factors_;  ///< by tensor of the model
  std::map<ScalarRef, ScalarRef> of_words_;
};

}  // namespace

bool multiply_words(TensorProgram& program) { return WordProducts(program).run(); }

}  // namespace weft
