#include "io/npz.h"

#include <memory>
#include <utility>
#include <vector>

#include "io/npy.h"
#include "io/zip_archive.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

std::string array_name(std::string name) {
  if (name.ends_with(".npy")) name.resize(name.size() - 4);
  return name;
}

Error error_at(const std::string& path, const std::string& reason) {
  return invalid_input("'" + path + "': " + reason);
}

Error in_member(const std::string& path, const std::string& name, const Error& error) {
  return {error.code, "'" + path + "': member '" + name + "': " + error.message};
}

Result<HostTensor> read_array(std::span<const std::byte> archive, const ZipMember& member) {
  WEFT_ASSIGN_OR_RETURN(std::vector<std::byte> content, extract(archive, member));
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(content));
  const std::span<const std::byte> view(*owner);
  return parse_npy(view, owner);
}

}  // namespace

Result<std::map<std::string, HostTensor>> load_npz(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  auto members = read_zip_directory(file.bytes);
  if (!members.ok()) return error_at(path, members.error().message);
  std::map<std::string, HostTensor> arrays;
  for (const ZipMember& member : *members) {
    const std::string name = array_name(member.name);
    auto tensor = read_array(file.bytes, member);
    if (!tensor.ok()) return in_member(path, name, tensor.error());
    if (!arrays.emplace(name, std::move(tensor).value()).second) {
      return error_at(path, "two arrays are called '" + name + "'");
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
  return error_at(path, "it has no array '" + name + "'; it has: " + names);
}

Status save_npz(const std::string& path, const std::map<std::string, HostTensor>& arrays) {
  std::vector<std::string> headers;
  headers.reserve(arrays.size());
  std::vector<ZipSource> members;
  for (const auto& [name, tensor] : arrays) {
    headers.push_back(npy_header(tensor));
    members.push_back({name + ".npy",
                       {std::as_bytes(std::span(headers.back())),
                        {tensor.raw(), static_cast<size_t>(tensor.bytes())}}});
  }
  return write_zip(path, members);
}

}  // namespace weft
