#pragma once

#include <CLI/CLI.hpp>

#include <span>

#include "support/result.h"

namespace weft {

/// Adds the commands of the contract that are yet to come, for the list of commands, and names the
/// options that are yet to come at the end of each command's help. Behind all other commands.
void add_later(CLI::App& app);

/// kUnsupported where the words of a command line (without the program's name) ask for such a
/// command or option, whatever else they say.
Status refuse_later(std::span<char* const> words);

}  // namespace weft
