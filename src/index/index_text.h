#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "index/index_expr.h"
#include "support/result.h"

namespace weft {

/// Reads index expressions out of a text, one at a time; for parsers of larger languages, which
/// move `position` themselves.
///     sum = product {("+"|"-") product}    product = atom {("*"|"floordiv"|"mod") atom}
///     atom = integer | "-" atom | "(" sum ")" | ("min"|"max") "(" sum "," sum ")" | leaf
class IndexTextReader {
 public:
  /// `leaf` is called where an atom is none of the above, with the position at its first character;
  /// it moves the position behind what it took.
  using Leaf = std::function<Result<IndexExpr>(IndexTextReader&)>;
  IndexTextReader(std::string_view text, size_t at, Leaf leaf)
      : position(at), text_(text), leaf_(std::move(leaf)) {}

  /// `depth` levels of nesting are already taken by what surrounds the expression.
  Result<IndexExpr> read(int depth = 0);

  size_t position;

  /// The character after spaces, '\0' at the end.
  char peek();
  /// Takes `token` if it comes next; one of letters only where it ends.
  bool take(std::string_view token);
  /// Letters, digits and '_'; empty if none comes next.
  std::string_view take_word();
  std::optional<int64_t> take_integer();
  Error error(std::string_view what) const;  ///< "character 12: …"
  std::string_view text() const { return text_; }

 private:
  Result<IndexExpr> sum(int depth);
  Result<IndexExpr> product(int depth);
  Result<IndexExpr> atom(int depth);
  Status expect_small(const IndexExpr& a, const IndexExpr& b, bool multiplies) const;

  std::string_view text_;
  Leaf leaf_;
};

}  // namespace weft
