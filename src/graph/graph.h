#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/scalar_op.h"
#include "support/dtype.h"
#include "support/result.h"
#include "support/tensor.h"

namespace weft {

/// Shape (concrete: symbolic dimensions of a model are bound when it is imported) and element type.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string print(const TensorType& type);  ///< "f32[4,16]", "i64[]" for a scalar

/// Dense ids into Graph::values; -1 is no value.
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

class Graph;

struct ConstantAttrs {
  HostTensor value;
};
struct ElementwiseAttrs {
  ScalarOp op = ScalarOp::kAdd;
};
struct IotaAttrs {
  int64_t axis = 0;
};
struct BroadcastAttrs {
  std::vector<int64_t> dims;
};
struct ReshapeAttrs {};
struct TransposeAttrs {
  std::vector<int64_t> permutation;
};
struct SliceAttrs {
  std::vector<int64_t> start, step;  ///< extents are the result's
};
struct PadAttrs {
  std::vector<int64_t> low, high;
};
struct ConcatAttrs {
  int64_t axis = 0;
};
struct GatherAttrs {
  int64_t axis = 0;
  int64_t batch_dims = 0;  ///< leading axes that data and indices share
};
struct AxisAttrs {
  int64_t axis = 0;
};
struct GatherNdAttrs {
  int64_t batch_dims = 0;
};
/// Without a combiner the update replaces (the last in row-major order of the updates wins).
struct ScatterAttrs {
  int64_t axis = 0;  ///< scatter_elements only
  bool combines = false;
  Combiner combiner = Combiner::kSum;
};
struct ReduceAttrs {
  std::vector<int64_t> axes;  ///< ascending
  Combiner combiner = Combiner::kSum;
};
struct ArgReduceAttrs {
  int64_t axis = 0;
  Combiner combiner = Combiner::kArgMax;
  bool last_on_ties = false;
};
struct WindowAttrs {
  std::vector<int64_t> window, strides, dilations, low, high;  ///< one per axis of x
  Combiner combiner = Combiner::kMax;
};
struct CumulativeAttrs {
  int64_t axis = 0;
  Combiner combiner = Combiner::kSum;
  bool exclusive = false;
  bool reverse = false;
};
struct DotAttrs {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};
struct ConvolutionAttrs {
  std::vector<int64_t> strides, low, high, lhs_dilations, rhs_dilations;  ///< one per spatial axis
  int64_t groups = 1;
};
struct SortAttrs {
  int64_t axis = 0;
  bool descending = false;
};
struct TopKAttrs {
  int64_t axis = 0;
  int64_t k = 1;
  bool largest = true;
};
struct IfAttrs {};
struct WhileAttrs {
  int64_t carry_count = 0;
};
struct ScanAttrs {
  int64_t carry_count = 0;
  int64_t scanned_count = 0;
  std::vector<bool> x_reverse,
      y_reverse;  ///< per scanned input / stacked output: runs from the last slice to the first
};

enum class GraphOp : uint8_t {
#define WEFT_GRAPH_OP(id, name, attrs) id,
#include "graph/ops.def"
#undef WEFT_GRAPH_OP
};
std::string_view graph_op_name(GraphOp op);
std::optional<GraphOp> parse_graph_op(std::string_view name);

/// Limits that every graph keeps, so that hostile models stay harmless: see infer_types and
/// verify_graph.
inline constexpr size_t kMaxRank = 32;
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 40;
/// No start, step, padding, window or dilation is larger in magnitude: index arithmetic on a
/// verified graph cannot overflow.
inline constexpr int64_t kMaxOffset = int64_t{1} << 40;
inline constexpr int kMaxRegionDepth = 64;

/// Indexed by GraphOp: std::get<ConstantAttrs>(node.attrs) of a kConstant.
using Attributes =
    std::variant<ConstantAttrs, ElementwiseAttrs, IotaAttrs, BroadcastAttrs, ReshapeAttrs,
                 TransposeAttrs, SliceAttrs, PadAttrs, ConcatAttrs, GatherAttrs, AxisAttrs,
                 GatherNdAttrs, ScatterAttrs, ReduceAttrs, ArgReduceAttrs, WindowAttrs,
                 CumulativeAttrs, DotAttrs, ConvolutionAttrs, SortAttrs, TopKAttrs, IfAttrs,
                 WhileAttrs, ScanAttrs>;

struct Node {
  GraphOp op = GraphOp::kConstant;
  Attributes attrs;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<std::shared_ptr<const Graph>>
      regions;  ///< closed: everything they use is an input of theirs
  /// Index into Graph::origins of the model's node that this came from; -1 for none.
  int32_t origin = -1;
};

struct Value {
  std::string name;  ///< unique; the model's name for inputs and outputs
  TensorType type;
};

/// A node of the imported model, for explain and errors.
struct Origin {
  std::string name;  ///< "OpType#index" when the model's is empty or repeated
  std::string op_type;
};

/// A pure dataflow graph in topological order.
class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  /// Names under which the outputs are known (an output may be an input or appear twice).
  std::vector<std::string> output_names;
  std::vector<Origin> origins;

