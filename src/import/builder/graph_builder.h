#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "import/builder/refusal.h"

namespace weft::onnx {

/// Grows a Graph by primitive nodes. Every helper checks its operands and throws Refusal; a ValueId
/// that comes back is good. Nodes whose operands are all constants and whose result is small fold
/// into constants at once, so that the shape arithmetic of a model disappears while it is read:
///     b.add(b.scalar(DType::kI64, 2), b.scalar(DType::kI64, 3))   ->   the constant 5
///
/// Axes may be negative in the helpers that say so; shapes are always concrete.
class GraphBuilder {
 public:
  /// A whole graph, or a region of `parent` (for make_if, make_while, make_scan).
  explicit GraphBuilder(GraphBuilder* parent = nullptr);
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }
  GraphBuilder* parent() const { return parent_; }

  const TensorType& type(ValueId v) const;
  const Shape& shape(ValueId v) const { return type(v).shape; }
  DType dtype(ValueId v) const { return type(v).dtype; }
  int64_t rank(ValueId v) const { return static_cast<int64_t>(shape(v).size()); }
  /// Extent of one axis, which may be negative.
  int64_t extent(ValueId v, int64_t axis) const;
  /// Product of the extents.
  int64_t size(ValueId v) const;
  /// `axis` brought into [0, rank), or a refusal; `what` names it in the message.
  static int64_t normal_axis(int64_t axis, int64_t rank, std::string_view what = "axis");
  /// The same for a list, which then is ascending and free of repetition.
  static std::vector<int64_t> normal_axes(std::vector<int64_t> axes, int64_t rank);

  // Inputs, constants.
  ValueId input(TensorType type, std::string_view name = {});
  ValueId constant(HostTensor value);
  /// A rank-0 constant of the given type (value converted as by a cast).
  ValueId scalar(DType type, double value);
  ValueId scalar_int(DType type, int64_t value);
  /// A rank-1 i64 constant.
  ValueId constant_ints(const std::vector<int64_t>& values);
  ValueId constant_floats(DType type, const std::vector<double>& values, Shape shape);
  /// A scalar constant broadcast to a shape.
  ValueId full(DType type, Shape shape, double value);
  ValueId full_int(DType type, Shape shape, int64_t value);
  /// The scalar constant as a full tensor of like's type and shape.
  ValueId full_like(ValueId like, double value) { return full(dtype(like), shape(like), value); }
  /// 0, 1, 2, … along `axis` of a tensor of that shape.
  ValueId iota(DType type, Shape shape, int64_t axis);

  /// The value if it follows from constants alone (computed now when it was not folded, within
  /// limits), else nullptr. The pointer holds until the next call that adds a node.
  const HostTensor* constant_value(ValueId v);
  /// Whether the value follows from constants alone.
  bool is_constant(ValueId v) const;
  /// The node that makes a value, or nullptr for an input.
  const Node* maker(ValueId v) const;

  // Elementwise; operands broadcast against each other as in numpy, types must agree.
  ValueId unary(ScalarOp op, ValueId x);
  ValueId binary(ScalarOp op, ValueId a, ValueId b);
  /// binary with the scalar `b` in a's type. A double, always: an integer argument is a ValueId.
  ValueId binary(ScalarOp op, ValueId a, double b) { return binary(op, a, scalar(dtype(a), b)); }
  ValueId select(ValueId condition, ValueId then, ValueId otherwise);
  /// No node when the type is already that.
  ValueId convert(ValueId x, DType type);
  ValueId bitcast(ValueId x, DType type);

