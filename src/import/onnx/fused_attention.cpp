#include <algorithm>

#include "import/builder/heads.h"
#include "import/builder/precision.h"
#include "import/builder/quantize.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// A mask of integers (1: seen) as what is added to the scores: lengths [B], or flags [B, T],
/// [B, S, T] or [B, 1, S, T].
ValueId mask_bias(OpContext& n, ValueId mask, int64_t batch, int64_t keys) {
  GraphBuilder& b = n.b;
  const double filter = n.float_attr("mask_filter_value", -10000.0f);
  ValueId seen = kNoValue;
  if (b.rank(mask) == 1) {
    if (b.size(mask) != batch) n.unsupported("a mask of starts and ends");
    ValueId column = b.iota(b.dtype(mask), {1, 1, 1, keys}, 3);
    seen = b.binary(ScalarOp::kLt, column, b.reshape(mask, {batch, 1, 1, 1}));
  } else {
    if (b.rank(mask) == 2) mask = b.unsqueeze(mask, {1, 2});
    if (b.rank(mask) == 3) mask = b.unsqueeze(mask, {1});
    n.require(b.rank(mask) == 4, "the mask has too many axes");
    seen = b.binary(ScalarOp::kGt, mask, b.scalar_int(b.dtype(mask), 0));
  }
  return b.select(seen, b.scalar(DType::kF32, 0), b.scalar(DType::kF32, filter));
}

void add_bias(GraphBuilder& b, Heads* h, ValueId bias) {
  h->bias = h->bias == kNoValue ? bias : b.add(h->bias, b.convert(bias, b.dtype(h->bias)));
}

/// What Attention and QAttention compute alike.
struct Projection {
  ValueId x, weights;  ///< [B, S, C] and [C, q + k + v], in the working type
  ValueId bias, mask, past;
};

/// One projection to Q, K and V, then attention, in `type`; adds output 1, the present.
void project_and_attend(OpContext& n, const Projection& p, ValueId score_bias, DType type) {
  GraphBuilder& b = n.b;
  n.require(b.rank(p.x) == 3 && b.rank(p.weights) == 2, "input needs three axes and weights two");
  if (n.bool_attr("do_rotary", false)) n.unsupported("do_rotary");
  if (n.bool_attr("past_present_share_buffer", false)) {
    n.unsupported("a past that shares its buffer");
  }
  const int64_t heads = n.int_attr("num_heads"), third = b.extent(p.weights, 1) / 3;
  const std::vector<int64_t> sizes = n.ints_attr("qkv_hidden_sizes", {third, third, third});
  const int64_t columns = b.extent(p.weights, 1);
  n.require(sizes.size() == 3 && std::min({sizes[0], sizes[1], sizes[2]}) >= 0 &&
                std::max({sizes[0], sizes[1], sizes[2]}) <= columns &&
                sizes[0] + sizes[1] + sizes[2] == columns,
            "qkv_hidden_sizes do not fit the weights");
  ValueId all = b.matmul(p.x, p.weights, b.dtype(p.x));
  if (p.bias != kNoValue) all = b.add(all, widen(b, p.bias));
  const auto part = [&](int64_t begin, int64_t size) {
    return split_heads(b, b.slice_axis(all, 2, begin, begin + size), heads);
  };
  Heads h;
  h.query = part(0, sizes[0]);
  h.key = part(sizes[0], sizes[1]);
  h.value = part(sizes[0] + sizes[1], sizes[2]);
  h.scale = n.float_attr("scale", 0.0f);
  int64_t past = 0;
  if (p.past != kNoValue) {
    ValueId before = widen(b, p.past);
    n.require(b.rank(before) == 5 && b.extent(before, 0) == 2, "past must be [2, B, heads, P, H]");
    past = b.extent(before, 3);
    h.key = b.concat({b.pick(before, 0, 0), h.key}, 2);
    h.value = b.concat({b.pick(before, 0, 1), h.value}, 2);
  }
  const int64_t keys = b.extent(h.key, 2);
  if (p.mask != kNoValue) h.bias = mask_bias(n, p.mask, b.extent(p.x, 0), keys);
  if (score_bias != kNoValue) add_bias(b, &h, score_bias);
  if (n.bool_attr("unidirectional", false)) {
    h.allowed = causal_mask(b, b.extent(p.x, 1), keys, past);
  }
  n.set_output(0, b.convert(attend(b, h), type));
  if (!n.wants_output(1)) return;
  ValueId present = b.concat({b.unsqueeze(h.key, {0}), b.unsqueeze(h.value, {0})}, 0);
  n.set_output(1, b.convert(present, type));
}