  const TensorType& type(ValueId v) const { return values[static_cast<size_t>(v)].type; }
  const Node& node(int n) const { return nodes[static_cast<size_t>(n)]; }

  ValueId add_input(std::string name, TensorType type);
  /// Appends a node with inferred result types. Errors (kInvalidInput) name the op and the
  /// offending types; a result larger than 2^40 bytes is one. `name` is for the results; made
  /// unique, generated when empty.
  Result<std::vector<ValueId>> add(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                                   TensorType result_hint = {},
                                   std::vector<std::shared_ptr<const Graph>> regions = {},
                                   std::string_view name = {});
  /// The one result of a node that has one.
  Result<ValueId> add1(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                       TensorType result_hint = {}, std::string_view name = {});
  void add_output(ValueId v, std::string name);

  /// Appends a value of no node yet: for code that builds nodes itself (parser, passes). The name
  /// is made unique.
  ValueId new_value(std::string_view name, TensorType type);

  /// Origin given to the nodes that add() makes from now on.
  int32_t current_origin = -1;

 private:
  std::string unique_name(std::string_view base, ValueId id);
  /// The names in use, each with the suffix to try next; covers values[0, named_).
  std::unordered_map<std::string, int64_t> taken_;
  size_t named_ = 0;
};

/// For each value the node that makes it (-1: an input), and the nodes that read it, ascending
/// (outputs not counted).
struct UseDef {
  std::vector<int32_t> def;
  std::vector<std::vector<int32_t>> uses;
};
UseDef use_def(const Graph& graph);

/// Result types from operands and attributes. `hint` gives what cannot be inferred: the target type
/// of convert, bitcast and iota, the shape of reshape, broadcast, slice and iota, the accumulation
/// type of dot_general and convolution.
Result<std::vector<TensorType>> infer_types(
    GraphOp op, const Attributes& attrs, const std::vector<TensorType>& operands,
    const TensorType& hint, const std::vector<std::shared_ptr<const Graph>>& regions);

/// Ids in range, topological order, unique names, operand counts, types equal to infer_types,
/// regions closed and matching.
Status verify_graph(const Graph& graph);

struct PrintGraphOptions {
  int64_t max_inline_elements = 64;  ///< larger constants print as `constant #hash`
  bool origins = false;
};
std::string print(const Graph& graph, const PrintGraphOptions& options = {});

/// Inverse of print. `constant_of_hash` supplies constants that were too large to print; without it
/// they are an error.
Result<Graph> parse_graph(
    std::string_view text,
    const std::function<Result<HostTensor>(std::string_view hash, const TensorType&)>&
        constant_of_hash = {});
uint64_t content_hash(const HostTensor& tensor);

}  // namespace weft
