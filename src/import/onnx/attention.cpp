#include "import/onnx/attention.h"

#include <cmath>
#include <limits>

#include "import/builder/heads.h"
#include "import/builder/precision.h"

namespace weft::onnx {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// softmax(scale * Q K' + mask) V with grouped heads: each key head serves `group` query heads,
/// which the contractions see as more rows, so that keys and values are never repeated.
class AttentionTranslator {
 public:
  explicit AttentionTranslator(OpContext& n) : n_(n), b_(n.b), type_(b_.dtype(n.input(0))) {}

  void translate() {
    read_heads();
    read_cache();
    read_shapes();
    ValueId scores = contract_keys();
    ValueId raw = scores;
    double softcap = n_.float_attr("softcap", 0.0f);
    if (softcap > 0) {
      scores = b_.mul(b_.unary(ScalarOp::kTanh, b_.div(scores, softcap)), softcap);
    }
    ValueId capped = scores;
    scores = apply_masks(scores);
    ValueId weights = normalise(scores);
    set_scores_output({raw, capped, scores, weights});
    ValueId y = contract_values(weights);
    n_.set_output(0, packed_ ? join_heads(b_, y) : y);
    n_.set_output(1, key_);
    n_.set_output(2, value_);
  }

 private:
  void read_heads() {
    query_ = n_.input(0);
    key_ = n_.input(1);
    value_ = n_.input(2);
    int64_t rank = b_.rank(query_);
    n_.require(rank == b_.rank(key_) && rank == b_.rank(value_) && (rank == 3 || rank == 4),
               "Q, K and V must all have three axes, or all four");
    n_.require(b_.dtype(key_) == type_, "Q and K must have one type");
    packed_ = rank == 3;
    if (!packed_) return;
    int64_t key_heads = n_.int_attr("kv_num_heads");
    query_ = split_heads(b_, query_, n_.int_attr("q_num_heads"));
    key_ = split_heads(b_, key_, key_heads);
    value_ = split_heads(b_, value_, key_heads);
  }

  void read_cache() {
    n_.require(n_.has_input(4) == n_.has_input(5), "past_key and past_value come together");
    n_.require(!n_.has_input(4) || !n_.has_input(6),
               "nonpad_kv_seqlen does not go together with a past cache");
    if (!n_.has_input(4)) return;
    ValueId past_key = n_.input(4), past_value = n_.input(5);
    n_.require(b_.rank(past_key) == 4 && b_.rank(past_value) == 4, "a cache must have four axes");
    past_length_ = b_.extent(past_key, 2);
    key_ = b_.concat({past_key, key_}, 2);
    value_ = b_.concat({past_value, value_}, 2);
  }

  void read_shapes() {
    batch_ = b_.extent(query_, 0);
    heads_ = b_.extent(query_, 1);
    rows_ = b_.extent(query_, 2);
    key_heads_ = b_.extent(key_, 1);
    keys_ = b_.extent(key_, 2);
    n_.require(key_heads_ > 0 && heads_ % key_heads_ == 0,
               "the query heads must be a multiple of the key heads");
    n_.require(b_.extent(value_, 1) == key_heads_ && b_.extent(value_, 2) == keys_,
               "keys and values must have the same heads and length");
  }

  /// Scaled scores [B, H, rows, keys] in the working type.
  ValueId contract_keys() {
    int64_t depth = b_.extent(query_, 3);
    double scale = 1 / std::sqrt(static_cast<double>(depth));
    if (n_.has_attr("scale")) scale = n_.float_attr("scale");
    DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = {0, 1};
    attrs.lhs_contract = attrs.rhs_contract = {3};
    ValueId grouped = b_.reshape(query_, {batch_, key_heads_, heads_ / key_heads_ * rows_, depth});
    ValueId scores = b_.dot_general(grouped, key_, attrs, working_type(type_));
    return b_.mul(b_.reshape(scores, {batch_, heads_, rows_, keys_}), scale);
  }

  ValueId contract_values(ValueId weights) {
    DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = {0, 1};
    attrs.lhs_contract = {3};
    attrs.rhs_contract = {2};
    ValueId values = widen(b_, value_);
    weights = b_.convert(weights, b_.dtype(values));
    ValueId grouped = b_.reshape(weights, {batch_, key_heads_, heads_ / key_heads_ * rows_, keys_});
    ValueId y = b_.dot_general(grouped, values, attrs, b_.dtype(values));
    y = b_.reshape(y, {batch_, heads_, rows_, b_.extent(value_, 3)});
    return b_.convert(y, type_);
  }

  /// Adds a floating-point mask, then puts -inf wherever a key is not to be seen.
  ValueId apply_masks(ValueId scores) {
    ValueId allowed = kNoValue;
    if (n_.has_input(3)) {
      ValueId mask = padded_mask();
      if (b_.dtype(mask) == DType::kBool) {
        allowed = mask;
      } else {
        masked_ = true;
        mask = b_.broadcast_to(b_.convert(mask, b_.dtype(scores)), b_.shape(scores));
        scores = b_.add(scores, mask);
      }
    }
    for (ValueId more : position_masks()) {
      allowed = allowed == kNoValue ? more : b_.binary(ScalarOp::kAnd, allowed, more);
    }
    if (allowed == kNoValue) return scores;
    masked_ = true;
    allowed = b_.broadcast_to(allowed, b_.shape(scores));
    return b_.select(allowed, scores, b_.scalar(b_.dtype(scores), -kInfinity));
  }

