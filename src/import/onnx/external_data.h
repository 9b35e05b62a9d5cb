#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/mapped_file.h"

namespace weft::onnx {

/// Maps [offset, offset + length) of the file `location` inside `folder`; without a length, to the
/// end of the file.
///
/// kInvalidInput when the location is absolute, climbs out with "..", or leads outside the folder
/// through a symbolic link, and when the range is not inside the file.
Result<MappedFile> map_external_data(const std::string& folder, std::string_view location,
                                     int64_t offset, std::optional<int64_t> length);

}  // namespace weft::onnx
