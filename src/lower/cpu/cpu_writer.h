#pragma once

#include <map>
#include <set>

#include "lower/core/kernel_writer.h"
#include "lower/cpu/distribute_grid.h"

namespace weft::lowering {

class CpuWriter final : public KernelWriter {
 public:
  CpuWriter(const TileProgram& p, const ScopeAnalysis& s, const Target& target);

  Box make_box(const std::vector<TileVarId>& vars, const Place& place) override;
  Place place_of(const TileStatement& statement) const override;
  void place_buffer(const SymbolScope& scope, bool workspace, KernelBuffer* buffer) override;
  size_t emit_together(const TileBody& body, size_t first) override;
  void emit_loop_body(const TileLoop& loop) override;
  Reg load_guard(const Scalar& read, const Point& point, Reg guard, uint64_t axes) override;
  std::optional<Reg> load_spread(int32_t buffer, const Scalar& read, const PreparedIndex& offset,
                                 bool affine, const Point& point, Reg guard) override;

  /// Of loops around barriers, what stands in them; and the thread's items of their nest.
  std::map<const TileLoop*, const std::vector<GridPiece>*> distributed;
  Reg begin = kNoReg, end = kNoReg;

 private:
  std::set<int64_t> arena_offsets_;  ///< at which buffers of the arena begin
};

}  // namespace weft::lowering
