#include "tile/rewrite/keep_loads.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "support/rounding.h"
#include "tile/places.h"
#include "tile/rewrite/share_loads.h"
#include "tile/thread_tile.h"
#include "tile/tile_structure.h"

namespace weft {

namespace {

class LoadKeeping {
 public:
  LoadKeeping(TileProgram& program, size_t first, int64_t cluster)
      : program_(program), loop_(*program.body[0].loop), cluster_(cluster) {
    for (size_t d = 0; d < loop_.dims.size(); ++d) {
      for (const TileVarId v : {loop_.dims[d].origin, loop_.dims[d].offset}) {
        if (v < 0) continue;
        of_grid_.insert(v);
        if (d >= first) changing_.insert(v);
      }
    }
  }

  bool run() {
    std::vector<TileStatement> head;
    std::vector<ScalarRef> kept_reads;
    const auto is_kept = [&](const ScalarRef& read) {
      return std::ranges::any_of(kept_reads, [&](const ScalarRef& r) { return equal(r, read); });
    };
    for (const TileNode& node : loop_.body) {
      if (node.kind != TileNode::Kind::kStatement) continue;
      const Place place = node.statement.place;
      for (const ScalarRef& read : certain_reads(program_, node.statement.value)) {
        if (uses(*read, changing_) || is_kept(read)) continue;
        LoadedValue kept = loaded_value(program_, read, place);
        kept_reads.push_back(read);
        replace(read, kept.value);
        if (cluster_ > 1 && !uses(*read, of_grid_)) make_in_parts(&kept.load);
        spread_copies(&kept.load);
        head.push_back(std::move(kept.load));
      }
    }
    for (TileStatement& load : std::views::reverse(head)) {
      loop_.body.insert(loop_.body.begin(), TileNode::of(std::move(load)));
    }
    for (TileLoop& parts : std::views::reverse(parts_)) {
      loop_.body.insert(loop_.body.begin(), TileNode::of(std::move(parts)));
    }
    return !head.empty();
  }

 private:
  static bool uses(const Scalar& read, const std::set<TileVarId>& vars) {
    return std::ranges::any_of(read.indices, [&](const IndexExpr& e) {
      return std::ranges::any_of(vars, [&](TileVarId v) { return uses_var(e, v); });
    });
  }

  /// The load becomes a copy of what the blocks of the cluster load in parts, along the longest
  /// axis of the box.
  void make_in_parts(TileStatement* load) {
    const TileRef& made = load->targets[0];
    TileVarId axis = -1;
    for (const IndexExpr& e : made.indices) {
      const TileVarId v = axis_of(program_, e);
      if (v < 0) return;
      if (axis < 0 || extent(v) > extent(axis)) axis = v;
    }
    if (axis < 0) return;
    const int64_t part = part_of_cluster(extent(axis), cluster_);
    if (part == 0) return;
    TileLoop& loop = parts_of(extent(axis), part);
    const auto in_part = [&](int v) {
      return v == axis ? program_.index_of(loop.dims[0]) : IndexExpr::var(v);
    };
    TileStatement fill = *load;
    TileSymbol symbol = program_.symbols[static_cast<size_t>(made.symbol)];
    symbol.name += "_c";
    fill.targets[0].symbol = program_.add_symbol(std::move(symbol));
    std::vector<TileVarId> vars;
    for (IndexExpr& e : fill.targets[0].indices) {
      const TileVarId v = axis_of(program_, e);
      vars.push_back(v == axis ? loop.dims[0].offset : v);
      e = substitute(e, in_part);
    }
    fill.value = rewrite(load->value, in_part, {});
    fill.place = spread(vars, vector_extent(load->place, axis_of(program_, made.indices.back())));
    load->value = scalar_read(fill.targets[0].symbol, load->value->type, made.indices);
    loop.body.push_back(TileNode::of(std::move(fill)));
  }

  /// The loop over parts of so many elements; loads of equal boxes share one.
  TileLoop& parts_of(int64_t elements, int64_t part) {
    for (TileLoop& loop : parts_) {
      if (loop.dims[0].end.is_const(elements)) return loop;
    }
    TileLoop loop;
    loop.by_cluster = true;
    TileLoop::Dim dim;
    dim.begin = 0;
    dim.end = elements;
    dim.step = part;
    dim.origin = program_.add_var("c", TileVar::Kind::kOrigin, 0);
    dim.offset = program_.add_var("c", TileVar::Kind::kOffset, part);
    loop.dims.push_back(dim);
    parts_.push_back(std::move(loop));
    return parts_.back();
  }

  int64_t extent(TileVarId v) const { return program_.vars[static_cast<size_t>(v)].extent; }

  static int64_t vector_extent(const Place& place, TileVarId axis) {
    for (const Place::Axis& a : place.axes) {
      if (a.var != axis) continue;
      for (const Place::Digit& d : a.digits) {
        if (d.level == PlaceLevel::kVec) return d.extent;
      }
    }
    return 1;
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
    int64_t warps = 1;
    for (const Place::Axis& axis : load->place.axes) {
      for (const Place::Digit& d : axis.digits) {
        if (d.level == PlaceLevel::kWarp) warps *= d.extent;
      }
    }
    if (warps == program_.warps || vars.empty()) return;
    load->demand = Scope::kBlock;
    load->place = spread(vars, vector_extent(load->place, vars.back()));
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
  int64_t cluster_;
  std::set<TileVarId> of_grid_, changing_;
  std::vector<TileLoop> parts_;  ///< by cluster
};

}  // namespace

bool keep_loads(TileProgram& program, size_t first, int64_t cluster) {
  return LoadKeeping(program, first, cluster).run();
}

int64_t part_of_cluster(int64_t elements, int64_t cluster) {
  constexpr int64_t kAccess = 16;  // elements of one access, at most
  const int64_t part = ceil_div(ceil_div(elements, cluster), kAccess) * kAccess;
  return ceil_div(elements, part) == cluster ? part : 0;
}

}  // namespace weft
