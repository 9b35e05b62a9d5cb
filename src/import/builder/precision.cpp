#include "import/builder/precision.h"

namespace weft::onnx {

DType working_type(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

DType floating_type(DType type) { return is_float(type) ? working_type(type) : DType::kF64; }

ValueId widen(GraphBuilder& b, ValueId x) { return b.convert(x, working_type(b.dtype(x))); }

ValueId to_floating(GraphBuilder& b, ValueId x) { return b.convert(x, floating_type(b.dtype(x))); }

}  // namespace weft::onnx
