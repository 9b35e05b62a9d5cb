#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "schedule/stages/fragment_boxes.h"
#include "schedule/stages/fragment_chain.h"
#include "schedule/writer/kernel_names.h"

namespace weft {

inline constexpr int64_t kAccessElements = 4;  ///< of float32, in one access

/// One factor of a product: `across` is the rows of the left one, the columns of the right one.
struct FragmentFactor {
  ScalarRef value;         ///< in the units' type
  BoxVar across, depth;    ///< as the product reads it
  bool of_step = false;    ///< changes from step to step
  bool of_inputs = false;  ///< of what comes from outside alone
  bool is_value = false;   ///< what a member made, element by element
  TileSymbolId tile = -1;
  bool depth_last = true;  ///< in the tile's coordinates
};

/// sum[indices] = left x right
struct FragmentProduct {
  FragmentFactor left, right;
  bool units = true;  ///< else plain cores
  std::vector<IndexExpr> indices;
  TileSymbolId sum = -1;
};

/// Writes the program of a chain on fragments (schedule/stages/fragment_chain.h).
class FragmentWriter {
 public:
  FragmentWriter(const BlockSpace& space, const BlockPartition& partition, int row_loop,
                 const DemandBoxes& demand, const FragmentsChoice& choice, const Target& target,
                 const std::string& name)
      : space_(space),
        partition_(partition),
        demand_(demand),
        choice_(choice),
        target_(target),
        warps_(choice.warps, partition.loops[static_cast<size_t>(row_loop)].step, on_units()),
        in_cluster_(parts_form_cluster(
            space.splits(), partition.loops[static_cast<size_t>(row_loop)].step, target)),
        boxes_(space, partition, row_loop, demand, warps_.unit(), in_cluster_, &program_) {
    program_.cpu = false;
    program_.name = KernelNames::identifier(name);
    program_.warps = choice.warps;
  }

  Result<ScheduledKernel> run();

 private:
  using Part = CarriedProgram::Part;
  static constexpr int kBefore = static_cast<int>(Part::kBefore),
                       kStep = static_cast<int>(Part::kStep),
                       kBehind = static_cast<int>(Part::kBehind);

  Status check_choice() const;
  void make_carries();
  void add_unreached(const BlockSpace::Carry& c, TileCarry* carry);
  Status write(int p);
  Status write_product(int p, TileBody* body);
  Result<ScalarRef> reduced(int p, TileBody* body);
  ScalarRef position_of(int p, const std::vector<TileVarId>& over, TileBody* body);
  ScalarRef best_value(int p, const std::vector<TileVarId>& over, TileBody* body);
  void keep(int p, const ScalarRef& value, TileBody* body);
  std::vector<IndexExpr> indices_of(int p) const { return boxes_.indices_of(p); }
  const BoxVar& box_var(int p, int var) const { return boxes_.of(p, var); }
  int part_of(int p) const {
    return demand_.members[static_cast<size_t>(p)].level - demand_.over_blocks;
  }
  ScalarRef translated(int p, const ScalarRef& s);
  ScalarRef translated_at(const ScalarRef& s, const std::function<IndexExpr(int var)>& index_of);
  TileSymbolId carry_of(TensorId tensor) const;
  TileSymbolId parameter(TensorId tensor, TileSymbol::Kind kind);
  TileSymbolId value(const std::string& base, DType type,
                     TileSymbol::Kind kind = TileSymbol::Kind::kValue);
  bool changes_with_steps(int p, const ScalarRef& s) const;
  Result<FragmentFactor> factor(int p, const ScalarRef& s, int across, int depth);
  Result<FragmentProduct> product_of(int p);
  void load(const std::string& base, bool in_block, bool units, bool left, FragmentFactor* f,
            TileBody* body);
  void multiply_tiles(const FragmentProduct& of, const ScalarRef& before, TileBody* body);
  void multiply_in_steps(FragmentProduct of, TileBody* body);
  std::vector<IndexExpr> tile_indices(const FragmentFactor& f, const IndexExpr& k) const;
  bool on_units() const;
  Place fragments(const BoxVar& rows, const BoxVar& columns, bool units, bool apart = false) const;
  Status check_parts() const;
  Status leave_parts();
  Place joined_place(int p) const;
  void put_nests();

  const BlockSpace& space_;
  const BlockPartition& partition_;
  const DemandBoxes& demand_;
  const FragmentsChoice& choice_;
  const Target& target_;
  const WarpGrid warps_;
  const bool in_cluster_;  ///< blocks that have the parts of the axis form one, and join them

  TileProgram program_;
  KernelNames names_;
  std::vector<TensorId> parameters_;
  std::map<TensorId, TileSymbolId> symbols_;
  FragmentBoxes boxes_;
  std::map<int, TileSymbolId> values_;
  std::vector<TileCarry> carries_;
  std::array<TileBody, 3> bodies_;
  /// Where the axis is split: what the parts leave, by tensor, and how a block joins them.
  std::map<TensorId, TileSymbolId> parts_;
  TileBody left_;
  Place joining_;
  std::vector<Place::Digit> over_parts_;
  int writing_ = kBefore;
  TileVarId depth_loop_ = -1;  ///< of products that go through their depth in steps
};

}  // namespace weft
