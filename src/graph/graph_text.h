#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace weft {

/// What printer and parser of the text form agree on.

/// A letter or '_', then letters, digits, '_', '.', '/': such names stand as they are, others in
/// quotes.
bool is_bare_name(std::string_view name);
/// The name, quoted with \" \\ and \xHH where it is not bare.
std::string print_name(std::string_view name);

/// Element `i` so that parse_element gives the same bits: the shortest decimal that reads back,
/// `true`, `nan` (the quiet one), `inf`; other NaNs as their bits, `0x7fc00001`.
std::string print_element(const HostTensor& tensor, int64_t i);
/// False when the text is no value of the tensor's type.
bool parse_element(std::string_view text, HostTensor& tensor, int64_t i);

/// `splat` constants beyond this many bytes print as hashes and do not parse: a line of text must
/// not cost gigabytes.
inline constexpr int64_t kMaxSplatBytes = int64_t{1} << 26;

}  // namespace weft
