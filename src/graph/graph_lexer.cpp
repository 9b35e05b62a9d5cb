#include "graph/graph_lexer.h"

#include <utility>

namespace weft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '/'; }
bool continues_number(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

GraphToken GraphLexer::next() {
  GraphToken token = std::move(ahead_[0]);
  ahead_[0] = std::move(ahead_[1]);
  ahead_[1] = lex();
  return token;
}

void GraphLexer::advance() {
  if (text_[position_++] == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
}

void GraphLexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = at();
    if (c == '/' && at(1) == '/') {
      while (position_ < text_.size() && at() != '\n') advance();
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      advance();
    } else {
      return;
    }
  }
}

void GraphLexer::lex_quoted(GraphToken& token) {
  const auto fail = [&](const char* message) {
    token.kind = GraphToken::Kind::kError;
    token.text = message;
    position_ = text_.size();
  };
  token.kind = GraphToken::Kind::kName;
  token.quoted = true;
  advance();
  while (position_ < text_.size() && at() != '"') {
    if (at() == '\n') return fail("a quoted name ends with its line");
    if (at() != '\\') {
      token.text += at();
      advance();
    } else if (at(1) == '"' || at(1) == '\\') {
      token.text += at(1);
      advance();
      advance();
    } else if (at(1) == 'x' && hex_digit(at(2)) >= 0 && hex_digit(at(3)) >= 0) {
      token.text += static_cast<char>(hex_digit(at(2)) * 16 + hex_digit(at(3)));
      for (int i = 0; i < 4; ++i) advance();
    } else {
      return fail("an escape in a quoted name is \\\", \\\\ or \\xHH");
    }
  }
  if (position_ == text_.size()) return fail("a quoted name does not end");
  advance();
}

GraphToken GraphLexer::lex() {
  skip_space();
  GraphToken token;
  token.line = line_;
  token.column = column_;
  if (position_ == text_.size()) return token;
  const char c = at();
  const auto take_while = [&](auto&& continues) {
    do {
      token.text += at();
      advance();
    } while (position_ < text_.size() && continues(at()));
  };
  if (is_letter(c)) {
    token.kind = GraphToken::Kind::kName;
    take_while(continues_name);
  } else if (c == '"') {
    lex_quoted(token);
  } else if (is_digit(c) || (c == '-' && at(1) != '>')) {
    token.kind = GraphToken::Kind::kNumber;
    take_while([&](char next) {
      const bool signs_exponent = (next == '+' || next == '-') && token.text.back() == 'e';
      return continues_number(next) || signs_exponent;
    });
  } else if (c == '#') {
    // `#` and the digits of a hash are one token, or a hash that starts with a digit would be a
    // number.
    token.kind = GraphToken::Kind::kPunctuation;
    take_while([](char next) { return hex_digit(next) >= 0; });
  } else if (c == '-' || std::string_view("(){}[],:=@").find(c) != std::string_view::npos) {
    token.kind = GraphToken::Kind::kPunctuation;
    for (int i = 0; i < (c == '-' ? 2 : 1); ++i) {
      token.text += at();
      advance();
    }
  } else {
    token.kind = GraphToken::Kind::kError;
    token.text = "a character that means nothing here";
    position_ = text_.size();
  }
  return token;
}

}  // namespace weft
