#include "io/import_model.h"

#include <string_view>

#include "import/hlo/import_hlo.h"
#include "import/onnx/import_onnx.h"
#include "io/gzip.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

/// The text of 30,000 instructions takes a few MB.
constexpr size_t kMaxText = size_t{1} << 30;

Error of_file(const std::string& path, const Error& error) {
  return {error.code, "'" + path + "': " + error.message};
}

}  // namespace

Result<ImportedModel> import_model(const std::string& path, const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  std::string unpacked;
  std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  const bool packed = is_gzip(file.bytes);
  if (packed) {
    auto content = unpack_gzip(file.bytes, kMaxText);
    if (!content.ok()) return of_file(path, content.error());
    unpacked = std::move(*content);
    text = unpacked;
  }
  const bool is_hlo = path.ends_with(".hlo") || path.ends_with(".hlo.gz") || is_hlo_module(text);
  if (packed && !is_hlo) return invalid_input("'" + path + "': what it packs is no HLO module");
  if (!is_hlo) return import_onnx(path, options);
  auto model = import_hlo(text, options);
  if (!model.ok()) return of_file(path, model.error());
  model->files.push_back({path, file.bytes});
  return model;
}

}  // namespace weft
