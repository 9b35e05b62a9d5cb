#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/layout.h"
#include "expr/scalar_expr.h"
#include "support/result.h"

namespace weft {

/// One kernel as loops around statements that make tiles. See docs/tile_program.md for the
/// language; the comments here say how its parts are held.
///
/// Integer variables (TileVar) are what index expressions range over. A loop `i` of step s owns
/// two: its origin (begin, begin+s, …) and, if s > 1, its offset (0..s-1); the text's `i` is origin
/// + offset, `.i` is the offset, `i-.i` the origin. A declared axis `j: 1024` and a size symbol `M`
/// are one variable each.
using TileVarId = int32_t;
using TileSymbolId = int32_t;

struct TileVar {
  enum class Kind : uint8_t { kOrigin, kOffset, kAxis, kSize };
  std::string name;  ///< the loop's, axis's or symbol's name
  Kind kind = Kind::kAxis;
  int64_t extent =
      0;  ///< kOffset: the loop's step; kAxis: its extent; kSize: the bound value, 0 while unbound
};

/// Who shares a value; ordered.
enum class Scope : uint8_t { kRegister, kWarp, kBlock, kCluster, kGrid };
std::string_view scope_name(Scope scope, bool cpu);  ///< on a CPU block scope is "scratch"

enum class PlaceLevel : uint8_t { kWarp, kLane, kReg, kVec };

/// Where a statement's box lies: per axis (an offset or axis variable) its digits, leftmost most
/// significant.
struct Place {
  struct Digit {
    PlaceLevel level = PlaceLevel::kReg;
    int64_t extent = 1;
    friend bool operator==(const Digit&, const Digit&) = default;
  };
  struct Axis {
    TileVarId var = -1;
    std::vector<Digit> digits;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;
  bool empty() const { return axes.empty(); }
  friend bool operator==(const Place&, const Place&) = default;
};

struct TileSymbol {
  enum class Kind : uint8_t { kInput, kOutput, kValue, kCarry };
  std::string name;
  Kind kind = Kind::kValue;
  DType type = DType::kF32;
  std::vector<IndexExpr> shape;  ///< kInput, kOutput: extents over kSize variables and constants
  Layout layout;                 ///< kInput, kOutput
  /// No parameter, but a part of this one, seen in a shape of its own: of element `at` on, in
  /// row-major order. kInput: what earlier nests have stored there, or a part of an input; kOutput:
  /// what nests store there. -1: a parameter or a workspace.
  TileSymbolId view_of = -1;
  IndexExpr at = 0;  ///< over the variable of the recurrence whose nests use the view
  /// kOutput: no parameter, but the kernel's own memory for what one nest hands another.
  bool is_workspace = false;
};

/// `X[m, n+1]` on a left side. `next`: the next value of a carry (`m'`).
struct TileRef {
  TileSymbolId symbol = -1;
  std::vector<IndexExpr> indices;
  bool next = false;
};

/// A CPU's unit: sum[k] i32(A) * i32(B) over four neighbours, A of u8 and B of i8.
inline constexpr std::string_view kByteDotUnit = "dot_u8s8";
inline constexpr int64_t kByteDotDepth = 4;

enum class AssignOp : uint8_t {
  kAssign,
  kAdd,
  kMax,
  kMin
};  ///< all but = are scatters into an output
enum class TileCombiner : uint8_t { kNone, kSum, kProd, kMin, kMax, kAnd, kOr, kArgMax, kWelford };

/// targets = [combiner over reduce_axes of] value, made over the box of the offset and axis
/// variables that occur. In `value` (and in every Scalar of a tile program) Scalar::symbol is a
/// TileSymbolId and index variables are TileVarIds; a read with `next` set names the next value of
/// a carry.
struct TileStatement {
  std::vector<TileRef>
      targets;  ///< one; argmax: value and position; welford: mean and variance (biased)
  AssignOp assign = AssignOp::kAssign;
  TileCombiner combiner = TileCombiner::kNone;
  std::vector<TileVarId> reduce_axes;
  ScalarRef value;
  std::string unit;             ///< matrix instruction, empty for none
  std::optional<DType> type;    ///< element type of the targets where it differs from the value's
  std::optional<Scope> demand;  ///< `at SCOPE`
  Place place;                  ///< empty: that of the first read, reduced axes dropped
};

struct TileNode;
using TileBody = std::vector<TileNode>;

struct TileCarry {
  TileRef target;  ///< its symbol and box
  DType type = DType::kF32;
  ScalarRef initial;
  Place place;
};

/// One loop, or several of one header (`seq kh in 3, kw in 3, c in 64 carry …`) nested in that
/// order, sharing the carries.
struct TileLoop {
  enum class Kind : uint8_t { kGrid, kCluster, kSeq };
  Kind kind = Kind::kSeq;
  struct Dim {
    TileVarId origin = -1;
    TileVarId offset = -1;  ///< -1 when step is 1
    IndexExpr begin, end;   ///< over outer variables and size symbols; end exclusive
    int64_t step = 1;
    int64_t unroll = 1;  ///< iterations written side by side; 0: all of them
  };
  std::vector<Dim> dims;
  int64_t stages = 1;
  /// Several stages: the first copies of what no nest stores stand in front of the barrier of the
  /// grid before the loop's nest (tile/analysis/loads_ahead.h).
  bool ahead = false;
  /// kSeq: each iteration is made by one block of a cluster, for all of them, before a block goes
  /// through its iterations of the grid.
  bool by_cluster = false;
  std::vector<TileCarry> carries;
  TileBody body;
};

/// A loop of the program's body whose iterations run nests, one iteration after another on all
/// blocks: the steps of a recurrence.
bool is_recurrence(const TileLoop& loop);

struct TileCondition {
  ScalarRef condition;
  TileBody body;
};

/// Bodies side by side on disjoint blocks, `share` blocks each.
struct TilePack {
  struct Member {
    int64_t share = 1;
    TileBody body;
  };
  std::vector<Member> members;
};

/// A copy shares loops, conditions and packs with the original: `cloned` before changing them in
/// place.
struct TileNode {
  enum class Kind : uint8_t { kStatement, kLoop, kCondition, kPack };
  Kind kind = Kind::kStatement;
  TileStatement statement;
  std::shared_ptr<TileLoop> loop;
  std::shared_ptr<TileCondition> condition;
  std::shared_ptr<TilePack> pack;

