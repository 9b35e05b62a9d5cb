#include "tile/padded_read.h"

#include <cmath>

namespace weft {

namespace {

bool is_plain_read(const Scalar& s) {
  return s.kind == Scalar::Kind::kRead && s.operands.empty() && !s.fill;
}

bool is_zero(const Scalar& s) {
  if (s.kind != Scalar::Kind::kConstant) return false;
  return is_float(s.type) ? s.value.f == 0 && !std::signbit(s.value.f) : s.value.i == 0;
}

}  // namespace

std::optional<PaddedRead> padded_read(const ScalarRef& value) {
  if (is_plain_read(*value)) return PaddedRead{value.get(), nullptr};
  if (value->kind != Scalar::Kind::kApply || value->op != ScalarOp::kSelect ||
      !is_plain_read(*value->operands[1]) || !is_zero(*value->operands[2]))
    return std::nullopt;
  bool reads = false;
  visit(value->operands[0], [&](const Scalar& s) { reads |= s.kind == Scalar::Kind::kRead; });
  if (reads) return std::nullopt;
  return PaddedRead{value->operands[1].get(), value->operands[0]};
}

}  // namespace weft
