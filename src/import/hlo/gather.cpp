#include <fmt/format.h>

#include <algorithm>

#include "import/hlo/index_tuples.h"

namespace weft::hlo {
namespace {

constexpr AddressingNames kNames = {"collapsed_slice_dims", "start_index_map",
                                    "operand_batching_dims", "start_indices_batching_dims"};

/// What an axis on the way holds: an axis of the index batch, or one of the array.
struct AxisOrigin {
  bool of_batch = false;
  size_t axis = 0;
  friend bool operator==(const AxisOrigin&, const AxisOrigin&) = default;
};

struct Gathered {
  ValueId value = kNoValue;
  std::vector<AxisOrigin> axes;
};

void append_batch(const Addressing& a, std::vector<AxisOrigin>& axes) {
  for (size_t i = 0; i < a.batch.size(); ++i) axes.push_back({true, i});
}

/// The array cut to what windows that start at 0 take.
ValueId cut_to_windows(GraphBuilder& b, const Addressing& a, ValueId x) {
  for (size_t i = 0; i < a.array.size(); ++i) {
    if (!a.is_looked_up(i)) x = b.slice_axis(x, static_cast<int64_t>(i), 0, a.size[i]);
  }
  return x;
}

/// One axis is looked up, an element at a time: a lookup of rows, as an embedding is.
Gathered gather_rows(GraphBuilder& b, const Addressing& a, ValueId x, size_t axis) {
  Gathered g;
  g.value = b.gather(x, starts_of(b, a, axis), static_cast<int64_t>(axis));
  for (size_t i = 0; i < axis; ++i) g.axes.push_back({false, i});
  append_batch(a, g.axes);
  for (size_t i = axis + 1; i < a.array.size(); ++i) g.axes.push_back({false, i});
  return g;
}

Gathered gather_windows(GraphBuilder& b, const Addressing& a, ValueId x,
                        const std::vector<size_t>& looked_up) {
  Gathered g;
  append_batch(a, g.axes);
  std::vector<int64_t> order;
  std::vector<ValueId> starts;
  for (const size_t axis : looked_up) {
    order.push_back(static_cast<int64_t>(axis));
    ValueId start = starts_of(b, a, axis);
    if (a.size[axis] != 1) {  // elsewhere each place clamps for itself
      start = b.max(start, b.scalar_int(b.dtype(start), 0));
      start = b.min(start, b.scalar_int(b.dtype(start), a.last_start(axis)));
      g.axes.push_back({false, axis});
    }
    starts.push_back(start);
  }
  for (size_t i = 0; i < a.array.size(); ++i) {
    if (a.is_looked_up(i)) continue;
    order.push_back(static_cast<int64_t>(i));
    g.axes.push_back({false, i});
  }
  x = b.transpose(x, order);
  if (!looked_up.empty()) {
    g.value = b.gather_nd(x, index_tuples(b, a, looked_up, starts));
    return g;
  }
  Shape to = a.batch;
  to.insert(to.end(), b.shape(x).begin(), b.shape(x).end());
  g.value = b.broadcast_to(x, to);
  return g;
}

/// The axes of the result in order, without those of the array that are dropped.
std::vector<AxisOrigin> result_axes(InstructionContext& n, const Addressing& a) {
  const std::vector<int64_t> offset_dims = n.ints("offset_dims");
  std::vector<AxisOrigin> axes;
  size_t batch_axis = 0, axis = 0;
  for (size_t i = 0; i < n.dims().size(); ++i) {
    if (std::ranges::find(offset_dims, static_cast<int64_t>(i)) == offset_dims.end()) {
      axes.push_back({true, batch_axis++});
      continue;
    }
    while (axis < a.array.size() && a.dropped[axis]) ++axis;
    axes.push_back({false, axis++});
  }
  n.require(batch_axis == a.batch.size() && axis <= a.array.size(),
            "offset_dims do not fit the result");
  return axes;
}

void translate_gather(InstructionContext& n) {
  n.expect_operands(2);
  const ValueId x = n.operand(0);
  const Shape array = n.b.shape(x);
  const std::vector<int64_t> sizes = n.ints("slice_sizes");
  n.require(sizes.size() == array.size(), "slice_sizes: one per axis");
  const Addressing a = read_addressing(n, n.operand(1), kNames, array, sizes);
  std::vector<size_t> looked_up;
  for (size_t i = 0; i < array.size(); ++i) {
    n.require(sizes[i] >= 0 && sizes[i] <= array[i] && (!a.dropped[i] || sizes[i] <= 1),
              "a slice does not fit the array");
    if (a.is_looked_up(i)) looked_up.push_back(i);
  }
  const std::vector<AxisOrigin> wanted = result_axes(n, a);
  const ValueId cut = cut_to_windows(n.b, a, x);
  const bool rows = looked_up.size() == 1 && sizes[looked_up[0]] == 1;
  const Gathered g =
      rows ? gather_rows(n.b, a, cut, looked_up[0]) : gather_windows(n.b, a, cut, looked_up);
  // Dropped and single axes come and go by a reshape.
  std::vector<int64_t> order;
  for (const AxisOrigin& axis : wanted) {
    const auto found = std::ranges::find(g.axes, axis);
    if (found != g.axes.end()) order.push_back(found - g.axes.begin());
  }
  for (size_t i = 0; i < g.axes.size(); ++i) {
    if (std::ranges::find(wanted, g.axes[i]) == wanted.end()) {
      order.push_back(static_cast<int64_t>(i));
    }
  }
  n.set_result(n.b.reshape(n.b.transpose(g.value, order), n.dims()));
}

const Translator kRows[] = {
    {"gather", translate_gather},
};

}  // namespace

TranslatorTable gather_translators() { return kRows; }

}  // namespace weft::hlo
