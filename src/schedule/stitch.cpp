#include <algorithm>
#include <limits>
#include <set>

#include "schedule/templates.h"
#include "schedule/tile_builder.h"

namespace weft {

namespace {

/// Rows longer than this many bytes are computed again rather than kept: they would not stay in a
/// core's second-level cache.
int64_t row_budget(const Target& target) { return target.l2_bytes / 2; }

/// Work items that give every thread several.
constexpr int64_t kItemsPerThread = 4;
/// Rows that are in a tile together at most.
constexpr int64_t kMostRows = 4;
/// Elements of one chunk when a long axis is cut for the threads.
constexpr int64_t kChunk = 4096;

/// Whether the output of a member runs along an axis (its reduction axes do not count).
bool output_has_axis(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                     int position, int axis) {
  const TensorExpr& e =
      program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(position)])];
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  return std::find(list.begin(), list.begin() + e.output_rank(), axis) !=
         list.begin() + e.output_rank();
}

/// Operations that take many cycles a vector.
bool is_costly(const ScalarRef& s) {
  bool costly = false;
  visit(s, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kApply) return;
    costly |= (n.op >= ScalarOp::kExp && n.op <= ScalarOp::kErf) || n.op == ScalarOp::kDiv ||
              n.op == ScalarOp::kPow;
  });
  return costly;
}

class Stitch {
 public:
  Stitch(const TensorProgram& program, const Group& group, const GroupAxes& axes,
         const Target& target, const std::string& name)
      : program_(program),
        group_(group),
        axes_(axes),
        target_(target),
        b_(program, group, axes, name),
        count_(static_cast<int>(group.exprs.size())) {}

  Result<ScheduledKernel> build(const ScheduleChoices* as_chosen) {
    if (as_chosen == nullptr) {
      choose_axes();
      decide_kept();
    } else if (!follow(*as_chosen)) {
      return invalid_input("a stitched kernel's choices are not those of " + b_.program().name);
    }
    ScheduledKernel out;
    out.choices = choices();
    TileBody body = grid_loops();
    b_.program().body = std::move(body);
    out.program = std::move(b_.program());
    out.parameters = b_.take_parameters();
    out.schedule_template = axes_.reductions.empty() ? "elementwise"
                            : row_vector_            ? "rows"
                                                     : "columns";
    return out;
  }

 private:
  bool reduces(int p) const { return !b_.expr(p).reduce_extents.empty(); }
  bool is_inner(int axis) const {
    return std::find(inner_.begin(), inner_.end(), axis) != inner_.end();
  }
  /// Whether the value of a member differs along the inner axes: it lives inside the sweeps.
  bool is_row_value(int p) const {
    if (reduces(p)) return false;
    for (const int a : axes_.axis_of[static_cast<size_t>(p)]) {
      if (is_inner(a)) return true;
    }
    return false;
  }
  bool is_output(int p) const {
    return std::find(group_.outputs.begin(), group_.outputs.end(), b_.expr(p).output) !=
           group_.outputs.end();
  }

  void choose_axes();
  int choose_cross_axis() const;
  void choose_rows();
  void decide_kept();
  bool follow(const ScheduleChoices& choices);
  ScheduleChoices choices() const;
  std::vector<int> physical_order(std::vector<int> list) const;
  TileBody grid_loops();
  TileBody row_body();
  void emit_row_scalars(int level, TileBody* body);
  void emit_sweep(int level, TileBody* body);
  std::set<int> needed_in(int level) const;
  void emit_member(int p, TileBody* body);
  void emit_carry(int p, TileLoop* loop, TileBody* update, TileBody* after);
  void emit_arg_carry(int p, TileLoop* loop, TileBody* update, TileBody* after);
  ScalarRef read_local(int producer) const;
  std::vector<IndexExpr> coordinates(int p) const;
  Place place() const { return vec_var_ >= 0 ? place_of(vec_var_, regs_, lanes_) : Place{}; }
  Place place(int p) const;
  bool in_tile(int p) const {
    return cross_axis_ >= 0 && output_has_axis(program_, group_, axes_, p, cross_axis_);
  }
  TileStatement assign(TileSymbolId symbol, std::vector<IndexExpr> indices, ScalarRef value,
                       Place place, bool next = false) const;
  TileSymbolId add_value(const std::string& base, DType type,
                         TileSymbol::Kind kind = TileSymbol::Kind::kValue);

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  const Target& target_;
  TileBuilder b_;
  int count_;

