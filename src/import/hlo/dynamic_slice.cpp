#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// Where a slice or an update begins along each axis: scalars, clamped so that all of it lies
/// within the array.
std::vector<ValueId> read_starts(InstructionContext& n, size_t first, size_t rank) {
  std::vector<ValueId> starts;
  if (n.operand_count() == first + 1 && rank != 1) {  // an older form: one vector
    const ValueId vector = n.operand(first);
    n.require(n.b.rank(vector) == 1 && n.b.extent(vector, 0) == static_cast<int64_t>(rank),
              "one start per axis");
    for (size_t i = 0; i < rank; ++i)
      starts.push_back(n.b.pick(vector, 0, static_cast<int64_t>(i)));
  } else {
    n.expect_operands(first + rank);
    for (size_t i = 0; i < rank; ++i) {
      const ValueId start = n.operand(first + i);
      n.require(n.b.size(start) == 1, "a start is a scalar");
      starts.push_back(n.b.reshape(start, {}));
    }
  }
  for (ValueId& start : starts) {
    n.require(is_integer(n.b.dtype(start)), "a start is an integer");
    const bool narrow = n.b.dtype(start) != DType::kI32 && n.b.dtype(start) != DType::kI64;
    if (narrow) start = n.b.convert(start, DType::kI64);
  }
  return starts;
}

ValueId clamped(GraphBuilder& b, ValueId start, int64_t last) {
  const ValueId low = b.max(start, b.scalar_int(b.dtype(start), 0));
  return b.min(low, b.scalar_int(b.dtype(start), last));
}

std::optional<int64_t> known_start(GraphBuilder& b, ValueId start, int64_t last) {
  const HostTensor* known = b.constant_value(start);
  if (known == nullptr) return std::nullopt;
  return std::clamp<int64_t>(known->at_int(0), 0, last);
}

/// `size` elements along an axis from `start` on.
ValueId slice_axis_at(GraphBuilder& b, ValueId x, int64_t axis, ValueId start, int64_t size) {
  const int64_t last = b.extent(x, axis) - size;
  if (last == 0) return x;
  if (const auto known = known_start(b, start, last)) {
    return b.slice_axis(x, axis, *known, *known + size);
  }
  if (size == 1) return b.unsqueeze(b.gather(x, start, axis), {axis});  // which clamps
  const ValueId positions = b.add(b.iota(b.dtype(start), {size}, 0), clamped(b, start, last));
  return b.gather(x, positions, axis);
}

/// Whether axes other than the first are taken whole, and one row of the first.
bool is_row(const Shape& whole, const Shape& part) {
  return !whole.empty() && part[0] == 1 &&
         std::equal(whole.begin() + 1, whole.end(), part.begin() + 1, part.end());
}

void translate_dynamic_slice(InstructionContext& n) {
  const Shape sizes = n.ints("dynamic_slice_sizes");
  const Shape& from = n.operand_shape(0).dims;
  n.require(sizes.size() == from.size(), "dynamic_slice_sizes: one per axis");
  for (size_t i = 0; i < sizes.size(); ++i) {
    n.require(sizes[i] >= 0 && sizes[i] <= from[i], "the slice is larger than the array");
  }
  const std::vector<ValueId> starts = read_starts(n, 1, from.size());
  if (const Deferred* array = n.importer().deferred(n.leaf(0))) {
    if (is_row(from, sizes)) {
      if (const auto row = array->loop->read_row(*array, starts[0])) return n.set_result(*row);
    }
  }
  ValueId x = n.operand(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    x = slice_axis_at(n.b, x, static_cast<int64_t>(i), starts[i], sizes[i]);
  }
  n.set_result(x);
}

/// An update of which all starts are known and all axes but one are whole: pieces side by side.
std::optional<ValueId> replace_known(GraphBuilder& b, ValueId x, ValueId update,
                                     const std::vector<ValueId>& starts) {
  std::optional<int64_t> axis;
  for (int64_t i = 0; i < b.rank(x); ++i) {
    if (b.extent(x, i) == b.extent(update, i)) continue;
    if (axis) return std::nullopt;
    axis = i;
  }
  if (!axis) return update;
  const int64_t size = b.extent(update, *axis), extent = b.extent(x, *axis);
  const auto start = known_start(b, starts[static_cast<size_t>(*axis)], extent - size);
  if (!start) return std::nullopt;
  std::vector<ValueId> pieces;
  if (*start > 0) pieces.push_back(b.slice_axis(x, *axis, 0, *start));
  pieces.push_back(update);
  if (*start + size < extent) pieces.push_back(b.slice_axis(x, *axis, *start + size, extent));
  return b.concat(pieces, *axis);
}

/// Each element from the update where that covers it, else from the array: an expression of the
/// place, which fuses with what reads it.
ValueId replace_by_place(GraphBuilder& b, ValueId x, ValueId update,
                         const std::vector<ValueId>& starts) {
  const Shape& shape = b.shape(x);
  ValueId covered = kNoValue;
  const Shape to = shape;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t size = b.extent(update, axis), last = to[i] - size;
    if (last == 0) continue;
    const DType type = b.dtype(starts[i]);
    const ValueId start = clamped(b, starts[i], last);
    const ValueId offset = b.sub(b.iota(type, {to[i]}, 0), start);
    ValueId inside = b.binary(ScalarOp::kEq, offset, b.scalar_int(type, 0));
    if (size != 1) {
      const ValueId from = b.binary(ScalarOp::kGe, offset, b.scalar_int(type, 0));
      const ValueId until = b.binary(ScalarOp::kLt, offset, b.scalar_int(type, size));
      inside = b.binary(ScalarOp::kAnd, from, until);
      update = b.gather(update, clamped(b, offset, size - 1), axis);
    }
    inside = b.broadcast_in_dim(inside, to, {axis});
    covered = covered == kNoValue ? inside : b.binary(ScalarOp::kAnd, covered, inside);
  }
  return b.select(covered, b.broadcast_to(update, to), x);
}

void translate_dynamic_update_slice(InstructionContext& n) {
  n.require(n.operand_count() >= 2, "takes an array, an update and starts");
  const Shape& into = n.operand_shape(0).dims;
  const Shape& part = n.operand_shape(1).dims;
  n.require(into.size() == part.size(), "the update's rank is another");
  for (size_t i = 0; i < into.size(); ++i) {
    n.require(part[i] <= into[i], "the update is larger than the array");
  }
  const std::vector<ValueId> starts = read_starts(n, 2, into.size());
  const ValueId update = n.operand(1);
  if (n.b.size(update) == 0) return n.set_result(n.leaf(0));
  if (const Deferred* array = n.importer().deferred(n.leaf(0))) {
    if (is_row(into, part)) {
      if (const auto changed = array->loop->write_row(*array, update, starts[0])) {
        return n.set_result(n.importer().defer(*changed));
      }
    }
  }
  const ValueId x = n.operand(0);
  if (const auto known = replace_known(n.b, x, update, starts)) return n.set_result(*known);
  n.set_result(replace_by_place(n.b, x, update, starts));
}

const Translator kRows[] = {
    {"dynamic-slice", translate_dynamic_slice},
    {"dynamic-update-slice", translate_dynamic_update_slice},
};

}  // namespace

TranslatorTable dynamic_slice_translators() { return kRows; }

}  // namespace weft::hlo
