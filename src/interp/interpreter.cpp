#include "interp/interpreter.h"

#include <cstring>
#include <map>
#include <new>

#include "interp/evaluate.h"

namespace weft {
namespace {

/// Recursion follows the nesting of regions, which verify_graph bounds; this is for graphs that
/// nobody verified.
constexpr int kMaxDepth = kMaxRegionDepth + 1;

/// A view of a mapped file may lie anywhere; the loops read through typed pointers.
HostTensor aligned(const HostTensor& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.raw());
  if (address % static_cast<uintptr_t>(byte_size(x.dtype())) == 0) return x;
  HostTensor copy(x.dtype(), x.shape());
  std::memcpy(copy.mutable_raw(), x.raw(), static_cast<size_t>(x.bytes()));
  return copy;
}

HostTensor slice_of(const HostTensor& x, int64_t index) {
  Shape shape(x.shape().begin() + 1, x.shape().end());
  HostTensor slice(x.dtype(), std::move(shape));
  std::memcpy(slice.mutable_raw(), x.raw() + index * slice.bytes(),
              static_cast<size_t>(slice.bytes()));
  return slice;
}

class Interpreter {
 public:
  using Tensors = std::vector<HostTensor>;

  explicit Interpreter(int64_t max_iterations) : max_iterations_(max_iterations) {}