  static TileNode of(TileStatement s);
  static TileNode of(TileLoop l);
  static TileNode of(TileCondition c);
  static TileNode of(TilePack p);
};

/// The same nodes, none of them shared.
TileBody cloned(const TileBody& body);

/// Calls f(statement) on every statement of a body, in the order of the text.
template <typename Body, typename F>
void for_each_statement(Body& body, const F& f) {
  for (auto& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        f(node.statement);
        break;
      case TileNode::Kind::kLoop:
        for_each_statement(node.loop->body, f);
        break;
      case TileNode::Kind::kCondition:
        for_each_statement(node.condition->body, f);
        break;
      case TileNode::Kind::kPack:
        for (auto& member : node.pack->members) for_each_statement(member.body, f);
        break;
    }
  }
}

struct TileProgram {
  std::string name;
  std::vector<TileVar> vars;
  std::vector<TileSymbol> symbols;
  std::vector<TileSymbolId> parameters;  ///< in the order of the signature
  IndexExpr blocks = 1;                  ///< on a CPU the size symbol `P`: one block per thread
  int64_t warps = 1;
  int64_t per_sm = 0;  ///< 0: not stated
  /// GPU: all blocks, whose number is known, form one cluster. Barriers of the grid are then those
  /// of the cluster.
  bool one_cluster = false;
  bool cpu = true;
  TileBody body;

  TileVarId add_var(std::string name, TileVar::Kind kind, int64_t extent);
  TileSymbolId add_symbol(TileSymbol symbol);
  TileSymbolId find_symbol(std::string_view name) const;  ///< -1 if absent
  IndexExpr index_of(const TileLoop::Dim& dim) const;     ///< origin + offset
};

}  // namespace weft
