#pragma once

#include <string>

#include "driver/explain/explained.h"

namespace weft {

/// The plan to read: kernels in the order in which they run, a sequence that repeats (the layers of
/// a network) once with the number of its repetitions, then the edges between kernels with the
/// reasons why they were cut; reasons that differ in numbers only stand together.
std::string explain_text(const Explained& c);

}  // namespace weft
