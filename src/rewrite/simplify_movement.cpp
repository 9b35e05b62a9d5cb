#include <algorithm>

#include "rewrite/simplifier.h"

namespace weft {
namespace {

/// The axes of extent other than 1.
std::vector<int64_t> wide_axes(const Shape& shape) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

/// The dims that broadcast `x` as `dims` broadcast `middle`, a reshape of x that only adds or drops
/// axes of extent 1; nullopt when x has axes of extent 1 that find no place.
std::optional<std::vector<int64_t>> dims_past_reshape(const Shape& x, const Shape& middle,
                                                      const std::vector<int64_t>& dims,
                                                      int64_t result_rank) {
  const std::vector<int64_t> x_wide = wide_axes(x);
  const std::vector<int64_t> middle_wide = wide_axes(middle);
  if (x_wide.size() != middle_wide.size()) return std::nullopt;
  for (size_t i = 0; i < x_wide.size(); ++i) {
    if (x[static_cast<size_t>(x_wide[i])] != middle[static_cast<size_t>(middle_wide[i])]) {
      return std::nullopt;
    }
  }
  std::vector<int64_t> result(x.size());
  size_t next_wide = x_wide.size();
  int64_t limit = result_rank;
  for (size_t i = x.size(); i-- > 0;) {
    int64_t place = limit - 1;
    if (x[i] != 1) place = dims[static_cast<size_t>(middle_wide[--next_wide])];
    if (place < 0 || place >= limit) return std::nullopt;
    result[i] = limit = place;
  }
  return result;
}

}  // namespace

Simplifier::Rewrite Simplifier::simplify_broadcast(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  if (type(x) == c.type) return x;
  const std::vector<int64_t>& dims = std::get<BroadcastAttrs>(c.attrs).dims;
  if (element_count(shape(x)) == element_count(c.type.shape)) {
    return make({GraphOp::kReshape, ReshapeAttrs{}, {x}, c.type, c.origin});
  }
  if (const Node* inner = rebuild_.made_by(x, GraphOp::kBroadcast)) {
    BroadcastAttrs attrs;
    for (int64_t middle : std::get<BroadcastAttrs>(inner->attrs).dims) {
      attrs.dims.push_back(dims[static_cast<size_t>(middle)]);
    }
    return make({GraphOp::kBroadcast, attrs, {inner->operands[0]}, c.type, c.origin});
  }
  if (const Node* inner = rebuild_.made_by(x, GraphOp::kReshape)) {
    const ValueId source = inner->operands[0];
    const auto direct =
        dims_past_reshape(shape(source), shape(x), dims, static_cast<int64_t>(c.type.shape.size()));
    if (direct) {
      return make({GraphOp::kBroadcast, BroadcastAttrs{*direct}, {source}, c.type, c.origin});
    }
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::simplify_reshape(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  if (type(x) == c.type) return x;
  if (const Node* inner = rebuild_.made_by(x, GraphOp::kReshape)) {
    return make({GraphOp::kReshape, ReshapeAttrs{}, {inner->operands[0]}, c.type, c.origin});
  }
  if (const auto scalar = broadcast_scalar(x)) {
    return make({GraphOp::kBroadcast, BroadcastAttrs{}, {*scalar}, c.type, c.origin});
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::simplify_transpose(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  const std::vector<int64_t>& permutation = std::get<TransposeAttrs>(c.attrs).permutation;
  std::vector<int64_t> wide;
  for (int64_t axis : permutation) {
    if (shape(x)[static_cast<size_t>(axis)] != 1) wide.push_back(axis);
  }
  if (std::is_sorted(wide.begin(), wide.end())) {
    return make({GraphOp::kReshape, ReshapeAttrs{}, {x}, c.type, c.origin});
  }
  if (const Node* inner = rebuild_.made_by(x, GraphOp::kTranspose)) {
    TransposeAttrs attrs;
    for (int64_t axis : permutation) {
      attrs.permutation.push_back(
          std::get<TransposeAttrs>(inner->attrs).permutation[static_cast<size_t>(axis)]);
    }
    return make({GraphOp::kTranspose, attrs, {inner->operands[0]}, c.type, c.origin});
  }
  if (const auto scalar = broadcast_scalar(x)) {
    return make({GraphOp::kBroadcast, BroadcastAttrs{}, {*scalar}, c.type, c.origin});
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::simplify_slice(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  const auto& attrs = std::get<SliceAttrs>(c.attrs);
  const size_t rank = attrs.start.size();
  if (*element_count(c.type.shape) == 0) return std::nullopt;
  bool is_identity = type(x) == c.type;
  for (size_t i = 0; i < rank; ++i) {
    is_identity =
        is_identity && attrs.start[i] == 0 && (c.type.shape[i] == 1 || attrs.step[i] == 1);
  }
  if (is_identity) return x;
  if (const Node* inner = rebuild_.made_by(x, GraphOp::kSlice)) {
    const auto& first = std::get<SliceAttrs>(inner->attrs);
    SliceAttrs joined = attrs;
    for (size_t i = 0; i < rank; ++i) {
      // A step counts only where something is stepped over, and then it stays inside the tensor.
      const int64_t first_step = shape(x)[i] > 1 ? first.step[i] : 1;
      joined.start[i] = first.start[i] + attrs.start[i] * first_step;
      joined.step[i] = c.type.shape[i] > 1 ? attrs.step[i] * first_step : 1;
    }
    return make({GraphOp::kSlice, joined, {inner->operands[0]}, c.type, c.origin});
  }
  if (const Node* concat = rebuild_.made_by(x, GraphOp::kConcat))
    return slice_of_concat(c, *concat);
  if (const Node* pad = rebuild_.made_by(x, GraphOp::kPad)) return slice_of_pad(c, *pad);
  if (const Node* scan = rebuild_.made_by(x, GraphOp::kScan)) return slice_of_scan(c, *scan);
  if (const auto scalar = broadcast_scalar(x)) {
    return make({GraphOp::kBroadcast, BroadcastAttrs{}, {*scalar}, c.type, c.origin});
  }
  return std::nullopt;
}

Simplifier::Rewrite Simplifier::slice_of_concat(const CandidateNode& c, const Node& concat) {
  SliceAttrs attrs = std::get<SliceAttrs>(c.attrs);
  const auto axis = static_cast<size_t>(std::get<ConcatAttrs>(concat.attrs).axis);
  const int64_t first = attrs.start[axis];
  const int64_t steps = c.type.shape[axis] - 1;
  const int64_t last = steps == 0 ? first : first + steps * attrs.step[axis];
  int64_t begin = 0;
  for (ValueId piece : concat.operands) {
    const int64_t end = begin + shape(piece)[axis];
    if (std::min(first, last) >= begin && std::max(first, last) < end) {
      attrs.start[axis] -= begin;
      return make({GraphOp::kSlice, attrs, {piece}, c.type, c.origin});
    }
    begin = end;
  }
  return std::nullopt;
}

/// The last of what a scan stacks is what it carries in the end, where it is the same in each step.
Simplifier::Rewrite Simplifier::slice_of_scan(const CandidateNode& c, const Node& scan) {
  const auto& attrs = std::get<ScanAttrs>(scan.attrs);
  const std::vector<ValueId>& outputs = scan.regions[0]->outputs;
  const ValueId x = c.operands[0];
  const auto stacked = std::ranges::find(scan.results, x) - scan.results.begin();
  if (stacked < attrs.carry_count || c.type.shape[0] != 1) return std::nullopt;
  SliceAttrs slice = std::get<SliceAttrs>(c.attrs);
  const bool reversed = attrs.y_reverse[static_cast<size_t>(stacked - attrs.carry_count)];
  if (slice.start[0] != (reversed ? 0 : shape(x)[0] - 1)) return std::nullopt;
  const auto carries = outputs.begin() + attrs.carry_count;
  const auto carry = std::find(outputs.begin(), carries, outputs[static_cast<size_t>(stacked)]);
  if (carry == carries) return std::nullopt;
  TensorType step = type(x);
  step.shape[0] = 1;
  const ValueId last = scan.results[static_cast<size_t>(carry - outputs.begin())];
  const ValueId whole = make({GraphOp::kReshape, ReshapeAttrs{}, {last}, step, c.origin});
  slice.start[0] = 0;
  return make({GraphOp::kSlice, slice, {whole}, c.type, c.origin});
}

Simplifier::Rewrite Simplifier::slice_of_pad(const CandidateNode& c, const Node& pad) {
  SliceAttrs attrs = std::get<SliceAttrs>(c.attrs);
  const ValueId x = pad.operands[0];
  for (size_t i = 0; i < attrs.start.size(); ++i) {
    attrs.start[i] -= std::get<PadAttrs>(pad.attrs).low[i];
    const int64_t steps = c.type.shape[i] - 1;
    const int64_t last = attrs.start[i] + (steps == 0 ? 0 : steps * attrs.step[i]);
    if (std::min(attrs.start[i], last) < 0 || std::max(attrs.start[i], last) >= shape(x)[i]) {
      return std::nullopt;
    }
  }
  return make({GraphOp::kSlice, attrs, {x}, c.type, c.origin});
}

Simplifier::Rewrite Simplifier::simplify_pad(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  const auto& attrs = std::get<PadAttrs>(c.attrs);
  const auto all = [](const std::vector<int64_t>& values, auto holds) {
    return std::all_of(values.begin(), values.end(), holds);
  };
  const auto crops = [](int64_t v) { return v <= 0; };
  const auto grows = [](int64_t v) { return v >= 0; };
  if (all(attrs.low, crops) && all(attrs.high, crops)) {
    SliceAttrs slice;
    for (int64_t low : attrs.low) slice.start.push_back(-low);
    slice.step.assign(attrs.low.size(), 1);
    return make({GraphOp::kSlice, slice, {x}, c.type, c.origin});
  }
  const Node* inner = rebuild_.made_by(x, GraphOp::kPad);
  if (inner == nullptr || inner->operands[1] != c.operands[1]) return std::nullopt;
  PadAttrs joined = std::get<PadAttrs>(inner->attrs);
  if (!all(attrs.low, grows) || !all(attrs.high, grows) || !all(joined.low, grows) ||
      !all(joined.high, grows)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < joined.low.size(); ++i) {
    joined.low[i] += attrs.low[i];
    joined.high[i] += attrs.high[i];
    if (joined.low[i] > kMaxOffset || joined.high[i] > kMaxOffset) return std::nullopt;
  }
  return make({GraphOp::kPad, joined, inner->operands, c.type, c.origin});
}

Simplifier::Rewrite Simplifier::simplify_concat(const CandidateNode& c) {
  const int64_t axis = std::get<ConcatAttrs>(c.attrs).axis;
  if (c.operands.size() == 1) return c.operands[0];
  std::vector<ValueId> operands;
  bool changed = false;
  for (ValueId v : c.operands) {
    const Node* inner = rebuild_.made_by(v, GraphOp::kConcat);
    if (inner != nullptr && is_read_once(v) && std::get<ConcatAttrs>(inner->attrs).axis == axis) {
      operands.insert(operands.end(), inner->operands.begin(), inner->operands.end());
      changed = true;
    } else if (shape(v)[static_cast<size_t>(axis)] == 0) {
      changed = true;
    } else {
      operands.push_back(v);
    }
  }
  changed = join_slices(operands, static_cast<size_t>(axis)) || changed;
  if (!changed) return std::nullopt;
  if (operands.empty()) return c.operands[0];
  return make({GraphOp::kConcat, c.attrs, std::move(operands), c.type, c.origin});
}

bool Simplifier::join_slices(std::vector<ValueId>& operands, size_t axis) {
  const auto continues = [&](ValueId before, ValueId v) {
    const Node *a = rebuild_.made_by(before, GraphOp::kSlice),
               *b = rebuild_.made_by(v, GraphOp::kSlice);
    if (a == nullptr || b == nullptr || a->operands != b->operands) return false;
    SliceAttrs next = std::get<SliceAttrs>(a->attrs);
    const auto& attrs = std::get<SliceAttrs>(b->attrs);
    next.start[axis] += shape(before)[axis] * next.step[axis];
    return next.start == attrs.start && next.step == attrs.step;
  };
  std::vector<ValueId> joined;
  for (size_t begin = 0, end = 1; begin < operands.size(); begin = end++) {
    while (end < operands.size() && continues(operands[end - 1], operands[end])) ++end;
    const Node* first =
        end - begin > 1 ? rebuild_.made_by(operands[begin], GraphOp::kSlice) : nullptr;
    if (first == nullptr) {
      joined.push_back(operands[begin]);
      continue;
    }
    CandidateNode slice{GraphOp::kSlice, first->attrs, first->operands, type(operands[begin]),
                        first->origin};
    for (size_t i = begin + 1; i < end; ++i) slice.type.shape[axis] += shape(operands[i])[axis];
    joined.push_back(make(std::move(slice)));
  }
  if (joined.size() == operands.size()) return false;
  operands = std::move(joined);
  return true;
}

Simplifier::Rewrite Simplifier::simplify_gather(const CandidateNode& c) {
  constexpr int64_t kMaxIndices = 4096;
  const auto& attrs = std::get<GatherAttrs>(c.attrs);
  const ValueId data = c.operands[0];
  const HostTensor* indices = rebuild_.constant(c.operands[1]);
  if (indices == nullptr || attrs.batch_dims != 0 || indices->size() == 0 ||
      indices->size() > kMaxIndices || *element_count(shape(data)) == 0) {
    return std::nullopt;
  }
  const auto axis = static_cast<size_t>(attrs.axis);
  const auto index = [&](int64_t i) {
    return std::clamp<int64_t>(indices->at_int(i), 0, shape(data)[axis] - 1);
  };
  const int64_t count = indices->size();
  const int64_t step = count > 1 ? index(1) - index(0) : 1;
  if (step == 0) return std::nullopt;
  for (int64_t i = 1; i < count; ++i) {
    if (index(i) - index(i - 1) != step) return std::nullopt;
  }
  TensorType sliced = type(data);
  SliceAttrs slice{std::vector<int64_t>(sliced.shape.size(), 0),
                   std::vector<int64_t>(sliced.shape.size(), 1)};
  slice.start[axis] = index(0);
  slice.step[axis] = step;
  sliced.shape[axis] = count;
  const ValueId picked = make({GraphOp::kSlice, slice, {data}, sliced, c.origin});
  return make({GraphOp::kReshape, ReshapeAttrs{}, {picked}, c.type, c.origin});
}

Simplifier::Rewrite Simplifier::simplify_reduce(const CandidateNode& c) {
  const ValueId x = c.operands[0];
  const auto& attrs = std::get<ReduceAttrs>(c.attrs);
  // A sum starts from +0, which turns -0 into +0 even when nothing is added.
  if (attrs.combiner == Combiner::kSum && is_float(c.type.dtype)) return std::nullopt;
  for (int64_t axis : attrs.axes) {
    if (shape(x)[static_cast<size_t>(axis)] != 1) return std::nullopt;
  }
  return make({GraphOp::kReshape, ReshapeAttrs{}, {x}, c.type, c.origin});
}

}  // namespace weft
