#include "import/hlo/index_tuples.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::hlo {
namespace {

/// The indices with their components last.
ValueId components_last(InstructionContext& n, ValueId indices, int64_t component_axis) {
  const int64_t rank = n.b.rank(indices);
  n.require(component_axis >= 0 && component_axis <= rank, "index_vector_dim is out of range");
  if (component_axis == rank) return n.b.unsqueeze(indices, {rank});
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != component_axis) order.push_back(i);
  }
  order.push_back(component_axis);
  return n.b.transpose(indices, order);
}

void expect_axes(InstructionContext& n, const std::vector<int64_t>& axes, size_t rank,
                 std::string_view name) {
  std::vector<int64_t> sorted = axes;
  std::ranges::sort(sorted);
  const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
  const bool within =
      sorted.empty() || (sorted.front() >= 0 && sorted.back() < static_cast<int64_t>(rank));
  n.require(distinct && within, fmt::format("{} are not axes", name));
}

}  // namespace

Addressing read_addressing(InstructionContext& n, ValueId indices, const AddressingNames& names,
                           const Shape& array, std::vector<int64_t> size) {
  const size_t rank = array.size();
  Addressing a{array,
               std::move(size),
               std::vector<bool>(rank, false),
               std::vector<int64_t>(rank, -1),
               std::vector<int64_t>(rank, -1),
               kNoValue,
               {}};
  n.require(is_integer(n.b.dtype(indices)), "the indices are no integers");
  const int64_t component_axis = n.integer("index_vector_dim");
  a.indices = components_last(n, indices, component_axis);
  const DType type = n.b.dtype(a.indices);
  if (type != DType::kI32 && type != DType::kI64) a.indices = n.b.convert(a.indices, DType::kI64);
  a.batch.assign(n.b.shape(a.indices).begin(), n.b.shape(a.indices).end() - 1);
  const std::vector<int64_t> mapped = n.ints_or_none(names.mapped);
  const std::vector<int64_t> dropped = n.ints_or_none(names.dropped);
  const std::vector<int64_t> array_batch = n.ints_or_none(names.array_batch);
  const std::vector<int64_t> index_batch = n.ints_or_none(names.index_batch);
  expect_axes(n, mapped, rank, names.mapped);
  expect_axes(n, dropped, rank, names.dropped);
  expect_axes(n, array_batch, rank, names.array_batch);
  expect_axes(n, index_batch, a.batch.size() + 1, names.index_batch);
  n.require(static_cast<int64_t>(mapped.size()) == n.b.extent(a.indices, -1),
            fmt::format("{}: one axis per component of the indices", names.mapped));
  n.require(array_batch.size() == index_batch.size(), "batching axes differ in number");
  for (size_t k = 0; k < mapped.size(); ++k) {
    a.component[static_cast<size_t>(mapped[k])] = static_cast<int64_t>(k);
  }
  for (const int64_t axis : dropped) a.dropped[static_cast<size_t>(axis)] = true;
  for (size_t k = 0; k < array_batch.size(); ++k) {
    const auto axis = static_cast<size_t>(array_batch[k]);
    n.require(a.component[axis] < 0, "an axis is both batched and indexed");
    n.require(index_batch[k] != component_axis, "the components are no batch");
    a.dropped[axis] = true;
    a.paired[axis] = index_batch[k] - (index_batch[k] > component_axis ? 1 : 0);
    n.require(a.batch[static_cast<size_t>(a.paired[axis])] == array[axis],
              "batching axes differ in extent");
  }
  return a;
}

ValueId starts_of(GraphBuilder& b, const Addressing& a, size_t axis) {
  if (a.paired[axis] >= 0) return b.iota(b.dtype(a.indices), a.batch, a.paired[axis]);
  return b.pick(a.indices, -1, a.component[axis]);
}

ValueId index_tuples(GraphBuilder& b, const Addressing& a, const std::vector<size_t>& axes,
                     const std::vector<ValueId>& starts) {
  Shape to = a.batch;
  for (const size_t axis : axes) {
    if (a.size[axis] != 1) to.push_back(a.size[axis]);
  }
  std::vector<int64_t> batch_axes;
  for (size_t i = 0; i < a.batch.size(); ++i) batch_axes.push_back(static_cast<int64_t>(i));
  std::vector<ValueId> components;
  auto window = static_cast<int64_t>(a.batch.size());
  for (size_t k = 0; k < axes.size(); ++k) {
    ValueId place = b.broadcast_in_dim(starts[k], to, batch_axes);
    if (a.size[axes[k]] != 1) place = b.add(place, b.iota(b.dtype(place), to, window++));
    components.push_back(b.unsqueeze(place, {-1}));
  }
  return b.concat(components, -1);
}

}  // namespace weft::hlo
