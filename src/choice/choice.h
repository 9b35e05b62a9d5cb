#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expr/text_cursor.h"
#include "tile/tile_program.h"

/// What a template of src/schedule decided for one group: values over the common axes of the
/// group's space (group/group_space.h), so that isomorphic groups share them. Each variant lists
/// its fields once (`fields`); printing, parsing, comparing and hashing follow from that.
namespace weft {

/// Digits of a box on a GPU's threads, by common axis.
using AxisDigits = std::map<int, std::vector<Place::Digit>>;

/// A CPU's rows, columns and element-wise chains: a sweep of vectors over the inner axes for each
/// level of reductions.
struct SweepChoice {
  static constexpr std::string_view kName = "sweep";
  std::vector<int> grid;   ///< axes, outermost first
  std::vector<int> inner;  ///< axes that a sweep walks, outermost first
  int vec_axis = -1;
  bool row_vector = true;  ///< the vector axis is an inner one
  int row_axis = -1;       ///< of the grid: rows that are in the tile together
  int64_t rows = 1;        ///< how many
  int64_t vectors = 1, lanes = 1;
  bool chunked = false;    ///< a long vector axis is cut for the threads
  std::vector<bool> kept;  ///< by expression: stored in scratch for later sweeps
  friend bool operator==(const SweepChoice&, const SweepChoice&) = default;
};

/// A CPU's register tile of rows x vectors over two output axes of one reduction.
struct PanelChoice {
  static constexpr std::string_view kName = "panel";
  std::vector<int> grid;   ///< other output axes, outermost first
  std::vector<int> inner;  ///< reduced axes in loop order
  int vec_axis = -1, row_axis = -1;
  int64_t rows = 1, vectors = 1, lanes = 1;
  std::vector<int64_t> vec_strides;       ///< by read of the reduction's body
  std::vector<bool> constants_in_panels;  ///< by read
  int staged_read = -1;                   ///< staged in scratch panel by panel
  bool rows_outermost = false;
  int64_t depth = 1;       ///< elements of the innermost reduced axis in a step: 4 of bytes
  int staged_factor = -1;  ///< of the product, 0 or 1: computed into scratch panel by panel
  /// The last of `inner`, so many, are summed up apart; what is the same along them comes behind.
  int64_t apart = 0;
  /// Of the first of `inner` a part has so many; 0: the sum is made at once. What the parts before
  /// summed up waits in scratch, of so many rows and of the last axes of the grid that the vectors
  /// do not depend on.
  int64_t part = 0, part_rows = 0, part_axes = 0;
  friend bool operator==(const PanelChoice&, const PanelChoice&) = default;
};

/// A GPU's rows: element-wise expressions and reductions over common axes on lanes, warps, blocks,
/// clusters or all blocks. The fields are those of RowLayout (schedule/gpu/row_layout.h).
struct RowsChoice {
  static constexpr std::string_view kName = "rows";
  int vec_axis = -1;
  std::vector<int> free, row;
  AxisDigits digits;
  int64_t warps = 1;
  bool resident = true, joins = false;
  int split = -1;
  int64_t part = 0, parts = 1;
  bool cluster = false;
  int64_t blocks = 0;
  bool keeps = false;
  int64_t kept_dims = 0;
  int64_t together = 1;
  int64_t per_sm = 0;
  /// Of rows that are split over the grid: what follows a barrier is a nest of its own, which makes
  /// again what it needs, so that the kernel may be one of a launch.
  bool apart = false;
  int cross = -1;
  AxisDigits cross_digits;
  friend bool operator==(const RowsChoice&, const RowsChoice&) = default;
};

/// A GPU's rows that are reduced along themselves and across each other.
struct TwoWaysChoice {
  static constexpr std::string_view kName = "two_ways";
  std::vector<int> along;  ///< axes of a row, outermost first
  AxisDigits digits;
  int64_t warps = 1, blocks = 1, per_sm = 1;
  int64_t chunk = 1;  ///< rows of a block
  friend bool operator==(const TwoWaysChoice&, const TwoWaysChoice&) = default;
};

/// A GPU's product through tiles in shared memory, on matrix units or plain cores.
struct TilesChoice {
  static constexpr std::string_view kName = "tiles";
  int64_t m = 0, n = 0, k = 0;
  int64_t warps_m = 1, warps_n = 1;
  int64_t stages = 2;
  int64_t splits = 1;   ///< of the depth, over blocks
  bool groups = false;  ///< groups of four warps multiply out of shared memory
  friend bool operator==(const TilesChoice&, const TilesChoice&) = default;
};

/// A GPU's reduction with a tile of results for each thread.
struct ThreadTilesChoice {
  static constexpr std::string_view kName = "thread_tiles";
  std::vector<int> others;  ///< output axes of single steps
  std::vector<int> inner;   ///< reduced axes in loop order
  int row_axis = -1, column_axis = -1;
  std::vector<Place::Digit> row_digits, column_digits;
  int64_t warps = 1;
  bool shared = false;       ///< operands pass through tiles in shared memory
  bool window = false;       ///< a thread's rows, the last of row_digits, read a window together
  int beside_axis = -1;      ///< one of `others` whose neighbours are made by a block's warps
  int64_t beside_warps = 1;  ///< so many of them
  friend bool operator==(const ThreadTilesChoice&, const ThreadTilesChoice&) = default;
};

/// A GPU's chain of products in one loop that carries (kChain): all members lie on the fragments of
/// a block, whose warps stand one below another along its rows.
struct FragmentsChoice {
  static constexpr std::string_view kName = "fragments";
  int64_t warps = 4;
  int64_t stages = 2;         ///< of what a step loads
  int64_t depth = 0;          ///< steps through the depth of products of inputs; 0: no steps
  bool left_in_block = true;  ///< what the rows multiply stays in shared memory, else in registers
  friend bool operator==(const FragmentsChoice&, const FragmentsChoice&) = default;
};

using Choice = std::variant<SweepChoice, PanelChoice, RowsChoice, TwoWaysChoice, TilesChoice,
                            ThreadTilesChoice, FragmentsChoice>;

/// How the work of a kernel is cut into blocks: loops over the blocks, then loops that a block
/// walks in turns, each in steps along one axis of each root. A turn's axis that a loop over the
/// blocks has, too, is walked within its step. Expressions are called by their positions in the
/// group.
struct BlockPartition {
  struct Loop {
    int64_t step = 1;
    bool turns = false;
    std::vector<int> axes;  ///< by root; -1: the root has none
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  std::vector<int> roots;
  std::vector<Loop> loops;
  friend bool operator==(const BlockPartition&, const BlockPartition&) = default;
};

/// A loop of a block that carries reductions in steps along the axis of one of them.
struct CarriedAxis {
  int member = -1;    ///< position in the group of that reduction
  int reduction = 0;  ///< of its axes that it reduces, the number
  int64_t step = 1;
  int64_t splits = 1;  ///< parts of the axis, each of which blocks of its own go along
  friend bool operator==(const CarriedAxis&, const CarriedAxis&) = default;
};

/// How one kernel is composed: one iteration space, stages of its blocks that hand each other
/// values on chip, contractions in one loop of a block that carries what is reduced along it,
/// members side by side on disjoint blocks, or members one after another on all blocks, with
/// barriers of the grid between, or of the one cluster that all blocks form.
///     leaf(rows vec_axis 1 free [0] row [1] digits {0: WARP_8, 1: REG_2-LANE_32-VEC_4} warps 8)
///     block(v7: d0 1, d1 64) { leaf(panel …) v0 v1; leaf(sweep …) v2 v3 v4 v5 v6; leaf(panel …) v7
///     } pack { leaf(…); leaf(…) } grid { leaf(…); block(…) { … } }
///     chain(v12: d0 1, d1 64 carrying v7 r0 256) { leaf(panel …) v0 v1; leaf(sweep …) v2 … ;
///     leaf(…) v12 }
///     chain(v12: d0 64 carrying v7 r0 32 splits 8) { leaf(fragments …) v0 v1 … }
///     cluster 8 { leaf(…); leaf(…) } recur cluster 4 { leaf(…) } recur resident { leaf(…) }
struct Composition {
  enum class Kind : uint8_t { kLeaf, kBlock, kChain, kPack, kGrid, kCluster, kRecur };
  Kind kind = Kind::kLeaf;
  Choice choice;  ///< kLeaf
  /// kPack, kGrid, kCluster, kRecur; kBlock, kChain: its stages, leaves, in their order.
  std::vector<Composition> members;
  /// kBlock, kChain. Positions are those in the group; of a chain, in the program that
  /// carry_reductions (expr/reductions/carry_reductions.h) makes of it.
  BlockPartition partition;
  CarriedAxis carried;  ///< kChain
  /// kCluster, kRecur: blocks of the cluster that all of the launch is; 0: it is none.
  int64_t cluster_blocks = 0;
  /// kRecur: what all steps read alike stays in the memory of blocks, one an SM.
  bool resident = false;
  /// kBlock, kChain: by stage, positions of the expressions that it makes, ascending.
  std::vector<std::vector<int>> stages;
  bool has_stages() const { return kind == Kind::kBlock || kind == Kind::kChain; }
  /// kLeaf: the library whose call runs in its place where there is one; empty: none.
  std::string library;
  /// Members that are kernels of their own elsewhere, in one launch.
  bool has_members() const { return kind == Kind::kPack || kind == Kind::kRecur || in_turns(); }
  /// Its members are kernels one after another, with barriers between.
  bool in_turns() const { return kind == Kind::kGrid || kind == Kind::kCluster; }
  friend bool operator==(const Composition&, const Composition&) = default;
};

/// The name of the template that chose: the variant's.
std::string_view choice_name(const Choice& choice);

/// Fields that have their default are left out.
std::string print(const Choice& choice);
/// `v7: d0 1, d1 64; d1 8`: the roots, the loops over blocks, behind `;` those that a block walks.
std::string print(const BlockPartition& partition);
std::string print(const Composition& composition);
/// The inverses of print. Errors (kInvalidInput) begin with "line:column: ".
Result<Choice> parse_choice(TextCursor& cursor);
Result<BlockPartition> parse_partition(TextCursor& cursor);
Result<Composition> parse_composition(TextCursor& cursor);

}  // namespace weft
