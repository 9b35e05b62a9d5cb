#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/tensor.h"

namespace weft::onnx {

/// An ONNX file as read: names and tensor bytes are views of the file, which whoever holds the
/// ModelDef keeps alive.

/// TensorProto.DataType.
enum class OnnxType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};
/// Refuses types that weft has not (strings, floats of 6 bits), by name; see also narrow_type.h.
DType to_dtype(int64_t onnx_type);
/// "float8e4m3fn", …; "type 99" for an unknown number.
std::string onnx_type_name(int64_t onnx_type);

/// A TensorProto whose bytes have not been read yet: the wire bytes of the message.
struct TensorDef {
  std::string_view name;
  std::string_view message;
};

struct GraphDef;

/// AttributeProto.AttributeType.
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

struct Attribute {
  std::string_view name;
  std::string_view
      ref_name;  ///< inside a function: the caller's attribute that this one stands for
  AttributeType type = AttributeType::kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::optional<TensorDef> t;
  std::string_view sparse_tensor;  ///< wire bytes of a SparseTensorProto
  std::string_view type_proto;     ///< wire bytes of a TypeProto
  std::shared_ptr<const GraphDef> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
};

struct NodeDef {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;  ///< "" is an absent optional one
  std::vector<Attribute> attributes;
};

/// One dimension of a declared type: a number, a name, or unknown (both empty).
struct DimDef {
  std::optional<int64_t> extent;
  std::string_view symbol;
};

struct ValueDef {
  enum class Kind : uint8_t { kNone, kTensor, kSequence, kOptional, kOther };
  std::string_view name;
  Kind kind = Kind::kNone;
  int64_t element_type = 0;
  bool has_shape = false;
  std::vector<DimDef> dims;
};

struct GraphDef {
  std::string_view name;
  std::vector<NodeDef> nodes;
  std::vector<TensorDef> initializers;
  std::vector<std::string_view> sparse_initializers;  ///< wire bytes of SparseTensorProto
  std::vector<ValueDef> inputs, outputs;
};

struct FunctionDef {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  ///< names without a default
  std::vector<Attribute> attribute_defaults;
  std::vector<NodeDef> nodes;
  std::map<std::string_view, int64_t> opsets;
};

struct ModelDef {
  std::shared_ptr<const void> owner;  ///< of the bytes
  std::string folder;                 ///< where external data may lie; empty: nowhere
  int64_t ir_version = 0;
  std::string_view producer_name, producer_version, domain, doc;
  int64_t model_version = 0;
  std::map<std::string_view, int64_t> opsets;  ///< "" for ai.onnx
  std::map<std::string_view, std::string_view> metadata;
  GraphDef graph;
  std::vector<FunctionDef> functions;
};

}  // namespace weft::onnx
