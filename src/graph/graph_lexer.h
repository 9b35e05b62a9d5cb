#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/result.h"

namespace weft {

/// A token of a graph's text. `text` is the name with quotes and escapes resolved, the number's
/// digits, or the punctuation itself ("->" is one).
struct GraphToken {
  enum class Kind : uint8_t { kName, kNumber, kPunctuation, kEnd, kError };
  Kind kind = Kind::kEnd;
  bool quoted = false;
  std::string text;  ///< of an error: its message
  int64_t line = 1, column = 1;
};

/// Splits a graph's text into tokens on demand, two ahead. `//` starts a comment. Never fails by
/// itself: what cannot be read is a kError token.
class GraphLexer {
 public:
  explicit GraphLexer(std::string_view text) : text_(text) {
    ahead_[0] = lex();
    ahead_[1] = lex();
  }

  const GraphToken& peek(int distance = 0) const { return ahead_[distance]; }
  GraphToken next();

 private:
  GraphToken lex();
  void lex_quoted(GraphToken& token);
  void skip_space();
  char at(size_t offset = 0) const {
    return position_ + offset < text_.size() ? text_[position_ + offset] : '\0';
  }
  void advance();

  std::string_view text_;
  size_t position_ = 0;
  int64_t line_ = 1, column_ = 1;
  GraphToken ahead_[2];
};

}  // namespace weft
