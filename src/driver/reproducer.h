#pragma once

#include <string>

#include "driver/compile_options.h"

namespace weft {

/// What stands before the path of a reproducer in the message of an error.
inline constexpr const char* kReproducerIs = "reproducer: ";

/// Writes what shows an internal error of a compilation into `folder`: the graph as it was before
/// the passes, under a name made of its content, behind the message and the command that compiles
/// it. Returns `message` with the file's path and that command; with the reason where the file
/// cannot be written.
std::string with_reproducer(const std::string& folder, const Graph& graph,
                            const CompileOptions& options, const std::string& message);

}  // namespace weft