  ValueId add(ValueId a, ValueId b) { return binary(ScalarOp::kAdd, a, b); }
  ValueId sub(ValueId a, ValueId b) { return binary(ScalarOp::kSub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return binary(ScalarOp::kMul, a, b); }
  ValueId div(ValueId a, ValueId b) { return binary(ScalarOp::kDiv, a, b); }
  ValueId min(ValueId a, ValueId b) { return binary(ScalarOp::kMin, a, b); }
  ValueId max(ValueId a, ValueId b) { return binary(ScalarOp::kMax, a, b); }
  ValueId add(ValueId a, double b) { return binary(ScalarOp::kAdd, a, b); }
  ValueId sub(ValueId a, double b) { return binary(ScalarOp::kSub, a, b); }
  ValueId mul(ValueId a, double b) { return binary(ScalarOp::kMul, a, b); }
  ValueId div(ValueId a, double b) { return binary(ScalarOp::kDiv, a, b); }
  ValueId min(ValueId a, double b) { return binary(ScalarOp::kMin, a, b); }
  ValueId max(ValueId a, double b) { return binary(ScalarOp::kMax, a, b); }
  ValueId neg(ValueId x) { return unary(ScalarOp::kNeg, x); }
  ValueId exp(ValueId x) { return unary(ScalarOp::kExp, x); }
  ValueId log(ValueId x) { return unary(ScalarOp::kLog, x); }
  ValueId sqrt(ValueId x) { return unary(ScalarOp::kSqrt, x); }
  ValueId logical_not(ValueId x) { return unary(ScalarOp::kNot, x); }

  // Movement (no node when nothing changes).
  /// numpy broadcasting: leading axes are added, extents of 1 grow.
  ValueId broadcast_to(ValueId x, const Shape& to);
  /// x's axis i becomes axis dims[i] of `to`; its extent there is 1 or equal.
  ValueId broadcast_in_dim(ValueId x, const Shape& to, std::vector<int64_t> dims);
  /// The common shape under numpy broadcasting, or a refusal.
  static Shape broadcast_shape(const Shape& a, const Shape& b);
  ValueId reshape(ValueId x, Shape to);
  /// New axes of extent 1 at these positions of the result (negative counts from its end).
  ValueId unsqueeze(ValueId x, const std::vector<int64_t>& axes);
  /// Removes these axes (negative allowed), whose extents must be 1.
  ValueId squeeze(ValueId x, const std::vector<int64_t>& axes);
  ValueId transpose(ValueId x, std::vector<int64_t> permutation);
  /// Exchanges two axes (negative allowed).
  ValueId swap_axes(ValueId x, int64_t a, int64_t b);
  /// start + k * step per axis; `extents` are the result's.
  ValueId slice(ValueId x, std::vector<int64_t> start, std::vector<int64_t> step, Shape extents);
  /// Elements [begin, end) along one axis (negative axis allowed).
  ValueId slice_axis(ValueId x, int64_t axis, int64_t begin, int64_t end);
  /// The slice at `index` of one axis, which is removed.
  ValueId pick(ValueId x, int64_t axis, int64_t index);
  /// x in reverse order along one axis.
  ValueId reverse(ValueId x, int64_t axis);
  /// `fill` is a scalar of x's type; negative amounts crop.
  ValueId pad(ValueId x, ValueId fill, std::vector<int64_t> low, std::vector<int64_t> high);
  ValueId concat(const std::vector<ValueId>& xs, int64_t axis);

  // Gather, scatter: indices must already be non-negative (see wrap_indices).
  /// Negative indices count from the end: i < 0 ? i + extent : i.
  ValueId wrap_indices(ValueId indices, int64_t extent);
  ValueId gather(ValueId data, ValueId indices, int64_t axis, int64_t batch_dims = 0);
  ValueId gather_elements(ValueId data, ValueId indices, int64_t axis);
  ValueId gather_nd(ValueId data, ValueId indices, int64_t batch_dims = 0);
  ValueId scatter_elements(ValueId data, ValueId indices, ValueId updates, ScatterAttrs attrs);
  ValueId scatter_nd(ValueId data, ValueId indices, ValueId updates, ScatterAttrs attrs);

  // Reductions and contractions.
  /// Axes may be negative. keep_dims leaves them with extent 1. No axes: x itself.
  ValueId reduce(Combiner combiner, ValueId x, std::vector<int64_t> axes, bool keep_dims);
  /// Sum divided by the number of elements (in x's type).
  ValueId reduce_mean(ValueId x, std::vector<int64_t> axes, bool keep_dims);
  ValueId arg_reduce(Combiner combiner, ValueId x, int64_t axis, bool keep_dims,
                     bool last_on_ties = false);
  ValueId reduce_window(ValueId x, WindowAttrs attrs);
  ValueId cumulative(ValueId x, CumulativeAttrs attrs);
  /// `result` is the type in which products are summed.
  ValueId dot_general(ValueId a, ValueId b, DotAttrs attrs, DType result);
  /// numpy matmul of at least two axes each, leading axes broadcast.
  ValueId matmul(ValueId a, ValueId b, DType result);
  ValueId convolution(ValueId x, ValueId w, ConvolutionAttrs attrs, DType result);
  /// Values and i64 indices.
  std::pair<ValueId, ValueId> sort(ValueId x, int64_t axis, bool descending);
  std::pair<ValueId, ValueId> top_k(ValueId x, TopKAttrs attrs);

  // Random numbers (random_numbers.h).
  /// A scalar u64, another one in each run: the last input of the whole graph, there once it is
  /// asked for.
  ValueId seed();
  /// That input; kNoValue where nothing asked.
  ValueId known_seed() const { return seed_; }
  /// What tells the runs of this region apart. A region of which neither is said cannot draw.
  void set_iteration(ValueId number) { iteration_ = number; }
  void runs_once() { iteration_.reset(); }
  /// Numbers of the iterations of the loops around, as this region knows them.
  std::vector<ValueId> iterations();
  /// Other ones for each who draws, regions included.
  uint32_t next_stream() { return parent_ != nullptr ? parent_->next_stream() : streams_++; }

  // Regions.
  // A region is built by a GraphBuilder whose parent is this one: first its own inputs by input(),
  // in order, then its nodes, then result() for each of its results. It reads its parent's values
  // through capture().
  //
  //     GraphBuilder body(&b);
  //     ValueId h = body.input(b.type(h0)), x = body.input(slice_type);
  //     ValueId next = body.unary(ScalarOp::kTanh, body.add(body.matmul(x, body.capture(w), f32),
  //     h)); body.result(next);   // the carry body.result(next);   // stacked into y
  //     std::vector<ValueId> final_and_ys = b.make_scan({h0}, {xs}, body, {false}, {false});

  /// This region's name for a value of the parent: a copy of a constant or of places along an axis
  /// (iota), otherwise one more input.
  ValueId capture(ValueId parent_value);
  const std::vector<std::pair<ValueId, ValueId>>& captures() const { return captures_; }
  void result(ValueId v) { results_.push_back(v); }
  const std::vector<ValueId>& results() const { return results_; }

  std::vector<ValueId> make_if(ValueId condition, GraphBuilder& then, GraphBuilder& otherwise);
  /// `condition` has one scalar bool result; `body` one result per carry, of its type.
  std::vector<ValueId> make_while(const std::vector<ValueId>& carries, GraphBuilder& condition,
                                  GraphBuilder& body);
  /// Body inputs: carries, then one slice (leading axis removed) per x. Body results: carries, then
  /// slices to stack. Returns the last carries, then the stacked results. At least one x gives the
  /// trip count.
  std::vector<ValueId> make_scan(const std::vector<ValueId>& carries,
                                 const std::vector<ValueId>& xs, GraphBuilder& body,
                                 std::vector<bool> x_reverse, std::vector<bool> y_reverse);

  // The node under all of the above.
  std::vector<ValueId> node(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                            TensorType hint = {},
                            std::vector<std::shared_ptr<const Graph>> regions = {});
  ValueId node1(GraphOp op, Attributes attrs, std::vector<ValueId> operands, TensorType hint = {});

  // Names.
  /// The nodes made from now on come from this node of the model.
  void start_origin(Origin origin);
  /// A name for the value, where it has none yet; made unique when the graph is pruned.
  void name_value(ValueId v, std::string_view name);
  const std::vector<std::string>& value_names() const { return names_; }

 private:
  struct Known {
    bool foldable = false;            ///< follows from constants alone
    std::optional<HostTensor> value;  ///< computed already
    int64_t too_little = -1;          ///< a budget that did not suffice
  };
  /// Whether it is a tensor of bytes in a wider type, as a dequantisation makes it.
  bool is_made_of_bytes(ValueId v) const;
  /// Replaces results by constants where they are small.
  void fold_small(std::vector<ValueId>& results);
  /// Shared by a graph and its regions: bytes that folding may still touch.
  int64_t& fold_budget() { return parent_ != nullptr ? parent_->fold_budget() : fold_budget_; }
  /// Computes the value if it follows from constants, spending `budget` (bytes touched) on what it
  /// computed.
  bool evaluate(ValueId v, int64_t* budget, int depth);
  bool evaluate_within(int64_t budget, ValueId v);
  std::shared_ptr<const Graph> finish_region(const std::vector<ValueId>& captures);
  /// Places along an axis, as the parent counts them and moves them at most so often; kNoValue for
  /// other values.
  ValueId repeat_places(ValueId parent_value, int most_moves);
  std::vector<ValueId> unite_captures(const std::vector<GraphBuilder*>& regions) const;

  GraphBuilder* parent_;
  int64_t fold_budget_ = int64_t{512} << 20;
  Graph graph_;
  std::vector<Known> known_;        ///< by ValueId
  std::vector<int32_t> defined_;    ///< by ValueId: the node, -1 for an input
  std::vector<std::string> names_;  ///< by ValueId, empty for none
  ValueId seed_ = kNoValue;
  std::optional<ValueId> iteration_;  ///< of a region that runs several times; kNoValue: unknown
  uint32_t streams_ = 0;
  std::vector<ValueId> results_;
  std::vector<std::pair<ValueId, ValueId>>
      captures_;  ///< (parent's value, this region's), in order
};

}  // namespace weft::onnx
