#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "kernel/kernel_builder.h"
#include "lower/distribute_grid.h"
#include "lower/lower.h"
#include "lower/shifted_exponentials.h"
#include "lower/values_in_outputs.h"
#include "tile/places.h"

/// The machinery behind lower_to_kernel; private to src/lower.
namespace weft::lowering {

/// Kernel variables: numbers for registers that index expressions may name. Tile variables lie
/// below kKernelVarBase, the runtime indices of a gather above kRuntimeIndexBase.
inline constexpr int kKernelVarBase = 1 << 16;
/// The lane of the vector axis.
inline constexpr int kLaneVar = kKernelVarBase;

/// One digit of the number of a thread's lane or warp: number / stride % extent.
struct ThreadDigit {
  PlaceLevel level = PlaceLevel::kLane;
  int64_t stride = 1, extent = 1;
  friend auto operator<=>(const ThreadDigit&, const ThreadDigit&) = default;
};

/// How a statement's box lies on threads and in registers: per axis `regs` unrolled copies and
/// (on a GPU) digits of the thread's number; one axis may be the vector axis. Element `copy` of an
/// axis lies at the sum of its register digits, its thread digits and the vector lane.
struct Box {
  struct RegDigit {
    int64_t extent = 1, divisor = 1;
  };
  struct Axis {
    TileVarId var = -1;
    int64_t regs = 1;
    int64_t lanes = 1;
    std::vector<RegDigit> digits;  ///< of the copy's number, most significant first
    std::vector<std::pair<ThreadDigit, int64_t>> threads;  ///< with elements a step
    struct LoopDigit {
      int var = -1;  ///< kernel variable
      int64_t extent = 1, step = 1;
    };
    std::vector<LoopDigit> loops;  ///< digits that are loops around what is written

    int64_t start(int64_t copy) const;  ///< of a register copy, for thread 0
    int64_t thread_reach() const;       ///< largest sum of the thread digits and the loops
  };
  std::vector<Axis> axes;
  int vec_axis = -1;
  int32_t lanes = 1;
  /// Threads that hold copies of the same elements: those with a digit above zero here.
  std::vector<ThreadDigit> copies;

  int find(int var) const;  ///< axis of a variable, -1 if it is not of the box
  int64_t points() const;
};

/// The register copy in hand, one number per axis of the box.
using Point = std::vector<int32_t>;

/// f(number, point) for each register copy of a box, the last axis fastest.
template <typename F>
void for_each_point(const Box& box, F&& f) {
  Point point(box.axes.size(), 0);
  const int64_t n = box.points();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    for (size_t a = box.axes.size(); a-- > 0;) {
      point[a] = static_cast<int32_t>(rest % box.axes[a].regs);
      rest /= box.axes[a].regs;
    }
    f(i, point);
  }
}

/// A value of register scope: one register (scalar or vector) per point of its box.
struct RegisterTile {
  Box box;
  /// Per coordinate: the value's index with box variables at zero, over kernel variables; and the
  /// box axis it runs along.
  std::vector<IndexExpr> base;
  std::vector<int> axis;
  std::vector<Reg> regs;
};

/// An index expression made ready for a statement: over box variables (still tile variables),
/// kernel variables and runtime indices.
struct PreparedIndex {
  /// `coefficient` times a box variable times a product of kernel variables: open strides.
  struct Scaled {
    int box_var = -1;
    int factor = -1;
    int64_t coefficient = 0;
  };
  IndexExpr expr;
  bool affine = false;
  AffineForm form;  ///< products of kernel variables count as kernel variables
  std::vector<Scaled> scaled;
};

/// Where the points of a box lie within bounds: rest of a tail.
struct Valid {
  int64_t count = 0;    ///< with a register: at most so many, 0 where nothing is known
  Reg reg = kNoReg;     ///< known at run time only
  int64_t divisor = 1;  ///< of what is known at run time only
};

