#pragma once

#include <cstdint>
#include <string>

#include "support/mapped_file.h"

namespace weft::onnx {

/// Maps the file `location` inside `folder`. kInvalidInput when the location is absolute, climbs
/// out with "..", or leads outside the folder through a symbolic link, or when there is no folder
/// ("").
Result<MappedFile> map_external_file(const std::string& folder, const std::string& location);

/// Its bytes [offset, offset + length); kInvalidInput when they are not all inside.
Result<MappedFile> external_range(MappedFile file, const std::string& location, int64_t offset,
                                  int64_t length);

}  // namespace weft::onnx
