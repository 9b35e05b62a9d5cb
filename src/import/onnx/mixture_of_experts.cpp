#include <algorithm>

#include "import/builder/activation.h"
#include "import/builder/precision.h"
#include "import/builder/softmax.h"
#include "import/onnx/low_bit_numbers.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// The matrices [experts, rows, depth] of one layer, in `bits` of an integer where that is not 0.
struct Projection {
  ValueId weights = kNoValue, bias = kNoValue;
  ValueId scales = kNoValue, zero_points = kNoValue;
  int64_t bits = 0;
};

struct Layer {
  ValueId matrices, bias;  ///< [..., rows, depth], [..., rows] or kNoValue
};

/// Experts of tokens [T, hidden], each two products with an activation between.
class Experts {
 public:
  Experts(OpContext& n, int64_t experts)
      : n_(n), b_(n.b), type_(working_type(b_.dtype(n.input(0)))), experts_(experts) {
    activation_ = n.string_attr("activation_type", "relu");
    fusion_ = n.int_attr("swiglu_fusion", 0);
    n.require(fusion_ >= 0 && fusion_ <= 2, "swiglu_fusion must be 0, 1 or 2");
    if (n.bool_attr("use_sparse_mixer", false)) n.unsupported("the sparse mixer");
    n.require(is_float(type_), "the input must be of floats");
  }

  /// The sum of the experts that a router chose for each token, each times its weight. Where all
  /// tokens together choose fewer experts than there are, matrices are gathered and the others are
  /// not read; else all experts see all tokens, in one product each way, with weights of 0.
  ///     routes [T, k], weights [T, k]
  ValueId mix(ValueId x, ValueId routes, ValueId weights, const Projection& first,
              const Projection& second, const Projection& gate) {
    const int64_t tokens = b_.extent(x, 0);
    gathers_ = b_.size(routes) <= experts_;
    routes_ = routes;
    weights = b_.convert(weights, type_);
    if (!gathers_) weights = for_all(weights, tokens);
    ValueId h = forward(x, first);
    h = activate(h, gate.weights == kNoValue ? kNoValue : forward(x, gate));
    h = b_.mul(h, b_.unsqueeze(weights, {2}));  // [T, slots, inner]
    const Layer out = layer(second);
    DotAttrs attrs;
    attrs.lhs_contract = {1, 2};
    attrs.rhs_contract = {0, 2};
    if (gathers_) {
      attrs.lhs_batch = attrs.rhs_batch = {0};
      attrs.rhs_contract = {1, 3};
    }
    check_depth(h, out);
    h = ordered(h, second);
    ValueId y = b_.dot_general(h, out.matrices, attrs, type_);
    if (out.bias == kNoValue) return y;
    ValueId bias = b_.mul(spread(out.bias, tokens), b_.unsqueeze(weights, {2}));
    return b_.add(y, b_.reduce(Combiner::kSum, bias, {1}, false));
  }

 private:
  /// [T, k] as [T, experts].
  ValueId for_all(ValueId weights, int64_t tokens) {
    const Shape shape = {tokens, b_.extent(weights, 1), experts_};
    ValueId chosen = b_.binary(ScalarOp::kEq, b_.iota(DType::kI64, shape, 2),
                               b_.broadcast_to(b_.unsqueeze(routes_, {2}), shape));
    ValueId each = b_.select(chosen, b_.broadcast_to(b_.unsqueeze(weights, {2}), shape),
                             b_.broadcast_to(b_.scalar(type_, 0), shape));
    return b_.reduce(Combiner::kSum, each, {1}, false);
  }

  ValueId take(ValueId v) { return gathers_ && v != kNoValue ? b_.gather(v, routes_, 0) : v; }

  /// A bias of all experts, as of each token.
  ValueId spread(ValueId bias, int64_t tokens) {
    if (gathers_) return bias;
    const Shape& shape = b_.shape(bias);
    return b_.broadcast_in_dim(bias, {tokens, shape[0], shape[1]}, {1, 2});
  }

  Layer layer(const Projection& p) {
    const Shape all = b_.shape(p.weights);
    n_.require(all.size() == 3 && all[0] == experts_,
               "weights must be a matrix for each of the router's experts");
    n_.require(p.bias == kNoValue || b_.shape(p.bias) == Shape{all[0], all[1]},
               "a bias must be of shape (experts, rows)");
    ValueId bias = take(p.bias);
    if (bias != kNoValue) bias = b_.convert(bias, type_);
    ValueId w = take(p.weights);
    return {p.bits == 0 ? b_.convert(w, type_) : dequantized(p, w, all), bias};
  }

