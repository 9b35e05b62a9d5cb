#include "tile/analysis/cluster_blocks.h"
#include "fmt/format.h"
#include "tile/analysis/relate_reads.h"
#include "tile/scope_analysis.h"

namespace weft {
namespace {

class ClusterCount {
 public:
  explicit ClusterCount(const TileProgram& program) : program_(program) {}

  Result<int64_t> run() {
    walk(program_.body, 1, 1);
    if (!error_ && count_ > 1 && shared_ > 0) error_ = fail("clusters of two kinds");
    if (error_) return *error_;
    if (count_ <= 1) return std::max<int64_t>(shared_, 1);
    // A block goes through one iteration: those of a cluster are on the device together.
    if (program_.blocks.is_const() && program_.blocks.constant() != items_) {
      return fail(
          fmt::format("{} iterations of grid and cluster loops on {} blocks, which needs "
                      "one for each",
                      items_, program_.blocks.constant()));
    }
    return count_;
  }

 private:
  Error fail(const std::string& what) {
    return invalid_input(fmt::format("tile program {}: {}", program_.name, what));
  }

  /// `items`: iterations of grid and cluster loops around the body, `cluster`: of the latter.
  void walk(const TileBody& body, int64_t items, int64_t cluster) {
    bool inner = false;
    for (const TileNode& node : body) {
      if (error_) return;
      if (node.kind == TileNode::Kind::kPack) {
        for (const TilePack::Member& member : node.pack->members) walk(member.body, 1, 1);
        packed_ = true;
        continue;
      }
      if (node.kind != TileNode::Kind::kLoop) continue;
      const TileLoop& loop = *node.loop;
      if (loop.by_cluster) share(loop);
      if (loop.kind == TileLoop::Kind::kSeq) continue;
      const int64_t trips = iterations(loop);
      inner = true;
      walk(loop.body, items * trips,
           loop.kind == TileLoop::Kind::kCluster ? cluster * trips : cluster);
    }
    if (inner || cluster == 1 || error_) return;
    if (packed_ || (count_ > 1 && (count_ != cluster || items_ != items))) {
      error_ = fail("nests with clusters of other sizes, or beside others in a pack");
    }
    count_ = cluster;
    items_ = items;
  }

  /// Blocks of a walking grid of which so many fill what they share.
  void share(const TileLoop& loop) {
    const int64_t blocks = iterations(loop);
    if (error_) return;
    if (blocks < 2 || (shared_ > 0 && shared_ != blocks)) {
      error_ = fail("loops made by clusters of different sizes, or of one block");
    } else if (!program_.blocks.is_const() || program_.blocks.constant() % blocks != 0) {
      error_ = fail(fmt::format("{} is made by clusters of {}, which its blocks do not form",
                                loop_name(program_, loop), blocks));
    }
    shared_ = blocks;
  }

  /// 1 where a bound is not constant, which a loop of a cluster must not have.
  int64_t iterations(const TileLoop& loop) {
    int64_t trips = 1;
    for (const TileLoop::Dim& dim : loop.dims) {
      bool known = true;
      const auto value = [&](int id) {
        const TileVar& var = program_.vars[static_cast<size_t>(id)];
        known &= var.kind == TileVar::Kind::kSize && var.extent > 0;
        return var.extent;
      };
      const int64_t extent = evaluate(dim.end, value) - evaluate(dim.begin, value);
      if (!known && (loop.kind == TileLoop::Kind::kCluster || loop.by_cluster)) {
        error_ = fail(loop_name(program_, loop) + " has bounds that are not constant");
      }
      trips *= known && extent > 0 ? (extent + dim.step - 1) / dim.step : 1;
    }
    return trips;
  }

  const TileProgram& program_;
  int64_t count_ = 1, items_ = 1;
  int64_t shared_ = 0;  ///< iterations of loops `by cluster`
  bool packed_ = false;
  std::optional<Error> error_;
};

}  // namespace

Result<int64_t> cluster_blocks(const TileProgram& program) {
  if (program.cpu) return int64_t{1};
  WEFT_ASSIGN_OR_RETURN(const int64_t blocks, ClusterCount(program).run());
  if (!program.one_cluster) return blocks;
  if (blocks > 1)
    return invalid_input("tile program " + program.name + ": its one cluster holds others");
  return program.blocks.constant();
}

}  // namespace weft
