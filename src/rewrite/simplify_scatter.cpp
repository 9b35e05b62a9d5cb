#include <algorithm>

#include "rewrite/simplifier.h"

namespace weft {
namespace {

/// More places than that are no table for a kernel to look them up in.
constexpr int64_t kMaxPlaces = int64_t{1} << 22;

/// Where the updates go, in row-major order of the axes of `places`, which come first in the data;
/// the axes behind them are updated whole.
struct Targets {
  Shape places;
  std::vector<int64_t> of_update;  ///< the place of each
};

/// Those of constant index tuples; nullopt when one is out of range.
std::optional<Targets> targets_of_tuples(const HostTensor& indices, const Shape& data) {
  const auto depth = static_cast<size_t>(indices.shape().back());
  if (depth == 0 || depth > data.size()) return std::nullopt;
  Targets result;
  result.places.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(depth));
  const int64_t count = indices.size() / static_cast<int64_t>(depth);
  result.of_update.reserve(static_cast<size_t>(count));
  for (int64_t t = 0; t < count; ++t) {
    int64_t place = 0;
    for (size_t k = 0; k < depth; ++k) {
      const int64_t index =
          indices.at_int(t * static_cast<int64_t>(depth) + static_cast<int64_t>(k));
      if (index < 0 || index >= data[k]) return std::nullopt;
      place = place * data[k] + index;
    }
    result.of_update.push_back(place);
  }
  return result;
}

/// Those of constant indices along an axis, one an element.
std::optional<Targets> targets_along(const HostTensor& indices, size_t axis, const Shape& data) {
  Targets result{data, {}};
  result.of_update.reserve(static_cast<size_t>(indices.size()));
  std::vector<int64_t> at(data.size(), 0);
  for (int64_t t = 0; t < indices.size(); ++t) {
    const int64_t index = indices.at_int(t);
    if (index < 0 || index >= data[axis]) return std::nullopt;
    int64_t place = 0;
    for (size_t d = 0; d < data.size(); ++d) place = place * data[d] + (d == axis ? index : at[d]);
    result.of_update.push_back(place);
    for (size_t d = data.size(); d-- > 0 && ++at[d] == indices.shape()[d];) at[d] = 0;
  }
  return result;
}

/// A part of the places that is whole along each axis between two places.
struct Box {
  Shape start, extent;
};

/// The box that the updates fill in row-major order; nullopt when they do not.
std::optional<Box> as_box(const Targets& targets) {
  const size_t rank = targets.places.size();
  const auto index = [&](int64_t place) {
    Shape at(rank);
    for (size_t k = rank; k-- > 0; place /= targets.places[k]) at[k] = place % targets.places[k];
    return at;
  };
  Box box{index(targets.of_update.front()), index(targets.of_update.back())};
  int64_t volume = 1;
  for (size_t k = 0; k < rank; ++k) {
    box.extent[k] += 1 - box.start[k];
    if (box.extent[k] <= 0) return std::nullopt;
    volume *= box.extent[k];
  }
  if (volume != static_cast<int64_t>(targets.of_update.size())) return std::nullopt;
  Shape at = box.start;
  for (const int64_t place : targets.of_update) {
    if (index(place) != at) return std::nullopt;
    for (size_t k = rank; k-- > 0 && ++at[k] == box.start[k] + box.extent[k];) at[k] = box.start[k];
  }
  return box;
}

}  // namespace