  /// Codes in bytes [..., rows, bytes], less their zero points, times their scales.
  ValueId dequantized(const Projection& p, ValueId w, const Shape& all) {
    const int64_t in_byte = 8 / p.bits, rows = all[1], depth = all[2] * in_byte;
    Shape shape = b_.shape(w);
    const int64_t matrices = b_.size(w) / std::max<int64_t>(rows * all[2], 1);
    shape.back() = depth;
    const bool by_row = b_.rank(p.scales) == 2;
    const int64_t blocks = by_row ? 1 : b_.extent(p.scales, 2);
    n_.require(blocks > 0 && all[2] % blocks == 0 && b_.size(p.scales) == all[0] * rows * blocks,
               "scales must be one for each row, or for each block of whole bytes of one");
    ValueId zero = b_.scalar(type_, static_cast<double>(int64_t{1} << (p.bits - 1)));
    // By planes or not, an axis of 1 before the blocks and one behind.
    const Shape each = {matrices, rows, 1, blocks, 1};
    if (p.zero_points != kNoValue) {
      // Of rows they lie in a row for each expert, of blocks in one for each row.
      zero = unpacked(n_, take(p.zero_points), p.bits, by_row ? matrices : matrices * rows,
                      by_row ? rows : blocks);
      zero = b_.reshape(b_.convert(zero, type_), each);
    }
    n_.require(b_.dtype(w) == DType::kU8, "codes of weights must be uint8");
    ValueId codes = kNoValue;
    if (in_planes(p)) {
      codes =
          taken_apart(b_, b_.reshape(w, {matrices, rows, 1, blocks, all[2] / blocks}), p.bits, 2);
    } else {
      codes = b_.reshape(unpacked(n_, w, p.bits, matrices * rows, depth),
                         {matrices, rows, 1, blocks, depth / blocks});
    }
    ValueId scale = b_.reshape(b_.convert(take(p.scales), type_), each);
    return b_.reshape(b_.mul(b_.sub(b_.convert(codes, type_), zero), scale), shape);
  }

  /// A gathered matrix is decoded as it is read. All lowest codes of a row's bytes come first, then
  /// the next ones: neighbours stay neighbours, where taking bytes apart would put them between
  /// each other.
  bool in_planes(const Projection& p) const { return gathers_ && (p.bits == 2 || p.bits == 4); }

  /// A vector, the last axis, in the order in which the matrices have their columns.
  ValueId ordered(ValueId v, const Projection& p) {
    if (!in_planes(p)) return v;
    const Shape shape = b_.shape(v);
    Shape apart = shape;
    apart.back() /= 8 / p.bits;
    apart.push_back(8 / p.bits);
    return b_.reshape(b_.swap_axes(b_.reshape(v, apart), -1, -2), shape);
  }

  void check_depth(ValueId x, const Layer& layer) {
    n_.require(b_.extent(x, -1) == b_.extent(layer.matrices, -1),
               "the experts' weights do not take what they are given");
  }

  /// [T, slots, rows]
  ValueId forward(ValueId x, const Projection& p) {
    const Layer in = layer(p);
    check_depth(x, in);
    x = ordered(x, p);
    ValueId y = kNoValue;
    DotAttrs attrs;
    if (gathers_) {
      attrs.lhs_batch = attrs.rhs_batch = {0};
      attrs.lhs_contract = {3};
      attrs.rhs_contract = {1};
      y = b_.dot_general(in.matrices, x, attrs, type_);
    } else {
      attrs.lhs_contract = {1};
      attrs.rhs_contract = {2};
      y = b_.dot_general(x, in.matrices, attrs, type_);
    }
    return in.bias == kNoValue ? y : b_.add(y, spread(in.bias, b_.extent(x, 0)));
  }

  /// What a SwiGLU gates and its gate lie beside each other in the rows, by turns or in halves.
  ValueId activate(ValueId h, ValueId gate) {
    if (activation_ == "swiglu") {
      if (fusion_ == 0) n_.require(gate != kNoValue, "SwiGLU needs a third layer or a fused one");
      if (fusion_ != 0) {
        Shape shape = b_.shape(h);
        n_.require(shape.back() % 2 == 0, "a fused SwiGLU needs an even number of rows");
        const int64_t half = shape.back() / 2;
        shape.back() = fusion_ == 1 ? half : 2;
        shape.push_back(fusion_ == 1 ? 2 : half);
        const int64_t axis = fusion_ == 1 ? 3 : 2;
        h = b_.reshape(h, shape);
        gate = b_.pick(h, axis, 1);
        h = b_.pick(h, axis, 0);
      }
      if (n_.has_attr("swiglu_limit")) {
        const double limit = n_.float_attr("swiglu_limit");
        h = b_.min(h, limit);
        gate = b_.max(b_.min(gate, limit), -limit);
      }
      return b_.mul(swish(b_, h, n_.float_attr("activation_alpha", 1.0f)),
                    b_.add(gate, double{n_.float_attr("activation_beta", 0.0f)}));
    }
    ValueId y = activate(h);
    return gate == kNoValue ? y : b_.mul(y, gate);
  }