class Lowering {
 public:
  Lowering(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target);
  Result<KernelFunction> run();
  /// The kernel without its instructions.
  Result<KernelFunction> outline();

 private:
  /// A nest of a phase and where it stands in the program's body.
  struct Nest {
    const TileNode* node = nullptr;
    std::vector<int32_t> path;
  };

  // lower.cpp
  void add_parameters();
  Status add_own_buffers(bool workspaces);
  std::vector<std::vector<Nest>> phases() const;

  // grid.cpp
  Status emit_phase(const std::vector<Nest>& nests);
  Status emit_nest(const Nest& nest, Reg begin, Reg end);
  void emit_pieces(const std::vector<GridPiece>& pieces);
  void emit_grid_nest(const TileNode& nest, Reg begin, Reg end);
  void emit_grid_dim(const TileLoop& loop, size_t dim, Reg lo, Reg hi);
  void emit_grid_body(const TileBody& body, Reg lo, Reg hi);
  IndexExpr open_grid_items(const TileNode& nest) const;
  IndexExpr open_items_below(const TileLoop& loop, size_t dim) const;
  int64_t grid_items(const TileNode& nest) const;

  // open_grid.cpp
  /// A dimension of the grid with the items [lo, hi) of it and of the dimensions within.
  struct OpenDim {
    const TileLoop* loop = nullptr;
    size_t dim = 0;
    IndexExpr begin, extent;
    Reg lo = kNoReg, hi = kNoReg;
    Reg first = kNoReg, last = kNoReg;  ///< iterations that hold some of them
    IndexExpr inner = 1;                ///< items of one iteration
  };
  void find_iterations(OpenDim& open);
  /// Where the predicates of a body are decided along an open dimension.
  struct DecidedRange {
    int64_t from = 0;  ///< first iteration
    struct Limit {
      IndexExpr slack;  ///< at iteration 0; decided while slack - loss * iteration >= 0
      int64_t loss = 1;
    };
    std::vector<Limit> limits;
  };
  void emit_open_grid_dim(const TileLoop& loop, size_t dim, Reg lo, Reg hi);
  void emit_open_iterations(const OpenDim& open, const DecidedRange& decided, Reg end);
  void emit_open_rest(const OpenDim& open, Reg begin);
  void emit_open_iteration(const OpenDim& open, const IndexExpr& origin, Reg iteration);
  DecidedRange decided_range(const TileBody& body, const TileLoop::Dim& dim,
                             const IndexExpr& begin);

  // gpu_grid.cpp
  void emit_gpu_phase(const std::vector<Nest>& nests);
  void emit_gpu_nest(const TileNode& nest, Reg item);
  void emit_gpu_items(const Nest& nest, Reg begin, Reg end);
  void emit_part_of_cluster(const TileLoop& loop, int32_t child);
  /// Binds dimensions [dim, last) of the loop to their digits of `item`; what is left of it, the
  /// number within loops further inside, is given to `body`.
  void bind_grid_dims(const TileLoop& loop, size_t dim, size_t last, Reg item,
                      const std::function<void(Reg below)>& body);
  void emit_gpu_grid_body(const TileBody& body, Reg item);
  void emit_grid_barrier_before(int32_t child);
  int64_t block_count() const;
  Status check_one_iteration_a_block() const;