  std::vector<int> grid_, inner_;  ///< common axes of extent > 1, outermost first
  int vec_axis_ = -1;
  bool row_vector_ = true;  ///< the vector axis is an inner one
  int cross_axis_ = -1;     ///< of the grid: rows that are in the tile together
  int64_t rows_ = 1;        ///< how many
  int64_t lanes_ = 1, regs_ = 1;
  bool chunked_ = false;
  TileVarId vec_var_ = -1;  ///< offset variable of the vector axis in the loop at hand
  TileVarId cross_var_ = -1;

  std::vector<bool> kept_;               ///< row values stored in scratch
  std::map<int, TileSymbolId> stored_;   ///< their symbols
  std::map<int, TileSymbolId> here_;     ///< values of the sweep at hand
  std::map<int, TileSymbolId> scalars_;  ///< row scalars and finished reductions
};

std::vector<int> Stitch::physical_order(std::vector<int> list) const {
  // By the strides of the biggest output, outermost first; axes that it lacks come last.
  int main = count_ - 1;
  for (int p = 0; p < count_; ++p) {
    if (is_output(p) && axes_.axis_of[static_cast<size_t>(p)].size() >=
                            axes_.axis_of[static_cast<size_t>(main)].size())
      main = p;
  }
  std::sort(list.begin(), list.end(), [&](int a, int c) {
    const int64_t sa = output_stride_along(program_, axes_, group_, main, a);
    const int64_t sc = output_stride_along(program_, axes_, group_, main, c);
    return sa != sc ? sa > sc : a < c;
  });
  return list;
}

void Stitch::choose_axes() {
  std::vector<int> all;
  for (size_t a = 0; a < axes_.axes.size(); ++a) {
    if (axes_.axes[a].extent != 1) all.push_back(static_cast<int>(a));
  }
  // The vector axis is the one along which most bytes are contiguous; ties go to the longer one.
  double best = -1;
  for (const int a : all) {
    double score = 0;
    for (int p = 0; p < count_; ++p) {
      const auto weigh = [&](int64_t stride, DType type) {
        if (stride == 1) score += 4.0 * static_cast<double>(byte_size(type));
        if (stride > 1 || stride < 0) score -= 1.0 * static_cast<double>(byte_size(type));
      };
      visit(b_.expr(p).body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0) {
          weigh(stride_along(program_, axes_, p, s, a), s.type);
        }
      });
      if (is_output(p)) {
        // Twice where nothing is reduced: what is read across can be turned in registers then, a
        // store cannot.
        for (int times = axes_.reductions.empty() ? 2 : 1; times > 0; --times) {
          weigh(output_stride_along(program_, axes_, group_, p, a),
                program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype);
        }
      }
    }
    const auto extent = static_cast<double>(axes_.axes[static_cast<size_t>(a)].extent);
    const double width = target_.lanes(4);
    score += std::min(extent, 4 * width) / (8 * width);
    if (extent < width / 2) score -= 4 * (1 - extent / width);
    if (score > best || vec_axis_ < 0) {
      best = score;
      vec_axis_ = a;
    }
  }
  for (const int a : all) {
    const bool reduced = axes_.axes[static_cast<size_t>(a)].reduced;
    (reduced || (axes_.reductions.empty() && a == vec_axis_) ? inner_ : grid_).push_back(a);
  }
  grid_ = physical_order(grid_);
  row_vector_ = vec_axis_ >= 0 && is_inner(vec_axis_);
  if (row_vector_) {
    inner_.erase(std::find(inner_.begin(), inner_.end(), vec_axis_));
    inner_.push_back(vec_axis_);
  }
  if (vec_axis_ < 0) return;
  const int64_t extent = axes_.axes[static_cast<size_t>(vec_axis_)].extent;
  lanes_ = target_.lanes(4);
  while (lanes_ > 4 && lanes_ / 2 >= extent) lanes_ /= 2;
  regs_ = std::clamp<int64_t>((extent + lanes_ - 1) / lanes_, 1, row_vector_ ? 4 : 2);
  if (axes_.reductions.empty()) {
    cross_axis_ = choose_cross_axis();
    if (cross_axis_ >= 0) rows_ = lanes_, regs_ = 1;
  } else {
    choose_rows();
  }
  if (!axes_.reductions.empty() || extent <= 2 * kChunk) return;
  int64_t items = 1;
  for (const int a : grid_) items *= axes_.axes[static_cast<size_t>(a)].extent;
  chunked_ = items < kItemsPerThread * target_.threads;
}

