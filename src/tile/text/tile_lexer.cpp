#include "tile/text/tile_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "fmt/format.h"
#include "graph/scalar_op.h"

namespace weft {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool continues_name(char c) { return starts_name(c) || is_digit(c); }

// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 32> kSymbols = {
    "max=", "min=", "+=", "..", "&&", "||", "<=", ">=", "==", "!=", "{", "}", "[", "]", "(", ")",
    ",",    ":",    ";",  "=",  "<",  ">",  "+",  "-",  "*",  "/",  "%", "?", "!", "@", ".", "'"};

constexpr std::array<std::string_view, 40> kWords = {
    "kernel", "out",     "layout",   "blocks", "warps", "per_sm",  "cpu",     "gpu",
    "grid",   "cluster", "seq",      "in",     "step",  "unroll",  "stages",  "carry",
    "if",     "pack",    "share",    "by",     "at",    "fill",    "size",    "true",
    "false",  "inf",     "nan",      "sum",    "prod",  "argmax",  "welford", "gelu",
    "swish",  "relu",    "register", "warp",   "block", "scratch", "view",    "workspace"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<TileToken>> run() {
    std::vector<TileToken> tokens;
    while (true) {
      skip_space();
      TileToken token;
      token.line = line_;
      token.column = static_cast<int>(at_ - line_start_) + 1;
      if (at_ >= text_.size()) {
        tokens.push_back(token);
        return tokens;
      }
      WEFT_RETURN_IF_ERROR(read(token));
      tokens.push_back(token);
    }
  }

 private:
  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (text_.substr(at_, 2) == "--") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  Status read(TileToken& token) {
    const char c = text_[at_];
    if (is_digit(c)) return read_number(token);
    // `max=` and `min=` are operators; `max =` would be a name.
    const std::string_view rest = text_.substr(at_);
    const bool scatter =
        (rest.starts_with("max=") || rest.starts_with("min=")) && !rest.substr(4).starts_with("=");
    if (starts_name(c) && !scatter) {
      size_t end = at_;
      while (end < text_.size() && continues_name(text_[end])) ++end;
      token.kind = TileToken::Kind::kName;
      token.text = text_.substr(at_, end - at_);
      at_ = end;
      if (token.text == "inf" || token.text == "nan") {
        token.kind = TileToken::Kind::kReal;
        token.real = token.text == "inf" ? kInfinity : kNan;
        read_type(token);
      }
      return {};
    }
    for (const std::string_view symbol : kSymbols) {
      if (rest.starts_with(symbol)) {
        token.kind = TileToken::Kind::kSymbol;
        token.text = rest.substr(0, symbol.size());
        at_ += symbol.size();
        return {};
      }
    }
    return error(token, "a character that the language does not have");
  }

  Status read_number(TileToken& token) {
    size_t end = at_;
    bool real = false;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    // `0..n` is a range, `0.5` a number.
    if (end < text_.size() && text_[end] == '.' && text_.substr(end, 2) != "..") {
      real = true;
      ++end;
      while (end < text_.size() && is_digit(text_[end])) ++end;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '-' || text_[exponent] == '+')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        real = true;
        end = exponent;
        while (end < text_.size() && is_digit(text_[end])) ++end;
      }
    }
    token.text = text_.substr(at_, end - at_);
    const char* const first = token.text.data();
    const char* const last = first + token.text.size();
    if (real) {
      token.kind = TileToken::Kind::kReal;
      // Overflow is infinity, underflow zero, as in C.
      if (std::from_chars(first, last, token.real).ec == std::errc::invalid_argument) {
        return error(token, "not a number");
      }
    } else {
      token.kind = TileToken::Kind::kInteger;
      if (std::from_chars(first, last, token.integer).ec != std::errc{}) {
        return error(token, "an integer beyond 64 bits");
      }
      token.real = static_cast<double>(token.integer);
    }
    at_ = end;
    if (at_ < text_.size() && continues_name(text_[at_])) return error(token, "not a number");
    read_type(token);
    return {};
  }

  void read_type(TileToken& token) {
    if (at_ + 1 >= text_.size() || text_[at_] != ':' || !starts_name(text_[at_ + 1])) return;
    size_t end = at_ + 1;
    while (end < text_.size() && continues_name(text_[end])) ++end;
    if (const auto type = parse_dtype(text_.substr(at_ + 1, end - at_ - 1))) {
      token.typed = true;
      token.type = *type;
      at_ = end;
    }
  }

  static Status error(const TileToken& token, std::string_view what) {
    return invalid_input(fmt::format("{}:{}: {}", token.line, token.column, what));
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<TileToken>> tokenize_tile_program(std::string_view text) {
  return Lexer(text).run();
}

TileToken TileTokens::take() {
  const TileToken token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TileTokens::accept(std::string_view text) {
  if (failed() || !peek().is(text)) return false;
  take();
  return true;
}

void TileTokens::expect(std::string_view text) {
  if (failed() || accept(text)) return;
  fail(peek(), fmt::format("expected `{}`, found {}", text, shown(peek())));
}

std::string_view TileTokens::expect_name(std::string_view what) {
  if (failed()) return {};
  if (is_name(peek())) return take().text;
  if (peek().kind == TileToken::Kind::kName) {
    fail(peek(), fmt::format("`{}` is a word of the language, not a name", peek().text));
  } else {
    fail(peek(), fmt::format("expected {}, found {}", what, shown(peek())));
  }
  return {};
}

int64_t TileTokens::expect_positive(std::string_view what) {
  if (failed()) return 1;
  if (peek().kind == TileToken::Kind::kInteger && peek().integer > 0 &&
      peek().integer <= (int64_t{1} << 40)) {
    return take().integer;
  }
  fail(peek(), fmt::format("expected {}, a positive integer, found {}", what, shown(peek())));
  return 1;
}

DType TileTokens::expect_type() {
  if (failed()) return DType::kF32;
  if (peek().kind == TileToken::Kind::kName) {
    if (const auto type = parse_dtype(peek().text)) {
      take();
      return *type;
    }
  }
  fail(peek(), fmt::format("expected an element type, found {}", shown(peek())));
  return DType::kF32;
}

void TileTokens::fail(const TileToken& at, std::string_view what) {
  if (!failed()) error_ = invalid_input(fmt::format("{}:{}: {}", at.line, at.column, what));
  at_ = tokens_.size() - 1;
}

void TileTokens::fail(Error error) {
  if (!failed()) error_ = std::move(error);
  at_ = tokens_.size() - 1;
}

bool TileTokens::is_name(const TileToken& token) {
  return token.kind == TileToken::Kind::kName && !is_reserved_tile_word(token.text);
}

std::string TileTokens::shown(const TileToken& token) {
  switch (token.kind) {
    case TileToken::Kind::kEnd:
      return "the end of the text";
    case TileToken::Kind::kReal:
      return token.text.empty() ? "a number" : fmt::format("`{}`", token.text);
    default:
      return fmt::format("`{}`", token.text);
  }
}

bool is_reserved_tile_word(std::string_view word) {
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end() ||
         parse_scalar_op(word).has_value() || parse_dtype(word).has_value();
}

std::string tile_identifier(std::string_view name) {
  std::string result;
  for (const char c : name) result += continues_name(c) ? c : '_';
  if (result.empty() || !starts_name(result[0])) result.insert(0, 1, '_');
  if (is_reserved_tile_word(result)) result += '_';
  return result;
}

}  // namespace weft
