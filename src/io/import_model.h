#pragma once

#include <string>

#include "import/builder/imported_model.h"
#include "support/result.h"

namespace weft {

/// Reads a model of any format that has a reader, known by its content: HLO text, plain or packed
/// by gzip, else ONNX. A file that is called .hlo or .hlo.gz is HLO whatever it holds.
///
/// Errors are those of the readers (import_onnx, import_hlo), with the path in front.
Result<ImportedModel> import_model(const std::string& path, const ImportOptions& options = {});

}  // namespace weft