  // threads.cpp
  /// One of the reductions that a statement makes.
  using ReductionKey = std::pair<const TileStatement*, int>;
  Reg reduce_over_lanes(const Box& box, const TileStatement& statement, Combiner combiner,
                        Reg value);
  void reduce_over_warps(const Box& box, const ReductionKey& key, Combiner combiner,
                         std::vector<Reg>* values);
  static bool spans_warps(const Box& box, const TileStatement& statement);
  struct Exchange {
    int32_t buffer = -1;
    int64_t lanes = 1;  ///< 32 where the lanes of a warp hold different elements
    std::vector<ThreadDigit> reduced;
    int64_t warps = 1;  ///< that hold parts; others hold copies
  };
  void place_exchanges();
  Exchange make_exchange(const Box& box, const ReductionKey& key, DType type,
                         int64_t result_points);
  void leave_part(const Exchange& exchange, Reg value, int64_t result_point);
  Reg combine_parts(const Exchange& exchange, Combiner combiner, int64_t result_point);
  Reg each_lane(Reg value, const std::function<Reg(Reg)>& from, Combiner combiner);
  Reg join_lanes(std::vector<Reg> parts);
  Reg is_first_copy(const std::vector<ThreadDigit>& copies);
  Reg thread_number(PlaceLevel level);
  Reg emit_digit(const ThreadDigit& digit);
  int thread_var(const ThreadDigit& digit);
  int64_t level_size(PlaceLevel level) const {
    return level == PlaceLevel::kLane ? 32 : program_.warps;
  }
  int64_t grid_items_below(const TileLoop& loop, size_t dim) const;

  // loops.cpp
  void emit_body(const TileBody& body);
  void emit_node(const TileNode& node, int32_t child);  ///< number `child` of the body at hand
  void emit_seq_loop(const TileLoop& loop);
  void emit_condition(const TileCondition& condition);
  void bind_carried_buffers(const TileLoop& loop, const IndexExpr& iteration);
  void emit_kept_carries(const TileBody& body);
  std::vector<Reg> emit_iterations(const TileLoop& loop, std::vector<Reg> carries);
  std::vector<Reg> emit_seq_dim(const TileLoop& loop, size_t dim, std::vector<Reg> carries);
  std::vector<Reg> emit_constant_dim(const TileLoop& loop, size_t dim, std::vector<Reg> carries,
                                     int64_t begin, int64_t end);
  std::vector<Reg> emit_runtime_dim(const TileLoop& loop, size_t dim, std::vector<Reg> carries,
                                    const IndexExpr& begin, const IndexExpr& end);
  std::vector<Reg> emit_single_steps(const TileLoop& loop, size_t dim, std::vector<Reg> carries,
                                     Reg first, Reg last, Interval origins);
  std::vector<Reg> emit_iteration(const TileLoop& loop, size_t dim, const IndexExpr& origin,
                                  std::vector<Reg> carries);
  struct Piece {
    int64_t begin = 0, end = 0;  ///< iterations
  };
  /// Cuts iterations [0, trips) where a predicate of the body changes from decided to undecided or
  /// back.
  std::vector<Piece> split_iterations(const TileBody& body, const TileLoop::Dim& dim,
                                      int64_t origin0, int64_t trips);
  IndexExpr add_kernel_var(Reg reg, Interval range);
  /// Integer comparisons of a body, and the ranges of the loops inside it.
  std::vector<IndexExpr> predicates_of(const TileBody& body) const;
  std::map<int, Interval> inner_ranges(const TileBody& body) const;

  // staged_loops.cpp
  /// One staged load: its box, and whether it needs no registers on the way.
  struct StagedLoad {
    const TileStatement* statement = nullptr;
    Box box;
    bool async = false;
    std::vector<Reg> values;  ///< not async: of the iteration to come, by point
  };
  /// The iterations of a loop of several stages.
  struct StagedTrips {
    IndexExpr begin = 0;
    int64_t count = 0;    ///< at most, where `reg` is not kNoReg
    Reg reg = kNoReg;     ///< known at run time only
    Reg extent = kNoReg;  ///< of a tail: what the loop runs over, in elements
    int64_t extent_divisor = 1;
  };
  bool is_staged(const TileLoop& loop) const;
  std::vector<Reg> emit_staged_loop(const TileLoop& loop, std::vector<Reg> carries);
  std::vector<StagedLoad> staged_loads(const TileLoop& loop);
  StagedTrips staged_trips(const TileLoop::Dim& dim);
  std::vector<Reg> emit_staged_iteration(const TileLoop& loop, const StagedTrips& trips, Reg t,
                                         std::vector<StagedLoad>& loads, std::vector<Reg> state);
  void bind_staged(const TileLoop::Dim& dim, const StagedTrips& trips, const IndexExpr& t);
  Reg comes(const StagedTrips& trips, Reg t);
  void issue_copies(const TileLoop& loop, const StagedTrips& trips,
                    const std::vector<StagedLoad>& loads, Reg t);
  void load_ahead(const TileLoop& loop, const StagedTrips& trips, std::vector<StagedLoad>& loads,
                  Reg t);
  void store_staged(const StagedLoad& load);
  void copy_async(const StagedLoad& load);
  bool can_copy_async(const TileStatement& statement, const Box& box);
  void set_stage(const std::vector<StagedLoad>& loads, Reg t);

