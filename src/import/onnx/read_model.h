#pragma once

#include <string>

#include "import/onnx/model.h"
#include "support/mapped_file.h"
#include "support/result.h"

namespace weft::onnx {

/// The structure of an ONNX ModelProto: nodes, attributes, declared types; tensor data stays in the
/// file's bytes, which the result keeps alive. `folder` is where external data may lie (empty:
/// nowhere).
///
/// kInvalidInput for anything that is not a well-formed ModelProto: truncation, wrong wire types,
/// nodes without an operator, graphs nested more than 32 deep. What the names and numbers mean is
/// checked later.
Result<ModelDef> read_model(MappedFile file, std::string folder);

/// The declared element type and shape in a TypeProto. Throws Refusal.
ValueDef read_type(std::string_view message);

}  // namespace weft::onnx