void translate_attention(OpContext& n) {
  if (n.has_input(6)) n.unsupported("a past that shares its buffer");
  const Projection p{widen(n.b, n.input(0)), widen(n.b, n.input(1)), n.optional_input(2),
                     n.optional_input(3), n.optional_input(4)};
  project_and_attend(n, p, n.optional_input(5), n.b.dtype(n.input(0)));
}

/// The same of integers; a scale for the input and one, or one for each column, for the weights.
void translate_quantized_attention(OpContext& n) {
  GraphBuilder& b = n.b;
  const auto dequantized = [&](int values, int scale, int zero) {
    const auto parameter = [&](int i) {
      return b.size(n.input(i)) == 1 ? b.reshape(n.input(i), {}) : n.input(i);
    };
    ValueId zero_point = n.has_input(zero) ? parameter(zero) : kNoValue;
    ValueId v = without_zero_point(b, n.input(values), zero_point);
    return b.mul(b.convert(v, DType::kF32), widen(b, parameter(scale)));
  };
  const Projection p{dequantized(0, 3, 6), dequantized(1, 4, 7), n.optional_input(2),
                     n.optional_input(5), n.optional_input(8)};
  project_and_attend(n, p, kNoValue, b.dtype(n.input(3)));
}

/// Q, K and V [B, S, heads * size] with a bias of all three; K and V may come as heads.
void translate_multi_head_attention(OpContext& n) {
  GraphBuilder& b = n.b;
  const DType type = b.dtype(n.input(0));
  if (!n.has_input(1) || !n.has_input(2) || b.rank(n.input(0)) != 3) {
    n.unsupported("packed queries, keys and values");
  }
  if (n.has_input(8) || n.has_input(9)) n.unsupported("a past that shares its buffer");
  const int64_t heads = n.int_attr("num_heads");
  ValueId bias = n.has_input(3) ? widen(b, n.input(3)) : kNoValue;
  int64_t used = 0;
  const auto part = [&](int i) {
    ValueId v = widen(b, n.input(i));
    if (b.rank(v) == 4) return v;
    const int64_t size = b.extent(v, -1);
    if (bias != kNoValue) {
      n.require(b.rank(bias) == 1 && used + size <= b.extent(bias, 0),
                "the bias must have one value per column of Q, K and V");
      v = b.add(v, b.slice_axis(bias, 0, used, used + size));
      used += size;
    }
    return split_heads(b, v, heads);
  };
  Heads h;
  h.query = part(0);
  h.key = part(1);
  h.value = part(2);
  h.scale = n.float_attr("scale", 0.0f);
  int64_t past = 0;
  n.require(n.has_input(6) == n.has_input(7), "past_key and past_value come together");
  if (n.has_input(6)) {
    past = b.extent(n.input(6), 2);
    h.key = b.concat({widen(b, n.input(6)), h.key}, 2);
    h.value = b.concat({widen(b, n.input(7)), h.value}, 2);
  }
  const int64_t keys = b.extent(h.key, 2);
  if (n.has_input(4)) h.bias = mask_bias(n, n.input(4), b.extent(n.input(0), 0), keys);
  if (n.has_input(5)) add_bias(b, &h, n.input(5));
  if (n.bool_attr("unidirectional", false)) {
    h.allowed = causal_mask(b, b.extent(n.input(0), 1), keys, past);
  }
  if (n.wants_output(3)) n.unsupported("the scores as an output");
  n.set_output(0, b.convert(attend(b, h), type));
  n.set_output(1, b.convert(h.key, type));
  n.set_output(2, b.convert(h.value, type));
}

/// Causal attention with grouped heads and a cache of its own length for each sequence: sequence i
/// has seqlens_k[i] + 1 keys in all, the last S of which are new.
class GroupQueryAttention {
 public:
  explicit GroupQueryAttention(OpContext& n) : n_(n), b_(n.b), type_(b_.dtype(n.input(0))) {}

  void translate() {
    refuse_what_is_missing();
    read_heads();
    read_past();
    rotate();
    Heads h;
    h.query = query_;
    h.key = joined(3, key_);
    h.value = joined(4, value_);
    h.scale = n_.float_attr("scale", 0.0f);
    h.softcap = n_.float_attr("softcap", 0.0f);
    if (n_.has_input(10)) h.bias = n_.input(10);
    h.allowed = seen_keys();
    n_.set_output(0, b_.convert(attend(b_, h), type_));
    n_.set_output(1, b_.convert(h.key, type_));
    n_.set_output(2, b_.convert(h.value, type_));
  }

 private:
  void refuse_what_is_missing() {
    for (int i = 11; i < n_.input_count(); ++i) {
      if (n_.has_input(i)) n_.unsupported("a head's sink or a quantised cache");
    }
    if (n_.int_attr("smooth_softmax", 0) > 0) n_.unsupported("smooth_softmax");
    if (n_.wants_output(3)) n_.unsupported("the scores as an output");
  }