/// The axis along which something that is read across the vectors is contiguous: with as many rows
/// of it in registers as a vector has lanes, its loads become whole vectors that are transposed.
int Stitch::choose_cross_axis() const {
  if (!axes_.reductions.empty() || !row_vector_ || lanes_ < 4) return -1;
  int best = -1;
  int64_t most = 0;
  for (const int a : grid_) {
    if (axes_.axes[static_cast<size_t>(a)].extent < lanes_) continue;
    int64_t bytes = 0;
    for (int p = 0; p < count_; ++p) {
      visit(b_.expr(p).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
        if (stride_along(program_, axes_, p, s, a) == 1 &&
            stride_along(program_, axes_, p, s, vec_axis_) > 1)
          bytes += byte_size(s.type);
      });
    }
    if (bytes > most) {
      most = bytes;
      best = a;
    }
  }
  return best;
}

/// Several short rows together: the chains of operations from one sweep of a row to the next run
/// side by side, and what does not change from row to row is loaded once. The rows of a
/// tile and the inputs of the next one, which are asked for ahead of time, must stay in two thirds
/// of the first-level cache, and enough tiles remain for the threads. Long rows from memory are
/// taken one by one.
void Stitch::choose_rows() {
  if (!row_vector_ || grid_.empty()) return;
  const int axis = grid_.back();
  int64_t row_bytes = 0;
  std::set<TensorId> read;
  for (int p = 0; p < count_; ++p) {
    const Combiner c = b_.expr(p).combiner;
    if (reduces(p) && (c == Combiner::kArgMax || c == Combiner::kArgMin)) return;
    if (reduces(p) && !output_has_axis(program_, group_, axes_, p, axis)) return;
    visit(b_.expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
          stride_along(program_, axes_, p, s, axis) != 0 && read.insert(s.symbol).second)
        row_bytes += 2 * byte_size(s.type);
    });
    if (is_output(p) && is_row_value(p)) {
      row_bytes += byte_size(program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype);
    }
  }
  for (const int a : inner_) row_bytes *= axes_.axes[static_cast<size_t>(a)].extent;
  int64_t tiles = 1;
  for (const int a : grid_) tiles *= axes_.axes[static_cast<size_t>(a)].extent;
  // What comes from memory is bound by it, and its prefetcher follows one row better than several;
  // rows of a few vectors wait for their chains all the same.
  const bool from_memory = row_bytes > target_.l3_bytes / std::max<int64_t>(1, tiles);
  if (from_memory && axes_.axes[static_cast<size_t>(vec_axis_)].extent >= 4 * lanes_) return;
  int64_t rows = 1;
  while (rows < kMostRows && 2 * rows * row_bytes <= target_.l1_bytes / 3 * 2 &&
         2 * rows <= axes_.axes[static_cast<size_t>(axis)].extent &&
         tiles / (2 * rows) >= kItemsPerThread * target_.threads) {
    rows *= 2;
  }
  if (rows == 1) return;
  cross_axis_ = axis;
  rows_ = rows;
  regs_ = std::min(regs_, std::max<int64_t>(1, target_.vector_registers / 4 / rows));
}

/// The axes of the tile that a value, or the result of a reduction, runs along.
Place Stitch::place(int p) const {
  Place out;
  if (cross_var_ >= 0 && in_tile(p)) out = place_of(cross_var_, rows_, 1);
  if (vec_var_ >= 0 && output_has_axis(program_, group_, axes_, p, vec_axis_)) {
    const Place row = place_of(vec_var_, regs_, lanes_);
    out.axes.insert(out.axes.end(), row.axes.begin(), row.axes.end());
  }
  return out;
}

