#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/dtype.h"
#include "support/result.h"

namespace weft {

/// A token of the tile language. `--` starts a comment up to the end of the line.
struct TileToken {
  enum class Kind : uint8_t {
    kName,     ///< `acc`; a next value `acc'` is the name and the symbol `'`
    kInteger,  ///< `64`; `integer` holds it
    kReal,     ///< `1.5`, `1e-5`, `inf`, `nan`; `real` holds it
    kSymbol,   ///< an operator or bracket, the longest that matches
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  int64_t integer = 0;
  double real = 0;
  /// A literal with its element type: `2:i64`, without spaces.
  bool typed = false;
  DType type = DType::kF32;
  int line = 1, column = 1;

  bool is(std::string_view symbol_or_name) const {
    return (kind == Kind::kName || kind == Kind::kSymbol) && text == symbol_or_name;
  }
};

/// The tokens of `text` and one kEnd. The tokens refer to `text`. Error: "line:column: …".
Result<std::vector<TileToken>> tokenize_tile_program(std::string_view text);

/// Words that no symbol, loop or axis may be called.
bool is_reserved_tile_word(std::string_view word);

/// A name that the language can hold, near to `name`: other characters become `_`, reserved words
/// get one behind.
std::string tile_identifier(std::string_view name);

}  // namespace weft