/// The update, combined with what it replaces, between the parts of `data` that it leaves as they
/// are, from axis `axis` of the box on.
ValueId Simplifier::replace_box(ValueId data, ValueId update, const Shape& start, size_t axis,
                                const CandidateNode& c) {
  const auto& attrs = std::get<ScatterAttrs>(c.attrs);
  if (axis == start.size()) {
    if (!attrs.combines) return update;
    return make({GraphOp::kElementwise,
                 ElementwiseAttrs{*combiner_op(attrs.combiner)},
                 {data, update},
                 type(data),
                 c.origin});
  }
  const Shape whole = shape(data);
  const int64_t from = start[axis], count = shape(update)[axis], until = from + count;
  const auto part = [&](int64_t first, int64_t extent) {
    TensorType sliced = type(data);
    sliced.shape[axis] = extent;
    SliceAttrs slice{Shape(whole.size(), 0), Shape(whole.size(), 1)};
    slice.start[axis] = first;
    return make({GraphOp::kSlice, slice, {data}, sliced, c.origin});
  };
  std::vector<ValueId> pieces;
  if (from > 0) pieces.push_back(part(0, from));
  pieces.push_back(replace_box(part(from, count), update, start, axis + 1, c));
  if (until < whole[axis]) pieces.push_back(part(until, whole[axis] - until));
  if (pieces.size() == 1) return pieces.front();
  TensorType result = type(data);
  return make(
      {GraphOp::kConcat, ConcatAttrs{static_cast<int64_t>(axis)}, pieces, result, c.origin});
}

/// The update, combined with what it replaces, where `is_updated` says so, else `data`; all three
/// have the shape of `data`.
ValueId Simplifier::updated_where(ValueId is_updated, ValueId update, ValueId data,
                                  const CandidateNode& c) {
  const auto& attrs = std::get<ScatterAttrs>(c.attrs);
  const TensorType whole = type(data);
  if (attrs.combines) {
    const ElementwiseAttrs join{*combiner_op(attrs.combiner)};
    update = make({GraphOp::kElementwise, join, {data, update}, whole, c.origin});
  }
  const ElementwiseAttrs choose{ScalarOp::kSelect};
  return make({GraphOp::kElementwise, choose, {is_updated, update, data}, whole, c.origin});
}

/// Whether `v` is the same everywhere along all axes but `axis`.
bool Simplifier::varies_along_only(ValueId v, size_t axis) const {
  if (rebuild_.uniform_element(v)) return true;
  if (const Node* broadcast = rebuild_.made_by(v, GraphOp::kBroadcast)) {
    const Shape& from = shape(broadcast->operands[0]);
    const auto& dims = std::get<BroadcastAttrs>(broadcast->attrs).dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (static_cast<size_t>(dims[i]) != axis && from[i] != 1) return false;
    }
    return true;
  }
  if (const Node* elementwise = rebuild_.made_by(v, GraphOp::kElementwise)) {
    return std::ranges::all_of(elementwise->operands,
                               [&](ValueId operand) { return varies_along_only(operand, axis); });
  }
  return false;
}

/// Elements that are scattered along the first axis, whole rows by one index each: slices by tuples
/// of one index. Frameworks write an index for each element.
Simplifier::Rewrite Simplifier::scatter_of_rows(const CandidateNode& c) {
  const auto& attrs = std::get<ScatterAttrs>(c.attrs);
  const Shape whole = shape(c.operands[0]), updates = shape(c.operands[2]);
  if (c.op != GraphOp::kScatterElements || attrs.axis != 0 || whole.size() < 2 ||
      !std::equal(whole.begin() + 1, whole.end(), updates.begin() + 1) ||
      !varies_along_only(c.operands[1], 0)) {
    return std::nullopt;
  }
  TensorType first = type(c.operands[1]);
  std::fill(first.shape.begin() + 1, first.shape.end(), 1);
  const size_t rank = whole.size();
  const ValueId indices = make({GraphOp::kSlice,
                                SliceAttrs{Shape(rank, 0), Shape(rank, 1)},
                                {c.operands[1]},
                                first,
                                c.origin});
  const TensorType tuples{first.dtype, {updates[0], 1}};
  ScatterAttrs of_slices = attrs;
  of_slices.axis = ScatterAttrs().axis;
  return make(
      {GraphOp::kScatterNd,
       of_slices,
       {c.operands[0], make({GraphOp::kReshape, ReshapeAttrs{}, {indices}, tuples, c.origin}),
        c.operands[2]},
       c.type,
       c.origin});
}

