#include "io/import_model.h"

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "import/hlo/import_hlo.h"
#include "import/onnx/import_onnx.h"
#include "io/gzip.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

/// The text of 30,000 instructions takes a few MB.
constexpr size_t kMaxText = size_t{1} << 30;

/// The text of an HLO module; nothing where the bytes are another format's.
Result<std::optional<std::string_view>> hlo_text(std::span<const std::byte> bytes, bool named_hlo,
                                                 std::string* unpacked) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool packed = is_gzip(bytes);
  if (packed) {
    WEFT_ASSIGN_OR_RETURN(*unpacked, unpack_gzip(bytes, kMaxText));
    text = *unpacked;
  }
  if (named_hlo || is_hlo_module(text)) return std::optional(text);
  if (packed) return invalid_input("what it packs is no HLO module");
  return std::optional<std::string_view>();
}

/// An HLO module; nothing where the bytes are another format's.
Result<std::optional<ImportedModel>> import_text(std::span<const std::byte> bytes, bool named_hlo,
                                                 const ImportOptions& options) {
  std::string unpacked;
  WEFT_ASSIGN_OR_RETURN(const std::optional<std::string_view> text,
                        hlo_text(bytes, named_hlo, &unpacked));
  if (!text) return std::optional<ImportedModel>();
  WEFT_ASSIGN_OR_RETURN(ImportedModel model, import_hlo(*text, options));
  return std::optional(std::move(model));
}

}  // namespace

Result<ImportedModel> import_model(const std::string& path, const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  const bool named_hlo = path.ends_with(".hlo") || path.ends_with(".hlo.gz");
  auto module = import_text(file.bytes, named_hlo, options);
  if (!module.ok()) {
    return Error{module.error().code, "'" + path + "': " + module.error().message};
  }
  if (!*module) return import_onnx(path, options);
  (*module)->files.push_back({path, file.bytes});
  return std::move(**module);
}

Result<ImportedModel> import_model(const MappedFile& model, const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(std::optional<ImportedModel> module,
                        import_text(model.bytes, /*named_hlo=*/false, options));
  if (module) return std::move(*module);
  return import_onnx(model.bytes, model.owner, "", options);
}

}  // namespace weft