  ValueId activate(ValueId h) {
    if (activation_ == "relu") return b_.max(h, 0.0);
    if (activation_ == "gelu") return tanh_gelu(b_, h);
    if (activation_ == "silu") return swish(b_, h, 1);
    n_.require(activation_ == "identity", "activation_type is not one that onnxruntime has");
    return h;
  }

  OpContext& n_;
  GraphBuilder& b_;
  DType type_;
  int64_t experts_;
  std::string activation_;
  int64_t fusion_ = 0;
  bool gathers_ = false;
  ValueId routes_ = kNoValue;
};

/// Tokens go to the k experts of the largest probabilities.
void translate_mixture(OpContext& n, const Projection& first, const Projection& second,
                       const Projection& gate, ValueId aggregation) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(n.input(0));
  n.require(shape.size() == 2 || shape.size() == 3, "the input must have two or three axes");
  n.require(b.rank(n.input(1)) == 2, "router_probs must be a matrix");
  const int64_t hidden = shape.back();
  ValueId x =
      b.reshape(widen(b, n.input(0)), {shape.size() == 2 ? shape[0] : shape[0] * shape[1], hidden});
  TopKAttrs top{1, n.int_attr("k", 1), true};
  ValueId router = widen(b, n.input(1));
  n.require(top.k >= 1 && top.k <= b.extent(router, 1), "k is out of range");
  n.require(b.extent(router, 0) == b.extent(x, 0),
            "router_probs must be of shape (tokens, experts)");
  const bool normalizes = n.bool_attr("normalize_routing_weights", false);
  // onnxruntime's quantised operator takes the softmax of what it chose either way.
  const bool of_all = first.bits == 0 && !normalizes;
  auto [weights, routes] = b.top_k(of_all ? softmax(b, router, {1}) : router, top);
  if (aggregation != kNoValue) {
    n.require(b.shape(aggregation) == b.shape(router), "router_weights must be as router_probs");
    weights = b.gather_elements(widen(b, aggregation), routes, 1);
    if (normalizes) weights = b.div(weights, b.reduce(Combiner::kSum, weights, {1}, true));
  } else if (!of_all) {
    weights = softmax(b, weights, {1});
  }
  ValueId y = Experts(n, b.extent(router, 1)).mix(x, routes, weights, first, second, gate);
  n.set_output(0, b.convert(b.reshape(y, shape), b.dtype(n.input(0))));
}

void translate_moe(OpContext& n) {
  const Projection first{n.input(2), n.optional_input(3)};
  const Projection second{n.input(4), n.optional_input(5)};
  const Projection gate{n.optional_input(6), n.optional_input(7)};
  translate_mixture(n, first, second, gate, kNoValue);
}

/// Three inputs for each layer, then zero points.
void translate_quantized_moe(OpContext& n) {
  if (n.string_attr("quant_type", "int") != "int") n.unsupported("weights of small floats");
  const int64_t bits = n.int_attr("expert_weight_bits", 4);
  const auto projection = [&](int i, int zero_points, const char* own_bits) {
    Projection p{n.optional_input(i), n.optional_input(i + 2), n.optional_input(i + 1),
                 n.optional_input(zero_points), n.int_attr(own_bits, bits)};
    n.require(p.bits == 2 || p.bits == 4 || p.bits == 8, "bits of weights must be 2, 4 or 8");
    n.require(p.weights == kNoValue || p.scales != kNoValue, "weights of integers need scales");
    return p;
  };
  const Projection first = projection(2, 11, "fc1_expert_weight_bits");
  const Projection second = projection(5, 12, "fc2_expert_weight_bits");
  const Projection gate = projection(8, 13, "fc3_expert_weight_bits");
  n.require(n.has_input(2) && n.has_input(5),
            "the weights of the first or second layer are missing");
  translate_mixture(n, first, second, gate, n.optional_input(14));
}

const Translator kRows[] = {
    {"com.microsoft", "MoE", 1, translate_moe},
    {"com.microsoft", "QMoE", 1, translate_quantized_moe},
};

}  // namespace

TranslatorTable mixture_translators() { return kRows; }

}  // namespace weft::onnx
