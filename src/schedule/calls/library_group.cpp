#include "schedule/calls/library_group.h"

#include <algorithm>

#include "group/strides.h"
#include "schedule/writer/tile_builder.h"

namespace weft {

const Scalar& under_widening(const ScalarRef& s) {
  const Scalar* node = s.get();
  while (node->kind == Scalar::Kind::kApply && node->op == ScalarOp::kConvert &&
         node->type == DType::kF32)
    node = node->operands[0].get();
  return *node;
}

bool is_plain_read(const Scalar& s) {
  if (s.kind != Scalar::Kind::kRead || !s.operands.empty() || s.fill != nullptr) return false;
  return std::ranges::all_of(s.indices, [](const IndexExpr& i) {
    return evaluate(i, [](int) { return int64_t{0}; }) == 0;
  });
}

bool LibraryGroup::is_contraction() const {
  if (axes_.reductions.size() != 1 || axes_.reductions[0] != 0 || group_.outputs.size() != 1 ||
      expr(last()).output != group_.outputs[0])
    return false;
  const TensorExpr& e = contraction();
  return e.is_contraction && e.combiner == Combiner::kSum && e.accumulator == DType::kF32 &&
         e.body->kind == Scalar::Kind::kApply && e.body->op == ScalarOp::kMul;
}

int64_t LibraryGroup::stride(const Scalar& read, int axis) const {
  return axis < 0 ? 0 : stride_along(program_, axes_, 0, read, axis);
}

int64_t LibraryGroup::result_stride(int axis) const {
  return axis < 0 ? 0 : output_stride_along(program_, axes_, group_, last(), axis);
}

/// Whether `s` is what the expression before `p` made, under conversions.
bool LibraryGroup::reads_previous(const ScalarRef& s, int p) const {
  const Scalar* node = s.get();
  while (node->kind == Scalar::Kind::kApply && node->op == ScalarOp::kConvert)
    node = node->operands[0].get();
  return node->kind == Scalar::Kind::kRead && node->symbol == expr(p - 1).output;
}

/// The read of a whole tensor of the result's type that comes from outside the group.
const Scalar* LibraryGroup::addend(const ScalarRef& s) const {
  const Scalar& read = under_widening(s);
  const bool fits = is_plain_read(read) && axes_.producer(read.symbol) < 0 &&
                    type_of(read.symbol) == result_type();
  return fits ? &read : nullptr;
}

bool LibraryGroup::lies_along(const Scalar& read, int p, int feature) const {
  for (size_t i = 0; i < axes_.axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    if (axes_.axes[i].extent == 1 || axes_.axes[i].reduced) continue;
    if (stride_along(program_, axes_, p, read, axis) != (axis == feature ? 1 : 0)) return false;
  }
  return true;
}

bool LibraryGroup::lies_as_result(const Scalar& read, int p) const {
  for (size_t i = 0; i < axes_.axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    if (axes_.axes[i].extent == 1 || axes_.axes[i].reduced) continue;
    if (stride_along(program_, axes_, p, read, axis) != result_stride(axis)) return false;
  }
  return true;
}

std::optional<LibraryEpilogue> LibraryGroup::epilogue(int feature) const {
  LibraryEpilogue found;
  const auto is_zero = [](const ScalarRef& s) {
    return s->kind == Scalar::Kind::kConstant && s->value.f == 0 && s->value.i == 0;
  };
  for (int p = 1; p <= last(); ++p) {
    const Scalar& body = *expr(p).body;
    if (body.kind != Scalar::Kind::kApply) return std::nullopt;
    if (body.op == ScalarOp::kConvert) {
      if (!reads_previous(expr(p).body, p)) return std::nullopt;
      continue;
    }
    if (body.operands.size() != 2 || found.clamps) return std::nullopt;
    const bool first = reads_previous(body.operands[0], p);
    if (!first && !reads_previous(body.operands[1], p)) return std::nullopt;
    const ScalarRef& other = body.operands[first ? 1 : 0];
    if (body.op == ScalarOp::kMax && is_zero(other)) {
      found.clamps = true;
      continue;
    }
    const Scalar* read = body.op == ScalarOp::kAdd ? addend(other) : nullptr;
    if (read == nullptr) return std::nullopt;
    if (found.bias == nullptr && lies_along(*read, p, feature)) {
      found.bias = read;
    } else if (found.residual == nullptr && lies_as_result(*read, p)) {
      found.residual = read;
    } else {
      return std::nullopt;
    }
  }
  return found;
}

}  // namespace weft
