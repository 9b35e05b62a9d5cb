#include "import/builder/heads.h"

#include <cmath>
#include <limits>

#include "import/builder/softmax.h"

namespace weft::onnx {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

/// A cache [positions, D/2] at each position, or [B, S, D/2] as it is: [B, S, 1, D/2].
ValueId rotation(GraphBuilder& b, ValueId cache, ValueId positions, int64_t half) {
  if (positions != kNoValue) {
    require(b.rank(cache) == 2 && b.rank(positions) == 2,
            "with positions the caches must be [positions, dim / 2]");
    cache = b.gather(cache, b.wrap_indices(positions, b.extent(cache, 0)), 0);
  }
  require(b.rank(cache) == 3 && b.extent(cache, 2) == half,
          "a cache must have half the rotated dimension");
  return b.unsqueeze(cache, {2});
}

}  // namespace

ValueId split_heads(GraphBuilder& b, ValueId x, int64_t heads) {
  const Shape shape = b.shape(x);
  if (shape.size() != 3) refuse_invalid("packed heads need three axes");
  if (heads <= 0 || shape[2] % heads != 0) refuse_invalid("the heads do not divide the last axis");
  return b.swap_axes(b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), 1, 2);
}

ValueId join_heads(GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  return b.reshape(b.swap_axes(x, 1, 2), {shape[0], shape[2], shape[1] * shape[3]});
}

ValueId rotate_heads(GraphBuilder& b, ValueId x, const Rotation& r) {
  const Shape shape = b.shape(x);
  int64_t rotated = r.dimension == 0 ? 2 * b.extent(r.cosine, -1) : r.dimension;
  require(rotated > 0 && rotated <= shape[3] && rotated % 2 == 0,
          "the rotated dimension is out of range");
  int64_t half = rotated / 2;
  ValueId cosine = rotation(b, r.cosine, r.positions, half);
  ValueId sine = rotation(b, r.sine, r.positions, half);
  ValueId head = b.slice_axis(x, 3, 0, rotated);
  Shape pairs = {shape[0], shape[1], shape[2], half, 2};
  if (!r.interleaved) std::swap(pairs[3], pairs[4]);
  int64_t pair_axis = r.interleaved ? 4 : 3;
  head = b.reshape(head, pairs);
  ValueId first = b.pick(head, pair_axis, 0), second = b.pick(head, pair_axis, 1);
  ValueId real = b.sub(b.mul(cosine, first), b.mul(sine, second));
  ValueId imaginary = b.add(b.mul(sine, first), b.mul(cosine, second));
  ValueId turned =
      b.concat({b.unsqueeze(real, {pair_axis}), b.unsqueeze(imaginary, {pair_axis})}, pair_axis);
  Shape rotated_shape = shape;
  rotated_shape[3] = rotated;
  ValueId y = b.reshape(turned, rotated_shape);
  return rotated < shape[3] ? b.concat({y, b.slice_axis(x, 3, rotated, shape[3])}, 3) : y;
}

ValueId attend(GraphBuilder& b, const Heads& h) {
  const Shape q = b.shape(h.query), k = b.shape(h.key), v = b.shape(h.value);
  require(k[1] > 0 && q[1] % k[1] == 0, "the query heads must be a multiple of the key heads");
  require(k[0] == q[0] && v[0] == q[0] && v[1] == k[1] && v[2] == k[2] && k[3] == q[3],
          "queries, keys and values do not fit");
  const DType type = b.dtype(h.query);
  DotAttrs with_keys;
  with_keys.lhs_batch = with_keys.rhs_batch = {0, 1};
  with_keys.lhs_contract = with_keys.rhs_contract = {3};
  const int64_t rows = q[1] / k[1] * q[2];
  ValueId scores =
      b.dot_general(b.reshape(h.query, {q[0], k[1], rows, q[3]}), h.key, with_keys, type);
  scores = b.reshape(scores, {q[0], q[1], q[2], k[2]});
  scores = b.mul(scores, h.scale != 0 ? h.scale : 1 / std::sqrt(static_cast<double>(q[3])));
  if (h.softcap > 0) {
    scores = b.mul(b.unary(ScalarOp::kTanh, b.div(scores, h.softcap)), h.softcap);
  }
  if (h.bias != kNoValue) {
    scores = b.add(scores, b.broadcast_to(b.convert(h.bias, type), b.shape(scores)));
  }
  if (h.allowed != kNoValue) {
    ValueId allowed = b.broadcast_to(h.allowed, b.shape(scores));
    scores = b.select(allowed, scores, b.scalar(type, kLowest));
  }
  ValueId weights = softmax(b, scores, {-1});
  DotAttrs with_values;
  with_values.lhs_batch = with_values.rhs_batch = {0, 1};
  with_values.lhs_contract = {3};
  with_values.rhs_contract = {2};
  ValueId grouped = b.reshape(weights, {q[0], k[1], rows, k[2]});
  ValueId y = b.dot_general(grouped, h.value, with_values, type);
  return join_heads(b, b.reshape(y, {q[0], q[1], q[2], v[3]}));
}

ValueId causal_mask(GraphBuilder& b, int64_t rows, int64_t keys, int64_t past) {
  const Shape plane = {rows, keys};
  ValueId row = b.add(b.iota(DType::kI64, plane, 0), b.scalar_int(DType::kI64, past));
  return b.binary(ScalarOp::kGe, row, b.iota(DType::kI64, plane, 1));
}

}  // namespace weft::onnx
