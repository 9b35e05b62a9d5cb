#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "choice/choice.h"
#include "group/central_moments.h"
#include "group/group_space.h"
#include "schedule/cpu/choose_sweep.h"
#include "schedule/writer/scheduled_kernel.h"
#include "schedule/writer/tile_builder.h"

namespace weft {

/// Writes a CPU's stitched kernel as it was chosen: a sweep over the inner axes for each level of
/// reductions (stitch_sweeps.cpp), those of second moments only where they are needed
/// (guarded_moments.cpp).
class Stitch {
 public:
  Stitch(const GroupSpace& space, const SweepChoice& choice, const std::string& name)
      : axes_(space.axes()),
        space_(space),
        choice_(choice),
        b_(space, name),
        count_(space.size()),
        grid_(choice.grid),
        inner_(choice.inner),
        vec_axis_(choice.vec_axis),
        row_vector_(choice.row_vector),
        row_axis_(choice.row_axis),
        rows_(choice.rows),
        lanes_(choice.lanes),
        regs_(choice.vectors),
        chunked_(choice.chunked),
        kept_(choice.kept) {}

  ScheduledKernel build() {
    find_moments();
    TileBody body = grid_loops();
    b_.program().body = std::move(body);
    ScheduledKernel out = b_.take();
    out.schedule_template = axes_.reductions.empty() ? "elementwise"
                            : row_vector_            ? "rows"
                                                     : "columns";
    return out;
  }

 private:
  bool reduces(int p) const { return space_.reduces(p); }
  bool is_row_value(int p) const { return is_value_of_row(space_, choice_, p); }
  bool output_has_axis(int p, int axis) const { return space_.output_has_axis(p, axis); }
  bool is_output(int p) const { return space_.is_output(p); }

  TileBody grid_loops();
  TileBody row_body();
  void emit_row_scalars(int level, TileBody* body);
  void emit_sweep(int level, TileBody* body);
  void emit_sweep(int level, const std::set<int>& needed, TileBody* body);
  void find_moments();
  bool is_guarded(int level) const;
  bool is_second_moment(int p) const;
  void emit_guarded_sweep(int level, const std::set<int>& needed, TileBody* body);
  std::set<int> needed_in(int level) const;
  void emit_member(int p, TileBody* body);
  void emit_carry(int p, TileLoop* loop, TileBody* update, TileBody* after);
  TileSymbolId emit_reduction(int p, const std::string& prefix, const ScalarRef& term,
                              TileLoop* loop, TileBody* update, TileBody* after);
  void emit_arg_carry(int p, TileLoop* loop, TileBody* update, TileBody* after);
  TileSymbolId emit_best_lane(int p, TileSymbolId best, TileSymbolId where, TileBody* after);
  ScalarRef read_local(int producer) const;
  std::vector<IndexExpr> coordinates(int p) const;
  Place place() const { return vec_var_ >= 0 ? place_of(vec_var_, regs_, lanes_) : Place{}; }
  Place place(int p) const;
  bool in_tile(int p) const { return row_axis_ >= 0 && output_has_axis(p, row_axis_); }
  TileSymbolId add_value(int p, const std::string& suffix, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue) {
    return b_.add_value(space_.name_of(p) + suffix, type, kind);
  }

  const GroupAxes& axes_;
  const GroupSpace& space_;
  const SweepChoice& choice_;
  TileBuilder b_;
  int count_;

  std::vector<int> grid_, inner_;  ///< common axes of extent > 1, outermost first
  int vec_axis_;
  bool row_vector_;  ///< the vector axis is an inner one
  int row_axis_;     ///< of the grid: rows that are in the tile together
  int64_t rows_;     ///< how many
  int64_t lanes_, regs_;
  bool chunked_;
  TileVarId vec_var_ = -1;  ///< offset variable of the vector axis in the loop at hand
  TileVarId row_var_ = -1;

  std::vector<bool> kept_;               ///< row values stored in scratch
  std::map<int, TileSymbolId> stored_;   ///< their symbols
  std::map<int, TileSymbolId> here_;     ///< values of the sweep at hand
  std::map<int, TileSymbolId> scalars_;  ///< row scalars and finished reductions

  std::vector<CentralMoment> moments_;   ///< those of guarded sweeps
  std::map<int, TileSymbolId> squares_;  ///< Σ x² beside a sum
};

}  // namespace weft