void Stitch::decide_kept() {
  kept_.assign(static_cast<size_t>(count_), false);
  for (int p = count_ - 1; p >= 0; --p) {
    if (!is_row_value(p)) continue;
    bool later = false;
    for (int q = p + 1; q < count_; ++q) {
      visit(b_.expr(q).body, [&](const Scalar& s) {
        later |= s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) == p &&
                 axes_.level[static_cast<size_t>(q)] > axes_.level[static_cast<size_t>(p)];
      });
    }
    if (!later) continue;
    int64_t bytes = byte_size(program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype);
    for (const int a : inner_) bytes *= axes_.axes[static_cast<size_t>(a)].extent;
    bytes *= row_vector_ ? rows_ : lanes_ * regs_;
    // What is cheap is cheaper to compute again than to store and load.
    bool costly = is_costly(b_.expr(p).body);
    std::set<int> seen;
    std::vector<int> work{p};
    int64_t operations = 0;
    while (!work.empty()) {
      const int q = work.back();
      work.pop_back();
      if (!seen.insert(q).second) continue;
      costly |= is_costly(b_.expr(q).body);
      operations += operation_count(b_.expr(q).body);
      visit(b_.expr(q).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const int producer = axes_.producer(s.symbol);
        if (producer >= 0 && is_row_value(producer)) work.push_back(producer);
      });
    }
    kept_[static_cast<size_t>(p)] = bytes <= row_budget(target_) && (costly || operations > 4);
  }
}

ScheduleChoices Stitch::choices() const {
  ScheduleChoices out;
  out.grid = grid_;
  out.inner = inner_;
  out.vec_axis = vec_axis_;
  out.row_axis = cross_axis_;
  out.rows = rows_;
  out.vectors = regs_;
  out.lanes = lanes_;
  out.row_vector = row_vector_;
  out.chunked = chunked_;
  out.kept = kept_;
  return out;
}

/// False where the choices name axes or expressions that are not there.
bool Stitch::follow(const ScheduleChoices& choices) {
  if (choices.kept.size() != static_cast<size_t>(count_) || !names_axes(choices, axes_))
    return false;
  grid_ = choices.grid;
  inner_ = choices.inner;
  vec_axis_ = choices.vec_axis;
  cross_axis_ = choices.row_axis;
  rows_ = choices.rows;
  regs_ = choices.vectors;
  lanes_ = choices.lanes;
  row_vector_ = choices.row_vector;
  chunked_ = choices.chunked;
  kept_ = choices.kept;
  return true;
}

TileBody Stitch::grid_loops() {
  std::vector<std::pair<int, int64_t>> dims;
  for (const int a : grid_) {
    dims.emplace_back(a, a == vec_axis_ ? lanes_ * regs_ : a == cross_axis_ ? rows_ : 1);
  }
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  for (const auto& [axis, step] : dims) {
    grid.dims.push_back(b_.loop_dim(axis, step));
    if (axis == vec_axis_) vec_var_ = grid.dims.back().offset;
    if (axis == cross_axis_) cross_var_ = grid.dims.back().offset;
  }
  if (chunked_) {
    const int64_t extent = axes_.axes[static_cast<size_t>(vec_axis_)].extent;
    TileLoop::Dim chunk = b_.loop_dim(vec_axis_, 1);
    chunk.end = (extent + kChunk - 1) / kChunk;
    b_.bind(vec_axis_,
            IndexExpr::var(chunk.origin));  // the chunk's number until the sweep binds the axis
    grid.dims.push_back(chunk);
  }
  grid.body = row_body();
  return b_.one_nest(std::move(grid));
}

TileBody Stitch::row_body() {
  TileBody body;
  for (int level = 0; level < axes_.levels; ++level) {
    emit_row_scalars(level, &body);
    emit_sweep(level, &body);
  }
  return body;
}

TileSymbolId Stitch::add_value(const std::string& base, DType type, TileSymbol::Kind kind) {
  TileSymbol symbol;
  symbol.name = b_.unique(base);
  symbol.kind = kind;
  symbol.type = type;
  return b_.program().add_symbol(std::move(symbol));
}

