#pragma once

#include <string_view>

namespace weft {

/// Hash of the sources that this library was built from: what one build made of a model is no
/// answer for another. The build writes the function (cmake/SourceDigest.cmake).
std::string_view source_digest();

}  // namespace weft
