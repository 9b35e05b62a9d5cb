#include "expr/movement/sink_constants.h"

#include <cstddef>

namespace weft {

namespace {

/// Operands before the captures, and how far the regions' inputs lag behind the operands (the
/// condition of an if is no input).
struct CapturePosition {
  size_t first = 0;
  size_t lag = 0;
};

CapturePosition capture_position(const Node& node) {
  switch (node.op) {
    case GraphOp::kIf:
      return {1, 1};
    case GraphOp::kWhile:
      return {static_cast<size_t>(std::get<WhileAttrs>(node.attrs).carry_count), 0};
    default: {
      const auto& scan = std::get<ScanAttrs>(node.attrs);
      return {static_cast<size_t>(scan.carry_count + scan.scanned_count), 0};
    }
  }
}

bool sink_into(const TensorProgram& program, OpaqueExpr& opaque) {
  bool changed = false;
  const CapturePosition captures = capture_position(opaque.node);
  for (size_t i = opaque.operands.size(); i-- > captures.first;) {
    const Tensor& source = program.tensors[static_cast<size_t>(opaque.operands[i])];
    if (source.kind != Tensor::Kind::kConstant) continue;
    for (const auto& region : opaque.regions) {
      const auto at = region->inputs.begin() + static_cast<std::ptrdiff_t>(i - captures.lag);
      Tensor& inner = region->tensors[static_cast<size_t>(*at)];
      inner.kind = Tensor::Kind::kConstant;
      inner.value = source.value;
      region->inputs.erase(at);
    }
    opaque.operands.erase(opaque.operands.begin() + static_cast<std::ptrdiff_t>(i));
    changed = true;
  }
  return changed;
}

}  // namespace

bool sink_constants(TensorProgram& program) {
  bool changed = false;
  for (OpaqueExpr& opaque : program.opaques) {
    if (opaque.regions.empty()) continue;
    changed |= sink_into(program, opaque);
    for (const auto& region : opaque.regions) changed |= sink_constants(*region);
  }
  return changed;
}

}  // namespace weft
