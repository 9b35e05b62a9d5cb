#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// Indices first, first + step, …, all within [0, extent): what a slice can read.
struct Progression {
  int64_t first = 0, step = 1, count = 0;
};

std::optional<Progression> as_progression(const HostTensor& indices, int64_t extent) {
  if (indices.size() == 0 || indices.shape().size() > 1) return std::nullopt;
  const auto at = [&](int64_t i) {
    const int64_t index = indices.at_int(i);
    return index < 0 ? index + extent : index;
  };
  for (int64_t i = 0; i < indices.size(); ++i) {
    if (at(i) < 0 || at(i) >= extent) return std::nullopt;
  }
  Progression result{at(0), indices.size() > 1 ? at(1) - at(0) : 1, indices.size()};
  if (result.step == 0) return std::nullopt;
  for (int64_t i = 1; i < indices.size(); ++i) {
    if (at(i) != at(i - 1) + result.step) return std::nullopt;
  }
  return result;
}

/// Constant indices in a row are a slice, which other operators fuse with as an index map.
void translate_gather(OpContext& n) {
  const ValueId data = n.input(0), indices = n.input(1);
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(data));
  const int64_t extent = n.b.extent(data, axis);
  const bool scalar = n.b.rank(indices) == 0;
  const HostTensor* known = n.known_input(1);
  const auto progression = known != nullptr ? as_progression(*known, extent) : std::nullopt;
  if (!progression) {
    return n.set_output(0, n.b.gather(data, n.b.wrap_indices(indices, extent), axis));
  }
  const auto a = static_cast<size_t>(axis);
  Shape extents = n.b.shape(data);
  std::vector<int64_t> start(extents.size(), 0), step(extents.size(), 1);
  start[a] = progression->first;
  step[a] = progression->step;
  extents[a] = progression->count;
  const ValueId sliced = n.b.slice(data, start, step, extents);
  n.set_output(0, scalar ? n.b.squeeze(sliced, {axis}) : sliced);
}

void translate_gather_elements(OpContext& n) {
  const ValueId data = n.input(0), indices = n.input(1);
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(data));
  const ValueId wrapped = n.b.wrap_indices(indices, n.b.extent(data, axis));
  n.set_output(0, n.b.gather_elements(data, wrapped, axis));
}

/// Negative components of index tuples count from the end of their axes, which are data's from
/// `first_axis` on.
ValueId wrap_tuples(OpContext& n, ValueId data, ValueId indices, int64_t first_axis) {
  n.require(n.b.rank(indices) >= 1, "indices have no axis of tuples");
  const int64_t depth = n.b.extent(indices, -1);
  n.require(first_axis >= 0 && depth >= 0 && first_axis + depth <= n.b.rank(data),
            "index tuples are longer than the data's rank");
  std::vector<int64_t> extents;
  for (int64_t k = 0; k < depth; ++k) extents.push_back(n.b.extent(data, first_axis + k));
  const ValueId per_axis = n.b.convert(n.b.constant_ints(extents), n.b.dtype(indices));
  const ValueId zero = n.b.scalar_int(n.b.dtype(indices), 0);
  const ValueId is_negative = n.b.binary(ScalarOp::kLt, indices, zero);
  return n.b.select(is_negative, n.b.add(indices, per_axis), indices);
}

void translate_gather_nd(OpContext& n) {
  const ValueId data = n.input(0), indices = n.input(1);
  const int64_t batch = n.int_attr("batch_dims", 0);
  n.require(batch >= 0 && batch < n.b.rank(data) && batch < n.b.rank(indices),
            "batch_dims is out of range");
  n.set_output(0, n.b.gather_nd(data, wrap_tuples(n, data, indices, batch), batch));
}

ScatterAttrs scatter_attrs(OpContext& n, int64_t axis) {
  const std::string reduction = n.string_attr("reduction", "none");
  if (reduction == "none") return {axis, false, Combiner::kSum};
  if (reduction == "add") return {axis, true, Combiner::kSum};
  if (reduction == "mul") return {axis, true, Combiner::kProd};
  if (reduction == "max") return {axis, true, Combiner::kMax};
  if (reduction == "min") return {axis, true, Combiner::kMin};
  n.invalid(fmt::format("there is no reduction '{}'", reduction));
}

void translate_scatter_elements(OpContext& n) {
  const ValueId data = n.input(0), indices = n.input(1);
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(data));
  const ValueId wrapped = n.b.wrap_indices(indices, n.b.extent(data, axis));
  n.set_output(0, n.b.scatter_elements(data, wrapped, n.input(2), scatter_attrs(n, axis)));
}

void translate_scatter_nd(OpContext& n) {
  const ValueId data = n.input(0);
  const ValueId indices = wrap_tuples(n, data, n.input(1), 0);
  n.set_output(0, n.b.scatter_nd(data, indices, n.input(2), scatter_attrs(n, 0)));
}

