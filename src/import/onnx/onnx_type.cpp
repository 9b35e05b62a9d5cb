#include <array>
#include <string>

#include "import/builder/refusal.h"
#include "import/onnx/model.h"
#include "import/onnx/narrow_type.h"

namespace weft::onnx {

std::string onnx_type_name(int64_t onnx_type) {
  static constexpr std::array<std::string_view, 29> kNames = {
      "undefined",      "float32",    "uint8",          "int8",       "uint16",    "int16",
      "int32",          "int64",      "string",         "bool",       "float16",   "float64",
      "uint32",         "uint64",     "complex64",      "complex128", "bfloat16",  "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",      "float4e2m1",
      "float8e8m0",     "uint2",      "int2",           "float6e2m3", "float6e3m2"};
  if (onnx_type >= 0 && onnx_type < static_cast<int64_t>(kNames.size())) {
    return std::string(kNames[static_cast<size_t>(onnx_type)]);
  }
  return "type " + std::to_string(onnx_type);
}

DType to_dtype(int64_t onnx_type) {
  switch (onnx_type) {
    case 1:
      return DType::kF32;
    case 2:
      return DType::kU8;
    case 3:
      return DType::kI8;
    case 4:
      return DType::kU16;
    case 5:
      return DType::kI16;
    case 6:
      return DType::kI32;
    case 7:
      return DType::kI64;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kF16;
    case 11:
      return DType::kF64;
    case 12:
      return DType::kU32;
    case 13:
      return DType::kU64;
    case 16:
      return DType::kBF16;
    default:
      break;
  }
  if (const auto narrow = narrow_type_of(onnx_type)) return narrow->held_in();
  const std::string name = onnx_type_name(onnx_type);
  if (onnx_type == 0 || name.starts_with("type ")) {
    refuse_invalid("element " + name + " does not exist");
  }
  refuse_unsupported("element type " + name);
}

}  // namespace weft::onnx
