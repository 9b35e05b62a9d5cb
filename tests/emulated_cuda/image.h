#pragma once

#include <string>

namespace weft {

/// What an image of the emulated NVRTC starts with; the architecture, a line's end, the CUDA text
/// and a NUL follow: a driver is not told an image's size.
inline const std::string kImageMagic = "weft emulated cubin ";

}  // namespace weft
