#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/dtype.h"
#include "support/result.h"
#include "tile/tile_program.h"

namespace weft {

/// An expression of the tile language as written, before names and types are known.
struct SyntaxExpr;
using SyntaxRef = std::shared_ptr<const SyntaxExpr>;

struct SyntaxExpr {
  enum class Kind : uint8_t {
    kInteger,  ///< `3`
    kReal,     ///< `0.5`, `inf`
    kBool,     ///< `true`
    kName,     ///< `X`, `X[i, j]`, `acc'[m]`, an index variable
    kOffset,   ///< `.i`
    kCall,     ///< name(arguments); operators are calls of "+", "<", "?", …
  };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  double real = 0;
  std::optional<DType> type;  ///< of a literal that states it
  std::string_view name;
  bool next = false;
  bool has_indices = false;
  std::vector<SyntaxRef> arguments;  ///< of a call; indices of a name
  SyntaxRef fill;
  int depth = 1;  ///< of the tree below
  int line = 1, column = 1;
};

class TileTokens;

/// The expression at hand; after an error, which the tokens keep, any expression.
SyntaxRef parse_expression(TileTokens& tokens);

/// What the names mean where an expression stands.
class NameScope {
 public:
  virtual ~NameScope() = default;
  struct Meaning {
    enum class Kind : uint8_t { kUnknown, kIndex, kSymbol };
    Kind kind = Kind::kUnknown;
    IndexExpr index;             ///< kIndex: origin + offset of a loop, an axis, a size
    TileVarId offset = -1;       ///< kIndex of a loop with a step: `.i`
    TileSymbolId symbol = -1;    ///< kSymbol
    bool declares_size = false;  ///< kUnknown, in a place that brings size symbols into being
  };
  virtual Meaning lookup(std::string_view name) = 0;
  virtual const TileProgram& program() const = 0;
};

/// Element type by the rule for literals: an integer or real literal without a type takes the type
/// of the operand beside it, `expected` where there is none, f32 where nothing is expected. `gelu`,
/// `swish`, `relu` and `f` (tanh) are written out as primitive operations. Arithmetic of index
/// variables and integer literals alone is one index expression. Errors: "line:column: …".
Result<ScalarRef> elaborate_scalar(const SyntaxRef& syntax, std::optional<DType> expected,
                                   NameScope& names);

/// An index: variables, integers, + - * / % min max (/ rounds down), and reads and `i64(…)`, which
/// become runtime indices appended to `runtime` (no reads are allowed where it is null).
Result<IndexExpr> elaborate_index(const SyntaxRef& syntax, NameScope& names,
                                  std::vector<ScalarRef>* runtime);

}  // namespace weft
