#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
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

/// Tokens taken one after another. The first error is kept and the tokens end there, so that every
/// rule of a parser runs out quickly; what is expected then is a default.
class TileTokens {
 public:
  explicit TileTokens(std::vector<TileToken> tokens) : tokens_(std::move(tokens)) {}

  const TileToken& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  TileToken take();
  /// Takes the token if it is the one named.
  bool accept(std::string_view text);
  void expect(std::string_view text);
  /// `what` is said in the error: "a loop variable".
  std::string_view expect_name(std::string_view what);
  int64_t expect_positive(std::string_view what);
  DType expect_type();

  bool failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  /// "line:column: what".
  void fail(const TileToken& at, std::string_view what);
  void fail(Error error);

  /// A name that is no word of the language.
  static bool is_name(const TileToken& token);
  /// As errors show it.
  static std::string shown(const TileToken& token);

 private:
  std::vector<TileToken> tokens_;
  size_t at_ = 0;
  std::optional<Error> error_;
};

/// Words that no symbol, loop or axis may be called.
bool is_reserved_tile_word(std::string_view word);

/// A name that the language can hold, near to `name`: other characters become `_`, reserved words
/// get one behind.
std::string tile_identifier(std::string_view name);

}  // namespace weft
