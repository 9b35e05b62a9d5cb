#include <algorithm>
#include <numeric>

#include "fmt/format.h"
#include "schedule/stages/fragment_writer.h"
#include "schedule/writer/statements.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

/// Registers of a thread for elements that the parts left.
constexpr int64_t kMostJoined = 64;

/// Whether blocks with a part of the axis each, and others behind a barrier, can make the members.
Status FragmentWriter::check_parts() const {
  for (const BlockSpace::Carry& carry : space_.carries()) {
    const std::vector<IndexExpr> box = indices_of(carry.after);
    for (int l = 0; l < demand_.over_blocks; ++l) {
      const TileLoop::Dim& loop = boxes_.loop(l);
      const bool walks = std::ranges::any_of(
          box, [&](const IndexExpr& index) { return uses_var(index, loop.origin); });
      if (carry.parts >= 0 && !walks && loop.step < loop.end.constant())
        return unsupported("several blocks would leave " + space_.name_of(carry.after));
    }
  }
  for (int p = 0; p < space_.size(); ++p) {
    if (part_of(p) == kBefore && space_.is_output(p))
      return unsupported("each part of the axis would store " + space_.name_of(p));
    if (part_of(p) != kBehind) continue;
    const TensorExpr& e = space_.expr(p);
    if (!e.reduce_extents.empty() && space_.over_parts(p) < 0)
      return unsupported(space_.name_of(p) + " reduces what parts of the axis make together");
    std::string apart;
    visit(e.body, [&](const Scalar& s) {
      const int producer =
          s.kind == Scalar::Kind::kRead ? space_.producer(static_cast<TensorId>(s.symbol)) : -1;
      if (producer >= 0 && part_of(producer) != kBehind) apart = space_.name_of(producer);
    });
    if (!apart.empty())
      return unsupported(space_.name_of(p) + " reads " + apart + ", which parts of the axis make");
  }
  return {};
}

/// The carries behind a part's steps go to a workspace, or stay in the blocks of a cluster. Behind
/// a barrier of the grid, or of the cluster, a block takes rows and columns of all parts, a part a
/// register, and joins them in their order; of rows alone a part a lane.
Status FragmentWriter::leave_parts() {
  for (size_t c = 0; c < carries_.size(); ++c) {
    const BlockSpace::Carry& carry = space_.carries()[c];
    if (carry.parts < 0) continue;
    const DType type = carries_[c].type;
    const std::vector<IndexExpr> own = indices_of(carry.after);
    std::vector<IndexExpr> indices{IndexExpr::var(boxes_.part())};
    indices.insert(indices.end(), own.begin(), own.end());
    const TileSymbolId left = parts_[carry.parts] = value(space_.name_of(carry.after) + "_p", type);
    left_.push_back(
        TileNode::of(assign(left, indices, scalar_read(carries_[c].target.symbol, type, own), {})));
  }
  WEFT_ASSIGN_OR_RETURN(const BoxVar columns, boxes_.columns_behind());
  ThreadTile threads(choice_.warps);
  const int64_t wide = in_cluster_ ? columns.extent : columns.full;
  const int64_t deep = in_cluster_ ? boxes_.rows().extent / space_.splits() : boxes_.rows().full;
  over_parts_ = {{PlaceLevel::kReg, space_.splits()}};
  if (columns.var < 0) over_parts_ = threads.add(space_.splits(), 1, 32, 1, 0);
  const int64_t vector = std::gcd(columns.full, kAccessElements);
  const auto across = threads.add(wide, vector, 32, 1, 1);
  // A block asks for all it joins at once, as far as registers reach: others' memory is far.
  const int64_t at_once = kMostJoined / (digits_extent(over_parts_) * vector);
  const auto down = threads.add(deep, 1, 32, choice_.warps, std::max<int64_t>(at_once, 1));
  const FragmentBoxes::Tile tile{std::max<int64_t>(digits_extent(down), 2),
                                 std::max<int64_t>(digits_extent(across), 2)};
  WEFT_RETURN_IF_ERROR(boxes_.move_behind(tile));
  const std::vector<TileLoop::Dim>& loops = boxes_.behind();
  const auto lies = [&](TileVarId var, std::vector<Place::Digit> digits) {
    if (digits.empty()) digits.push_back({PlaceLevel::kReg, 2});
    joining_.axes.push_back({var, std::move(digits)});
  };
  lies(boxes_.rows_behind().var, down);
  if (columns.var >= 0) lies(loops.back().offset, across);
  return {};
}

/// Of a member behind the barrier; none where nothing is joined.
Place FragmentWriter::joined_place(int p) const {
  Place out = joining_;
  if (!out.axes.empty() && space_.over_parts(p) >= 0)
    out.axes.push_back({boxes_.parts_var(), over_parts_});
  return out;
}

/// The nest of the blocks, and where the parts go through the workspace that which joins them.
///     grid m { A; seq n { … }; out }
///     grid s, m { A; seq n { … }; y_p }  ═══  grid m, e { y = sum[t] y_p; out }
///     grid m { cluster s { A; seq n { … }; y_p; seq m, e { y = sum[t] y_p; out } } }
void FragmentWriter::put_nests() {
  TileLoop steps, grid, joining;
  steps.dims.push_back(boxes_.steps());
  steps.stages = choice_.stages;
  steps.carries = std::move(carries_);
  steps.body = std::move(bodies_[kStep]);
  TileBody body = std::move(bodies_[kBefore]);
  const auto append = [](TileBody from, TileBody* to) {
    for (TileNode& node : from) to->push_back(std::move(node));
  };
  body.push_back(TileNode::of(std::move(steps)));
  append(std::move(left_), &body);
  const bool is_split = space_.splits() > 1;
  joining.kind = in_cluster_ ? TileLoop::Kind::kSeq : TileLoop::Kind::kGrid;
  if (is_split) joining.dims = boxes_.behind();
  append(std::move(bodies_[kBehind]), is_split ? &joining.body : &body);
  if (in_cluster_) {
    body.push_back(TileNode::of(std::move(joining)));
    TileLoop cluster;
    cluster.kind = TileLoop::Kind::kCluster;
    cluster.dims.push_back(boxes_.over_parts());
    cluster.body = std::move(body);
    body.clear();
    body.push_back(TileNode::of(std::move(cluster)));
  }
  grid.kind = TileLoop::Kind::kGrid;
  grid.dims = boxes_.over_blocks();
  grid.body = std::move(body);
  program_.body.push_back(TileNode::of(std::move(grid)));
  if (is_split && !in_cluster_) program_.body.push_back(TileNode::of(std::move(joining)));
}

}  // namespace weft