TileStatement Stitch::assign(TileSymbolId symbol, std::vector<IndexExpr> indices, ScalarRef value,
                             Place place, bool next) const {
  TileStatement st;
  TileRef target;
  target.symbol = symbol;
  target.indices = std::move(indices);
  target.next = next;
  st.targets.push_back(std::move(target));
  st.value = std::move(value);
  st.place = std::move(place);
  return st;
}

/// Coordinates of a local value: the row of the tile, the inner axes that it runs along, then the
/// vector axis of the grid. The vector axis comes last, so that a kept value is stored and loaded
/// as whole vectors.
std::vector<IndexExpr> Stitch::coordinates(int p) const {
  std::vector<IndexExpr> out;
  if (in_tile(p)) out.push_back(b_.index(cross_axis_));
  if (!reduces(p)) {
    for (const int a : inner_) {
      if (has_axis(axes_, p, a)) out.push_back(b_.index(a));
    }
  }
  if (vec_axis_ >= 0 && !row_vector_ && output_has_axis(program_, group_, axes_, p, vec_axis_)) {
    out.push_back(b_.index(vec_axis_));
  }
  return out;
}

ScalarRef Stitch::read_local(int producer) const {
  const DType type = program_.tensors[static_cast<size_t>(b_.expr(producer).output)].type.dtype;
  for (const auto* table : {&here_, &stored_, &scalars_}) {
    const auto it = table->find(producer);
    if (it != table->end()) return scalar_read(it->second, type, coordinates(producer));
  }
  throw_internal_error(__FILE__, __LINE__, "read_local", "a member is read before it is made");
}

void Stitch::emit_member(int p, TileBody* body) {
  const DType type = program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype;
  const auto local = [&](int producer, const Scalar&) { return read_local(producer); };
  ScalarRef value = b_.translate(p, local);
  const bool row = is_row_value(p);
  const TileSymbolId symbol =
      add_value(program_.tensors[static_cast<size_t>(b_.expr(p).output)].name + "_v", type);
  body->push_back(TileNode::of(assign(symbol, coordinates(p), std::move(value), place(p))));
  (row ? here_ : scalars_)[p] = symbol;
  if (row && kept_[static_cast<size_t>(p)] && stored_.find(p) == stored_.end()) stored_[p] = symbol;
}

/// Members that differ along the grid only, of one level; and the finished outputs among them.
void Stitch::emit_row_scalars(int level, TileBody* body) {
  here_.clear();
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level || is_row_value(p) || reduces(p)) continue;
    emit_member(p, body);
    if (!is_output(p)) continue;
    body->push_back(TileNode::of(b_.store(p, read_local(p), place(p))));
  }
}

/// Row values that the sweep of a level computes: what its reductions, outputs and kept values
/// need, and cheap values of earlier levels again.
std::set<int> Stitch::needed_in(int level) const {
  std::set<int> needed;
  std::vector<int> work;
  for (int p = 0; p < count_; ++p) {
    if (axes_.level[static_cast<size_t>(p)] != level) continue;
    if (reduces(p) || (is_row_value(p) && (is_output(p) || kept_[static_cast<size_t>(p)])))
      work.push_back(p);
  }
  while (!work.empty()) {
    const int p = work.back();
    work.pop_back();
    if (!needed.insert(p).second) continue;
    visit(b_.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const int producer = axes_.producer(s.symbol);
      if (producer < 0 || !is_row_value(producer)) return;
      const bool earlier = axes_.level[static_cast<size_t>(producer)] < level;
      if (!(earlier && kept_[static_cast<size_t>(producer)])) work.push_back(producer);
    });
  }
  return needed;
}

