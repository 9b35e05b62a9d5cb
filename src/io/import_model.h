#pragma once

#include <string>

#include "import/builder/imported_model.h"
#include "support/mapped_file.h"
#include "support/result.h"

namespace weft {

/// Reads a model of any format that has a reader, known by its content: HLO text, plain or packed
/// by gzip, else ONNX. A file that is called .hlo or .hlo.gz is HLO whatever it holds.
///
/// Errors are those of the readers (import_onnx, import_hlo), with the path in front.
Result<ImportedModel> import_model(const std::string& path, const ImportOptions& options = {});
/// The same of a model in memory, which may have no external data.
Result<ImportedModel> import_model(const MappedFile& model, const ImportOptions& options = {});

}  // namespace weft
