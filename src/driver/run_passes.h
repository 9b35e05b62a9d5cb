#pragma once

#include <span>
#include <string>

#include "driver/compilation.h"
#include "support/result.h"

namespace weft {

/// One step of the pipeline; the table is in passes.h.
struct Pass {
  const char* name;
  const char* level;  ///< of what it makes: graph, tensor-program, plan, tile-program, kernel, code
  Result<bool> (*run)(Compilation&);  ///< whether it changed the level
};

/// Runs passes that follow each other in the table on a compilation that has the level before them.
/// Those that make a graph come first and run, in turn, until a round changes nothing; the others
/// run once. Each is timed and, as the compilation's options say, verified and dumped.
Status run_passes(Compilation& c, std::span<const Pass> passes);

/// Writes a level into the folder that the options name, if any: as it is after pass `number`; 0:
/// as it was imported.
Status dump_level(const Compilation& c, int number, const std::string& pass,
                  const std::string& level);

}  // namespace weft