  /// Memory of matrix units holds zeros where a statement's box is predicated off.
  struct FillMask {
    bool outside = false;  ///< outside of the tile in every thread
    Reg tile = kNoReg;     ///< inside of the tile
    bool empty = false;    ///< predicated off in every thread
    Reg valid = kNoReg;    ///< not predicated off
  };
  FillMask fill_mask(const Box& box, const Point& point);
  Reg filled_value(const TileStatement& statement, const Point& point, const FillMask& mask);

  // matrix_units.cpp
  /// `carry` (-1: none) is the accumulator that the product is added to.
  void emit_matrix_product(const TileStatement& statement, const UnitProduct& product,
                           TileSymbolId carry);
  /// The carry that `next` adds the product to, which nothing else reads; -1.
  TileSymbolId accumulates(const TileNode& product, const TileNode& next) const;
  using Fragments = std::vector<std::vector<Reg>>;  ///< by tile: the words of one lane
  Fragments load_fragments(const Scalar& read, const UnitProduct& product, bool left, int64_t step);
  Fragments pack_fragments(const Scalar& read, const UnitProduct& product, bool left, int64_t step);
  Reg pack_word(Reg elements);
  bool fills_matrix_rows(TileSymbolId symbol) const {
    return scopes_.symbols[static_cast<size_t>(symbol)].swizzle.has_value();
  }

  // statements.cpp
  void emit_statement(const TileStatement& statement);
  void emit_assignment(const TileStatement& statement, const Box& box);
  Box make_box(const std::vector<TileVarId>& vars, const Place& place);
  Box make_thread_box(const std::vector<TileVarId>& vars, const Place& place);
  Place resolved_place(const TileStatement& statement) const;
  void write_target(const TileRef& target, const Box& box, const std::vector<Reg>& values,
                    const std::vector<bool>& present);
  void store_element(const TileRef& target, const PreparedIndex& offset, const Box& box,
                     const Point& point, Reg value, Reg mask);
  Reg store_mask(Reg mask, const Box& box);
  RegisterTile make_tile(const TileRef& target, const Box& box);
  std::vector<Reg> initial_carry(const TileCarry& carry);
  /// Whether an update's mask excludes what was excluded when the carry began: lanes of a tail
  /// around the whole loop, which nothing reads.
  bool masked_since_entry(TileSymbolId carry, int64_t number, Reg mask) const;

  // rolled_boxes.cpp
  struct RolledDigit {
    size_t axis = 0;
    int64_t extent = 1, step = 1;
  };
  bool may_roll(const TileStatement& statement, TileVarId var) const;
  /// `reduced`: digits of reduced axes, else of the others.
  std::vector<RolledDigit> roll(const TileStatement& statement, bool reduced, Box* box) const;
  void hoist_loads(const TileStatement& statement, const Box& box,
                   const std::vector<RolledDigit>& rolled);
  std::vector<Reg> emit_rolled(
      const std::vector<RolledDigit>& digits, size_t first, Box box, std::vector<Reg> carries,
      const std::function<std::vector<Reg>(const Box&, const std::vector<Reg>&)>& body);