  void read_heads() {
    const int64_t heads = n_.int_attr("num_heads"), key_heads = n_.int_attr("kv_num_heads");
    ValueId all = widen(b_, n_.input(0));
    n_.require(b_.rank(all) == 3 && heads > 0 && key_heads > 0 && heads < (1 << 20) &&
                   key_heads < (1 << 20),
               "query needs three axes and the heads a number");
    batch_ = b_.extent(all, 0);
    rows_ = b_.extent(all, 1);
    if (n_.has_input(1) && n_.has_input(2)) {
      query_ = split_heads(b_, all, heads);
      key_ = split_heads(b_, widen(b_, n_.input(1)), key_heads);
      value_ = split_heads(b_, widen(b_, n_.input(2)), key_heads);
      return;
    }
    const int64_t size = b_.extent(all, 2) / (heads + 2 * key_heads);
    n_.require(size > 0 && size * (heads + 2 * key_heads) == b_.extent(all, 2),
               "the heads do not divide packed queries, keys and values");
    const auto part = [&](int64_t first, int64_t count) {
      return split_heads(b_, b_.slice_axis(all, 2, first * size, (first + count) * size), count);
    };
    query_ = part(0, heads);
    key_ = part(heads, key_heads);
    value_ = part(heads + key_heads, key_heads);
  }

  void read_past() {
    n_.require(n_.has_input(3) == n_.has_input(4), "past_key and past_value come together");
    past_extent_ = n_.has_input(3) ? b_.extent(n_.input(3), 2) : 0;
    n_.require(b_.size(n_.input(5)) == batch_, "seqlens_k must be one per sequence");
    ValueId total = b_.reshape(b_.convert(n_.input(5), DType::kI64), {batch_});
    // Of a prompt the rows behind its own length are padding.
    ValueId past = b_.sub(total, b_.scalar_int(DType::kI64, rows_ - 1));
    past_ = b_.max(past, b_.scalar_int(DType::kI64, 0));
    const int64_t all = n_.int_input(6, "total_sequence_length");
    n_.require(all >= 0 && all < (int64_t{1} << 31), "total_sequence_length is out of range");
    keys_ = std::max(past_extent_, all);
  }

  void rotate() {
    if (!n_.bool_attr("do_rotary", false)) return;
    ValueId positions = b_.add(b_.reshape(past_, {batch_, 1}), b_.iota(DType::kI64, {1, rows_}, 1));
    if (n_.has_input(9)) positions = n_.input(9);
    const Rotation r{widen(b_, n_.input(7)), widen(b_, n_.input(8)), positions, 0,
                     n_.bool_attr("rotary_interleaved", false)};
    const auto turned = [&](ValueId v) {
      return b_.swap_axes(rotate_heads(b_, b_.swap_axes(v, 1, 2), r), 1, 2);
    };
    query_ = turned(query_);
    key_ = turned(key_);
  }

  /// The cache of input i with `fresh` [B, heads, S, size] behind each sequence's own past.
  ValueId joined(int i, ValueId fresh) {
    const int64_t heads = b_.extent(fresh, 1), size = b_.extent(fresh, 3);
    ValueId before = n_.has_input(i) ? widen(b_, n_.input(i))
                                     : b_.full(b_.dtype(fresh), {batch_, heads, 0, size}, 0);
    n_.require(b_.shape(before) == Shape{batch_, heads, past_extent_, size},
               "a cache does not have the shape of its heads");
    // Places in [past | fresh]: up to a sequence's past its cache, then what is new.
    const Shape plane = {batch_, keys_};
    ValueId place = b_.iota(DType::kI64, plane, 1);
    ValueId own = b_.broadcast_to(b_.reshape(past_, {batch_, 1}), plane);
    ValueId behind = b_.add(b_.sub(place, own), b_.scalar_int(DType::kI64, past_extent_));
    ValueId from = b_.select(b_.binary(ScalarOp::kLt, place, own), place, behind);
    const int64_t last = past_extent_ + rows_ - 1;
    from = b_.min(from, b_.scalar_int(DType::kI64, std::max<int64_t>(0, last)));
    ValueId both = b_.swap_axes(b_.concat({before, fresh}, 2), 1, 2);
    return b_.swap_axes(b_.gather(both, from, 1, 1), 1, 2);
  }

  /// [B, 1, S, T]: keys not ahead of the query, and within the window.
  ValueId seen_keys() {
    const Shape plane = {batch_, 1, rows_, keys_};
    ValueId past = b_.broadcast_to(b_.reshape(past_, {batch_, 1, 1, 1}), plane);
    ValueId ahead =
        b_.sub(b_.add(b_.iota(DType::kI64, plane, 2), past), b_.iota(DType::kI64, plane, 3));
    ValueId seen = b_.binary(ScalarOp::kGe, ahead, b_.scalar_int(DType::kI64, 0));
    const int64_t window = n_.int_attr("local_window_size", -1);
    if (window < 0) return seen;
    ValueId near = b_.binary(ScalarOp::kLt, ahead, b_.scalar_int(DType::kI64, window));
    return b_.binary(ScalarOp::kAnd, seen, near);
  }

