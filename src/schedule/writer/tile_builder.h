#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "group/group_space.h"
#include "schedule/writer/kernel_names.h"
#include "schedule/writer/scheduled_kernel.h"
#include "tile/tile_program.h"

namespace weft {

/// Writes a tile program for a group: parameters, loops over common axes, and bodies translated
/// from tensor expressions. Of a stage, loops run where its frame says; the origins of the loops
/// around the block are sizes of their own, in the order of the loops.
class TileBuilder {
 public:
  TileBuilder(const GroupSpace& space, const std::string& name);

  const GroupSpace& space() const { return space_; }
  TileProgram& program() { return program_; }
  const TileProgram& program() const { return program_; }
  DType type_of(TileSymbolId s) const { return program_.symbols[static_cast<size_t>(s)].type; }

  /// The parameter of a tensor, made on first use. A constant may be asked for in a layout.
  TileSymbolId input(TensorId t);
  TileSymbolId output(TensorId t);
  void set_layout(TensorId t, Layout layout);

  /// A loop dimension over common axis `axis` in tiles of `step`; binds the axis's index to it from
  /// here on.
  TileLoop::Dim loop_dim(int axis, int64_t step);
  /// A loop dimension from 0 to `end` that binds no axis; `base` begins its name.
  TileLoop::Dim plain_dim(const std::string& base, IndexExpr end, int64_t step);
  /// Where a common axis runs, over the sizes that stand for the loops around the block.
  IndexExpr begin_of(int axis) const;
  IndexExpr end_of(int axis) const;
  /// A number of which the index is a multiple, whatever the loops around the block stand at; 0 of
  /// zero.
  int64_t unit_of(const IndexExpr& e) const;
  /// What the axis's index is now: origin + offset of the innermost loop made for it; 0 for an axis
  /// of extent 1.
  const IndexExpr& index(int axis) const { return index_[static_cast<size_t>(axis)]; }
  void bind(int axis, IndexExpr index) { index_[static_cast<size_t>(axis)] = std::move(index); }
  /// The grid loop as a program's body. Statements that no axis of the grid goes around become one
  /// nest all the same, of one iteration: as pieces of their own they would hand each other values
  /// through memory, with barriers between.
  TileBody one_nest(TileLoop grid);
  /// The same with a grid loop in any case.
  TileBody in_grid(TileLoop grid);
  /// The dimension of a loop that runs once.
  TileLoop::Dim once();
  IndexExpr offset(const TileLoop::Dim& dim) const;
  IndexExpr index_of(const TileLoop::Dim& dim) const { return program_.index_of(dim); }

  /// The body of expression `position` at the present indices. Reads of tensors made in the group
  /// go through `local`.
  ScalarRef translate(
      int position, const std::function<ScalarRef(int producer, const Scalar& read)>& local) const;
  /// Indices of the output of expression `position` at the present indices.
  std::vector<IndexExpr> output_indices(int position) const;

  TileStatement store(int position, ScalarRef value, Place place);
  const TensorExpr& expr(int position) const { return space_.expr(position); }

  /// Of the tensor that expression `position` makes.
  DType result_type(int position) const {
    return space_.program().tensors[static_cast<size_t>(expr(position).output)].type.dtype;
  }

  /// A value of the kernel's own, under a name that nothing else has.
  TileSymbolId add_value(const std::string& base, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue);
  /// In a space for all groups of a key, a number that stands for the name until there is a group.
  std::string unique(const std::string& base);
  /// The program with its parameters; the rest is the template's.
  ScheduledKernel take();

 private:
  TileSymbolId parameter(TensorId t, TileSymbol::Kind kind);
  IndexExpr in_frame(const IndexExpr& e) const;

  const GroupSpace& space_;
  TileProgram program_;
  std::vector<TensorId> parameters_;
  std::map<TensorId, TileSymbolId> symbols_;
  std::map<TensorId, Layout> layouts_;
  std::vector<IndexExpr> index_;
  std::vector<TileVarId> frame_;  ///< those sizes
  std::set<TileVarId> open_;      ///< origins of loops along open axes
  KernelNames names_;
  std::vector<std::string> asked_;  ///< of unique(), where numbers stand for names
};

/// Of a program's variables: offsets and axes; those of origins are not known.
RangeOf ranges_of(const TileProgram& program);
Place place_of(TileVarId var, int64_t regs, int64_t lanes);
/// The combiner's form in tile programs; kNone for those that have none (arg forms are written
/// out).
TileCombiner tile_combiner(Combiner c);
ScalarRef combine_scalars(Combiner c, ScalarRef a, ScalarRef b);

}  // namespace weft
