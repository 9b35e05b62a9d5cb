#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/scalar_op.h"
#include "index/index_expr.h"

namespace weft {

/// One node of a scalar expression tree: what one element of a tensor (or of a tile) is. Immutable
/// and shared; the type is that of the value. Tensor expressions and tile programs are made of the
/// same nodes; only the meaning of `symbol` (a tensor, a tile value) and of the index variables
/// belongs to the owner.
struct Scalar;
using ScalarRef = std::shared_ptr<const Scalar>;

struct Scalar {
  enum class Kind : uint8_t {
    kConstant,  ///< `value`
    kIndex,  ///< the integer `index` in type (i64 unless converted); with it predicates and iotas
             ///< are made
    kRead,   ///< symbol[indices]
    kApply,  ///< op(operands)
  };
  Kind kind = Kind::kConstant;
  DType type = DType::kF32;

  ScalarValue value;
  IndexExpr index;

  ScalarOp op = ScalarOp::kAdd;
  std::vector<ScalarRef>
      operands;  ///< kApply: the arguments.  kRead: the runtime indices, see below

  int symbol = -1;
  /// One per axis. Variable ids below kRuntimeIndexBase are the owner's loop variables;
  /// kRuntimeIndexBase + i stands for the integer value of operands[i], which is clamped into the
  /// axis (a gather).
  std::vector<IndexExpr> indices;
  /// kRead: if present, what lies outside the tensor's extents; otherwise the read must be provably
  /// inside, or stand in a branch of a select that is only taken inside (select evaluates one
  /// branch).
  ScalarRef fill;
  /// kRead of a carried value: its next value (`m'`). Tile programs only.
  bool next = false;
};

inline constexpr int kRuntimeIndexBase = 1 << 20;

/// Checked construction; they fold constants and trivial selects.
ScalarRef scalar_constant(ScalarValue value);
ScalarRef scalar_index(IndexExpr index, DType type = DType::kI64);
ScalarRef scalar_read(int symbol, DType type, std::vector<IndexExpr> indices,
                      std::vector<ScalarRef> runtime_indices = {}, ScalarRef fill = nullptr);
ScalarRef scalar_apply(ScalarOp op, std::vector<ScalarRef> operands, DType result_type);
ScalarRef scalar_convert(const ScalarRef& operand, DType to);
/// An index whose variables above kRuntimeIndexBase stand for `operands`, as integer arithmetic
/// (i64). The expression must not become negative where it is divided; nullptr where `range` does
/// not prove that.
ScalarRef scalar_of_index(const IndexExpr& index, const std::vector<ScalarRef>& operands,
                          const RangeOf& range);
/// 0 <= index < extent as a bool scalar, without the halves that `range` proves.
ScalarRef scalar_in_range(const IndexExpr& index, int64_t extent, const RangeOf& range);

/// "" if the operation takes these operands and gives `result_type`; else what does not fit.
std::string operation_mismatch(ScalarOp op, const std::vector<ScalarRef>& operands,
                               DType result_type);

bool equal(const ScalarRef& a, const ScalarRef& b);  ///< structural
size_t hash(const ScalarRef& s);
int64_t operation_count(const ScalarRef& s);  ///< kApply nodes, each distinct node once

/// Rebuilds the tree bottom-up: index variables through `index_of` (empty: they stay), reads
/// through `read_of` (given the read with its operands, fill and indices already rewritten; returns
/// what stands in its place). Shared nodes are rewritten once.
ScalarRef rewrite(const ScalarRef& s, const std::function<IndexExpr(int var)>& index_of,
                  const std::function<ScalarRef(const ScalarRef& read)>& read_of = {});

/// Calls `visit` on each distinct node, operands before users.
void visit(const ScalarRef& s, const std::function<void(const Scalar&)>& visit);

struct ScalarNames {
  std::function<std::string(int var)> var;
  std::function<std::string(int symbol)> symbol;
};
/// `max(x[d0, d1], 0.0)`, `exp(x[d0] - m[])`; + - * / and comparisons infix, everything else as
/// calls, select as `c ? a : b`, fill as `x[d0 + -1] fill 0.0`, runtime indices as nested reads in
/// the subscript. Literals carry their type unless f32.
std::string print(const ScalarRef& s, const ScalarNames& names);

}  // namespace weft