  OpContext& n_;
  GraphBuilder& b_;
  DType type_;
  int64_t batch_ = 0, rows_ = 0, past_extent_ = 0, keys_ = 0;
  ValueId query_ = kNoValue, key_ = kNoValue, value_ = kNoValue;
  ValueId past_ = kNoValue;  ///< i64[B]: how many keys of the cache are a sequence's own
};

void translate_group_query_attention(OpContext& n) { GroupQueryAttention(n).translate(); }

/// RotaryEmbedding before it was ONNX's: positions come second, one of them is the first's.
void translate_early_rotary_embedding(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  const Shape original = b.shape(x);
  n.require(original.size() == 3 || original.size() == 4, "input must have three or four axes");
  const bool packed = original.size() == 3;
  if (n.bool_attr("is_packed_batching", false)) n.unsupported("is_packed_batching");
  const double scale = n.float_attr("scale", 1.0f);
  int64_t dimension = n.int_attr("rotary_embedding_dim", 0), heads = n.int_attr("num_heads", 0);
  if (packed) {
    if (heads == 0) {
      // The caches then are as wide as half a head.
      const int64_t size = 2 * b.extent(n.input(2), -1);
      heads = size > 0 ? original[2] / size : 0;
    }
    n.require(heads > 0 && original[2] % heads == 0, "num_heads does not divide the hidden size");
    x = b.reshape(x, {original[0], original[1], heads, original[2] / heads});
  } else {
    x = b.swap_axes(x, 1, 2);
  }
  ValueId positions = n.input(1);
  if (b.size(positions) == 1) {
    const Shape plane = {original[0], b.extent(x, 1)};
    positions = b.add(b.iota(b.dtype(positions), plane, 1), b.reshape(positions, {}));
  }
  if (dimension == 0) dimension = 2 * b.extent(n.input(2), -1);
  if (scale != 1.0) x = b.mul(x, scale);
  ValueId y = rotate_heads(
      b, x, {n.input(2), n.input(3), positions, dimension, n.bool_attr("interleaved", false)});
  n.set_output(0, packed ? b.reshape(y, original) : b.swap_axes(y, 1, 2));
}

/// Rows of up to three tables added up, then normalised.
void translate_embed_layer_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId ids = n.input(0);
  n.require(b.rank(ids) == 2, "input_ids must have two axes");
  const int64_t batch = b.extent(ids, 0), length = b.extent(ids, 1);
  const DType type = b.dtype(n.input(2));
  const auto rows = [&](int table, ValueId indices) {
    ValueId t = widen(b, n.input(table));
    return b.gather(t, b.wrap_indices(indices, b.extent(t, 0)), 0);
  };
  ValueId positions = n.has_input(8) ? n.input(8) : b.iota(DType::kI64, {1, length}, 1);
  ValueId words = rows(2, ids);
  ValueId sum = b.add(words, b.broadcast_to(rows(3, positions), b.shape(words)));
  if (n.has_input(1) && n.has_input(4)) sum = b.add(sum, rows(4, n.input(1)));
  ValueId centred = b.sub(sum, b.reduce_mean(sum, {-1}, true));
  ValueId variance = b.reduce_mean(b.mul(centred, centred), {-1}, true);
  variance = b.add(variance, double{n.float_attr("epsilon", 1e-12f)});
  ValueId y = b.div(centred, b.sqrt(variance));
  y = b.add(b.mul(y, widen(b, n.input(5))), widen(b, n.input(6)));
  n.set_output(0, b.convert(y, type));
  if (n.wants_output(1)) {
    ValueId lengths = b.full_int(DType::kI32, {batch}, 0);
    if (n.has_input(7)) lengths = b.reduce(Combiner::kSum, n.input(7), {1}, false);
    n.set_output(1, lengths);
  }
  n.set_output(2, b.convert(sum, type));
}

const Translator kRows[] = {
    {"com.microsoft", "Attention", 1, translate_attention},
    {"com.microsoft", "EmbedLayerNormalization", 1, translate_embed_layer_normalization},
    {"com.microsoft", "GroupQueryAttention", 1, translate_group_query_attention},
    {"com.microsoft", "MultiHeadAttention", 1, translate_multi_head_attention},
    {"com.microsoft", "QAttention", 1, translate_quantized_attention},
    {"com.microsoft", "RotaryEmbedding", 1, translate_early_rotary_embedding},
};

}  // namespace

TranslatorTable fused_attention_translators() { return kRows; }

}  // namespace weft::onnx
