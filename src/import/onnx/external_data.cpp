#include "import/onnx/external_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace weft::onnx {
namespace {

namespace fs = std::filesystem;

Error bad_location(std::string_view location, std::string_view reason) {
  return invalid_input(fmt::format("external data '{}': {}", location, reason));
}

/// The file inside `folder`, with every link resolved.
Result<std::string> resolve_inside(const std::string& folder, std::string_view location) {
  const fs::path relative{std::string(location)};
  if (location.empty()) return bad_location(location, "the location is empty");
  if (location.find('\0') != std::string_view::npos) {
    return bad_location("", "the location holds a zero byte");
  }
  if (relative.is_absolute()) return bad_location(location, "the path is absolute");
  for (const fs::path& part : relative) {
    if (part == "..") return bad_location(location, "the path leads out of the model's folder");
  }
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed) return bad_location(location, "the model's folder: " + failed.message());
  const fs::path file = fs::canonical(root / relative, failed);
  if (failed) return bad_location(location, failed.message());
  const fs::path inside = file.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") {
    return bad_location(location, "a link leads out of the model's folder");
  }
  return file.string();
}

}  // namespace

Result<MappedFile> map_external_file(const std::string& folder, const std::string& location) {
  if (folder.empty()) return bad_location(location, "this model has no folder to look in");
  WEFT_ASSIGN_OR_RETURN(const std::string path, resolve_inside(folder, location));
  return map_file(path);
}

Result<MappedFile> external_range(MappedFile file, const std::string& location, int64_t offset,
                                  int64_t length) {
  const auto size = static_cast<int64_t>(file.bytes.size());
  if (offset < 0 || length < 0 || offset > size || length > size - offset) {
    return bad_location(location, fmt::format("bytes {} to {}+{} are not within its {} bytes",
                                              offset, offset, length, size));
  }
  file.bytes = file.bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
  return file;
}

}  // namespace weft::onnx
