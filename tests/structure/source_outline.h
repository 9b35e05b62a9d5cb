#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A type with a name that other files could name: struct, class, union, enum or alias outside of
/// functions, classes and anonymous namespaces.
struct OutlinedType {
  std::string name;  ///< with its namespaces: weft::TileProgram
  int line = 0;
  bool operator==(const OutlinedType&) const = default;
};

struct OutlinedFunction {
  int first_line = 0;  ///< where its declaration begins
  int last_line = 0;   ///< of the closing brace
  bool operator==(const OutlinedFunction&) const = default;
};

struct SourceOutline {
  std::vector<OutlinedType> types;
  std::vector<OutlinedFunction> functions;  ///< with bodies, free and members, not lambdas
};

/// What a C++ file defines, by its braces and the words before them. Preprocessor lines are left
/// out; a brace too many or too few in a branch of #if would lead it astray.
SourceOutline outline_source(std::string_view text);

}  // namespace weft
