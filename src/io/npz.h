#pragma once

#include <map>
#include <string>

#include "support/result.h"
#include "support/tensor.h"

namespace weft {

/// The arrays of a .npz archive by name (without ".npy"). kInvalidInput when it is no archive or a
/// member is broken.
Result<std::map<std::string, HostTensor>> load_npz(const std::string& path);

/// One array of it; the error lists the names that it has.
Result<HostTensor> load_npz_member(const std::string& path, const std::string& name);

/// Stored without compression, as numpy.savez does; replaces the file at once or leaves what was
/// there.
Status save_npz(const std::string& path, const std::map<std::string, HostTensor>& arrays);

}  // namespace weft
