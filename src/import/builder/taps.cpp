#include "import/builder/taps.h"

namespace weft::onnx {
namespace {

/// x with each element of the axis repeated, when the indices say so; else kNoValue.
ValueId try_repeat(GraphBuilder& b, ValueId x, int64_t axis, const std::vector<int64_t>& indices) {
  int64_t extent = b.extent(x, axis), out = static_cast<int64_t>(indices.size());
  if (extent == 0 || out % extent != 0) return kNoValue;
  int64_t factor = out / extent;
  for (int64_t o = 0; o < out; ++o) {
    if (indices[static_cast<size_t>(o)] != o / factor) return kNoValue;
  }
  Shape repeated = b.shape(x), joined = b.shape(x);
  repeated.insert(repeated.begin() + axis + 1, factor);
  joined[static_cast<size_t>(axis)] = out;
  return b.reshape(b.broadcast_to(b.unsqueeze(x, {axis + 1}), repeated), joined);
}

/// x sliced with a constant step, when the indices say so; else kNoValue.
ValueId try_slice(GraphBuilder& b, ValueId x, int64_t axis, const std::vector<int64_t>& indices) {
  if (indices.empty()) return kNoValue;
  int64_t step = indices.size() > 1 ? indices[1] - indices[0] : 1;
  if (step <= 0) return kNoValue;
  for (size_t o = 1; o < indices.size(); ++o) {
    if (indices[o] - indices[o - 1] != step) return kNoValue;
  }
  std::vector<int64_t> start(b.shape(x).size(), 0), steps(b.shape(x).size(), 1);
  Shape extents = b.shape(x);
  start[static_cast<size_t>(axis)] = indices[0];
  steps[static_cast<size_t>(axis)] = step;
  extents[static_cast<size_t>(axis)] = static_cast<int64_t>(indices.size());
  return b.slice(x, start, steps, extents);
}

ValueId take(GraphBuilder& b, ValueId x, int64_t axis, const std::vector<int64_t>& indices) {
  ValueId moved = try_slice(b, x, axis, indices);
  if (moved == kNoValue) moved = try_repeat(b, x, axis, indices);
  return moved != kNoValue ? moved : b.gather(x, b.constant_ints(indices), axis);
}

}  // namespace

ValueId apply_taps(GraphBuilder& b, ValueId x, int64_t axis, const Taps& taps) {
  if (taps.weights.empty() && taps.indices.size() == 1) return take(b, x, axis, taps.indices[0]);
  Shape shape(static_cast<size_t>(b.rank(x)), 1);
  ValueId sum = kNoValue;
  for (size_t t = 0; t < taps.indices.size(); ++t) {
    shape[static_cast<size_t>(axis)] = static_cast<int64_t>(taps.indices[t].size());
    ValueId weight = b.constant_floats(b.dtype(x), taps.weights[t], shape);
    ValueId term = b.mul(take(b, x, axis, taps.indices[t]), weight);
    sum = sum == kNoValue ? term : b.add(sum, term);
  }
  if (sum != kNoValue) return sum;
  shape = b.shape(x);
  shape[static_cast<size_t>(axis)] = 0;
  return b.full(b.dtype(x), shape, 0);
}

}  // namespace weft::onnx
