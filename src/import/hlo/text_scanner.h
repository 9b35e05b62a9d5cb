#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::hlo {

/// "line 12, column 3", counted from 1.
std::string describe_position(std::string_view text, size_t offset);

/// Reads a stretch of HLO text from left to right. White space and comments (`/* … */`, `// …`)
/// separate tokens. What does not fit throws a Refusal (kInvalidInput) with line and column.
class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : TextScanner(text, text) {}
  /// Of `stretch`, which is a part of `text`.
  TextScanner(std::string_view text, std::string_view stretch);

  std::string_view whole() const { return text_; }
  size_t offset() const { return at_; }
  /// Whether this very character comes next.
  bool continues_with(char c) const { return at_ < end_ && text_[at_] == c; }
  bool at_end();
  /// The next character that is no white space; '\0' at the end.
  char peek();
  /// Whether the text goes on with `token`, which is then passed over.
  bool take(std::string_view token);
  void expect(std::string_view token);
  void expect_end();

  /// A name without its '%': letters, digits, '_', '.', '-' (but no "->").
  std::string_view name(std::string_view what);
  int64_t integer(std::string_view what);
  /// Up to a comma, a brace, a parenthesis or white space; "nan(0x1)" is one token.
  std::string_view number();
  /// A string in quotes, without them; escapes stay.
  std::string_view quoted();
  /// What stands inside the brackets that open here, which are passed over.
  std::string_view enclosed();
  /// An attribute's value: up to a comma or the line's end outside of all brackets and strings.
  std::string_view value();
  /// Whether only white space without comments stands between here and the line's end.
  bool at_line_end() const;
  void skip_line();

  [[noreturn]] void fail(std::string_view message) const { fail_at(at_, message); }
  [[noreturn]] void fail_at(size_t offset, std::string_view message) const;

 private:
  void skip_space();
  void skip_string();
  void skip_balanced();
  std::string_view since(size_t begin) const { return text_.substr(begin, at_ - begin); }

  std::string_view text_;
  size_t at_ = 0, end_ = 0;
};

}  // namespace weft::hlo
