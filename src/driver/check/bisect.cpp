#include "driver/check/bisect.h"

#include <algorithm>
#include <map>
#include <set>

#include "assemble/build_program.h"
#include "driver/check/level_of_difference.h"
#include "driver/check/logical_order.h"
#include "driver/compiler.h"
#include "driver/models/device_target.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "io/onnx_case.h"

namespace weft {

namespace {

/// The program with every tensor that a kernel stores as an output, in the order of the plan; the
/// kernels are the same.
struct Exposed {
  TensorProgram tensors;
  std::vector<std::pair<TensorId, int32_t>> stored;  ///< tensor, kernel
};
Exposed expose_stored_tensors(const Compilation& c) {
  Exposed e;
  e.tensors = c.tensors;
  e.tensors.outputs.clear();
  e.tensors.output_names.clear();
  for (const FusionPlan::Step& step : c.plan.order) {
    if (step.opaque) continue;
    for (const TensorId t : c.plan.kernels[static_cast<size_t>(step.index)].group.outputs) {
      e.stored.emplace_back(t, step.index);
      e.tensors.tensors[static_cast<size_t>(t)].is_output = true;
      e.tensors.outputs.push_back(t);
      e.tensors.output_names.push_back(e.tensors.tensors[static_cast<size_t>(t)].name);
    }
  }
  return e;
}

/// The nodes that `target` needs, cut at `cuts`, which become constants of the values that they
/// have.
Graph cut_graph(const Graph& graph, ValueId target, const std::set<ValueId>& cuts,
                const std::vector<HostTensor>& values) {
  const UseDef uses = use_def(graph);
  std::set<int32_t> nodes;
  std::set<ValueId> leaves;
  std::vector<ValueId> work{target};
  std::set<ValueId> seen;
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (!seen.insert(v).second) continue;
    const int32_t def = uses.def[static_cast<size_t>(v)];
    if (def < 0 || (v != target && cuts.count(v) != 0)) {
      leaves.insert(v);
      continue;
    }
    if (!nodes.insert(def).second) continue;
    for (const ValueId o : graph.node(def).operands) work.push_back(o);
  }
  Graph out;
  out.origins = graph.origins;
  std::map<ValueId, ValueId> renamed;
  for (const ValueId v : leaves) {
    auto made = out.add1(GraphOp::kConstant, ConstantAttrs{values[static_cast<size_t>(v)]}, {}, {},
                         graph.values[static_cast<size_t>(v)].name);
    WEFT_CHECK(made.ok(), "a constant is refused");
    renamed[v] = *made;
  }
  for (const int32_t n : nodes) {
    const Node& node = graph.node(n);
    std::vector<ValueId> operands;
    for (const ValueId o : node.operands) operands.push_back(renamed.at(o));
    out.current_origin = node.origin;
    auto made = out.add(node.op, node.attrs, operands, graph.type(node.results[0]), node.regions,
                        graph.values[static_cast<size_t>(node.results[0])].name);
    WEFT_CHECK(made.ok(), "a node of a verified graph is refused");
    for (size_t r = 0; r < node.results.size(); ++r) renamed[node.results[r]] = (*made)[r];
  }
  out.add_output(renamed.at(target), graph.values[static_cast<size_t>(target)].name);
  return out;
}

}  // namespace

Result<std::optional<Difference>> bisect(const Graph& graph, const std::vector<HostTensor>& inputs,
                                         const CompileOptions& options, double rtol, double atol) {
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_graph(graph, options));
  const Exposed exposed = expose_stored_tensors(*c);
  WEFT_ASSIGN_OR_RETURN(
      BuiltProgram built,
      build_program(exposed.tensors, c->plan, code_of_plan(*c), c->target, LayoutOptions()));
  Program program = std::move(built.program);
  program.kernels = c->program.kernels;
  program.required_features = c->program.required_features;
  WEFT_ASSIGN_OR_RETURN(const auto session, Session::create(std::move(program), options.threads));
  WEFT_ASSIGN_OR_RETURN(const auto got, session->run(inputs));
  WEFT_ASSIGN_OR_RETURN(const auto want, evaluate(exposed.tensors, inputs));
  for (size_t i = 0; i < exposed.stored.size(); ++i) {
    const auto [t, kernel] = exposed.stored[i];
    const Tensor& tensor = exposed.tensors.tensors[static_cast<size_t>(t)];
    const Status same = compare_tensors(in_logical_order(got[i], tensor), want[i], {rtol, atol});
    if (same.ok()) continue;
    Difference d;
    d.value = tensor.name;
    d.difference = same.error().message;
    std::map<TensorId, HostTensor> known;
    for (size_t k = 0; k < inputs.size(); ++k) known.emplace(c->tensors.inputs[k], inputs[k]);
    for (size_t k = 0; k < want.size(); ++k) known.emplace(exposed.stored[k].first, want[k]);
    d.level = level_of_difference(c->tensors, c->plan.kernels[static_cast<size_t>(kernel)], known,
                                  {rtol, atol});
    for (const ExprId e : c->plan.kernels[static_cast<size_t>(kernel)].group.exprs) {
      for (const int32_t o : c->tensors.exprs[static_cast<size_t>(e)].origins) {
        if (o >= 0 && static_cast<size_t>(o) < c->tensors.origins.size())
          d.origin = c->tensors.origins[static_cast<size_t>(o)].name;
      }
    }
    // Cut at the kernel's inputs, as far as the graph has values of their names.
    std::map<std::string, ValueId> by_name;
    for (size_t v = 0; v < c->graph.values.size(); ++v)
      by_name[c->graph.values[v].name] = static_cast<ValueId>(v);
    std::set<ValueId> cuts;
    for (const TensorId p : c->plan.kernels[static_cast<size_t>(kernel)].schedule.parameters) {
      const auto it = by_name.find(exposed.tensors.tensors[static_cast<size_t>(p)].name);
      if (it != by_name.end()) cuts.insert(it->second);
    }
    const auto target = by_name.find(tensor.name);
    WEFT_ASSIGN_OR_RETURN(const auto values, interpret_all(c->graph, inputs));
    d.reduced =
        target != by_name.end() ? cut_graph(c->graph, target->second, cuts, values) : c->graph;
    return std::optional<Difference>(std::move(d));
  }
  return std::optional<Difference>();
}

Result<std::optional<Difference>> bisect_model(const ModelRequest& request, double rtol,
                                               double atol) {
  WEFT_ASSIGN_OR_RETURN(CompileOptions options, options_for_target(request));
  if (options.device) WEFT_RETURN_IF_ERROR(check_runs_here(*options.device));
  options.stop_after = kImportPass;
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_model(request.model, options));
  WEFT_ASSIGN_OR_RETURN(const auto inputs,
                        program_inputs(c->imported.inputs, graph_inputs(c->graph), request.inputs));
  options.stop_after.clear();
  return bisect(c->graph, inputs, options, rtol, atol);
}

}  // namespace weft
