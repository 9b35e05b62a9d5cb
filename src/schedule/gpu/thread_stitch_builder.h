#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "group/join_moments.h"
#include "schedule/gpu/check_choice.h"
#include "schedule/gpu/thread_stitch.h"
#include "schedule/writer/best_positions.h"
#include "schedule/writer/moment_sums.h"
#include "schedule/writer/tile_builder.h"
#include "tile/rewrite/keep_loads.h"
#include "tile/rewrite/share_loads.h"
#include "tile/thread_tile.h"

namespace weft {

/// Whether a loop stands at `begin`.
inline ScalarRef at_origin(TileVarId origin, const IndexExpr& begin) {
  return scalar_apply(ScalarOp::kEq, {scalar_index(IndexExpr::var(origin)), scalar_index(begin)},
                      DType::kBool);
}

/// Writes the tile program of a layout: rows in registers and what blocks do with their parts
/// (thread_stitch.cpp), or one sweep for each level of reductions (thread_sweeps.cpp).
class ThreadStitch {
 public:
  ThreadStitch(const GroupSpace& space, const JoinedGroup& joined, const RowsChoice& choice,
               const std::string& name)
      : space_(space),
        joined_(joined),
        axes_(joined.axes),
        layout_(choice),
        b_(space, name),
        count_(space.size()),
        digits_(choice.digits) {}

  ScheduledKernel build();

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool is_unused(int p) const { return joined_.unused.count(p) != 0; }
  bool reduces(int p) const { return space_.reduces(p); }
  double row_terms() const {
    double terms = 1;
    for (const int a : layout_.row) terms *= static_cast<double>(extent(a));
    return terms;
  }
  /// Of the part of the split axis that begins there.
  IndexExpr length_of_part(const IndexExpr& begin) const {
    if (extent(layout_.split) % layout_.part == 0) return layout_.part;
    return min(begin + layout_.part, IndexExpr(extent(layout_.split))) - begin;
  }
  bool is_row_axis(int a) const {
    return std::find(layout_.row.begin(), layout_.row.end(), a) != layout_.row.end();
  }
  const std::vector<Place::Digit>& digits_of(int a) const { return digits_along(digits_, a); }
  bool is_row_value(int p) const {
    const auto& own = axes_.axis_of[static_cast<size_t>(p)];
    return !reduces(p) &&
           std::any_of(own.begin(), own.end(), [&](int a) { return is_row_axis(a); });
  }
  bool is_output(int p) const { return space_.is_output(p); }

  /// What one reduction leaves in a block: the total of its part of the row, with a position its
  /// best value and where it stands.
  struct Partial {
    int member = -1;
    TileSymbolId total = -1, position = -1;
  };

