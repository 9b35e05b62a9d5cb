#include "lower/cpu/vector_loads.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"

namespace weft::lowering {

namespace {

/// Where the lanes of a vector read when their offsets differ by constants, as in
/// `x[c + lane/4*4]`: `lanes` positions behind a common start, all within one vector.
struct LaneWindow {
  int64_t begin = 0;
  int64_t reach = 0;  ///< one more than the largest position
  std::vector<int64_t> lanes;
  std::vector<std::pair<int, int64_t>> terms;
};

bool uses_runtime_index(const IndexExpr& e) {
  const std::vector<int> used = variables(e);
  return !used.empty() && used.back() >= kRuntimeIndexBase;
}

std::optional<LaneWindow> lane_window(CpuWriter& w, const PreparedIndex& offset,
                                      const Point& point) {
  const auto range = [&](int id) { return range_of_var(w, id); };
  const IndexExpr e = at_point(w, offset, point);
  if (uses_runtime_index(e)) return std::nullopt;
  LaneWindow out;
  AffineForm first;
  for (int32_t l = 0; l < w.at_hand.box.lanes; ++l) {
    const IndexExpr lane = simplify(
        substitute(e, [&](int id) { return id == kLaneVar ? IndexExpr(l) : IndexExpr::var(id); }),
        range);
    AffineForm form;
    if (!affine_in_kernel_vars(w, lane, &form)) return std::nullopt;
    if (l == 0) first = form;
    if (form.terms != first.terms) return std::nullopt;
    out.lanes.push_back(form.constant);
  }
  // Neighbouring reads share a load where windows begin at multiples of the vector.
  int64_t step = w.at_hand.box.lanes;
  for (const auto& [id, c] : first.terms) step = std::gcd(step, c);
  const auto [lo, hi] = std::minmax_element(out.lanes.begin(), out.lanes.end());
  out.begin = floor_div(IndexExpr(*lo), step).constant() * step;
  if (*hi - out.begin >= w.at_hand.box.lanes) out.begin = *lo;
  if (*hi - out.begin >= w.at_hand.box.lanes) return std::nullopt;
  out.reach = *hi - out.begin + 1;
  for (int64_t& l : out.lanes) l -= out.begin;
  out.terms = first.terms;
  return out;
}

/// Leading lanes that `guard` lets through at a point, 0 if it is not the mask of a tail.
int64_t lanes_within(CpuWriter& w, const Point& point, Reg guard) {
  if (guard == kNoReg) return w.at_hand.box.lanes;
  const Box::Axis& axis = w.at_hand.box.axes[static_cast<size_t>(w.at_hand.box.vec_axis)];
  const auto& valid = w.bindings.valid[static_cast<size_t>(axis.var)];
  if (valid && valid->reg != kNoReg) return 0;
  const int64_t extent =
      valid ? valid->count : w.program.vars[static_cast<size_t>(axis.var)].extent;
  const int64_t count = extent - point[static_cast<size_t>(w.at_hand.box.vec_axis)] * axis.lanes;
  return guard == w.builder.lane_mask(w.builder.int_constant(count), w.at_hand.box.lanes) ? count
                                                                                          : 0;
}

/// Neighbouring register copies along one axis of a box: those that one transpose makes.
struct Rows {
  int axis = -1;
  Point first;        ///< of the box, at the first copy
  int64_t count = 0;  ///< at most the lanes of a vector
};

/// The unrolled axis along which memory is contiguous, -1 if there is none.
int contiguous_axis(const CpuWriter& w, const PreparedIndex& offset) {
  int out = -1;
  for (size_t a = 0; a < w.at_hand.box.axes.size(); ++a) {
    const TileVarId var = w.at_hand.box.axes[a].var;
    const bool scaled = std::ranges::any_of(
        offset.scaled, [&](const PreparedIndex::Scaled& s) { return s.box_var == var; });
    if (static_cast<int>(a) != w.at_hand.box.vec_axis && !scaled &&
        offset.form.coefficient(var) == 1) {
      out = static_cast<int>(a);
    }
  }
  return out;
}

/// The copies that lie in one vector with the point's; of a tail, as far as it reaches.
std::optional<Rows> rows_around(const CpuWriter& w, int axis, const Point& point) {
  const Box::Axis& a = w.at_hand.box.axes[static_cast<size_t>(axis)];
  const auto& valid = w.bindings.valid[static_cast<size_t>(a.var)];
  if (valid && valid->reg != kNoReg) return std::nullopt;
  int64_t limit = std::min(a.regs, w.program.vars[static_cast<size_t>(a.var)].extent);
  if (valid) limit = std::min(limit, valid->count);
  Rows out{axis, point, 0};
  int32_t& first = out.first[static_cast<size_t>(axis)];
  first -= first % w.at_hand.box.lanes;
  out.count = std::min<int64_t>(w.at_hand.box.lanes, limit - first);
  return out;
}

/// Those of the rows around the point's own that are read under the conditions under which it is:
/// of others nothing says that they lie in the buffer.
Rows rows_read(CpuWriter& w, const Rows& all, const Point& point) {
  const auto axis = static_cast<size_t>(all.axis);
  const auto is_read = [&](int32_t position) {
    Point p = point;
    p[axis] = position;
    return std::ranges::all_of(w.at_hand.decided, [&](const auto& condition) {
      return decide(w, condition.first, p) == condition.second;
    });
  };
  int32_t begin = point[axis], end = begin + 1;
  const int32_t first = all.first[axis], last = first + static_cast<int32_t>(all.count);
  while (begin > first && is_read(begin - 1)) --begin;
  while (end < last && is_read(end)) ++end;
  Rows out = all;
  out.first[axis] = begin;
  out.count = end - begin;
  return out;
}

/// Whether whole vectors of the rows, `vectors` of them, lie in the buffer wherever the kernel is.
bool inside(const CpuWriter& w, const IndexExpr& elements, const PointOffset& at, int64_t vectors,
            int64_t count) {
  IndexExpr first = at.constant;
  for (const auto& [id, c] : at.terms) first = first + IndexExpr::var(id) * c;
  const Interval reach = range_of(first, [&](int id) { return range_of_var(w, id); });
  const int64_t across = (vectors - 1) * at.lane_coefficient;
  return elements.is_const() && reach.lo + std::min<int64_t>(across, 0) >= 0 &&
         reach.hi + std::max<int64_t>(across, 0) + count <= elements.constant();
}

/// The transpose of as many vectors as they have lanes. Butterfly: exchanges blocks of half,
/// quarter, … between rows that far apart.
void transpose(CpuWriter& w, std::vector<Reg>* rows) {
  const auto lanes = static_cast<int32_t>(rows->size());
  for (int32_t half = lanes / 2; half >= 1; half /= 2) {
    std::vector<int32_t> low, high;
    for (int32_t l = 0; l < lanes; ++l) {
      const bool upper = (l & half) != 0;
      low.push_back(upper ? lanes + l - half : l);
      high.push_back(upper ? lanes + l : l + half);
    }
    for (int32_t r = 0; r < lanes; ++r) {
      if ((r & half) != 0) continue;
      Reg& a = (*rows)[static_cast<size_t>(r)];
      Reg& b = (*rows)[static_cast<size_t>(r + half)];
      const Reg first = w.builder.shuffle(a, b, low);
      b = w.builder.shuffle(a, b, high);
      a = first;
    }
  }
}

}  // namespace

std::optional<Reg> load_permuted(CpuWriter& w, int32_t buffer, const Scalar& read,
                                 const PreparedIndex& offset, const Point& point, Reg guard) {
  if (w.at_hand.box.lanes < 4) return std::nullopt;
  const auto window = lane_window(w, offset, point);
  if (!window) return std::nullopt;
  const IndexExpr& extent = w.memory.elements[static_cast<size_t>(buffer)];
  const int64_t elements = extent.is_const() ? extent.constant() : 1;
  IndexExpr begin = window->begin;
  for (const auto& [id, c] : window->terms) begin = begin + IndexExpr::var(id) * c;
  const Interval reach = range_of(begin, [&](int id) { return range_of_var(w, id); });
  const bool inside = reach.lo >= 0 && reach.hi + w.at_hand.box.lanes <= elements;
  Reg mask = kNoReg;
  if (!inside) {
    if (guard != kNoReg && w.builder.type(guard).lanes > 1) return std::nullopt;
    mask = w.builder.lane_mask(w.builder.int_constant(window->reach), w.at_hand.box.lanes);
    if (guard != kNoReg) mask = combine_guards(w, to_lanes(w, guard, w.at_hand.box.lanes), mask);
  }
  const Reg address = emit_terms(w, window->terms, window->begin);
  const ScalarValue zero =
      is_float(read.type) ? float_value(read.type, 0) : int_value(read.type, 0);
  const Reg loaded = mask == kNoReg
                         ? w.builder.load(buffer, address, w.at_hand.box.lanes)
                         : w.builder.load(buffer, address, w.at_hand.box.lanes, mask, zero);
  const std::vector<int32_t> order(window->lanes.begin(), window->lanes.end());
  return w.builder.shuffle(loaded, loaded, order);
}

std::optional<Reg> load_transposed(CpuWriter& w, int32_t buffer, const Scalar& read,
                                   const PreparedIndex& offset, const Point& point, Reg guard) {
  const int32_t lanes = w.at_hand.box.lanes;
  if (!offset.affine || lanes < 4 || !std::has_single_bit(static_cast<uint32_t>(lanes)))
    return std::nullopt;
  const int axis = contiguous_axis(w, offset);
  if (axis < 0) return std::nullopt;
  const int64_t vectors = lanes_within(w, point, guard);
  if (vectors == 0) return std::nullopt;
  auto rows = rows_around(w, axis, point);
  if (!rows) return std::nullopt;
  auto at = affine_at_point(w, offset, rows->first);
  const IndexExpr& elements = w.memory.elements[static_cast<size_t>(buffer)];
  if (!w.at_hand.decided.empty() && !inside(w, elements, *at, vectors, rows->count)) {
    rows = rows_read(w, *rows, point);
    at = affine_at_point(w, offset, rows->first);
  }
  if (rows->count * 2 < lanes) return std::nullopt;
  const ScalarValue zero =
      is_float(read.type) ? float_value(read.type, 0) : int_value(read.type, 0);
  Reg mask = kNoReg;
  if (rows->count < lanes) {
    mask = w.builder.lane_mask(w.builder.int_constant(rows->count), lanes);
  }

  const Reg base = emit_terms(w, at->terms, 0);
  std::vector<Reg> loaded;
  for (int64_t l = 0; l < lanes; ++l) {
    if (l >= vectors) {  // what the guard excludes
      loaded.push_back(loaded[0]);
      continue;
    }
    const int64_t constant = at->constant + l * at->lane_coefficient;
    const Reg address =
        w.builder.apply(ScalarOp::kAdd, {base, w.builder.int_constant(constant)}, DType::kI64);
    loaded.push_back(mask == kNoReg ? w.builder.load(buffer, address, lanes)
                                    : w.builder.load(buffer, address, lanes, mask, zero));
  }
  transpose(w, &loaded);
  const uint64_t own_axes = w.at_hand.box_masks.at(&read);
  const auto row = static_cast<size_t>(rows->axis);
  for (int32_t r = 0; r < rows->count; ++r) {
    Point p = rows->first;
    p[row] += r;
    w.at_hand.memo[{&read, project(p, own_axes), guard}] = loaded[static_cast<size_t>(r)];
  }
  return loaded[static_cast<size_t>(point[row] - rows->first[row])];
}

std::optional<Reg> load_strided(CpuWriter& w, int32_t buffer, const PreparedIndex& offset,
                                const Point& point, Reg guard) {
  constexpr int64_t kWidest = 4;
  const int64_t lanes = w.at_hand.box.lanes;
  if (!offset.affine || guard != kNoReg || lanes < 4) return std::nullopt;
  const auto at = affine_at_point(w, offset, point);
  if (!at || at->lane_coefficient < 2 || at->lane_coefficient > kWidest) return std::nullopt;
  const int64_t stride = at->lane_coefficient, reach = (lanes - 1) * stride + 1;
  const Reg base = emit_terms(w, at->terms, 0);
  Reg picked = kNoReg;
  for (int64_t v = 0; v < stride; ++v) {
    const int64_t begin = std::min(v * lanes, reach - lanes);
    const Reg address = w.builder.apply(
        ScalarOp::kAdd, {base, w.builder.int_constant(at->constant + begin)}, DType::kI64);
    const Reg loaded = w.builder.load(buffer, address, static_cast<int32_t>(lanes));
    std::vector<int32_t> order;
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t place = l * stride;
      const bool here = place >= v * lanes && place < (v + 1) * lanes;
      order.push_back(static_cast<int32_t>(here ? lanes + place - begin : l));
    }
    if (v > 0) {
      picked = w.builder.shuffle(picked, loaded, order);
      continue;
    }
    for (int32_t& from : order) from = from >= lanes ? from - static_cast<int32_t>(lanes) : 0;
    picked = w.builder.shuffle(loaded, loaded, order);
  }
  return picked;
}

}  // namespace weft::lowering