void Stitch::emit_sweep(int level, TileBody* body) {
  const std::set<int> needed = needed_in(level);
  if (needed.empty()) return;
  here_.clear();
  TileLoop loop;
  loop.kind = TileLoop::Kind::kSeq;
  for (const int a : inner_) {
    const bool vector = a == vec_axis_;
    const IndexExpr chunk = b_.index(a);
    TileLoop::Dim dim = b_.loop_dim(a, vector ? lanes_ * regs_ : 1);
    if (vector && chunked_) {
      dim.begin = chunk * kChunk;
      dim.end = min(chunk * kChunk + kChunk, axes_.axes[static_cast<size_t>(a)].extent);
    }
    if (vector) vec_var_ = dim.offset;
    loop.dims.push_back(dim);
  }
  TileBody after;
  for (const int p : needed) {
    if (reduces(p)) {
      const Combiner c = b_.expr(p).combiner;
      (c == Combiner::kArgMax || c == Combiner::kArgMin
           ? emit_arg_carry(p, &loop, &loop.body, &after)
           : emit_carry(p, &loop, &loop.body, &after));
      continue;
    }
    emit_member(p, &loop.body);
    const bool first = axes_.level[static_cast<size_t>(p)] == level;
    if (first && is_output(p)) {
      loop.body.push_back(TileNode::of(b_.store(p, read_local(p), place(p))));
    }
  }
  if (loop.dims.empty()) {
    for (TileNode& node : loop.body) body->push_back(std::move(node));
  } else {
    body->push_back(TileNode::of(std::move(loop)));
  }
  here_.clear();
  for (TileNode& node : after) body->push_back(std::move(node));
}

void Stitch::emit_carry(int p, TileLoop* loop, TileBody* update, TileBody* after) {
  const TensorExpr& e = b_.expr(p);
  const std::string base = program_.tensors[static_cast<size_t>(e.output)].name;
  const DType acc = e.accumulator;
  const auto local = [&](int producer, const Scalar&) { return read_local(producer); };
  const TileSymbolId carry = add_value(base + "_c", acc, TileSymbol::Kind::kCarry);
  const bool has_vector = vec_axis_ >= 0 && has_axis(axes_, p, vec_axis_);
  std::vector<IndexExpr> box;
  if (in_tile(p)) box.push_back(b_.index(cross_axis_));
  if (has_vector) box.push_back(row_vector_ ? IndexExpr::var(vec_var_) : b_.index(vec_axis_));
  const Place result_place = place(p);
  Place where = result_place;
  if (has_vector && row_vector_) {
    const Place row = place();
    where.axes.insert(where.axes.end(), row.axes.begin(), row.axes.end());
  }
  TileCarry c;
  c.target.symbol = carry;
  c.target.indices = box;
  c.type = acc;
  c.initial = scalar_constant(combiner_identity(e.combiner, acc));
  c.place = where;
  loop->carries.push_back(c);
  const ScalarRef contribution = scalar_convert(b_.translate(p, local), acc);
  update->push_back(TileNode::of(
      assign(carry, box, combine_scalars(e.combiner, scalar_read(carry, acc, box), contribution),
             where, true)));

  // The lanes and copies of a carry along the row come together after the sweep.
  const DType type = program_.tensors[static_cast<size_t>(e.output)].type.dtype;
  TileSymbolId sum = carry;
  if (has_vector && row_vector_) {
    const TileVarId jj =
        b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, lanes_ * regs_);
    sum = add_value(base + "_r", acc);
    std::vector<IndexExpr> all = coordinates(p);
    all.push_back(IndexExpr::var(jj));
    Place whole = result_place;
    const Place row = place_of(jj, regs_, lanes_);
    whole.axes.insert(whole.axes.end(), row.axes.begin(), row.axes.end());
    TileStatement st =
        assign(sum, coordinates(p), scalar_read(carry, acc, std::move(all)), std::move(whole));
    st.combiner = tile_combiner(e.combiner);
    st.reduce_axes = {jj};
    after->push_back(TileNode::of(std::move(st)));
  }
  const std::vector<IndexExpr> result = coordinates(p);
  const TileSymbolId value = add_value(base + "_v", type);
  after->push_back(TileNode::of(
      assign(value, result, scalar_convert(scalar_read(sum, acc, result), type), result_place)));
  scalars_[p] = value;
  if (is_output(p))
    after->push_back(TileNode::of(b_.store(p, scalar_read(value, type, result), result_place)));
}