  /// attn_mask, whose last axis may be shorter than the keys: what it does not cover is not seen.
  ValueId padded_mask() {
    ValueId mask = n_.input(3);
    n_.require(b_.rank(mask) >= 1, "attn_mask must have an axis");
    int64_t missing = keys_ - b_.extent(mask, -1);
    if (missing <= 0 || b_.extent(mask, -1) == 1) return mask;
    std::vector<int64_t> low(b_.shape(mask).size(), 0), high = low;
    high.back() = missing;
    DType type = b_.dtype(mask);
    ValueId fill = b_.scalar(type, type == DType::kBool ? 0 : -kInfinity);
    return b_.pad(mask, fill, low, high);
  }

  /// Masks from positions: causal, sliding window, and the padding behind each sequence.
  std::vector<ValueId> position_masks() {
    bool causal = n_.bool_attr("is_causal", false);
    int64_t left = n_.int_attr("left_window_size", -1),
            right = n_.int_attr("right_window_size", -1);
    n_.require(left >= -1 && right >= -1, "a window size must be -1 or more");
    std::vector<ValueId> masks;
    ValueId lengths = kNoValue;
    if (n_.has_input(6)) {
      lengths = b_.convert(n_.input(6), DType::kI64);
      n_.require(b_.shape(lengths) == Shape{batch_}, "nonpad_kv_seqlen must be one per batch");
      lengths = b_.reshape(lengths, {batch_, 1, 1, 1});
    }
    Shape plane = {rows_, keys_};
    ValueId column = b_.iota(DType::kI64, plane, 1);
    if (causal || left >= 0 || right >= 0) {
      // Position of each query less that of each key.
      ValueId offset = b_.scalar_int(DType::kI64, past_length_);
      if (lengths != kNoValue) offset = b_.sub(lengths, b_.scalar_int(DType::kI64, rows_));
      ValueId ahead = b_.sub(b_.add(b_.iota(DType::kI64, plane, 0), offset), column);
      if (causal) masks.push_back(compare(ScalarOp::kGe, ahead, 0));
      if (left >= 0) masks.push_back(compare(ScalarOp::kLe, ahead, left));
      if (right >= 0) masks.push_back(compare(ScalarOp::kGe, ahead, -right));
    }
    if (lengths != kNoValue) masks.push_back(b_.binary(ScalarOp::kLt, column, lengths));
    return masks;
  }

  ValueId compare(ScalarOp op, ValueId v, int64_t number) {
    return b_.binary(op, v, b_.scalar_int(DType::kI64, number));
  }

  /// Softmax over the keys of scores in softmax_precision; a row in which no key is seen becomes 0.
  ValueId normalise(ValueId scores) {
    DType precision = n_.dtype_attr("softmax_precision", b_.dtype(scores));
    n_.require(is_float(precision), "softmax_precision must be a floating-point type");
    ValueId x = widen(b_, b_.convert(scores, precision));
    ValueId most = b_.reduce(Combiner::kMax, x, {-1}, true);
    ValueId zero = b_.scalar(b_.dtype(x), 0);
    if (masked_) {
      ValueId none = b_.binary(ScalarOp::kEq, most, b_.scalar(b_.dtype(x), -kInfinity));
      most = b_.select(none, zero, most);
    }
    ValueId e = b_.exp(b_.sub(x, most));
    ValueId sum = b_.reduce(Combiner::kSum, e, {-1}, true);
    if (masked_) {
      sum = b_.select(b_.binary(ScalarOp::kEq, sum, zero), b_.scalar(b_.dtype(x), 1), sum);
    }
    return b_.div(e, sum);
  }

  void set_scores_output(const std::vector<ValueId>& stages) {
    if (!n_.wants_output(3)) return;
    int64_t mode = n_.int_attr("qk_matmul_output_mode", 0);
    n_.require(mode >= 0 && mode <= 3, "qk_matmul_output_mode is out of range");
    n_.set_output(3, b_.convert(stages[static_cast<size_t>(mode)], type_));
  }

  OpContext& n_;
  GraphBuilder& b_;
  DType type_;
  bool packed_ = false, masked_ = false;
  int64_t batch_ = 0, heads_ = 0, key_heads_ = 0, rows_ = 0, keys_ = 0, past_length_ = 0;
  ValueId query_ = kNoValue, key_ = kNoValue, value_ = kNoValue;
};

void translate_attention(OpContext& n) { AttentionTranslator(n).translate(); }

const Translator kRows[] = {
    {"", "Attention", 23, translate_attention},
    {"", "LinearAttention", 27, translate_linear_attention},
    {"com.microsoft", "LinearAttention", 1, translate_linear_attention},
    {"", "RotaryEmbedding", 23, translate_rotary_embedding},
};

}  // namespace

TranslatorTable attention_translators() { return kRows; }

}  // namespace weft::onnx
