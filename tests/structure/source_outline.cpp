#include "tests/structure/source_outline.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace weft {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Where the literal or comment that begins at `at` ends; `at` itself if none does.
size_t end_of_opaque(std::string_view text, size_t at) {
  const auto after = [&](std::string_view end, size_t from) {
    const size_t found = text.find(end, from);
    return found == std::string_view::npos ? text.size() : found + end.size();
  };
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) return after("*/", at + 2);
  if (rest.starts_with("R\"") && (at == 0 || !is_word(text[at - 1]))) {
    const size_t open = text.find('(', at);
    return after(")" + std::string(text.substr(at + 2, open - at - 2)) + "\"", open);
  }
  const bool separator = rest.starts_with('\'') && at > 0 && is_word(text[at - 1]);  // 1'000
  if (separator || (rest[0] != '"' && rest[0] != '\'')) return at;
  size_t end = at + 1;
  while (end < text.size() && text[end] != rest[0]) end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

/// Where the preprocessor line ends that begins at `at`, its continuations included.
size_t end_of_directive(std::string_view text, size_t at) {
  size_t end = text.find('\n', at);
  while (end != std::string_view::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
  return std::min(end, text.size());
}

/// The text with literals, comments and preprocessor lines blank, its lines where they were.
std::string without_opaque(std::string_view text) {
  std::string out(text);
  bool line_is_empty = true;
  for (size_t at = 0; at < text.size();) {
    const bool directive = line_is_empty && text[at] == '#';
    const size_t end = directive ? end_of_directive(text, at) : end_of_opaque(text, at);
    line_is_empty = text[at] == '\n' || (line_is_empty && text[at] == ' ');
    for (size_t i = at; i < end; ++i) out[i] = text[i] == '\n' ? '\n' : ' ';
    at = std::max(end, at + 1);
  }
  return out;
}

/// Without access specifiers and `template <...>`, which say nothing about what follows.
std::string_view without_prefix(std::string_view head) {
  const auto skip_spaces = [&] {
    head.remove_prefix(std::min(head.find_first_not_of(" \n"), head.size()));
  };
  skip_spaces();
  for (const std::string_view access : {"public:", "private:", "protected:"}) {
    if (head.starts_with(access)) head.remove_prefix(access.size());
    skip_spaces();
  }
  while (head.starts_with("template")) {
    size_t at = head.find('<');
    for (int depth = 0; at < head.size(); ++at) {
      depth += head[at] == '<' ? 1 : head[at] == '>' ? -1 : 0;
      if (depth == 0) break;
    }
    head.remove_prefix(std::min(at + 1, head.size()));
    skip_spaces();
  }
  return head;
}

/// What stands before a brace or semicolon outside of functions.
enum class Head : uint8_t {
  kNamespace,
  kClass,
  kEnum,
  kAlias,
  kFunction,
  kMemberInitializer,
  kOther
};

struct ReadHead {
  Head kind = Head::kOther;
  std::string name;
};

ReadHead read_head(std::string_view full) {
  using Match = std::match_results<std::string_view::const_iterator>;
  static const std::regex kNamespace(R"(^(?:inline\s+)?namespace\b\s*([\w:]*)\s*$)");
  static const std::regex kType(
      R"(^(struct|class|union|enum)\b(?:\s+(?:class|struct)\b)?(?:\s*\[\[[^\]]*\]\]|\s+alignas\s*\([^)]*\))*\s*(\w[\w:]*)?\s*(<)?)");
  static const std::regex kAlias(R"(^using\s+(\w+)\s*=)");
  // Behind the parameters a colon begins the initializers of members.
  static const std::regex kInitializer(R"(\)[\s\w]*[^:]:(?!:)[\s\S]*[\w>]\s*$)");
  static const std::regex kVariable(R"(^[^(]*[^=!<>(]=[^=])");
  const std::string_view head = without_prefix(full);
  const auto matches = [&](Match& match, const std::regex& pattern) {
    return std::regex_search(head.begin(), head.end(), match, pattern);
  };
  Match match;
  if (matches(match, kNamespace)) return {Head::kNamespace, match[1]};
  if (head.starts_with("extern") && head.find('(') == std::string_view::npos) {
    return {Head::kNamespace, "extern"};
  }
  if (matches(match, kType)) {
    const bool specialized = match[3].matched;
    return {match[1] == "enum" ? Head::kEnum : Head::kClass, specialized ? "" : match[2].str()};
  }
  if (matches(match, kAlias)) return {Head::kAlias, match[1]};
  const bool is_operator = head.find("operator") != std::string_view::npos;
  if (head.find('(') == std::string_view::npos) return {};
  if (!is_operator && matches(match, kVariable)) return {};
  if (matches(match, kInitializer)) return {Head::kMemberInitializer, ""};
  return {Head::kFunction, ""};
}

class Outliner {
 public:
  explicit Outliner(std::string_view source) : text_(without_opaque(source)) {}

  SourceOutline run() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      parentheses_ += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (parentheses_ > 0) continue;
      if (c == '{') open_brace();
      if (c == '}') close_brace();
      if (c == ';') end_of_declaration();
    }
    return std::move(outline_);
  }

 private:
  /// A namespace or a class.
  struct Scope {
    std::string name;  ///< with all around it and a trailing "::"
    bool nameable = true;
  };

  std::string_view head() const {
    return std::string_view(text_).substr(head_begin_, at_ - head_begin_);
  }
  int line_of(size_t at) const {
    return 1 +
           static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<long>(at), '\n'));
  }
  int first_line_of_head() const {
    return line_of(static_cast<size_t>(without_prefix(head()).data() - text_.data()));
  }
  void begin_head() { head_begin_ = at_ + 1; }

  void add_type(const std::string& name) {
    if (scopes_.back().nameable && !name.empty()) {
      outline_.types.push_back({scopes_.back().name + name, first_line_of_head()});
    }
  }

  /// To the brace that closes the one at `at_`.
  void skip_braces() {
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      depth += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      if (depth == 0) return;
    }
  }

  void open_brace() {
    const ReadHead read = read_head(head());
    const Scope& around = scopes_.back();
    switch (read.kind) {
      case Head::kNamespace: {
        const bool transparent = read.name == "extern";
        scopes_.push_back({transparent ? around.name : around.name + read.name + "::",
                           around.nameable && !read.name.empty()});
        return begin_head();
      }
      case Head::kClass:
        add_type(read.name);
        scopes_.push_back({around.name + read.name + "::", false});
        return begin_head();
      case Head::kEnum:
        add_type(read.name);
        break;
      case Head::kFunction: {
        const int first = first_line_of_head();
        skip_braces();
        outline_.functions.push_back({first, line_of(at_)});
        return begin_head();
      }
      case Head::kMemberInitializer:
        return skip_braces();  // the declaration goes on behind them
      case Head::kAlias:
      case Head::kOther:
        break;
    }
    skip_braces();
    begin_head();
  }

  void close_brace() {
    if (scopes_.size() > 1) scopes_.pop_back();
    begin_head();
  }

  void end_of_declaration() {
    if (without_prefix(head()).starts_with("using")) {
      const ReadHead read = read_head(head());
      if (read.kind == Head::kAlias) add_type(read.name);
    }
    begin_head();
  }

  const std::string text_;
  size_t at_ = 0;
  size_t head_begin_ = 0;
  int parentheses_ = 0;
  std::vector<Scope> scopes_ = {{"", true}};
  SourceOutline outline_;
};

}  // namespace

SourceOutline outline_source(std::string_view text) { return Outliner(text).run(); }

}  // namespace weft
