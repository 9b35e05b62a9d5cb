#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "group/central_moments.h"
#include "schedule/cpu/templates.h"
#include "schedule/writer/tile_builder.h"

namespace weft {

/// Elements of one chunk when a long axis is cut for the threads.
constexpr int64_t kStitchChunk = 4096;

/// Chooses the loops of a CPU's stitched kernel (stitch.cpp) and writes them: a sweep over the
/// inner axes for each level of reductions (stitch_sweeps.cpp), those of second moments only where
/// they are needed (guarded_moments.cpp).
class Stitch {
 public:
  Stitch(const TensorProgram& program, const Group& group, const GroupAxes& axes,
         const Target& target, const std::string& name)
      : program_(program),
        group_(group),
        axes_(axes),
        target_(target),
        b_(program, group, axes, name),
        count_(static_cast<int>(group.exprs.size())) {}

  Result<ScheduledKernel> build(const ScheduleChoices* as_chosen) {
    if (as_chosen == nullptr) {
      choose_axes();
      decide_kept();
    } else if (!follow(*as_chosen)) {
      return invalid_input("a stitched kernel's choices are not those of " + b_.program().name);
    }
    find_moments();
    ScheduledKernel out;
    out.choices = choices();
    TileBody body = grid_loops();
    b_.program().body = std::move(body);
    out.program = std::move(b_.program());
    out.parameters = b_.take_parameters();
    out.schedule_template = axes_.reductions.empty() ? "elementwise"
                            : row_vector_            ? "rows"
                                                     : "columns";
    return out;
  }

 private:
  bool reduces(int p) const { return !b_.expr(p).reduce_extents.empty(); }
  bool is_inner(int axis) const {
    return std::find(inner_.begin(), inner_.end(), axis) != inner_.end();
  }
  /// Whether the value of a member differs along the inner axes: it lives inside the sweeps.
  bool is_row_value(int p) const {
    if (reduces(p)) return false;
    for (const int a : axes_.axis_of[static_cast<size_t>(p)]) {
      if (is_inner(a)) return true;
    }
    return false;
  }
  /// Whether the output of a member runs along an axis (its reduction axes do not count).
  bool output_has_axis(int p, int axis) const {
    const auto& list = axes_.axis_of[static_cast<size_t>(p)];
    const auto end = list.begin() + b_.expr(p).output_rank();
    return std::find(list.begin(), end, axis) != end;
  }
  bool is_output(int p) const {
    return std::find(group_.outputs.begin(), group_.outputs.end(), b_.expr(p).output) !=
           group_.outputs.end();
  }

  void choose_axes();
  int choose_cross_axis() const;
  void choose_rows();
  void decide_kept();
  bool follow(const ScheduleChoices& choices);
  ScheduleChoices choices() const;
  std::vector<int> physical_order(std::vector<int> list) const;
  TileBody grid_loops();
  TileBody row_body();
  void emit_row_scalars(int level, TileBody* body);
  void emit_sweep(int level, TileBody* body);
  void emit_sweep(int level, const std::set<int>& needed, TileBody* body);
  void find_moments();
  bool is_guarded(int level) const;
  void emit_guarded_sweep(int level, const std::set<int>& needed, TileBody* body);
  std::set<int> needed_in(int level) const;
  void emit_member(int p, TileBody* body);
  void emit_carry(int p, TileLoop* loop, TileBody* update, TileBody* after);
  TileSymbolId emit_reduction(int p, const std::string& base, const ScalarRef& term, TileLoop* loop,
                              TileBody* update, TileBody* after);
  void emit_arg_carry(int p, TileLoop* loop, TileBody* update, TileBody* after);
  ScalarRef read_local(int producer) const;
  std::vector<IndexExpr> coordinates(int p) const;
  Place place() const { return vec_var_ >= 0 ? place_of(vec_var_, regs_, lanes_) : Place{}; }
  Place place(int p) const;
  bool in_tile(int p) const { return cross_axis_ >= 0 && output_has_axis(p, cross_axis_); }
  TileStatement assign(TileSymbolId symbol, std::vector<IndexExpr> indices, ScalarRef value,
                       Place place, bool next = false) const;
  TileSymbolId add_value(const std::string& base, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue);

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int count_;

  std::vector<int> grid_, inner_;  ///< common axes of extent > 1, outermost first
  int vec_axis_ = -1;
  bool row_vector_ = true;  ///< the vector axis is an inner one
  int cross_axis_ = -1;     ///< of the grid: rows that are in the tile together
  int64_t rows_ = 1;        ///< how many
  int64_t lanes_ = 1, regs_ = 1;
  bool chunked_ = false;
  TileVarId vec_var_ = -1;  ///< offset variable of the vector axis in the loop at hand
  TileVarId cross_var_ = -1;

  std::vector<bool> kept_;               ///< row values stored in scratch
  std::map<int, TileSymbolId> stored_;   ///< their symbols
  std::map<int, TileSymbolId> here_;     ///< values of the sweep at hand
  std::map<int, TileSymbolId> scalars_;  ///< row scalars and finished reductions

  std::vector<CentralMoment> moments_;   ///< those of guarded sweeps
  std::map<int, TileSymbolId> squares_;  ///< Σ x² beside a sum
};

}  // namespace weft
