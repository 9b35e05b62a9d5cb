#pragma once

#include <string>

#include "support/result.h"
#include "support/tensor.h"

namespace weft {

/// A TensorProto of a .pb file, with its name in the file (which may be empty).
struct TensorFile {
  std::string name;
  HostTensor value;
};
Result<TensorFile> load_pb(const std::string& path);

/// A tensor from a .npy file, a .pb file, or a member of a .npz file ("inputs.npz:x"; without a
/// member the archive must hold exactly one). The suffix of the file says which.
Result<HostTensor> load_tensor(const std::string& path);

}  // namespace weft
