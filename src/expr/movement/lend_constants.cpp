#include "expr/movement/lend_constants.h"

#include <cstring>

#include "expr/new_tensors.h"

namespace weft {

namespace {

bool same_value(const HostTensor& a, const HostTensor& b) {
  if (a.bytes() != b.bytes()) return false;
  return a.raw() == b.raw() || std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

bool lend_from(const TensorProgram& body, TensorProgram& program, NewTensors& tensors) {
  bool changed = false;
  for (const Tensor& own : body.tensors) {
    if (own.kind != Tensor::Kind::kConstant || lent_constant(program, own)) continue;
    const TensorId lent = tensors.add(own.name, own.type, Tensor::Kind::kConstant);
    Tensor& constant = program.tensors[static_cast<size_t>(lent)];
    constant.value = own.value;
    constant.declared = own.declared;
    constant.layout = own.layout;
    changed = true;
  }
  return changed;
}

}  // namespace

std::optional<TensorId> lent_constant(const TensorProgram& program, const Tensor& of_body) {
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& own = program.tensors[t];
    if (own.kind == Tensor::Kind::kConstant && own.type == of_body.type &&
        own.layout == of_body.layout && same_value(own.value, of_body.value))
      return static_cast<TensorId>(t);
  }
  return std::nullopt;
}

bool lend_constants(TensorProgram& program) {
  bool changed = false;
  NewTensors tensors(program);
  for (OpaqueExpr& opaque : program.opaques) {
    for (const auto& region : opaque.regions) changed |= lend_constants(*region);
    if (opaque.node.op == GraphOp::kScan)
      changed |= lend_from(*opaque.regions.back(), program, tensors);
  }
  return changed;
}

}  // namespace weft
