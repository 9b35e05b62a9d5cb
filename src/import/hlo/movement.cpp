#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "import/hlo/interior_padding.h"
#include "import/hlo/permutation.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// [a, b] -> [a, 1 + amount between, b]
ValueId spread_axis(GraphBuilder& b, ValueId x, ValueId fill, size_t axis, int64_t between) {
  Shape shape = b.shape(x);
  const int64_t extent = shape[axis];
  if (between == 0 || extent < 2) return x;
  int64_t spread = 0;
  if (__builtin_add_overflow(between, 1, &spread) ||
      __builtin_mul_overflow(spread, extent, &spread)) {
    refuse_invalid(fmt::format("cannot pad by {} between {} elements", between, extent));
  }
  Shape apart = shape;
  apart.insert(apart.begin() + static_cast<int64_t>(axis) + 1, 1);
  std::vector<int64_t> low(apart.size(), 0), high(apart.size(), 0);
  high[axis + 1] = between;
  const ValueId padded = b.pad(b.reshape(x, apart), fill, low, high);
  shape[axis] = spread;
  const ValueId flat = b.reshape(padded, shape);
  return b.slice_axis(flat, static_cast<int64_t>(axis), 0, spread - between);
}

void translate_broadcast(InstructionContext& n) {
  n.expect_operands(1);
  ValueId x = n.operand(0);
  std::vector<int64_t> dims = n.ints_or_none("dimensions");
  n.require(dims.size() == n.operand_shape(0).dims.size(), "dimensions: one per operand's axis");
  if (n.frame().lanes != nullptr) {
    if (!n.dims().empty()) refuse_unsupported("an array made of each element");
    return n.set_result(x);
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool fits = dims[i] >= 0 && dims[i] < static_cast<int64_t>(n.dims().size()) &&
                      n.b.shape(x)[i] == n.dims()[static_cast<size_t>(dims[i])];
    n.require(fits, "dimensions do not fit the operand and the result");
  }
  if (!std::ranges::is_sorted(dims)) {
    std::vector<int64_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int64_t i) { return dims[static_cast<size_t>(i)]; });
    x = n.b.transpose(x, order);
    std::ranges::sort(dims);
  }
  if (n.b.shape(x) == n.dims()) return n.set_result(x);
  n.set_result(n.b.broadcast_in_dim(x, n.dims(), dims));
}

void translate_reshape(InstructionContext& n) {
  n.expect_operands(1);
  if (n.frame().lanes != nullptr) return n.set_result(n.operand(0));
  n.set_result(n.b.reshape(n.operand(0), n.dims()));
}

void translate_transpose(InstructionContext& n) {
  n.expect_operands(1);
  n.set_result(n.b.transpose(n.operand(0), n.ints("dimensions")));
}

/// The order of axes in memory, the slowest first.
std::vector<int64_t> memory_order(const HloShape& shape) {
  std::vector<int64_t> order = shape.minor_to_major;
  if (order.empty()) {
    order.resize(shape.dims.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  std::ranges::reverse(order);
  return order;
}

/// The same bytes under another type: the only instruction by which layouts change values.
void translate_bitcast(InstructionContext& n) {
  n.expect_operands(1);
  if (n.frame().lanes != nullptr) return n.set_result(n.b.bitcast(n.operand(0), n.dtype()));
  const ValueId in_memory =
      n.b.transpose(n.b.bitcast(n.operand(0), n.dtype()), memory_order(n.operand_shape(0)));
  const std::vector<int64_t> order = memory_order(n.shape());
  Shape dims;
  for (const int64_t axis : order) dims.push_back(n.dims()[static_cast<size_t>(axis)]);
  n.set_result(n.b.transpose(n.b.reshape(in_memory, dims), inverse_permutation(order)));
}

void translate_slice(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const std::vector<SliceRange> ranges = parse_slice_ranges(n.attribute("slice"));
  n.require(ranges.size() == n.b.shape(x).size(), "slice: one range per axis");
  std::vector<int64_t> start, step;
  Shape extents;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const SliceRange& r = ranges[i];
    n.require(r.step > 0 && r.start >= 0 && r.limit >= r.start && r.limit <= n.b.shape(x)[i],
              fmt::format("[{}:{}:{}] is not within axis {}", r.start, r.limit, r.step, i));
    start.push_back(r.start);
    step.push_back(r.step);
    extents.push_back(r.limit == r.start ? 0 : (r.limit - r.start - 1) / r.step + 1);
  }
  n.set_result(n.b.slice(x, start, step, extents));
}

void translate_reverse(InstructionContext& n) {
  n.expect_operands(1);
  ValueId x = n.operand(0);
  for (const int64_t axis : n.ints("dimensions")) x = n.b.reverse(x, axis);
  n.set_result(x);
}

void translate_pad(InstructionContext& n) {
  n.expect_operands(2);
  const ValueId x = n.operand(0);
  const std::vector<PaddingAmount> amounts = parse_padding(n.attribute("padding"));
  n.require(amounts.size() == n.b.shape(x).size(), "padding: one amount per axis");
  for (const PaddingAmount& amount : amounts) {
    n.require(amount.interior >= 0, "a negative padding between elements");
  }
  n.set_result(pad_between(n.b, x, n.operand(1), amounts));
}

void translate_concatenate(InstructionContext& n) {
  const std::vector<int64_t> axes = n.ints("dimensions");
  n.require(axes.size() == 1, "dimensions: one axis");
  n.set_result(n.b.concat(n.operands(0, n.operand_count()), axes[0]));
}

/// Instructions that hand on what they get: a copy, a barrier for the optimiser.
void translate_identity(InstructionContext& n) {
  n.expect_operands(1);
  n.set_results(n.leaves(0));
}

void translate_add_dependency(InstructionContext& n) {
  n.expect_operands(2);
  n.set_results(n.leaves(0));
}

void translate_after_all(InstructionContext& n) { n.set_results({}); }

const Translator kRows[] = {
    {"broadcast", translate_broadcast, true},
    {"reshape", translate_reshape, true},
    {"transpose", translate_transpose},
    {"bitcast", translate_bitcast, true},
    {"slice", translate_slice},
    {"reverse", translate_reverse},
    {"pad", translate_pad},
    {"concatenate", translate_concatenate},
    {"copy", translate_identity, true},
    {"domain", translate_identity, true},
    {"opt-barrier", translate_identity, true},
    {"optimization-barrier", translate_identity, true},
    {"add-dependency", translate_add_dependency, true},
    {"after-all", translate_after_all},
};

}  // namespace

ValueId pad_between(GraphBuilder& b, ValueId x, ValueId fill,
                    const std::vector<PaddingAmount>& amounts) {
  std::vector<int64_t> low, high;
  for (size_t i = 0; i < amounts.size(); ++i) {
    x = spread_axis(b, x, fill, i, amounts[i].interior);
    low.push_back(amounts[i].low);
    high.push_back(amounts[i].high);
  }
  return b.pad(x, fill, low, high);
}

TranslatorTable movement_translators() { return kRows; }

}  // namespace weft::hlo