  // reductions.cpp
  struct ReducedBox {
    Box box;
    std::vector<int> kept;  ///< axes of the domain's box
  };
  /// What one point of the domain adds to result element `result`.
  struct Contribution {
    size_t result = 0;
    Point point;
    Reg mask = kNoReg;
    Reg value = kNoReg;
  };
  void emit_reduction(const TileStatement& statement, const Box& box);
  ReducedBox reduced_box(const TileStatement& statement, const Box& box) const;
  std::vector<Contribution> contributions(const TileStatement& statement, const Box& box,
                                          const ReducedBox& result);
  std::vector<Contribution> reduce_in_loops(const TileStatement& statement, Combiner combiner,
                                            const std::vector<RolledDigit>& rolled, Box box,
                                            const ReducedBox& result);
  static std::vector<std::vector<Contribution>> by_result(
      const std::vector<Contribution>& contributed, const ReducedBox& result);
  Reg combine_contributions(Combiner combiner, const std::vector<Contribution>& parts);
  std::vector<Reg> reduce(const TileStatement& statement, int sweep, Combiner combiner,
                          const Box& box, const ReducedBox& result,
                          const std::vector<Contribution>& contributed);
  void write_reduced(const TileRef& target, const ReducedBox& result,
                     const std::vector<Reg>& values);
  void emit_welford(const TileStatement& statement, const Box& box, const ReducedBox& result,
                    std::vector<Contribution> parts);
  void emit_argmax(const TileStatement& statement, const Box& box, const ReducedBox& result,
                   std::vector<Contribution> parts);
  Reg reduced_count(const TileStatement& statement, const Box& box, DType type);

  // expressions.cpp
  struct EvalKey {
    const Scalar* scalar;
    uint64_t point;
    Reg guard;
    bool operator==(const EvalKey&) const = default;
  };
  struct EvalKeyHash {
    size_t operator()(const EvalKey& k) const {
      return std::hash<const void*>()(k.scalar) ^ (k.point * 0x9E3779B97F4A7C15ULL) ^
             (static_cast<uint64_t>(k.guard) << 17);
    }
  };
  void begin_evaluation(const Box& box);
  Reg evaluate(const ScalarRef& s, const Point& point, Reg guard);
  Reg evaluate_uncached(const ScalarRef& s, const Point& point, Reg guard);
  Reg evaluate_select(const Scalar& s, const Point& point, Reg guard);
  Reg evaluate_apply(const Scalar& s, const Point& point, Reg guard);
  std::optional<Reg> evaluate_accumulation(const Scalar& s, const Point& point, Reg guard);
  uint64_t box_mask(const ScalarRef& s);
  uint64_t project(const Point& point, uint64_t mask) const;
  std::optional<bool> decide(const ScalarRef& condition, const Point& point);
  Reg combine_guards(Reg a, Reg b);
  Reg to_lanes(Reg r, int32_t lanes) {
    return builder_.type(r).lanes == lanes ? r : builder_.broadcast(r, lanes);
  }
  Reg combine_values(Combiner combiner, Reg a, Reg b);
  Reg lane_mask_of(const Box& box, const Point& point, bool* skip);
  Reg lane_mask_along(const Box& box, const Point& point, uint64_t axes, bool* skip);
  Reg own_guard(const Scalar& s, const Point& point, Reg guard, uint64_t axes);

  // register_reads.cpp
  /// Where a reader finds an element of a register tile: a register, a lane of its vector, and how
  /// far away the lane of the warp is that holds it.
  struct RegisterSource {
    int64_t number = 0;
    int64_t lane = 0;
    bool moves = false;
    IndexExpr lane_shift = 0;
  };
  struct PointOffset;
  Reg read_register(const Scalar& read, const RegisterTile& tile, const Point& point);
  Reg read_lane(const RegisterTile& tile, const std::vector<PointOffset>& offsets, int64_t lane,
                bool as_vector, const std::string& name);
  void locate(const Box::Axis& axis, const PointOffset& at, int64_t lane, const std::string& name,
              RegisterSource* out);
  void remove_threads(const Box::Axis& axis, std::vector<std::pair<int, int64_t>>* terms) const;

