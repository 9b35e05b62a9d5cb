#include "io/npz.h"

#include <zip.h>

#include <cstring>
#include <memory>
#include <vector>

#include "io/npy.h"

namespace weft {
namespace {

struct DiscardArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, DiscardArchive>;

struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

Error zip_error_at(const std::string& path, const std::string& reason) {
  return invalid_input("'" + path + "': " + reason);
}

Result<Archive> open_archive(const std::string& path, int flags, const char* what) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), flags, &code));
  if (archive != nullptr) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  return zip_error_at(path, std::string(what) + ": " + reason);
}

/// Deflate's best ratio is 1032 to 1: a member that claims more is not believed.
bool is_plausible(const zip_stat_t& stat) {
  constexpr uint64_t kRatio = 1040, kSlack = 1024, kMaxBytes = uint64_t{1} << 40;
  return stat.size <= kMaxBytes && stat.comp_size <= kMaxBytes &&
         stat.size <= stat.comp_size * kRatio + kSlack;
}

Result<HostTensor> read_member(zip_t* archive, uint64_t index, const zip_stat_t& stat) {
  if (!is_plausible(stat)) return invalid_input("its size cannot be true");
  const std::unique_ptr<zip_file_t, CloseFile> file(zip_fopen_index(archive, index, 0));
  if (file == nullptr) return invalid_input(zip_strerror(archive));
  auto bytes = std::make_shared<std::vector<std::byte>>();
  // As much as really comes out, rather than what the directory claims.
  constexpr size_t kChunk = 1 << 20;
  while (bytes->size() <= stat.size) {
    const size_t before = bytes->size();
    bytes->resize(before + kChunk);
    const zip_int64_t got = zip_fread(file.get(), bytes->data() + before, kChunk);
    if (got < 0) return invalid_input(zip_file_strerror(file.get()));
    bytes->resize(before + static_cast<size_t>(got));
    if (got == 0) break;
  }
  if (bytes->size() != stat.size) return invalid_input("its size is not what the archive says");
  const std::span<const std::byte> view(*bytes);
  return parse_npy(view, bytes);
}

std::string array_name(const char* member) {
  std::string name = member;
  if (name.ends_with(".npy")) name.resize(name.size() - 4);
  return name;
}

}  // namespace

Result<std::map<std::string, HostTensor>> load_npz(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const Archive archive,
                        open_archive(path, ZIP_RDONLY | ZIP_CHECKCONS, "cannot read it"));
  std::map<std::string, HostTensor> arrays;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    zip_stat_t stat;
    constexpr uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(archive.get(), index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
      return zip_error_at(path, "a member without name or size");
    }
    const std::string name = array_name(stat.name);
    auto tensor = read_member(archive.get(), index, stat);
    if (!tensor.ok()) {
      return Error{tensor.error().code,
                   "'" + path + "': member '" + name + "': " + tensor.error().message};
    }
    if (!arrays.emplace(name, std::move(tensor).value()).second) {
      return zip_error_at(path, "two arrays are called '" + name + "'");
    }
  }
  return arrays;
}

Result<HostTensor> load_npz_member(const std::string& path, const std::string& name) {
  WEFT_ASSIGN_OR_RETURN(const auto arrays, load_npz(path));
  const auto found = arrays.find(name);
  if (found != arrays.end()) return found->second;
  std::string names;
  for (const auto& [other, value] : arrays) names.append(names.empty() ? "" : ", ").append(other);
  return zip_error_at(path, "it has no array '" + name + "'; it has: " + names);
}

Status save_npz(const std::string& path, const std::map<std::string, HostTensor>& arrays) {
  WEFT_ASSIGN_OR_RETURN(Archive archive,
                        open_archive(path, ZIP_CREATE | ZIP_TRUNCATE, "cannot write it"));
  std::vector<std::string> contents;  // the archive reads them when it is closed
  contents.reserve(arrays.size());
  for (const auto& [name, tensor] : arrays) {
    std::string& content = contents.emplace_back(npy_header(tensor));
    content.append(reinterpret_cast<const char*>(tensor.raw()),
                   static_cast<size_t>(tensor.bytes()));
    zip_source_t* source = zip_source_buffer(archive.get(), content.data(), content.size(), 0);
    const zip_int64_t index = source == nullptr
                                  ? -1
                                  : zip_file_add(archive.get(), (name + ".npy").c_str(), source,
                                                 ZIP_FL_ENC_UTF_8 | ZIP_FL_OVERWRITE);
    if (index < 0) {
      if (source != nullptr) zip_source_free(source);
      return zip_error_at(path, zip_strerror(archive.get()));
    }
    constexpr time_t kFixedTime = 315532800;  // 1980: the same arrays give the same file
    zip_set_file_compression(archive.get(), static_cast<uint64_t>(index), ZIP_CM_STORE, 0);
    zip_file_set_mtime(archive.get(), static_cast<uint64_t>(index), kFixedTime, 0);
  }
  if (zip_close(archive.get()) != 0) return zip_error_at(path, zip_strerror(archive.get()));
  [[maybe_unused]] const zip_t* closed = archive.release();
  return {};
}

}  // namespace weft