  /// The values of `graph`; those that nothing reads any more are dropped early unless `keep_all`.
  Result<Tensors> run(const Graph& graph, const Tensors& inputs, bool keep_all) {
    Tensors values(graph.values.size());
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      values[static_cast<size_t>(graph.inputs[i])] = inputs[i];
    }
    const std::vector<std::vector<ValueId>>& dying = values_dying_at(graph);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      Tensors operands;
      operands.reserve(node.operands.size());
      for (ValueId v : node.operands) operands.push_back(values[static_cast<size_t>(v)]);
      WEFT_ASSIGN_OR_RETURN(Tensors results, run_node(graph, node, operands));
      for (size_t i = 0; i < results.size(); ++i) {
        values[static_cast<size_t>(node.results[i])] = std::move(results[i]);
      }
      if (keep_all) continue;
      for (ValueId v : dying[n]) values[static_cast<size_t>(v)] = HostTensor();
    }
    return values;
  }

  Result<Tensors> run_outputs(const Graph& graph, const Tensors& inputs) {
    if (++depth_ > kMaxDepth) return invalid_input("regions nest too deeply");
    WEFT_ASSIGN_OR_RETURN(const Tensors values, run(graph, inputs, false));
    --depth_;
    Tensors outputs;
    for (ValueId v : graph.outputs) outputs.push_back(values[static_cast<size_t>(v)]);
    return outputs;
  }

  Result<Tensors> run_node(const Graph& graph, const Node& node, Tensors& operands) {
    for (HostTensor& operand : operands) operand = aligned(operand);
    switch (node.op) {
      case GraphOp::kIf:
        return run_if(node, operands);
      case GraphOp::kWhile:
        return run_while(node, operands);
      case GraphOp::kScan:
        return run_scan(graph, node, operands);
      case GraphOp::kSort:
        return evaluate_sort(std::get<SortAttrs>(node.attrs), operands[0],
                             graph.type(node.results[0]));
      case GraphOp::kTopK:
        return evaluate_top_k(std::get<TopKAttrs>(node.attrs), operands[0],
                              graph.type(node.results[0]));
      default:
        return Tensors{run_single(node, operands, graph.type(node.results[0]))};
    }
  }

 private:
  static HostTensor run_single(const Node& node, const Tensors& x, const TensorType& type) {
    const Attributes& attrs = node.attrs;
    switch (node.op) {
      case GraphOp::kConstant:
        return std::get<ConstantAttrs>(attrs).value;
      case GraphOp::kElementwise:
        return evaluate_elementwise(std::get<ElementwiseAttrs>(attrs).op, x, type);
      case GraphOp::kIota:
        return evaluate_iota(std::get<IotaAttrs>(attrs).axis, type);
      case GraphOp::kBroadcast:
        return evaluate_broadcast(std::get<BroadcastAttrs>(attrs), x[0], type);
      case GraphOp::kReshape:
        return x[0].reshaped(type.shape);
      case GraphOp::kTranspose:
        return evaluate_transpose(std::get<TransposeAttrs>(attrs), x[0], type);
      case GraphOp::kSlice:
        return evaluate_slice(std::get<SliceAttrs>(attrs), x[0], type);
      case GraphOp::kPad:
        return evaluate_pad(std::get<PadAttrs>(attrs), x, type);
      case GraphOp::kConcat:
        return evaluate_concat(std::get<ConcatAttrs>(attrs), x, type);
      case GraphOp::kGather:
        return evaluate_gather(std::get<GatherAttrs>(attrs), x, type);
      case GraphOp::kGatherElements:
        return evaluate_gather_elements(std::get<AxisAttrs>(attrs), x, type);
      case GraphOp::kGatherNd:
        return evaluate_gather_nd(std::get<GatherNdAttrs>(attrs), x, type);
      case GraphOp::kScatterElements:
        return evaluate_scatter_elements(std::get<ScatterAttrs>(attrs), x, type);
      case GraphOp::kScatterNd:
        return evaluate_scatter_nd(std::get<ScatterAttrs>(attrs), x, type);
      case GraphOp::kReduce:
        return evaluate_reduce(std::get<ReduceAttrs>(attrs), x[0], type);
      case GraphOp::kArgReduce:
        return evaluate_arg_reduce(std::get<ArgReduceAttrs>(attrs), x[0], type);
      case GraphOp::kReduceWindow:
        return evaluate_reduce_window(std::get<WindowAttrs>(attrs), x[0], type);
      case GraphOp::kCumulative:
        return evaluate_cumulative(std::get<CumulativeAttrs>(attrs), x[0], type);
      case GraphOp::kDotGeneral:
        return evaluate_dot_general(std::get<DotAttrs>(attrs), x, type);
      case GraphOp::kConvolution:
        return evaluate_convolution(std::get<ConvolutionAttrs>(attrs), x, type);
      default:
        throw_internal_error(__FILE__, __LINE__, "graph op", "has regions or several results");
    }
  }

  Result<Tensors> run_if(const Node& node, const Tensors& operands) {
    const Tensors captures(operands.begin() + 1, operands.end());
    return run_outputs(*node.regions[operands[0].at_int(0) != 0 ? 0 : 1], captures);
  }

  /// Loops may nest, and the slices of a scan may be empty: only the sum bounds the time.
  Status count_iterations(int64_t count) {
    if (count > max_iterations_ - iterations_) {
      return invalid_input("loops ran for more than " + std::to_string(max_iterations_) +
                           " iterations");
    }
    iterations_ += count;
    return {};
  }

  Result<Tensors> run_while(const Node& node, Tensors operands) {
    const int64_t carries = std::get<WhileAttrs>(node.attrs).carry_count;
    for (;;) {
      WEFT_ASSIGN_OR_RETURN(const Tensors go_on, run_outputs(*node.regions[0], operands));
      if (go_on[0].at_int(0) == 0) break;
      WEFT_RETURN_IF_ERROR(count_iterations(1));
      WEFT_ASSIGN_OR_RETURN(Tensors next, run_outputs(*node.regions[1], operands));
      std::move(next.begin(), next.end(), operands.begin());
    }
    operands.resize(static_cast<size_t>(carries));
    return operands;
  }

  Result<Tensors> run_scan(const Graph& graph, const Node& node, const Tensors& operands) {
    const auto& attrs = std::get<ScanAttrs>(node.attrs);
    const auto carries = static_cast<size_t>(attrs.carry_count);
    const auto scanned = static_cast<size_t>(attrs.scanned_count);
    const int64_t trips = operands[carries].shape()[0];
    WEFT_RETURN_IF_ERROR(count_iterations(trips));
    Tensors results(operands.begin(), operands.begin() + attrs.carry_count);
    for (size_t i = carries; i < node.results.size(); ++i) {
      const TensorType& type = graph.type(node.results[i]);
      results.emplace_back(type.dtype, type.shape);
    }
    Tensors inputs = operands;
    for (int64_t t = 0; t < trips; ++t) {
      for (size_t i = 0; i < scanned; ++i) {
        const int64_t slice = attrs.x_reverse[i] ? trips - 1 - t : t;
        inputs[carries + i] = slice_of(operands[carries + i], slice);
      }
      WEFT_ASSIGN_OR_RETURN(Tensors next, run_outputs(*node.regions[0], inputs));
      for (size_t i = carries; i < results.size(); ++i) {
        const int64_t slice = attrs.y_reverse[i - carries] ? trips - 1 - t : t;
        std::memcpy(results[i].mutable_raw() + slice * next[i].bytes(), next[i].raw(),
                    static_cast<size_t>(next[i].bytes()));
      }
      for (size_t i = 0; i < carries; ++i) inputs[i] = results[i] = std::move(next[i]);
    }
    return results;
  }

  /// For each node the values that it is the last to read (or makes in vain).
  const std::vector<std::vector<ValueId>>& values_dying_at(const Graph& graph) {
    const auto [entry, fresh] = dying_.try_emplace(&graph);
    if (!fresh) return entry->second;
    std::vector<std::vector<ValueId>>& dying = entry->second;
    dying.resize(graph.nodes.size());
    std::vector<bool> seen(graph.values.size());
    for (ValueId v : graph.outputs) seen[static_cast<size_t>(v)] = true;
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const auto visit = [&](ValueId v) {
        if (seen[static_cast<size_t>(v)]) return;
        seen[static_cast<size_t>(v)] = true;
        dying[n].push_back(v);
      };
      for (ValueId v : graph.nodes[n].results) visit(v);
      for (ValueId v : graph.nodes[n].operands) visit(v);
    }
    return dying;
  }

  int64_t max_iterations_;
  int64_t iterations_ = 0;
  int depth_ = 0;
  std::map<const Graph*, std::vector<std::vector<ValueId>>> dying_;
};

