#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// A condition under which a read happens: a branch of a select, or an enclosing `if`.
struct Guard {
  const Scalar* condition = nullptr;
  bool holds = true;
  friend bool operator==(const Guard&, const Guard&) = default;
  friend auto operator<=>(const Guard&, const Guard&) = default;
};

/// A place in the program where scalars are evaluated.
struct Site {
  enum class Kind : uint8_t { kStatement, kCarry, kCondition };
  Kind kind = Kind::kStatement;
  const TileStatement* statement = nullptr;
  const TileLoop* loop = nullptr;  ///< kCarry: whose initial value is made, outside of it
  const TileCarry* carry = nullptr;
  ScalarRef value;  ///< what is evaluated
  /// Child indices from the program's body to the node (a carry's: to its loop); a pack adds the
  /// member's number.
  std::vector<int32_t> path;
  std::vector<const TileLoop*> loops;  ///< around the site, outermost first
  std::vector<Guard> guards;           ///< enclosing `if`s
  int32_t pack_member = -1;  ///< program-wide number of the pack member around it, -1 outside
};

struct ReadSite {
  int32_t site = -1;
  const Scalar* read = nullptr;
  std::vector<Guard> guards;  ///< sorted; the site's and those of the selects around the read
  /// Another read of the site is the same with the same guards: it is one request.
  bool repeated = false;
};

/// The program as flat lists, and what follows from its nesting alone.
struct TileStructure {
  const TileProgram* program = nullptr;
  std::vector<Site> sites;  ///< in the order of the text; a loop's carries before its body
  std::vector<ReadSite> reads;
  std::vector<int32_t>
      definition;  ///< by symbol: site of the value's statement or of the carry; -1
  std::vector<std::vector<int32_t>>
      updates;  ///< by symbol: sites that assign a carry's next value, or store an output
  std::map<const TileLoop*, std::vector<int32_t>> loop_path;
  std::map<const TileLoop*, std::pair<int32_t, int32_t>>
      loop_sites;  ///< first and one past the last site inside
  std::map<TileVarId, std::pair<const TileLoop*, int32_t>>
      dim_of;                        ///< origin or offset → loop and dimension
  std::vector<int64_t> pack_shares;  ///< by pack member
  std::vector<Interval> ranges;      ///< by variable; tight for loops whose bounds are

  RangeOf range() const;
  /// The same, but no origin that has an offset counts as constant: simplifying with it keeps
  /// origin + offset together, whose sum ends where the loop does.
  RangeOf range_of_pairs() const;
  const TileLoop::Dim& dim(TileVarId var) const;
  /// Reads of a symbol.
  std::vector<const ReadSite*> reads_of(TileSymbolId symbol) const;
  /// Loops around both.
  static std::vector<const TileLoop*> common(const std::vector<const TileLoop*>& a,
                                             const std::vector<const TileLoop*>& b);
};

TileStructure structure_of(const TileProgram& program);

/// Offset and axis variables of an index, or of a tree; runtime indices' own variables are included
/// by the second.
void add_box_variables(const TileProgram& program, const IndexExpr& e, std::set<TileVarId>* vars);
void add_box_variables(const TileProgram& program, const ScalarRef& s, std::set<TileVarId>* vars);
/// All of a statement's box: targets, value, reduced axes. Ascending.
std::vector<TileVarId> box_of(const TileProgram& program, const TileStatement& statement);

/// lo <= e <= hi, or e != lo.
struct Constraint {
  IndexExpr e;
  Interval range;
  bool excluded = false;
};
/// What holds of an index that `bound`, with one quotient x floordiv q + rest, lies at or below
/// (`begins`) or above, without the quotient: of q * (index - rest) - x. None for other bounds.
std::optional<Constraint> without_quotient(const IndexExpr& index, const IndexExpr& bound,
                                           bool begins);

/// The comparisons of index expressions that follow from the guards; others are left out.
/// `complete` becomes false when something was left out.
std::vector<Constraint> constraints_of(const std::vector<Guard>& guards, bool* complete = nullptr);

/// Bounds of index expressions where constraints hold, which narrow single variables, and
/// expressions that differ from them by a constant. The structure stays where it is.
class IndexBounds {
 public:
  explicit IndexBounds(const TileStructure& structure, std::vector<Constraint> constraints = {});
  IndexBounds(const IndexBounds&) = delete;
  IndexBounds& operator=(const IndexBounds&) = delete;

  const TileStructure& structure() const { return *structure_; }
  Interval of(const IndexExpr& e) const;

  /// A constraint whose expression is affine and not constant.
  struct Sum {
    AffineForm form;
    Interval range;
  };

 private:
  /// `e`, simplified, less `times` constraint `c`, where that is constant; `form`: where `e` is
  /// affine.
  std::optional<int64_t> constant_less(const IndexExpr& e, const std::optional<AffineForm>& form,
                                       size_t c, int64_t times) const;

  const TileStructure* structure_;
  const RangeOf plain_;
  const RangeOf narrowed_;  ///< what the constraints leave of the variables' own ranges
  const std::vector<Constraint> constraints_;
  std::map<int, Interval> ranges_;                ///< of variables that are narrowed
  bool impossible_ = false;                       ///< one of them has no value
  std::vector<std::optional<AffineForm>> forms_;  ///< by constraint, where it is affine
  std::vector<Sum> affine_;
};

/// An index taken apart: `outer`, over the origins of `outside` loops and sizes, plus what ranges
/// over `inner`.
struct Coordinate {
  IndexExpr outer = 0;
  IndexExpr rest = 0;
  Interval inner{0, 0};
  bool separable = true;  ///< else outer is 0 and inner bounds the whole index
  bool dynamic = false;   ///< has a runtime index
};
/// `fixed(var)`: whether an origin's value is the same for both sides that are compared.
Coordinate coordinate_of(const IndexExpr& e, const IndexBounds& bounds,
                         const std::function<bool(TileVarId)>& fixed);

}  // namespace weft