namespace {

/// Whether each place of a grid has lines of its own along the axes of `grid`, so that the grid is
/// the product of the lines.
bool spans(const std::vector<IndexLine>& lines, const Shape& grid) {
  std::vector<int> times(grid.size(), 0);
  for (const IndexLine& line : lines) {
    if (line.axis >= 0) ++times[static_cast<size_t>(line.axis)];
  }
  for (size_t a = 0; a < grid.size(); ++a) {
    if (times[a] != (grid[a] == 1 ? 0 : 1)) return false;
  }
  return true;
}

bool is_in(const IndexLine& line, int64_t extent) {
  return std::ranges::all_of(line.values, [&](int64_t v) { return v >= 0 && v < extent; });
}

bool is_run(const IndexLine& line) {
  for (size_t i = 1; i < line.values.size(); ++i) {
    if (line.values[i] != line.values[i - 1] + 1) return false;
  }
  return true;
}

bool has_repeats(const IndexLine& line) {
  std::vector<int64_t> sorted = line.values;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) != sorted.end();
}

}  // namespace

/// The updates in the order of the data's axes: [places of the first axis, …, axes behind].
ValueId Simplifier::updates_by_axis(const std::vector<IndexLine>& lines, const CandidateNode& c) {
  const ValueId updates = c.operands[2];
  const size_t rank = shape(updates).size();
  std::vector<int64_t> order;
  TensorType to{c.type.dtype, {}};
  const auto take = [&](int64_t axis) {
    if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
  };
  for (const IndexLine& line : lines) {
    if (line.axis >= 0) take(line.axis);
    to.shape.push_back(static_cast<int64_t>(line.values.size()));
  }
  for (size_t a = 0; a < rank; ++a) take(static_cast<int64_t>(a));
  const Shape& whole = shape(c.operands[0]);
  to.shape.insert(to.shape.end(), whole.begin() + std::ssize(lines), whole.end());
  TensorType turned = type(updates);
  for (size_t a = 0; a < rank; ++a) turned.shape[a] = shape(updates)[static_cast<size_t>(order[a])];
  const ValueId x =
      make({GraphOp::kTranspose, TransposeAttrs{order}, {updates}, std::move(turned), c.origin});
  return make({GraphOp::kReshape, ReshapeAttrs{}, {x}, std::move(to), c.origin});
}

/// Tuples that go through a grid, a list of places for each axis: a piece where all lists are runs,
/// else what each place takes along each axis.
Simplifier::Rewrite Simplifier::scatter_to_grid(const CandidateNode& c) {
  const auto& attrs = std::get<ScatterAttrs>(c.attrs);
  const Shape whole = shape(c.operands[0]), tuples = shape(c.operands[1]);
  if (c.op != GraphOp::kScatterNd || tuples.empty() || tuples.back() == 0) return std::nullopt;
  const auto lines = lines_of_tuples(rebuild_, c.operands[1]);
  if (!lines || !spans(*lines, Shape(tuples.begin(), tuples.end() - 1))) return std::nullopt;
  bool is_box = true;
  for (size_t k = 0; k < lines->size(); ++k) {
    if (!is_in((*lines)[k], whole[k]) || (attrs.combines && has_repeats((*lines)[k])))
      return std::nullopt;
    is_box = is_box && is_run((*lines)[k]);
  }
  const bool is_large = std::any_of(whole.begin(), whole.begin() + std::ssize(*lines),
                                    [](int64_t extent) { return extent > kMaxPlaces; });
  if (!is_box && is_large) return std::nullopt;
  ValueId update = updates_by_axis(*lines, c);
  if (is_box) {
    Shape start;
    for (const IndexLine& line : *lines) start.push_back(line.values.front());
    return replace_box(c.operands[0], update, start, 0, c);
  }
  ValueId is_updated = kNoValue;
  for (size_t k = 0; k < lines->size(); ++k) {
    HostTensor table(DType::kI64, {whole[k]}), taken(DType::kBool, {whole[k]});
    for (int64_t i = 0; i < whole[k]; ++i) table.set_int(i, 0), taken.set_int(i, 0);
    for (size_t i = 0; i < (*lines)[k].values.size(); ++i) {
      table.set_int((*lines)[k].values[i], static_cast<int64_t>(i));
      taken.set_int((*lines)[k].values[i], 1);
    }
    TensorType gathered = type(update);
    gathered.shape[k] = whole[k];
    const auto axis = static_cast<int64_t>(k);
    update = make({GraphOp::kGather,
                   GatherAttrs{.axis = axis, .batch_dims = 0},
                   {update, rebuild_.add_constant(std::move(table), c.origin)},
                   std::move(gathered),
                   c.origin});
    const TensorType flags{DType::kBool, whole};
    const ValueId along = make({GraphOp::kBroadcast,
                                BroadcastAttrs{{axis}},
                                {rebuild_.add_constant(std::move(taken), c.origin)},
                                flags,
                                c.origin});
    is_updated = k == 0 ? along
                        : make({GraphOp::kElementwise,
                                ElementwiseAttrs{ScalarOp::kAnd},
                                {is_updated, along},
                                flags,
                                c.origin});
  }
  return updated_where(is_updated, update, c.operands[0], c);
}