  void share_by_cluster(TileLoop* grid) const;
  void bind_row();
  void bind_axis(int a);
  bool is_at_once(int a) const;
  TileLoop over_grid();
  TileBody body(TileBody* tail);
  TileBody nests(TileLoop first);
  void make_again(const std::vector<std::vector<Partial>>& partials, int level, TileBody* out);
  void start_tail(TileLoop* nest);
  bool row_ends_with(int level) const;
  std::set<int> needed_in(int level) const;
  void emit_scalars(int level, TileBody* out);
  std::vector<Partial> emit_resident(int level, TileBody* out);
  std::vector<Partial> emit_sweep(int level, TileBody* out);
  TileLoop row_loop();
  /// The carries of one reduction in a sweep: its value, with a position where it is; of a sum with
  /// a second moment the sum of differences from a shift, the shift, and the sum of their squares.
  struct Carried {
    int member = -1;
    TileSymbolId total = -1, position = -1, shift = -1, squares = -1;
  };
  Carried carry_reduction(int p, TileLoop* loop);
  Carried carry_moments(int p, TileLoop* loop);
  void finish_moments(const Carried& c, TileBody* out, std::vector<Partial>* partials);
  ScalarRef terms_of_slot(DType type) const;
  ScalarRef terms_of_part(const IndexExpr& begin, DType type) const;
  Partial emit_moment(const CentralMoment& pair, const std::vector<Partial>& made, TileBody* out);
  ScalarRef mean_of(int sum, const ScalarRef& total, const ScalarRef& terms) const {
    return scalar_apply(ScalarOp::kDiv, {total, terms}, type_of(sum));
  }
  void emit_member(int p, TileBody* out);
  bool lies_across(const Scalar& read) const;
  ScalarRef turned(const ScalarRef& value, TileBody* out);
  void emit_store(int p, TileBody* out);
  Partial emit_reduction(int p, TileBody* out);
  TileSymbolId emit_carry(TileLoop* loop, int p, const std::string& suffix,
                          const ScalarRef& initial,
                          const std::function<ScalarRef(const ScalarRef& old)>& next);
  TileSymbolId emit_total(TileSymbolId carry, int p, const std::string& suffix, Combiner combiner,
                          const std::function<ScalarRef(const ScalarRef& kept)>& value,
                          TileBody* out);
  void finish_reductions(std::vector<Partial> partials, TileBody* out);
  void combine_partials(const std::vector<Partial>& partials, TileBody* out);
  void share_partial(Partial* partial, TileBody* out);
  /// Whether the parts of one row lie side by side in memory: where rows do.
  bool parts_last() const { return is_row_axis(layout_.vec_axis); }
  std::vector<IndexExpr> partial_indices(int p, const IndexExpr& part) const;
  TileSymbolId combine_parts(int p, const std::string& suffix, Combiner combiner, TileVarId t,
                             ScalarRef value, TileBody* out);
  void finish_reduction(int p, TileSymbolId total, TileBody* out);
  /// Where an element stands along the axis that a reduction keeps a position of.
  ScalarRef position_along(int p) const {
    const auto reduced = static_cast<size_t>(b_.expr(p).output_rank());
    return scalar_index(b_.index(axes_.axis_of[static_cast<size_t>(p)][reduced]));
  }
  std::vector<TileVarId> row_axes_of(int p) const;
  ScalarRef position_where(int p, const ScalarRef& same) const;
  ScalarRef translated(int p) const {
    return b_.translate(p, [this](int producer, const Scalar&) { return read_local(producer); });
  }
  ScalarRef contribution(int p) const {
    const TensorExpr& e = b_.expr(p);
    return keeps_position(e) ? translated(p) : scalar_convert(translated(p), e.accumulator);
  }
  ScalarRef read_local(int producer) const;
  /// A result of a member, in the block's registers.
  ScalarRef read_result(int p, TileSymbolId symbol) const {
    return scalar_read(symbol, b_.type_of(symbol), free_coordinates(p));
  }
  std::vector<IndexExpr> coordinates(int p) const;
  std::vector<IndexExpr> free_coordinates(int p) const;
  Place full_place() const;
  void stand_in_for_row();
  Place free_place() const;
  Place place_over_parts(TileVarId t) const;
  TileSymbolId add_value(int p, const std::string& suffix, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue) {
    return b_.add_value(space_.name_of(p) + suffix, type, kind);
  }
  DType type_of(int p) const { return b_.result_type(p); }

  const GroupSpace& space_;
  const JoinedGroup& joined_;
  const GroupAxes& axes_;
  const RowsChoice& layout_;
  TileBuilder b_;
  int count_;
  AxisDigits digits_;  ///< of the nest at hand
  bool in_tail_ = false;
  bool stores_ = true;               ///< outputs as they are made
  TileLoop::Dim split_;              ///< over the parts of a row that blocks share
  std::map<int, TileVarId> behind_;  ///< by axis of a row: its stand-in outside of sweeps
  std::map<int, TileVarId> var_;     ///< by axis with digits: its box variable
  std::vector<std::pair<ScalarRef, ScalarRef>> tiles_;  ///< reads across, and of their tiles
  std::map<int, TileSymbolId> made_;                    ///< by member: where its value is now
};

}  // namespace weft
