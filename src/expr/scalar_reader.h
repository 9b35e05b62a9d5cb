#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "expr/scalar_expr.h"
#include "expr/text_cursor.h"

namespace weft {

/// Reads scalar expressions as print writes them; what names mean belongs to the caller. Types are
/// checked. Errors carry the position.
class ScalarReader {
 public:
  struct Symbol {
    int id = -1;
    DType type = DType::kF32;
    size_t rank = 0;
  };
  struct Names {
    /// The id of an index variable; nullopt if the word is none.
    std::function<std::optional<int>(std::string_view word)> var;
    std::function<std::optional<Symbol>(const std::string& name)> symbol;
  };
  ScalarReader(TextCursor& cursor, const Names& names) : cursor_(cursor), names_(names) {}

  Result<ScalarRef> read() { return select(0); }

 private:
  using Read = Result<ScalarRef>;
  Read select(int depth);
  Read binary(int binding, int depth);
  Read atom(int depth);
  Read constant(DType type);
  Read typed(DType type, int depth);
  Read call(const std::string& name, int depth);
  Read tensor_read(const std::string& name, int depth);
  Result<IndexExpr> index(std::vector<ScalarRef>* runtime, int depth);
  Read apply(ScalarOp op, std::vector<ScalarRef> operands, std::optional<DType> type = {});

  TextCursor& cursor_;
  const Names& names_;
};

}  // namespace weft