/// Two carries, the best value and where it stood. NaN counts as best.
void Stitch::emit_arg_carry(int p, TileLoop* loop, TileBody* update, TileBody* after) {
  const TensorExpr& e = b_.expr(p);
  const std::string base = program_.tensors[static_cast<size_t>(e.output)].name;
  const bool is_max = e.combiner == Combiner::kArgMax;
  const auto local = [&](int producer, const Scalar&) { return read_local(producer); };
  const ScalarRef x = b_.translate(p, local);
  const DType vt = x->type, it = DType::kI64;
  const int axis = axes_.axis_of[static_cast<size_t>(p)][static_cast<size_t>(e.output_rank())];
  const bool has_vector = vec_axis_ >= 0 && has_axis(axes_, p, vec_axis_);
  std::vector<IndexExpr> box;
  if (has_vector) box.push_back(row_vector_ ? IndexExpr::var(vec_var_) : b_.index(vec_axis_));
  const Place where = has_vector ? place() : Place{};
  // No position yet: beyond every position, so that the lower (or, for the last on ties, the
  // higher) one wins.
  const int64_t none = e.last_on_ties ? -1 : std::numeric_limits<int64_t>::max();
  const TileSymbolId best = add_value(base + "_c", vt, TileSymbol::Kind::kCarry);
  const TileSymbolId where_best = add_value(base + "_p", it, TileSymbol::Kind::kCarry);
  const auto add_carry = [&](TileSymbolId s, DType t, ScalarValue initial) {
    TileCarry c;
    c.target.symbol = s;
    c.target.indices = box;
    c.type = t;
    c.initial = scalar_constant(initial);
    c.place = where;
    loop->carries.push_back(c);
  };
  add_carry(best, vt, combiner_identity(is_max ? Combiner::kMax : Combiner::kMin, vt));
  add_carry(where_best, it, int_value(it, none));
  const ScalarRef old_best = scalar_read(best, vt, box),
                  old_where = scalar_read(where_best, it, box);
  const auto bool_op = [](ScalarOp op, std::vector<ScalarRef> operands) {
    return scalar_apply(op, std::move(operands), DType::kBool);
  };
  const ScalarOp compare = is_max ? (e.last_on_ties ? ScalarOp::kGe : ScalarOp::kGt)
                                  : (e.last_on_ties ? ScalarOp::kLe : ScalarOp::kLt);
  ScalarRef better = bool_op(compare, {x, old_best});
  better =
      bool_op(ScalarOp::kOr,
              {better, bool_op(ScalarOp::kEq, {old_where, scalar_constant(int_value(it, none))})});
  if (is_float(vt)) {
    const ScalarRef x_nan = bool_op(ScalarOp::kIsNan, {x}),
                    best_nan = bool_op(ScalarOp::kIsNan, {old_best});
    better = bool_op(ScalarOp::kAnd, {better, bool_op(ScalarOp::kNot, {best_nan})});
    better = bool_op(
        ScalarOp::kOr,
        {better, e.last_on_ties
                     ? x_nan
                     : bool_op(ScalarOp::kAnd, {x_nan, bool_op(ScalarOp::kNot, {best_nan})})});
  }
  const ScalarRef position = scalar_index(b_.index(axis));
  const TileSymbolId flag = add_value(base + "_b", DType::kBool);
  update->push_back(TileNode::of(assign(flag, box, better, where)));
  const ScalarRef is_better = scalar_read(flag, DType::kBool, box);
  update->push_back(TileNode::of(
      assign(where_best, box, scalar_apply(ScalarOp::kSelect, {is_better, position, old_where}, it),
             where, true)));
  update->push_back(TileNode::of(assign(
      best, box, scalar_apply(ScalarOp::kSelect, {is_better, x, old_best}, vt), where, true)));

  TileSymbolId result = where_best;
  if (has_vector && row_vector_) {
    const TileVarId jj =
        b_.program().add_var(b_.unique("jj"), TileVar::Kind::kAxis, lanes_ * regs_);
    const std::vector<IndexExpr> at{IndexExpr::var(jj)};
    const Place jj_place = place_of(jj, regs_, lanes_);
    const TileSymbolId top = add_value(base + "_m", vt);
    TileStatement reduce = assign(top, {}, scalar_read(best, vt, at), jj_place);
    reduce.combiner = is_max ? TileCombiner::kMax : TileCombiner::kMin;
    reduce.reduce_axes = {jj};
    after->push_back(TileNode::of(std::move(reduce)));
    const ScalarRef v = scalar_read(best, vt, at), t = scalar_read(top, vt, {});
    ScalarRef same = bool_op(ScalarOp::kEq, {v, t});
    if (is_float(vt)) {
      same =
          bool_op(ScalarOp::kOr, {same, bool_op(ScalarOp::kAnd, {bool_op(ScalarOp::kIsNan, {v}),
                                                                 bool_op(ScalarOp::kIsNan, {t})})});
    }
    result = add_value(base + "_r", it);
    const TileVarId kk = jj;
    TileStatement pick =
        assign(result, {},
               scalar_apply(ScalarOp::kSelect,
                            {same, scalar_read(where_best, it, {IndexExpr::var(kk)}),
                             scalar_constant(int_value(it, none))},
                            it),
               jj_place);
    pick.combiner = e.last_on_ties ? TileCombiner::kMax : TileCombiner::kMin;
    pick.reduce_axes = {kk};
    after->push_back(TileNode::of(std::move(pick)));
  }
  const DType type = program_.tensors[static_cast<size_t>(e.output)].type.dtype;
  const std::vector<IndexExpr> coords = coordinates(p);
  const TileSymbolId value = add_value(base + "_v", type);
  const Place result_place = coords.empty() ? Place{} : place();
  after->push_back(TileNode::of(
      assign(value, coords, scalar_convert(scalar_read(result, it, coords), type), result_place)));
  scalars_[p] = value;
  if (is_output(p))
    after->push_back(TileNode::of(b_.store(p, scalar_read(value, type, coords), result_place)));
}

}  // namespace