  // cluster_reads.cpp
  /// One dimension of the cluster loops around what is emitted.
  struct ClusterDim {
    TileVarId origin = -1;
    int64_t begin = 0, step = 1, trips = 1;
    int64_t stride = 1;   ///< of the iteration in the block's rank
    IndexExpr iteration;  ///< of this block
    IndexExpr any;        ///< a variable that stands for any block's
  };
  /// Where an element lies that some block of the cluster has made.
  struct ClusterAddress {
    IndexExpr rank, offset;
    bool own = false;  ///< this block has made it
  };
  ClusterAddress cluster_address(TileSymbolId symbol, const std::vector<IndexExpr>& indices,
                                 bool next) const;
  Reg load_from_cluster(const Scalar& read, const ClusterAddress& at, const Point& point,
                        Reg guard);

  // reads.cpp
  Reg evaluate_read(const Scalar& read, const Point& point, Reg guard);
  Reg runtime_index(const Scalar& read, size_t number, const TileSymbol& symbol, const Point& point,
                    Reg guard);
  Reg load_element(int32_t buffer, const Scalar& read, const PreparedIndex& offset,
                   const Point& point, Reg guard);
  std::optional<Reg> load_transposed(int32_t buffer, const Scalar& read,
                                     const PreparedIndex& offset, const Point& point, Reg guard);
  /// Where the lanes of a vector read when their offsets differ by constants, as in
  /// `x[c + lane/4*4]`: `lanes` positions behind a common start, all within one vector.
  struct LaneWindow {
    int64_t begin = 0;
    int64_t reach = 0;  ///< one more than the largest position
    std::vector<int64_t> lanes;
    std::vector<std::pair<int, int64_t>> terms;
  };
  std::optional<LaneWindow> lane_window(const PreparedIndex& offset, const Point& point);
  /// One contiguous load and a permutation of its lanes in place of a gather.
  std::optional<Reg> load_permuted(int32_t buffer, const Scalar& read, const PreparedIndex& offset,
                                   const Point& point, Reg guard);
  /// Leading lanes that `guard` lets through at a point, 0 if it is not the mask of a tail.
  int64_t lanes_within(const Point& point, Reg guard);
  /// `next`: of a carry's next value, which may have a buffer of its own.
  IndexExpr buffer_offset(TileSymbolId symbol, const std::vector<IndexExpr>& indices,
                          bool next = false) const;

  // index_emission.cpp
  IndexExpr bind(const IndexExpr& e) const;  ///< replaces bound tile variables
  Interval range_of_var(int id) const;
  PreparedIndex prepare(const IndexExpr& e);
  bool as_affine_of_products(const IndexExpr& e, PreparedIndex* out);
  /// The affine form without box variables, products of kernel variables as kernel variables.
  bool affine_in_kernel_vars(const IndexExpr& e, AffineForm* form);
  int product_var(std::vector<int> factors);
  /// Whether a kernel variable is an open size or a product of them.
  bool is_invariant_size(int id) const;
  bool product_has_lane(int id) const;
  IndexExpr at_point(const PreparedIndex& index, const Point& point) const;
  /// constant + lanes_coefficient * lane + the rest, at a point of the current box.
  struct PointOffset {
    int64_t constant = 0;
    int64_t lane_coefficient = 0;
    std::vector<std::pair<int, int64_t>> terms;  ///< kernel variables and runtime indices
  };
  std::optional<PointOffset> affine_at_point(const PreparedIndex& index, const Point& point);
  Reg emit_terms(const std::vector<std::pair<int, int64_t>>& terms, int64_t constant);
  /// Where an element of a symbol lies that is row-major at an offset.
  Reg swizzled(TileSymbolId symbol, const PointOffset& at);
  Reg swizzled(TileSymbolId symbol, Reg offset);
  Reg emit_index(const IndexExpr& e);
  Reg kernel_var(int id);

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  const Target& target_;
  KernelFunction kernel_;
  KernelBuilder builder_;

