#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "import/onnx/model.h"
#include "support/mapped_file.h"
#include "support/result.h"

namespace weft::onnx {

/// Where a TensorProto's bytes come from.
struct TensorSource {
  std::shared_ptr<const void> owner;  ///< keeps the message's bytes alive
  std::string folder;                 ///< of the model: where external data may lie; empty: nowhere
  /// Files of external data that are mapped already, by location.
  std::shared_ptr<std::map<std::string, MappedFile>> files =
      std::make_shared<std::map<std::string, MappedFile>>();
};

/// Name and place of a TensorProto, without its data.
TensorDef read_tensor_def(std::string_view message);

/// Its element type, a TensorProto.DataType.
int64_t element_type(std::string_view message);

/// The tensor of a TensorProto message. raw_data and external data are views of the file; the typed
/// fields are copied. The data must be exactly as large as the shape says, and nothing is allocated
/// that the file does not back. Throws Refusal.
HostTensor read_tensor(std::string_view message, const TensorSource& source);

/// A dense tensor of a SparseTensorProto message. Throws Refusal.
HostTensor read_sparse_tensor(std::string_view message, const TensorSource& source);

/// A tensor with its name.
struct NamedTensor {
  std::string name;
  HostTensor value;
};

/// read_tensor as a Result, for a whole .pb file.
Result<NamedTensor> parse_tensor_proto(std::string_view message, const TensorSource& source);

}  // namespace weft::onnx
