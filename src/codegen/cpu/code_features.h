#pragma once

#include <string>
#include <vector>

#include "target/target.h"

namespace weft {

/// The features of `target` that generated code may use, sorted: those of the x86-64 levels 2 to 4.
/// What a processor has beyond them (other instruction sets, hints) stays unused, so that code made
/// on one machine runs on every other of its level.
std::vector<std::string> code_features(const Target& target);

}  // namespace weft
