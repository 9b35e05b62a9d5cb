#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "support/result.h"

namespace weft {

/// A position in the text of a tensor program, and the small things that stand there. Spaces and
/// `//` comments are skipped before each.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  /// The next character, '\0' at the end.
  char peek();
  /// Takes `token` if it comes next; one that ends in a letter only as a whole word.
  bool take(std::string_view token);
  Status expect(std::string_view token);
  /// A name, quoted or bare (graph_text.h).
  Result<std::string> name();
  /// A bare name without moving; empty if none comes next.
  std::string_view peek_bare_name();
  Result<int64_t> integer();
  /// Digits, sign, point, exponent, `nan`, `inf`, `0x7fc00001`, `true`: what parse_element reads.
  std::string_view element();
  /// Hexadecimal digits.
  std::string_view hex();

  /// "line:column: what"
  Error error(std::string_view what) const;

  size_t position() const { return position_; }
  void move_to(size_t position) { position_ = position; }
  std::string_view text() const { return text_; }

 private:
  Result<std::string> quoted_name();
  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace weft