Status check_inputs(const Graph& graph, const std::vector<HostTensor>& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return invalid_input("the graph takes " + std::to_string(graph.inputs.size()) +
                         " inputs, not " + std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& declared = graph.values[static_cast<size_t>(graph.inputs[i])];
    const TensorType given{inputs[i].dtype(), inputs[i].shape()};
    if (given != declared.type) {
      return invalid_input("input " + declared.name + " is " + print(given) + ", not " +
                           print(declared.type));
    }
  }
  return {};
}

/// Runs `body`; running out of memory becomes an error, since shapes are the user's choice.
template <typename Body>
Result<std::vector<HostTensor>> guarded(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return invalid_input("not enough memory for the values of the graph");
  }
}

}  // namespace

Result<std::vector<HostTensor>> interpret(const Graph& graph, const std::vector<HostTensor>& inputs,
                                          int64_t max_iterations) {
  WEFT_RETURN_IF_ERROR(check_inputs(graph, inputs));
  return guarded([&] { return Interpreter(max_iterations).run_outputs(graph, inputs); });
}

Result<std::vector<HostTensor>> interpret_all(const Graph& graph,
                                              const std::vector<HostTensor>& inputs) {
  WEFT_RETURN_IF_ERROR(check_inputs(graph, inputs));
  return guarded([&] { return Interpreter(int64_t{1} << 32).run(graph, inputs, true); });
}

Result<std::vector<HostTensor>> interpret_node(const Graph& graph, const Node& node,
                                               const std::vector<HostTensor>& operands,
                                               int64_t max_iterations) {
  if (operands.size() != node.operands.size()) {
    return invalid_input(std::string(graph_op_name(node.op)) + " takes " +
                         std::to_string(node.operands.size()) + " operands");
  }
  std::vector<HostTensor> values = operands;
  return guarded([&] { return Interpreter(max_iterations).run_node(graph, node, values); });
}

}  // namespace weft
