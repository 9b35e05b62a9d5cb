#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace weft {

/// The part of a program's arena that a buffer has, from the step that first uses it to the last.
struct ArenaLife {
  std::string name;
  int64_t offset = 0, bytes = 0;
  int32_t first = 0, last = 0;  ///< positions in ArenaLives::steps
};

struct ArenaLives {
  std::vector<std::string> steps;  ///< names, in the order of the text, those of loops inside
  std::vector<ArenaLife> lives;
};

/// What a loop uses and what stands before or behind it uses, too, lives as long as the loop.
ArenaLives arena_lives(const Program& program);

}  // namespace weft
