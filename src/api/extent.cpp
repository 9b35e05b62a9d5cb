// Extents: numbers, and expressions over open dimensions.

#include "weft/graph_builder.h"

namespace weft_v1 {

/// The open dimension `name`, or two extents joined by `op`.
struct Extent::Expression {
  std::string name;
  char op = 0;
  std::optional<Extent> a, b;
};

namespace {

std::optional<int64_t> floored_quotient(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::optional<int64_t> apply(char op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case '+':
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '-':
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case '*':
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    default:
      return floored_quotient(a, b);
  }
}

}  // namespace

Extent Extent::open(std::string name) {
  Extent extent(0);
  extent.expression_ = std::make_shared<Expression>(Expression{std::move(name), 0, {}, {}});
  return extent;
}

Extent Extent::join(char op, const Extent& a, const Extent& b) {
  if (a.expression_ == nullptr && b.expression_ == nullptr) {
    if (const auto number = apply(op, a.number_, b.number_)) return *number;
  }
  Extent extent(0);
  extent.expression_ = std::make_shared<Expression>(Expression{{}, op, a, b});
  return extent;
}

std::optional<int64_t> Extent::value(const std::map<std::string, int64_t>& bound) const {
  if (expression_ == nullptr) return number_;
  if (expression_->op == 0) {
    const auto found = bound.find(expression_->name);
    return found == bound.end() ? std::nullopt : std::optional(found->second);
  }
  const auto a = expression_->a->value(bound), b = expression_->b->value(bound);
  return a && b ? apply(expression_->op, *a, *b) : std::nullopt;
}

std::string_view Extent::name() const {
  return expression_ == nullptr ? std::string_view() : std::string_view(expression_->name);
}

}  // namespace weft_v1
