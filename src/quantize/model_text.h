#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/tensor_proto.h"

namespace weft::onnx {

/// Writing ONNX: messages are strings of bytes.

/// Appends the fields of `message` to `out` as they stand, but for those that `replace` has taken
/// care of: it is given a field's number and, for one of bytes, these.
void copy_fields(std::string_view message, std::string* out,
                 const std::function<bool(uint32_t, std::string_view)>& replace);

/// A TensorProto with raw_data.
std::string tensor_message(std::string_view name, const HostTensor& value);

struct IntAttribute {
  std::string_view name;
  int64_t value = 0;
};

/// A NodeProto.
std::string node_message(std::string_view name, std::string_view domain, std::string_view op_type,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs,
                         const std::vector<IntAttribute>& attributes = {});

/// Appends a field of bytes.
void append_bytes(std::string* message, uint32_t field, std::string_view bytes);

/// A TensorProto with its data in it, wherever `tensor` has them.
std::string held_tensor(std::string_view tensor, const TensorSource& source);

/// The model with all its tensors in it and with further outputs of float32: names of values that
/// its nodes make.
std::string with_outputs(std::string_view model, const std::vector<std::string>& names,
                         const TensorSource& source);

}  // namespace weft::onnx
