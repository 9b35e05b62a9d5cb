#pragma once

#include <functional>

namespace weft {

/// Runs the operation now, or, while the stream records, whenever its graph runs; returns what it
/// does, or 0.
int submit_to_stream(void* stream, std::function<int()> operation);

}  // namespace weft
