#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "kernel/kernel_builder.h"
#include "lower/core/box.h"
#include "lower/core/indices.h"
#include "lower/core/values_in_outputs.h"
#include "tile/scope_analysis.h"

namespace weft::lowering {

/// What index expressions may name beside tile variables.
struct KernelVars {
  std::vector<KernelVar> all;
  std::map<std::vector<int>, int> products;
  std::map<ThreadDigit, int> digits;
  int32_t arguments = 0;  ///< of the launch
  /// Of an index that is known at run time: its value, and what it is kept in.
  struct Runtime {
    int id = 0;
    Reg value = kNoReg;
    Interval range = kUnbounded;
  };
  /// Bound while one gather's address is written.
  std::vector<Runtime> runtime_indices;
};

/// What holds where code is being written.
struct Bindings {
  std::vector<std::optional<IndexExpr>> bound;  ///< by tile variable
  std::vector<std::optional<Valid>> valid;      ///< by tile variable
  /// Never negative here: what splitting an index set decides where the extent is open.
  std::vector<IndexExpr> facts;
  int repetitions = 0;  ///< loops around, that over the block's items included
  std::set<const TileStatement*> made_ahead;  ///< by the loop around them
  int64_t emitted_statements = 0;             ///< so far
};

/// Where values in memory lie.
struct Memory {
  std::vector<int32_t> buffer_of;   ///< by symbol: kernel buffer, -1 for registers
  std::vector<IndexExpr> elements;  ///< by kernel buffer; over kernel variables
  /// Carries with two buffers: which holds the value of the iteration at hand, the other the next.
  std::map<TileSymbolId, IndexExpr> carried;
  std::map<TileSymbolId, IndexExpr> stages;  ///< of staged loads: the buffer at hand
  std::set<int32_t> rotating;  ///< buffers whose iterations write another part than is read
};

/// Values in registers.
struct Registers {
  std::map<TileSymbolId, RegisterTile> tiles;
  std::map<TileSymbolId, RegisterTile> next;             ///< the next values of carries
  std::map<TileSymbolId, std::vector<Reg>> carry_masks;  ///< by register, as the loop began
};

/// The box for which expressions are being evaluated, and what was found out for it.
struct AtHand {
  struct Key {
    const Scalar* scalar;
    uint64_t point;
    Reg guard;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return std::hash<const void*>()(k.scalar) ^ (k.point * 0x9E3779B97F4A7C15ULL) ^
             (static_cast<uint64_t>(k.guard) << 17);
    }
  };
  Box box;
  std::map<std::pair<const Scalar*, uint64_t>, Reg> hoisted;  ///< loads made before its loops
  Reg mask = kNoReg;        ///< of the point in hand, for all of the box
  bool fills_tile = false;  ///< no thread's element lies outside of the tile
  /// Conditions of the selects around what is being evaluated that the point in hand decided, each
  /// with its value there: another point may take the other branch.
  std::vector<std::pair<ScalarRef, bool>> decided;
  std::unordered_map<Key, Reg, KeyHash> memo;
  std::unordered_map<Key, bool, KeyHash> lies_in_block;  ///< reads of a GPU's shared memory
  std::unordered_map<const Scalar*, uint64_t> box_masks;
  std::unordered_map<const Scalar*, PreparedIndex> prepared;
  std::unordered_map<const Scalar*, std::vector<PreparedIndex>> prepared_coordinates;
  /// Expressions made here, alive as long as their addresses are keys.
  std::vector<ScalarRef> kept;
};

/// A kernel while it is being written: the program with what was derived for it, the code so far,
/// and what holds where it goes on. The functions of this folder write what a CPU's and a GPU's
/// kernels have in common; what they do differently they override here.
class KernelWriter {
 public:
  KernelWriter(const TileProgram& p, const ScopeAnalysis& s);
  virtual ~KernelWriter() = default;
  KernelWriter(const KernelWriter&) = delete;

  bool is_gpu() const { return !program.cpu; }

  /// How the elements along `vars` lie where a statement has the place.
  virtual Box make_box(const std::vector<TileVarId>& vars, const Place& place) = 0;
  virtual Place place_of(const TileStatement& statement) const = 0;
  /// Kind, alignment and address of a value's own memory.
  virtual void place_buffer(const SymbolScope& scope, bool workspace, KernelBuffer* buffer) = 0;

  /// Nodes from number `first` of a body on that were written as one: how many.
  virtual size_t emit_together(const TileBody& /*body*/, size_t /*first*/) { return 0; }
  /// Around number `child` of the body at hand.
  virtual void enter_node(int32_t /*child*/) {}
  virtual void leave_node() {}
  /// All iterations, from the first values of the carries in registers to their last.
  virtual std::vector<Reg> emit_loop(const TileLoop& loop, std::vector<Reg> carries);
  virtual void emit_loop_body(const TileLoop& loop);
  /// Whether a unit for matrices made the statement.
  virtual bool emit_by_unit(const TileStatement& /*statement*/) { return false; }
  /// Whether a statement was stored as a whole, zeros beyond its tail.
  virtual bool fill_rows(const TileStatement& /*statement*/, const Box& /*box*/,
                         const PreparedIndex& /*offset*/) {
    return false;
  }
  /// Takes digits that become loops out of the box. `reduced`: of reduced axes, else of the others.
  virtual std::vector<RolledDigit> roll(const TileStatement& /*statement*/, bool /*reduced*/,
                                        Box* /*box*/) const {
    return {};
  }
  /// Makes loads that do not change along the rolled digits before their loops.
  virtual void hoist_loads(const TileStatement& /*statement*/, const Box& /*box*/,
                           const std::vector<RolledDigit>& /*rolled*/) {}

  /// The guard under which a read that depends on `axes` is loaded.
  virtual Reg load_guard(const Scalar& /*read*/, const Point& /*point*/, Reg guard,
                         uint64_t /*axes*/) {
    return guard;
  }
  /// An element that another thread's memory holds.
  virtual std::optional<Reg> read_elsewhere(const Scalar& /*read*/, const Point& /*point*/,
                                            Reg /*guard*/) {
    return std::nullopt;
  }
  /// A vector whose lanes do not lie side by side, by better means than a gather. `affine`: they
  /// lie at equal distances.
  virtual std::optional<Reg> load_spread(int32_t /*buffer*/, const Scalar& /*read*/,
                                         const PreparedIndex& /*offset*/, bool /*affine*/,
                                         const Point& /*point*/, Reg /*guard*/) {
    return std::nullopt;
  }
  /// What threads have made of their parts of a reduction, combined: one value over the lanes of a
  /// warp, then all over the warps.
  virtual Reg reduce_over_lanes(const Box& /*box*/, const TileStatement& /*statement*/,
                                Combiner /*combiner*/, Reg value) {
    return value;
  }
  /// `sweep`: which of the reductions that a statement makes.
  virtual void reduce_over_warps(const Box& /*box*/, const TileStatement& /*statement*/,
                                 int /*sweep*/, Combiner /*combiner*/,
                                 std::vector<Reg>* /*values*/) {}

  const TileProgram& program;
  const ScopeAnalysis& scopes;
  std::set<const Scalar*> shifted_exponentials;
  std::map<TileSymbolId, ValueInOutput> values_in_outputs;
  KernelFunction kernel;
  KernelBuilder builder;
  KernelVars vars;
  Bindings bindings;
  Memory memory;
  Registers registers;
  AtHand at_hand;
};

}  // namespace weft::lowering
