#include "io/tensor_file.h"

#include "import/onnx/tensor_proto.h"
#include "io/npy.h"
#include "io/npz.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

Result<HostTensor> load_from_npz(const std::string& path) {
  const size_t suffix = path.rfind(".npz:");
  if (suffix != std::string::npos) {
    return load_npz_member(path.substr(0, suffix + 4), path.substr(suffix + 5));
  }
  WEFT_ASSIGN_OR_RETURN(auto arrays, load_npz(path));
  if (arrays.size() == 1) return std::move(arrays.begin()->second);
  return invalid_input("'" + path + "' holds " + std::to_string(arrays.size()) +
                       " arrays: name one as '" + path + ":NAME'");
}

}  // namespace

Result<TensorFile> load_pb(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(MappedFile file, map_file(path));
  const std::string_view message(reinterpret_cast<const char*>(file.bytes.data()),
                                 file.bytes.size());
  auto tensor = onnx::parse_tensor_proto(message, onnx::TensorSource{file.owner, {}});
  if (tensor.ok()) return TensorFile{std::move(tensor->name), std::move(tensor->value)};
  return Error{tensor.error().code, "'" + path + "': " + tensor.error().message};
}

Result<HostTensor> load_tensor(const std::string& path) {
  if (path.ends_with(".npy")) return load_npy(path);
  if (path.ends_with(".npz") || path.find(".npz:") != std::string::npos) {
    return load_from_npz(path);
  }
  if (path.ends_with(".pb")) {
    WEFT_ASSIGN_OR_RETURN(TensorFile file, load_pb(path));
    return std::move(file.value);
  }
  return invalid_input("'" + path + "': expected a .npy, .npz or .pb file");
}

}  // namespace weft
