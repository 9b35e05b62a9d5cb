#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tile/tile_structure.h"

namespace weft {

/// The integer points that loop origins, offsets and axes take together, under predicates: what a
/// statement's reads and writes are counted with. Variables that no predicate joins are counted
/// apart and multiplied, so that only small sets are enumerated:
///     grid i in 4096 step 64, j: 1024   ->  64 * 64 points of (origin, offset), times 1024
///
/// Requires bound sizes.
class PointSet {
 public:
  using Point = std::span<const int64_t>;  ///< the value of each variable of the program
  static constexpr int64_t kMostPoints = int64_t{1} << 22;
  static constexpr int64_t kMostTuples = int64_t{1} << 18;  ///< that are kept

  /// The variables, those that the bounds of their loops depend on, and the bounds themselves.
  /// `free` offsets run over their whole step: a carry's box, outside of its loop.
  PointSet(const TileStructure& structure, const std::set<TileVarId>& vars,
           const std::set<TileVarId>& free = {});

  void add_bounds(const IndexExpr& e, Interval range);
  /// The index comparisons of a guard, each on its own, so that what only a conjunction joins stays
  /// apart; what depends on data is taken to hold.
  void add_guard(const Guard& guard);

  /// The number of points without any predicate: a bound from above.
  int64_t bound() const;
  /// Distinct values that the `shown` variables take; the others only have to exist. -1: more
  /// points to enumerate than `most`.
  int64_t count(const std::set<TileVarId>& shown, int64_t most = kMostPoints) const;

  /// Groups of index expressions that share variables, each with the distinct tuples that they take
  /// together: the image is the product of the groups.
  struct Image {
    std::vector<size_t> axes;
    /// Of one axis: all integers from lo to hi; empty where the tuples are listed.
    Interval dense{0, -1};
    std::vector<std::vector<int64_t>> tuples;  ///< ascending, each once

    int64_t size() const {
      return dense.empty() ? static_cast<int64_t>(tuples.size()) : dense.hi - dense.lo + 1;
    }
    friend bool operator==(const Image&, const Image&) = default;
  };
  /// False: more points to enumerate than `most`.
  bool images(const std::vector<IndexExpr>& indices, std::vector<Image>* out,
              int64_t most = kMostTuples) const;
  /// Elements of the product of groups, and a call with each element's row-major offset within
  /// `shape` from `base`.
  static int64_t size(const std::vector<Image>& images);
  static void for_each_offset(const std::vector<Image>& images, const Shape& shape,
                              const std::vector<int64_t>& base,
                              const std::function<void(int64_t)>& visit_offset);

 private:
  struct Predicate {
    std::vector<TileVarId> vars;
    std::function<bool(Point)> holds;
    TileVarId bounds = -1;  ///< whose loop's bounds it is; -1: a guard's or a tensor's
  };
  /// How the values of a variable are gone through: from `first` to before `end`.
  struct Walk {
    TileVarId var = -1;
    Interval range;
    int64_t step = 1;
    const TileLoop::Dim* dim = nullptr;  ///< whose bounds say where it begins and ends; else range
  };

  void add(TileVarId var);
  void add_predicate(const std::set<TileVarId>& vars, std::function<bool(Point)> holds,
                     TileVarId bounds = -1);
  void add_constraint(const IndexExpr& e, Interval range, bool excluded);
  void add_loop_bounds(TileVarId var, const TileLoop::Dim& dim);
  std::vector<std::vector<TileVarId>> parts(const std::vector<std::set<TileVarId>>& joined) const;
  /// Calls `visit_point` with `env_` at every point of `part`; predicates that hang on `left_out`
  /// are not asked.
  bool enumerate(const std::vector<TileVarId>& part, const std::vector<TileVarId>& left_out,
                 int64_t limit, const std::function<void()>& visit_point) const;
  std::vector<Walk> walks(const std::vector<TileVarId>& part) const;
  bool is_bounded(TileVarId var) const;
  bool only_tail(TileVarId var) const;
  bool is_free(TileVarId var) const;
  std::optional<int64_t> points_of_loop(const std::vector<TileVarId>& part) const;
  std::optional<std::pair<int64_t, int64_t>> run_of(const TileLoop::Dim& dim) const;
  Interval dense_image(const IndexExpr& e, const std::vector<TileVarId>& part) const;
  int64_t step(TileVarId var) const;

  const TileStructure& structure_;
  std::vector<TileVarId> vars_;
  std::vector<Predicate> predicates_;
  std::map<TileVarId, size_t> tails_;  ///< offset → its tail's predicate
  mutable std::vector<int64_t> env_;   ///< by variable: the point in hand
};

}  // namespace weft
