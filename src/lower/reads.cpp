#include <algorithm>
#include <bit>
#include <numeric>

#include "lower/lowering.h"

namespace weft::lowering {

namespace {

bool uses_runtime_index(const IndexExpr& e) {
  const std::vector<int> used = variables(e);
  return !used.empty() && used.back() >= kRuntimeIndexBase;
}

}  // namespace

IndexExpr Lowering::buffer_offset(TileSymbolId id, const std::vector<IndexExpr>& indices,
                                  bool next) const {
  const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
  const auto range = [this](int v) { return range_of_var(v); };
  if (symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput) {
    Shape shape;
    for (const IndexExpr& e : symbol.shape) {
      const IndexExpr extent = bind(e);
      if (extent.is_const()) shape.push_back(extent.constant());
    }
    if (shape.size() == symbol.shape.size())
      return element_offset(symbol.layout, shape, indices, range);
    WEFT_CHECK(symbol.layout.is_row_major(), "an open size in the layout of " + symbol.name);
    IndexExpr offset = 0, stride = 1;
    for (size_t a = indices.size(); a-- > 0;) {
      offset = offset + indices[a] * stride;
      stride = stride * bind(symbol.shape[a]);
    }
    return simplify(offset, range);
  }
  if (const auto in = values_in_outputs_.find(id); in != values_in_outputs_.end())
    return buffer_offset(in->second.output, in->second.indices_of(indices));
  const SymbolScope& scope = scopes_.symbols[static_cast<size_t>(id)];
  IndexExpr offset = 0;
  int64_t stride = 1;
  for (size_t a = indices.size(); a-- > 0;) {
    offset = offset + (indices[a] - scope.base[a]) * stride;
    stride *= scope.extents[a];
    if (a + 1 == indices.size()) stride += scope.pad;
  }
  if (const auto carried = carried_buffers_.find(id); carried != carried_buffers_.end()) {
    offset = offset + (next ? 1 - carried->second : carried->second) * stride;
    stride *= scope.copies;
  }
  if (const auto stage = stages_.find(id); stage != stages_.end()) {
    return offset + stage->second * stride;
  }
  for (size_t p = scope.parts.size(); p-- > 0;) {
    const SymbolScope::Part& part = scope.parts[p];
    const IndexExpr iteration = floor_div(IndexExpr::var(part.origin) - part.begin, part.step);
    offset = offset + iteration * stride;
    stride *= part.trips;
  }
  return offset;
}

Reg Lowering::evaluate_read(const Scalar& read, const Point& point, Reg guard) {
  const auto symbol = static_cast<TileSymbolId>(read.symbol);
  const auto& tiles = read.next ? next_tiles_ : tiles_;
  if (const auto found = tiles.find(symbol); found != tiles.end()) {
    return read_register(read, found->second, point);
  }
  const int32_t buffer = buffer_of_[static_cast<size_t>(symbol)];
  WEFT_CHECK(buffer >= 0, "value " + program_.symbols[static_cast<size_t>(symbol)].name +
                              " is read where it is not in a register, in " + program_.name);

  WEFT_CHECK(!fills_matrix_rows(symbol), "rows of a matrix unit are read one by one");
  const TileSymbol& info = program_.symbols[static_cast<size_t>(symbol)];
  std::vector<std::pair<int, Reg>> runtime;
  for (size_t r = 0; r < read.operands.size(); ++r) {
    runtime.emplace_back(kRuntimeIndexBase + static_cast<int>(r),
                         runtime_index(read, r, info, point, guard));
  }
  if (scopes_.symbols[static_cast<size_t>(symbol)].scope == Scope::kCluster) {
    const ClusterAddress at = cluster_address(symbol, read.indices, read.next);
    if (!at.own) {
      WEFT_CHECK(runtime.empty(), "an element known at run time of another block's memory");
      return load_from_cluster(read, at, point, guard);
    }
  }
  auto it = prepared_.find(&read);
  if (it == prepared_.end()) {
    it = prepared_.emplace(&read, prepare(buffer_offset(symbol, read.indices, read.next))).first;
  }
  std::swap(runtime_indices_, runtime);
  const Reg loaded = load_element(buffer, read, it->second, point, guard);
  std::swap(runtime_indices_, runtime);
  return loaded;
}

Reg Lowering::runtime_index(const Scalar& read, size_t number, const TileSymbol& symbol,
                            const Point& point, Reg guard) {
  Reg value = evaluate(read.operands[number], point, guard);
  const int32_t lanes = builder_.type(value).lanes;
  if (builder_.type(value).dtype != DType::kI64) {
    value = builder_.apply(ScalarOp::kConvert, {value}, DType::kI64);
  }
  for (size_t a = 0; a < read.indices.size(); ++a) {
    if (!uses_var(read.indices[a], kRuntimeIndexBase + static_cast<int>(number))) continue;
    const Reg low = to_lanes(builder_.int_constant(0), lanes);
    const Reg high = to_lanes(emit_index(bind(symbol.shape[a]) - 1), lanes);
    value = builder_.apply(ScalarOp::kMax, {value, low}, DType::kI64);
    value = builder_.apply(ScalarOp::kMin, {value, high}, DType::kI64);
  }
  return value;
}

Reg Lowering::load_element(int32_t buffer, const Scalar& read, const PreparedIndex& offset,
                           const Point& point, Reg guard) {
  const IndexExpr extent = buffer_elements_[static_cast<size_t>(buffer)];
  const int64_t elements = extent.is_const() ? extent.constant() : 1;
  const ScalarValue zero =
      is_float(read.type) ? float_value(read.type, 0) : int_value(read.type, 0);
  if (elements == 0) return builder_.constant({read.type, 1}, zero);  // a guard excludes it all
  const auto range = [this](int id) { return range_of_var(id); };
  const auto at = affine_at_point(offset, point);
  Reg address = kNoReg;
  int64_t lane_coefficient = 0;
  if (at) {
    lane_coefficient = at->lane_coefficient;
    address = emit_terms(at->terms, at->constant);
  } else {
    const IndexExpr e = simplify(at_point(offset, point), range);
    address = emit_index(e);
  }
  const bool vector_address = builder_.type(address).lanes > 1;

  if (!vector_address && lane_coefficient == 0) {
    if (gpu_ && guard != kNoReg && builder_.type(guard).lanes == 1) {
      return builder_.load(buffer, address, 1, guard, zero);
    }
    if (guard != kNoReg) {
      // What the guard excludes is never used: any address inside the buffer will do.
      const Interval reach = range_of(at_point(offset, point), range);
      if (reach.lo < 0 || reach.hi >= elements) {
        address = builder_.apply(ScalarOp::kMax, {address, builder_.int_constant(0)}, DType::kI64);
        address = builder_.apply(ScalarOp::kMin, {address, emit_index(extent - 1)}, DType::kI64);
      }
    }
    return builder_.load(buffer, address, 1);
  }
  if (!vector_address && lane_coefficient == 1) {
    if (guard != kNoReg) {
      const Interval reach = range_of(at_point(offset, point), range);
      if (!gpu_ && reach.lo >= 0 && reach.hi < elements) guard = kNoReg;
    }
    return guard == kNoReg
               ? builder_.load(buffer, address, box_.lanes)
               : builder_.load(buffer, address, box_.lanes, to_lanes(guard, box_.lanes), zero);
  }
  if (!at && !gpu_) {
    const auto permuted = load_permuted(buffer, read, offset, point, guard);
    if (permuted) return *permuted;
  }
  if (!gpu_ && !vector_address && at) {
    const auto transposed = load_transposed(buffer, read, offset, point, guard);
    if (transposed) return *transposed;
  }
  Reg offsets = to_lanes(address, box_.lanes);
  if (lane_coefficient != 0) {
    Reg step = builder_.ramp(DType::kI64, box_.lanes);
    step = builder_.apply(
        ScalarOp::kMul,
        {step, builder_.broadcast(builder_.int_constant(lane_coefficient), box_.lanes)},
        DType::kI64);
    offsets = builder_.apply(ScalarOp::kAdd, {offsets, step}, DType::kI64);
  }
  if (guard == kNoReg) return builder_.gather(buffer, offsets);
  return builder_.gather(buffer, offsets, to_lanes(guard, box_.lanes), zero);
}

std::optional<Lowering::LaneWindow> Lowering::lane_window(const PreparedIndex& offset,
                                                          const Point& point) {
  const auto range = [this](int id) { return range_of_var(id); };
  const IndexExpr e = at_point(offset, point);
  if (uses_runtime_index(e)) return std::nullopt;
  LaneWindow out;
  AffineForm first;
  for (int32_t l = 0; l < box_.lanes; ++l) {
    const IndexExpr lane = simplify(
        substitute(e, [&](int id) { return id == kLaneVar ? IndexExpr(l) : IndexExpr::var(id); }),
        range);
    AffineForm form;
    if (!affine_in_kernel_vars(lane, &form)) return std::nullopt;
    if (l == 0) first = form;
    if (form.terms != first.terms) return std::nullopt;
    out.lanes.push_back(form.constant);
  }
  // Neighbouring reads share a load where windows begin at multiples of the vector.
  int64_t step = box_.lanes;
  for (const auto& [id, c] : first.terms) step = std::gcd(step, c);
  const auto [lo, hi] = std::minmax_element(out.lanes.begin(), out.lanes.end());
  out.begin = floor_div(IndexExpr(*lo), step).constant() * step;
  if (*hi - out.begin >= box_.lanes) out.begin = *lo;
  if (*hi - out.begin >= box_.lanes) return std::nullopt;
  out.reach = *hi - out.begin + 1;
  for (int64_t& l : out.lanes) l -= out.begin;
  out.terms = first.terms;
  return out;
}

std::optional<Reg> Lowering::load_permuted(int32_t buffer, const Scalar& read,
                                           const PreparedIndex& offset, const Point& point,
                                           Reg guard) {
  if (box_.lanes < 4) return std::nullopt;
  const auto window = lane_window(offset, point);
  if (!window) return std::nullopt;
  const IndexExpr& extent = buffer_elements_[static_cast<size_t>(buffer)];
  const int64_t elements = extent.is_const() ? extent.constant() : 1;
  IndexExpr begin = window->begin;
  for (const auto& [id, c] : window->terms) begin = begin + IndexExpr::var(id) * c;
  const Interval reach = range_of(begin, [this](int id) { return range_of_var(id); });
  const bool inside = reach.lo >= 0 && reach.hi + box_.lanes <= elements;
  Reg mask = kNoReg;
  if (!inside) {
    if (guard != kNoReg && builder_.type(guard).lanes > 1) return std::nullopt;
    mask = builder_.lane_mask(builder_.int_constant(window->reach), box_.lanes);
    if (guard != kNoReg) mask = combine_guards(to_lanes(guard, box_.lanes), mask);
  }
  const Reg address = emit_terms(window->terms, window->begin);
  const ScalarValue zero =
      is_float(read.type) ? float_value(read.type, 0) : int_value(read.type, 0);
  const Reg loaded = mask == kNoReg ? builder_.load(buffer, address, box_.lanes)
                                    : builder_.load(buffer, address, box_.lanes, mask, zero);
  const std::vector<int32_t> order(window->lanes.begin(), window->lanes.end());
  return builder_.shuffle(loaded, loaded, order);
}

int64_t Lowering::lanes_within(const Point& point, Reg guard) {
  if (guard == kNoReg) return box_.lanes;
  const Box::Axis& axis = box_.axes[static_cast<size_t>(box_.vec_axis)];
  const auto& valid = valid_[static_cast<size_t>(axis.var)];
  if (valid && valid->reg != kNoReg) return 0;
  const int64_t extent = valid ? valid->count : program_.vars[static_cast<size_t>(axis.var)].extent;
  const int64_t count = extent - point[static_cast<size_t>(box_.vec_axis)] * axis.lanes;
  return guard == builder_.lane_mask(builder_.int_constant(count), box_.lanes) ? count : 0;
}

std::optional<Reg> Lowering::load_transposed(int32_t buffer, const Scalar& read,
                                             const PreparedIndex& offset, const Point& point,
                                             Reg guard) {
  const int32_t lanes = box_.lanes;
  if (!offset.affine || lanes < 4 || !std::has_single_bit(static_cast<uint32_t>(lanes)))
    return std::nullopt;
  // The unrolled axis along which memory is contiguous.
  int row = -1;
  for (size_t a = 0; a < box_.axes.size(); ++a) {
    if (static_cast<int>(a) != box_.vec_axis && offset.form.coefficient(box_.axes[a].var) == 1) {
      row = static_cast<int>(a);
    }
  }
  if (row < 0) return std::nullopt;
  const int64_t vectors = lanes_within(point, guard);
  if (vectors == 0) return std::nullopt;
  Point first = point;
  int32_t& position = first[static_cast<size_t>(row)];
  position -= position % lanes;
  int64_t limit = box_.axes[static_cast<size_t>(row)].regs;
  if (const auto& valid = valid_[static_cast<size_t>(box_.axes[static_cast<size_t>(row)].var)]) {
    if (valid->reg != kNoReg) return std::nullopt;
    limit = std::min(limit, valid->count);
  }
  // A tail's rows are loaded as far as they are valid.
  const int64_t count = std::min<int64_t>(lanes, limit - position);
  if (count * 2 < lanes) return std::nullopt;
  const ScalarValue zero =
      is_float(read.type) ? float_value(read.type, 0) : int_value(read.type, 0);
  Reg mask = kNoReg;
  if (count < lanes) {
    mask = builder_.lane_mask(builder_.int_constant(count), lanes);
  }

  const auto at = affine_at_point(offset, first);
  const Reg base = emit_terms(at->terms, 0);
  std::vector<Reg> rows;
  for (int64_t l = 0; l < lanes; ++l) {
    if (l >= vectors) {  // what the guard excludes
      rows.push_back(rows[0]);
      continue;
    }
    const int64_t constant = at->constant + l * at->lane_coefficient;
    const Reg address =
        builder_.apply(ScalarOp::kAdd, {base, builder_.int_constant(constant)}, DType::kI64);
    rows.push_back(mask == kNoReg ? builder_.load(buffer, address, lanes)
                                  : builder_.load(buffer, address, lanes, mask, zero));
  }
  // Butterfly: exchange blocks of half, quarter, … between rows that far apart.
  for (int32_t half = lanes / 2; half >= 1; half /= 2) {
    std::vector<int32_t> low, high;
    for (int32_t l = 0; l < lanes; ++l) {
      const bool upper = (l & half) != 0;
      low.push_back(upper ? lanes + l - half : l);
      high.push_back(upper ? lanes + l : l + half);
    }
    for (int32_t r = 0; r < lanes; ++r) {
      if ((r & half) != 0) continue;
      const Reg a = rows[static_cast<size_t>(r)], b = rows[static_cast<size_t>(r + half)];
      rows[static_cast<size_t>(r)] = builder_.shuffle(a, b, low);
      rows[static_cast<size_t>(r + half)] = builder_.shuffle(a, b, high);
    }
  }
  const uint64_t own_axes = box_masks_.at(&read);
  for (int32_t r = 0; r < count; ++r) {
    Point p = first;
    p[static_cast<size_t>(row)] += r;
    memo_[{&read, project(p, own_axes), guard}] = rows[static_cast<size_t>(r)];
  }
  return rows[static_cast<size_t>(point[static_cast<size_t>(row)] - position)];
}

}  // namespace weft::lowering
