#include "driver/cache/model_files.h"

#include <functional>

#include "support/file_identity.h"

namespace weft {

Result<ModelFiles> ModelFiles::identify(const std::vector<ModelFile>& files, bool whole) {
  ModelFiles out;
  for (const ModelFile& file : files) {
    WEFT_ASSIGN_OR_RETURN(const Hash128 identity, identify_file(file.path, whole));
    out.files_.push_back({file, identity});
  }
  return out;
}

std::optional<ModelFiles::Place> ModelFiles::find(const HostTensor& constant) const {
  const std::less_equal<const std::byte*> not_after;
  const std::byte* begin = constant.raw();
  for (size_t i = 0; i < files_.size(); ++i) {
    const auto bytes = files_[i].file.bytes;
    if (not_after(bytes.data(), begin) &&
        not_after(begin + constant.bytes(), bytes.data() + bytes.size())) {
      return Place{i, static_cast<uint64_t>(begin - bytes.data())};
    }
  }
  return std::nullopt;
}

Hash128 ModelFiles::content_key(const HostTensor& constant) const {
  const auto size = static_cast<size_t>(constant.bytes());
  const std::optional<Place> place = find(constant);
  if (!place) return hash128(std::span(constant.raw(), size));
  Hasher hasher;
  hasher.add_value(files_[place->file].identity.high);
  hasher.add_value(files_[place->file].identity.low);
  hasher.add_value(place->offset);
  hasher.add_value(size);
  return hasher.digest128();
}

}  // namespace weft
