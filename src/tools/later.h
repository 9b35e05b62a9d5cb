#pragma once

#include <CLI/CLI.hpp>

#include <span>

#include "support/result.h"

namespace weft {

/// Names the options of the contract that are yet to come at the end of each command's help. Behind
/// all commands.
void add_later(CLI::App& app);

/// kUnsupported where the words of a command line (without the program's name) ask for such an
/// option, whatever else they say.
Status refuse_later(std::span<char* const> words);

}  // namespace weft
