#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Text for a terminal or a log: control characters except line breaks and tabs, and bytes that are
/// no UTF-8, as \xHH. Names of a model may hold any bytes.
std::string printable(std::string_view text);

}  // namespace weft