Decision stitch_applies(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const Target& target) {
  (void)target;
  const auto name = [&](int p) {
    return program
        .tensors[static_cast<size_t>(
            program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])].output)]
        .name;
  };
  std::set<int> reduced;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (axes.axes[a].reduced && axes.axes[a].extent != 1) reduced.insert(static_cast<int>(a));
  }
  for (const int p : axes.reductions) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])];
    std::set<int> own;
    for (int a = e.output_rank(); a < e.axis_count(); ++a) {
      const int axis = axes.axis_of[static_cast<size_t>(p)][static_cast<size_t>(a)];
      if (axes.axes[static_cast<size_t>(axis)].extent != 1) own.insert(axis);
    }
    if (own != reduced)
      return Decision::forbid(name(p) + " reduces other axes than the rest of the group");
    const bool arg = e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin;
    if (arg && e.reduce_extents.size() != 1)
      return Decision::forbid(name(p) + " takes a position over several axes");
  }
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[p])];
    if (std::find(group.outputs.begin(), group.outputs.end(), e.output) == group.outputs.end())
      continue;
    for (size_t a = 0; a < axes.axes.size(); ++a) {
      if (axes.axes[a].extent == 1 || reduced.count(static_cast<int>(a)) != 0) continue;
      if (!output_has_axis(program, group, axes, static_cast<int>(p), static_cast<int>(a))) {
        return Decision::forbid(name(static_cast<int>(p)) +
                                " must reach memory but lacks an axis of extent " +
                                std::to_string(axes.axes[a].extent) + " that the group runs over");
      }
    }
    // Inside the sweeps an output has all the reduced axes or none.
    size_t have = 0;
    for (const int a : reduced)
      have += output_has_axis(program, group, axes, static_cast<int>(p), a) ? 1 : 0;
    if (have != 0 && have != reduced.size()) {
      return Decision::forbid(name(static_cast<int>(p)) +
                              " must reach memory but runs along only some of the reduced axes");
    }
  }
  return Decision::allow();
}

Result<ScheduledKernel> build_stitch(const TensorProgram& program, const Group& group,
                                     const GroupAxes& axes, const Target& target,
                                     const std::string& name, const ScheduleChoices* as_chosen) {
  return Stitch(program, group, axes, target, name).build(as_chosen);
}

}  // namespace weft
