#include "schedule/keep_loads.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "schedule/share_loads.h"
#include "schedule/thread_tile.h"
#include "tile/tile_structure.h"

namespace weft {

namespace {

class LoadKeeping {
 public:
  LoadKeeping(TileProgram& program, size_t first)
      : program_(program), loop_(*program.body[0].loop) {
    for (size_t d = first; d < loop_.dims.size(); ++d) {
      changing_.insert(loop_.dims[d].origin);
      if (loop_.dims[d].offset >= 0) changing_.insert(loop_.dims[d].offset);
    }
  }

  bool run() {
    std::vector<TileStatement> head;
    const auto is_kept = [&](const ScalarRef& read) {
      return std::ranges::any_of(
          head, [&](const TileStatement& load) { return equal(load.value, read); });
    };
    for (const TileNode& node : loop_.body) {
      if (node.kind != TileNode::Kind::kStatement) continue;
      const Place place = node.statement.place;
      for (const ScalarRef& read : certain_reads(program_, node.statement.value)) {
        if (changes(*read) || is_kept(read)) continue;
        LoadedValue kept = loaded_value(program_, read, place);
        replace(read, kept.value);
        spread_copies(&kept.load);
        head.push_back(std::move(kept.load));
      }
    }
    for (TileStatement& load : std::views::reverse(head)) {
      loop_.body.insert(loop_.body.begin(), TileNode::of(std::move(load)));
    }
    return !head.empty();
  }

 private:
  bool changes(const Scalar& read) const {
    return std::ranges::any_of(read.indices, [&](const IndexExpr& e) {
      return std::ranges::any_of(changing_, [&](TileVarId v) { return uses_var(e, v); });
    });
  }

  void replace(const ScalarRef& read, const ScalarRef& value) {
    for (TileNode& node : loop_.body) {
      if (node.kind != TileNode::Kind::kStatement) continue;
      node.statement.value = rewrite(node.statement.value, {}, [&](const ScalarRef& other) {
        return equal(other, read) ? value : other;
      });
    }
  }

  /// Where warps would hold the same elements, the block does, filled by all threads with vectors
  /// as wide.
  void spread_copies(TileStatement* load) const {
    std::vector<TileVarId> vars;
    for (const IndexExpr& e : load->targets[0].indices) {
      std::set<TileVarId> own;
      add_box_variables(program_, e, &own);
      vars.insert(vars.end(), own.begin(), own.end());
    }
    int64_t warps = 1, vec = 1;
    for (const Place::Axis& axis : load->place.axes) {
      for (const Place::Digit& d : axis.digits) {
        if (d.level == PlaceLevel::kWarp) warps *= d.extent;
        if (d.level == PlaceLevel::kVec && axis.var == vars.back()) vec = d.extent;
      }
    }
    if (warps == program_.warps || vars.empty()) return;
    load->demand = Scope::kBlock;
    load->place = spread(vars, vec);
  }

  Place spread(const std::vector<TileVarId>& vars, int64_t vec) const {
    Place place;
    ThreadTile tile(program_.warps);
    for (const TileVarId v : std::views::reverse(vars)) {
      const int64_t extent = program_.vars[static_cast<size_t>(v)].extent;
      place.axes.push_back(
          {v, tile.add(extent, v == vars.back() ? vec : 1, 32, program_.warps, 0)});
    }
    // Warps that are left over would hold copies, and ask for them.
    if (tile.warps_left() > 1) {
      std::vector<Place::Digit>& outermost = place.axes.back().digits;
      outermost.insert(outermost.begin(), {PlaceLevel::kWarp, tile.warps_left()});
    }
    std::erase_if(place.axes, [](const Place::Axis& axis) { return axis.digits.empty(); });
    return place;
  }

  TileProgram& program_;
  TileLoop& loop_;
  std::set<TileVarId> changing_;
};

}  // namespace

bool keep_loads(TileProgram& program, size_t first) { return LoadKeeping(program, first).run(); }

}  // namespace weft