  std::vector<std::optional<IndexExpr>> bound_;  ///< by tile variable
  std::vector<std::optional<Valid>> valid_;      ///< by tile variable
  struct KernelVar {
    Reg reg = kNoReg;
    Interval range;
    // Written where they are used, instead of `reg`:
    std::optional<ThreadDigit> digit;
    int32_t argument = -1;     ///< of the launch
    std::vector<int> factors;  ///< kernel variables and runtime indices, ascending
  };
  std::vector<KernelVar> kernel_vars_;
  std::map<std::vector<int>, int> product_vars_;
  int32_t arguments_ = 0;
  /// Never negative here: what splitting an index set decides where the extent is open.
  std::vector<IndexExpr> facts_;
  std::vector<int32_t> buffer_of_;          ///< by symbol: kernel buffer, -1 for registers
  std::vector<IndexExpr> buffer_elements_;  ///< by kernel buffer; over kernel variables
  std::vector<ClusterDim> cluster_dims_;    ///< GPU: around what is emitted
  std::vector<ClusterDim> shared_dims_;     ///< GPU: of the loops `by cluster` so far
  std::map<TileSymbolId, RegisterTile> tiles_;
  std::map<TileSymbolId, RegisterTile> next_tiles_;
  std::map<TileSymbolId, std::vector<Reg>> carry_masks_;  ///< by register, as the loop began
  std::set<const Scalar*> shifted_exponentials_;
  std::map<TileSymbolId, ValueInOutput> values_in_outputs_;
  const bool gpu_;
  std::map<const TileStatement*, Place> statement_places_;  ///< GPU: as derived
  std::map<ReductionKey, int32_t> exchange_buffers_;        ///< GPU: of reductions over warps
  std::map<ThreadDigit, int> thread_vars_;
  std::vector<int32_t> path_;                  ///< GPU: of the body at hand, for barriers
  std::map<TileSymbolId, IndexExpr> stages_;   ///< of staged loads: the buffer at hand
  std::set<const TileStatement*> prefetched_;  ///< made ahead by the loop around them
  std::set<int32_t> rotating_;  ///< buffers whose iterations write another part than is read
  std::map<TileSymbolId, int64_t> read_counts_;  ///< GPU: reads of a value in the program
  int repetitions_ = 0;  ///< loops around what is emitted, that over the block's items included
  /// Carries with two buffers: which holds the value of the iteration at hand, the other the next.
  std::map<TileSymbolId, IndexExpr> carried_buffers_;
  /// CPU: of loops around barriers, what stands in them; and the thread's items of their nest.
  std::map<const TileLoop*, const std::vector<GridPiece>*> distributed_;
  Reg begin_ = kNoReg, end_ = kNoReg;
  int64_t emitted_statements_ = 0;

  // Of the statement in hand.
  Box box_;
  std::map<std::pair<const Scalar*, uint64_t>, Reg> hoisted_;  ///< loads made before its loops
  Reg statement_mask_ = kNoReg;  ///< of the point in hand, for all of the box
  bool box_fills_tile_ = false;  ///< no thread's element lies outside of the tile
  std::unordered_map<EvalKey, Reg, EvalKeyHash> memo_;
  std::unordered_map<const Scalar*, uint64_t> box_masks_;
  std::unordered_map<const Scalar*, PreparedIndex> prepared_;
  std::unordered_map<const Scalar*, std::vector<PreparedIndex>> prepared_coordinates_;
  std::vector<ScalarRef>
      kept_;  ///< expressions made here, alive as long as their addresses are keys
  std::vector<std::pair<int, Reg>>
      runtime_indices_;  ///< bound while one gather's address is written
};

/// Parameters that select body forms, for tests and readers: at most this many copies of a loop
/// body by index-set splitting.
inline constexpr size_t kMaxPieces = 7;
inline constexpr int64_t kMaxEmittedStatements = 400;

}  // namespace weft::lowering
