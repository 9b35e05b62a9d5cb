#include "import/hlo/text_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "import/builder/refusal.h"

namespace weft::hlo {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool continues_name(char c) { return starts_name(c) || is_digit(c) || c == '.' || c == '-'; }

char closing_of(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

}  // namespace

std::string describe_position(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? offset : offset - start - 1;
  return fmt::format("line {}, column {}", line, column + 1);
}

TextScanner::TextScanner(std::string_view text, std::string_view stretch)
    : text_(text),
      at_(static_cast<size_t>(stretch.data() - text.data())),
      end_(at_ + stretch.size()) {}

void TextScanner::fail_at(size_t offset, std::string_view message) const {
  onnx::refuse_invalid(fmt::format("{}: {}", describe_position(text_, offset), message));
}

void TextScanner::skip_space() {
  while (at_ < end_) {
    if (is_space(text_[at_])) {
      ++at_;
      continue;
    }
    const std::string_view two = text_.substr(at_, std::min<size_t>(2, end_ - at_));
    if (two == "//") {
      at_ = std::min(end_, text_.find('\n', at_));
    } else if (two == "/*") {
      const size_t close = text_.find("*/", at_ + 2);
      if (close == std::string_view::npos || close + 2 > end_) fail("a comment has no end");
      at_ = close + 2;
    } else {
      return;
    }
  }
}

bool TextScanner::at_end() {
  skip_space();
  return at_ >= end_;
}

char TextScanner::peek() { return at_end() ? '\0' : text_[at_]; }

bool TextScanner::take(std::string_view token) {
  skip_space();
  if (text_.substr(at_, std::min(token.size(), end_ - at_)) != token) return false;
  at_ += token.size();
  return true;
}

void TextScanner::expect(std::string_view token) {
  if (!take(token)) fail(fmt::format("expected '{}'", token));
}

void TextScanner::expect_end() {
  if (!at_end()) fail("did not expect more here");
}

std::string_view TextScanner::name(std::string_view what) {
  take("%");
  skip_space();
  const size_t begin = at_;
  if (at_ >= end_ || !starts_name(text_[at_])) fail(fmt::format("expected {}", what));
  while (at_ < end_ && continues_name(text_[at_])) {
    if (text_[at_] == '-' && at_ + 1 < end_ && text_[at_ + 1] == '>') break;
    ++at_;
  }
  return since(begin);
}

int64_t TextScanner::integer(std::string_view what) {
  skip_space();
  int64_t value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + end_, value);
  if (error == std::errc::result_out_of_range) fail(fmt::format("{} is too large", what));
  if (error != std::errc()) fail(fmt::format("expected {}", what));
  at_ += static_cast<size_t>(end - begin);
  return value;
}

std::string_view TextScanner::number() {
  skip_space();
  const size_t begin = at_;
  while (at_ < end_) {
    const char c = text_[at_];
    if (c == '(') {
      skip_balanced();
      continue;
    }
    if (is_space(c) || c == ',' || c == '}' || c == ')' || c == '{' || c == '/') break;
    ++at_;
  }
  if (at_ == begin) fail("expected a number");
  return since(begin);
}

void TextScanner::skip_string() {
  const size_t begin = at_++;
  while (at_ < end_ && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= end_) fail_at(begin, "a string has no end");
  ++at_;
}

std::string_view TextScanner::quoted() {
  if (peek() != '"') fail("expected a string in quotes");
  const size_t begin = at_;
  skip_string();
  return text_.substr(begin + 1, at_ - begin - 2);
}

/// From an opening bracket to behind the one that closes it.
void TextScanner::skip_balanced() {
  const size_t begin = at_;
  std::vector<char> awaited;
  do {
    skip_space();
    if (at_ >= end_) fail_at(begin, fmt::format("'{}' is never closed", text_[begin]));
    const char c = text_[at_];
    if (c == '"') {
      skip_string();
      continue;
    }
    if (c == '(' || c == '[' || c == '{') {
      awaited.push_back(closing_of(c));
    } else if (c == ')' || c == ']' || c == '}') {
      if (awaited.back() != c) fail(fmt::format("expected '{}'", awaited.back()));
      awaited.pop_back();
    }
    ++at_;
  } while (!awaited.empty());
}

std::string_view TextScanner::enclosed() {
  const char open = peek();
  if (open != '(' && open != '[' && open != '{') fail("expected a bracket");
  const size_t begin = at_;
  skip_balanced();
  return text_.substr(begin + 1, at_ - begin - 2);
}

std::string_view TextScanner::value() {
  skip_space();
  const size_t begin = at_;
  while (at_ < end_) {
    const char c = text_[at_];
    if (c == ',' || c == '\n' || c == '\r' || c == '}' || c == ')') break;
    if (c == '"') {
      skip_string();
    } else if (c == '(' || c == '[' || c == '{') {
      skip_balanced();
    } else {
      ++at_;
    }
  }
  if (at_ == begin) fail("expected an attribute's value");
  return since(begin);
}

bool TextScanner::at_line_end() const {
  size_t at = at_;
  while (at < end_ && is_space(text_[at])) {
    if (text_[at] == '\n') return true;
    ++at;
  }
  return at >= end_;
}

void TextScanner::skip_line() { at_ = std::min(end_, text_.find('\n', at_)); }

}  // namespace weft::hlo