/// Rows where a condition that is known now holds.
void translate_compress(OpContext& n) {
  ValueId data = n.input(0);
  const HostTensor condition = n.constant_input(1, "the condition");
  if (!n.has_attr("axis")) data = n.b.reshape(data, {n.b.size(data)});
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(data));
  std::vector<int64_t> rows;
  const int64_t limit = std::min(condition.size(), n.b.extent(data, axis));
  for (int64_t i = 0; i < limit; ++i) {
    if (condition.at_int(i) != 0) rows.push_back(i);
  }
  n.set_output(0, n.b.gather(data, n.b.constant_ints(rows), axis));
}

/// Indices of elements that are known now, one column each.
void translate_non_zero(OpContext& n) {
  const HostTensor x = n.constant_input(0, "the input (its non-zeros decide the result's shape)");
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (x.at_double(i) != 0) found.push_back(i);
  }
  const auto rank = static_cast<int64_t>(x.shape().size());
  const auto count = static_cast<int64_t>(found.size());
  HostTensor result(DType::kI64, {rank, count});
  for (int64_t axis = rank - 1; axis >= 0; --axis) {
    const int64_t extent = x.shape()[static_cast<size_t>(axis)];
    for (int64_t k = 0; k < count; ++k) {
      int64_t& rest = found[static_cast<size_t>(k)];
      result.mutable_data<int64_t>()[axis * count + k] = rest % extent;
      rest /= extent;
    }
  }
  n.set_output(0, n.b.constant(std::move(result)));
}

/// Row i of each sequence comes from row length - 1 - i within its length, else from itself.
void translate_reverse_sequence(OpContext& n) {
  const ValueId x = n.input(0);
  const int64_t batch_axis = n.int_attr("batch_axis", 1);
  const int64_t time_axis = n.int_attr("time_axis", 0);
  n.require(n.b.rank(x) >= 2 && batch_axis + time_axis == 1 && batch_axis * time_axis == 0,
            "the batch and time axes must be 0 and 1");
  const int64_t batch = n.b.extent(x, batch_axis);
  const ValueId lengths = n.b.convert(n.input(1), DType::kI64);
  n.require(n.b.shape(lengths) == Shape{batch}, "one length per sequence");
  const Shape grid{n.b.extent(x, 0), n.b.extent(x, 1)};
  const ValueId time = n.b.iota(DType::kI64, grid, time_axis);
  const ValueId length = n.b.broadcast_in_dim(lengths, grid, {batch_axis});
  const ValueId mirrored = n.b.sub(n.b.sub(length, 1.0), time);
  const ValueId within = n.b.binary(ScalarOp::kLt, time, length);
  const ValueId from = n.b.select(within, mirrored, time);
  // gather_elements wants an index per element: the grid's, for all axes behind it.
  const ValueId spread = n.b.broadcast_in_dim(from, n.b.shape(x), {0, 1});
  n.set_output(0, n.b.gather_elements(x, spread, time_axis));
}

/// Writes `update` into the cache along one axis from each batch's own position on.
void translate_tensor_scatter(OpContext& n) {
  const ValueId cache = n.input(0), update = n.input(1);
  const int64_t rank = n.b.rank(cache);
  const int64_t axis = n.axis_attr("axis", -2, rank);
  const std::string mode = n.string_attr("mode", "linear");
  n.require(axis > 0 && n.b.rank(update) == rank, "the update does not fit the cache");
  const Shape shape = n.b.shape(update);
  ValueId position = n.b.iota(DType::kI64, shape, axis);
  if (n.has_input(2)) {
    const ValueId start = n.b.convert(n.input(2), DType::kI64);
    position = n.b.add(position, n.b.broadcast_in_dim(start, shape, {0}));
  }
  if (mode == "circular") {
    const auto extent = static_cast<double>(n.b.extent(cache, axis));
    position = n.b.binary(ScalarOp::kRem, position, extent);
  } else {
    n.require(mode == "linear", "there is no such mode");
  }
  n.set_output(0, n.b.scatter_elements(cache, position, update, {axis, false, Combiner::kSum}));
}

const Translator kRows[] = {
    {"", "Compress", 9, translate_compress},
    {"", "Gather", 1, translate_gather},
    {"", "GatherElements", 11, translate_gather_elements},
    {"", "GatherND", 11, translate_gather_nd},
    {"", "NonZero", 9, translate_non_zero},
    {"", "ReverseSequence", 10, translate_reverse_sequence},
    {"", "Scatter", 9, translate_scatter_elements},
    {"", "ScatterElements", 11, translate_scatter_elements},
    {"", "ScatterND", 11, translate_scatter_nd},
    {"", "TensorScatter", 24, translate_tensor_scatter},
};

}  // namespace

TranslatorTable gather_scatter_translators() { return kRows; }

}  // namespace weft::onnx
