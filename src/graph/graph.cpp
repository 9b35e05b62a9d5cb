#include "graph/graph.h"

namespace weft {
namespace {

constexpr std::string_view kOpNames[] = {
#define WEFT_GRAPH_OP(id, name, attrs) name,
#include "graph/ops.def"
#undef WEFT_GRAPH_OP
};

}  // namespace

std::string print(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  text += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(type.shape[i]);
  }
  return text + ']';
}

std::string_view graph_op_name(GraphOp op) {
  const auto index = static_cast<size_t>(op);
  WEFT_CHECK(index < std::size(kOpNames), "graph op out of range");
  return kOpNames[index];
}

std::optional<GraphOp> parse_graph_op(std::string_view name) {
  for (size_t i = 0; i < std::size(kOpNames); ++i) {
    if (kOpNames[i] == name) return static_cast<GraphOp>(i);
  }
  return std::nullopt;
}

std::string Graph::unique_name(std::string_view base, ValueId id) {
  // Names given directly to `values` since the last call count as taken too.
  for (; named_ < values.size(); ++named_) taken_.try_emplace(values[named_].name, 1);
  std::string name = base.empty() ? "v" + std::to_string(id) : std::string(base);
  auto [entry, fresh] = taken_.try_emplace(name, 1);
  if (fresh) return name;
  std::string candidate;
  int64_t& next = entry->second;  // references stay valid when an unordered_map grows
  do {
    candidate = name + "_" + std::to_string(next++);
  } while (!taken_.try_emplace(candidate, 1).second);
  return candidate;
}

ValueId Graph::new_value(std::string_view name, TensorType type) {
  WEFT_CHECK(values.size() < static_cast<size_t>(INT32_MAX), "too many values");
  const auto id = static_cast<ValueId>(values.size());
  std::string unique = unique_name(name, id);
  values.push_back({std::move(unique), std::move(type)});
  return id;
}

ValueId Graph::add_input(std::string name, TensorType type) {
  const std::string base = std::move(name);
  const ValueId id = new_value(base, std::move(type));
  inputs.push_back(id);
  return id;
}

Result<std::vector<ValueId>> Graph::add(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                                        TensorType result_hint,
                                        std::vector<std::shared_ptr<const Graph>> regions,
                                        std::string_view name) {
  std::vector<TensorType> operand_types;
  operand_types.reserve(operands.size());
  for (ValueId v : operands) {
    WEFT_CHECK(v >= 0 && static_cast<size_t>(v) < values.size(), "operand of no value");
    operand_types.push_back(type(v));
  }
  const TensorType hint = std::move(result_hint);
  WEFT_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                        infer_types(op, attrs, operand_types, hint, regions));
  Node node{op, std::move(attrs), std::move(operands), {}, std::move(regions), current_origin};
  const std::string base(name);  // `name` may be that of a value, which moves as values are added
  for (TensorType& t : types) node.results.push_back(new_value(base, std::move(t)));
  nodes.push_back(std::move(node));
  return nodes.back().results;
}

Result<ValueId> Graph::add1(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                            TensorType result_hint, std::string_view name) {
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<ValueId> results,
      add(op, std::move(attrs), std::move(operands), std::move(result_hint), {}, name));
  WEFT_CHECK(results.size() == 1, "add1 of " + std::string(graph_op_name(op)));
  return results[0];
}

void Graph::add_output(ValueId v, std::string name) {
  WEFT_CHECK(v >= 0 && static_cast<size_t>(v) < values.size(), "output of no value");
  outputs.push_back(v);
  output_names.push_back(std::move(name));
}

UseDef use_def(const Graph& graph) {
  UseDef result;
  result.def.assign(graph.values.size(), -1);
  result.uses.resize(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto id = static_cast<int32_t>(n);
    for (ValueId v : graph.nodes[n].results) result.def[static_cast<size_t>(v)] = id;
    for (ValueId v : graph.nodes[n].operands) {
      std::vector<int32_t>& uses = result.uses[static_cast<size_t>(v)];
      if (uses.empty() || uses.back() != id) uses.push_back(id);  // x + x uses x once
    }
  }
  return result;
}

}  // namespace weft
