#pragma once

#include <map>

#include "lower/core/kernel_writer.h"
#include "tile/analysis/same_blocks.h"

namespace weft::lowering {

/// Device memory and the block's arena start at least so aligned.
inline constexpr int32_t kDeviceAlignment = 16;

/// One of the reductions that a statement makes.
using ReductionKey = std::pair<const TileStatement*, int>;

/// One dimension of the cluster loops around what is emitted.
struct ClusterDim {
  TileVarId origin = -1;
  int64_t begin = 0, step = 1, trips = 1;
  int64_t stride = 1;   ///< of the iteration in the block's rank
  IndexExpr iteration;  ///< of this block
  IndexExpr any;        ///< a variable that stands for any block's
};

class GpuWriter final : public KernelWriter {
 public:
  GpuWriter(const TileProgram& p, const ScopeAnalysis& s);

  Box make_box(const std::vector<TileVarId>& vars, const Place& place) override;
  Place place_of(const TileStatement& statement) const override;
  void place_buffer(const SymbolScope& scope, bool workspace, KernelBuffer* buffer) override;
  size_t emit_together(const TileBody& body, size_t first) override;
  void enter_node(int32_t child) override;
  void leave_node() override { path.pop_back(); }
  std::vector<Reg> emit_loop(const TileLoop& loop, std::vector<Reg> carries) override;
  bool emit_by_unit(const TileStatement& statement) override;
  bool fill_rows(const TileStatement& statement, const Box& box,
                 const PreparedIndex& offset) override;
  std::vector<RolledDigit> roll(const TileStatement& statement, bool reduced,
                                Box* box) const override;
  void hoist_loads(const TileStatement& statement, const Box& box,
                   const std::vector<RolledDigit>& rolled) override;
  Reg load_guard(const Scalar& read, const Point& point, Reg guard, uint64_t axes) override;
  std::optional<Reg> read_elsewhere(const Scalar& read, const Point& point, Reg guard) override;
  Reg reduce_over_lanes(const Box& box, const TileStatement& statement, Combiner combiner,
                        Reg value) override;
  void reduce_over_warps(const Box& box, const TileStatement& statement, int sweep,
                         Combiner combiner, std::vector<Reg>* values) override;

  std::map<const TileStatement*, Place> statement_places;  ///< as derived
  std::map<TileSymbolId, int64_t> read_counts;             ///< reads of a value in the program
  std::map<ReductionKey, int32_t> exchange_buffers;        ///< of reductions over warps
  /// By origin of a loop over blocks: those of other nests that have its value in every block.
  std::map<TileVarId, std::vector<TileVarId>> same_origins;
  /// Loads of which the first copies stand in front of the barrier before their nest.
  std::set<const TileStatement*> went_ahead;
  bool multiplies_under_way = false;  ///< in the loop at hand (staged_loops.cpp)
  Reg later_item = kNoReg;     ///< whether the item at hand is not its block's first; kNoReg: it is
  std::set<NestPath> keeping;  ///< nests that make or read what a block keeps from nest to nest
  std::vector<int32_t> path;   ///< of the body at hand, for barriers
  std::vector<ClusterDim> cluster_dims;  ///< around what is emitted
  std::vector<ClusterDim> shared_dims;   ///< of the loops `by cluster` so far

  std::set<TileSymbolId> filled;  ///< tiles that were stored as a whole

 private:
  /// Whether a statement's tile lies in the block's memory as a whole, so that it can be stored
  /// with zeros where the box is predicated off.
  bool fills_block(const TileStatement& statement, const Box& box, const PreparedIndex& offset);
  /// Whether all threads find an element of such a tile there.
  bool lies_in_block(const Scalar& read, const Point& point, uint64_t axes);
};

}  // namespace weft::lowering
