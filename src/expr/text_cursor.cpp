#include "expr/text_cursor.h"

#include <charconv>

#include "fmt/format.h"

namespace weft {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

char TextCursor::peek() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '/' && text_.substr(position_, 2) == "//") {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else {
      return c;
    }
  }
  return '\0';
}

bool TextCursor::take(std::string_view token) {
  const size_t begin = position_;
  peek();
  const size_t end = position_ + token.size();
  const bool cut = is_word(token.back()) && end < text_.size() && is_word(text_[end]);
  const bool found = !cut && text_.substr(position_, token.size()) == token;
  position_ = found ? end : begin;
  return found;
}

Status TextCursor::expect(std::string_view token) {
  if (take(token)) return {};
  return error(fmt::format("`{}` is expected", token));
}

std::string_view TextCursor::peek_bare_name() {
  if (!is_letter(peek())) return {};
  size_t end = position_;
  while (end < text_.size() && (is_word(text_[end]) || text_[end] == '.' ||
                                (text_[end] == '/' && text_.substr(end, 2) != "//"))) {
    ++end;
  }
  return text_.substr(position_, end - position_);
}

Result<std::string> TextCursor::name() {
  if (peek() == '"') return quoted_name();
  const std::string_view bare = peek_bare_name();
  if (bare.empty()) return error("a name is expected");
  position_ += bare.size();
  return std::string(bare);
}

Result<std::string> TextCursor::quoted_name() {
  std::string name;
  for (size_t i = position_ + 1; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '\n') break;
    if (c == '"') {
      position_ = i + 1;
      return name;
    }
    if (c != '\\') {
      name += c;
      continue;
    }
    const char next = i + 1 < text_.size() ? text_[i + 1] : '\0';
    const int high = i + 3 < text_.size() ? hex_digit(text_[i + 2]) : -1;
    const int low = i + 3 < text_.size() ? hex_digit(text_[i + 3]) : -1;
    if (next == '"' || next == '\\') {
      name += next;
      ++i;
    } else if (next == 'x' && high >= 0 && low >= 0) {
      name += static_cast<char>(high * 16 + low);
      i += 3;
    } else {
      break;
    }
  }
  return error("the quoted name does not end or has an escape other than \\\", \\\\ and \\xHH");
}

Result<int64_t> TextCursor::integer() {
  peek();
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  if (result.ec != std::errc()) return error("an integer is expected");
  position_ += static_cast<size_t>(result.ptr - begin);
  return value;
}

std::string_view TextCursor::element() {
  peek();
  size_t end = position_;
  if (end < text_.size() && text_[end] == '-') ++end;
  const bool decimal = end < text_.size() && is_digit(text_[end]) && text_.substr(end, 2) != "0x";
  while (end < text_.size()) {
    const char c = text_[end];
    const bool sign = (c == '-' || c == '+') && decimal && text_[end - 1] == 'e';
    if (!is_word(c) && c != '.' && !sign) break;
    ++end;
  }
  const std::string_view taken = text_.substr(position_, end - position_);
  position_ = end;
  return taken;
}

std::string_view TextCursor::hex() {
  const size_t begin = position_;
  while (position_ < text_.size() && hex_digit(text_[position_]) >= 0) ++position_;
  return text_.substr(begin, position_ - begin);
}

Error TextCursor::error(std::string_view what) const {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < position_ && i < text_.size(); ++i) {
    column = text_[i] == '\n' ? 1 : column + 1;
    line += text_[i] == '\n' ? 1 : 0;
  }
  return invalid_input(fmt::format("{}:{}: {}", line, column, what));
}

}  // namespace weft