/// A scatter to places that are known is an expression of the place, which fuses with what makes
/// and reads it: pieces side by side where the updates fill a box, else a table that says which
/// update each place takes.
Simplifier::Rewrite Simplifier::simplify_scatter(const CandidateNode& c) {
  const auto& attrs = std::get<ScatterAttrs>(c.attrs);
  const ValueId data = c.operands[0];
  const Shape whole = shape(data);
  const bool is_empty = element_count(shape(c.operands[1])) == 0 || element_count(whole) == 0 ||
                        element_count(shape(c.operands[2])) == 0;
  if (is_empty || (attrs.combines && c.type.dtype == DType::kBool)) return std::nullopt;
  const HostTensor* indices = rebuild_.constant(c.operands[1]);
  if (indices == nullptr) {
    const Rewrite to_grid = scatter_to_grid(c);
    return to_grid ? to_grid : scatter_of_rows(c);
  }
  const auto targets = c.op == GraphOp::kScatterNd
                           ? targets_of_tuples(*indices, whole)
                           : targets_along(*indices, static_cast<size_t>(attrs.axis), whole);
  if (!targets) return std::nullopt;
  const size_t depth = targets->places.size();
  const Shape behind(whole.begin() + static_cast<std::ptrdiff_t>(depth), whole.end());
  const auto with_behind = [&](Shape leading) {
    leading.insert(leading.end(), behind.begin(), behind.end());
    return TensorType{c.type.dtype, std::move(leading)};
  };
  const auto reshaped = [&](ValueId x, TensorType to) {
    return make({GraphOp::kReshape, ReshapeAttrs{}, {x}, std::move(to), c.origin});
  };
  if (const auto box = as_box(*targets)) {
    const ValueId update = reshaped(c.operands[2], with_behind(box->extent));
    return replace_box(data, update, box->start, 0, c);
  }
  const auto places = static_cast<size_t>(*element_count(targets->places));
  const auto count = static_cast<int64_t>(targets->of_update.size());
  if (static_cast<int64_t>(places) > kMaxPlaces) return std::nullopt;
  std::vector<int64_t> update_of(places, -1);
  for (int64_t t = 0; t < count; ++t) {
    int64_t& taken = update_of[static_cast<size_t>(targets->of_update[static_cast<size_t>(t)])];
    if (attrs.combines && taken >= 0) return std::nullopt;
    taken = t;
  }
  const Shape rows{static_cast<int64_t>(places)};
  HostTensor table(DType::kI64, rows), is_updated(DType::kBool, rows);
  for (size_t p = 0; p < places; ++p) {
    table.set_int(static_cast<int64_t>(p), std::max<int64_t>(update_of[p], 0));
    is_updated.set_int(static_cast<int64_t>(p), update_of[p] >= 0 ? 1 : 0);
  }
  const TensorType flat = with_behind(rows);
  const ValueId before = reshaped(data, flat);
  const ValueId after = make({GraphOp::kGather,
                              GatherAttrs{},
                              {reshaped(c.operands[2], with_behind({count})),
                               rebuild_.add_constant(std::move(table), c.origin)},
                              flat,
                              c.origin});
  const ValueId covered = make({GraphOp::kBroadcast,
                                BroadcastAttrs{{0}},
                                {rebuild_.add_constant(std::move(is_updated), c.origin)},
                                TensorType{DType::kBool, flat.shape},
                                c.origin});
  return reshaped(updated_where(covered, after, before, c), c.type);
}

}  // namespace weft
