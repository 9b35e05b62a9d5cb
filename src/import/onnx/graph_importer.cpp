#include "import/onnx/graph_importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "import/builder/collect_inputs.h"
#include "import/onnx/function_attributes.h"
#include "import/onnx/node_order.h"
#include "import/onnx/translator.h"
#include "import/onnx/wire_message.h"

namespace weft::onnx {
namespace {

/// Nodes translated in one import, inlined functions included: a hostile model can write a number
/// of nodes that is exponential in its size.
constexpr int64_t kSpareNodes = 200'000;
constexpr int kMaxScopeDepth = 64;

constexpr int64_t kOldestOpset = 7;
constexpr int64_t kMaxOpset = 1000;

/// Operators that move elements of their first input and do nothing else with them.
constexpr std::array<std::string_view, 12> kMoving = {
    "Concat",  "Expand", "Flatten", "Gather",  "Identity",  "Pad",
    "Reshape", "Slice",  "Split",   "Squeeze", "Transpose", "Unsqueeze"};

/// A refusal that names its node already, the innermost one.
class NodeRefusal : public Refusal {
 public:
  using Refusal::Refusal;
};

std::string_view domain_name(std::string_view domain) {
  return domain.empty() ? std::string_view("ai.onnx") : domain;
}

/// How errors call a node: "Conv 'conv1'".
std::string describe(const NodeDef& node, const std::string& origin) {
  return fmt::format("{} '{}'", node.op_type, origin);
}

}  // namespace

std::vector<std::string> origin_names(const std::vector<NodeDef>& nodes) {
  std::unordered_map<std::string_view, int> uses;
  for (const NodeDef& node : nodes) ++uses[node.name];
  std::vector<std::string> names;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const bool named = !nodes[n].name.empty() && uses[nodes[n].name] == 1;
    names.push_back(named ? std::string(nodes[n].name) : fmt::format("{}#{}", nodes[n].op_type, n));
  }
  return names;
}

std::string_view name_of_sparse(std::string_view message) {
  std::string_view values;
  for (WireMessage m(message); m.next();) {
    if (m.field() == 1) {
      values = m.bytes();
    } else {
      m.skip();
    }
  }
  return read_tensor_def(values).name;
}

void check_versions(const ModelDef& model) {
  if (model.opsets.empty()) refuse_invalid("the model does not say which opset it uses");
  const auto found = model.opsets.find("");
  if (found == model.opsets.end()) return;
  if (found->second < 1 || found->second > kMaxOpset) {
    refuse_invalid(fmt::format("opset {} does not exist", found->second));
  }
  if (found->second < kOldestOpset) {
    refuse_unsupported(fmt::format("opset {} (7 and later are supported)", found->second));
  }
}

GraphImporter::GraphImporter(const ModelDef& model, const ImportOptions& options)
    : model_(model),
      options_(options),
      source_{model.owner, model.folder},
      nodes_left_(4 * static_cast<int64_t>(model.graph.nodes.size()) + kSpareNodes) {
  for (const FunctionDef& function : model.functions) {
    functions_.emplace(std::pair(function.domain, function.name), &function);
  }
}

void GraphImporter::import_main(Scope& scope) {
  add_initializers(model_.graph, scope);
  std::vector<std::string_view> outputs;
  std::set<std::string_view> names;
  for (const ValueDef& output : model_.graph.outputs) {
    outputs.push_back(output.name);
    if (names.insert(output.name).second) continue;
    refuse_invalid(fmt::format("two outputs are called '{}'", output.name));
  }
  if (outputs.empty()) refuse_invalid("the model has no outputs");
  import_nodes(model_.graph.nodes, outputs, scope);
  throw_refused_nodes();
  for (const ValueDef& output : model_.graph.outputs) {
    const ValueId v = lookup(output.name, scope);
    if (v == kNoValue) refuse_invalid(fmt::format("output '{}' is never made", output.name));
    if (is_sequence(v)) refuse_unsupported(fmt::format("output '{}' is a sequence", output.name));
    scope.builder.graph().add_output(v, std::string(output.name));
  }
}

bool GraphImporter::has_refused(const NodeDef& node, const Scope& scope) const {
  return std::ranges::any_of(node.outputs, [&](std::string_view name) {
    const auto found = scope.values.find(name);
    return found != scope.values.end() && found->second == kRefusedValue;
  });
}

template <typename Read>
void GraphImporter::add_constant(std::string_view name, Scope& scope, Read&& read) {
  if (scope.values.contains(name)) refuse_invalid(fmt::format("value '{}' is made twice", name));
  try {
    const ValueId v = scope.builder.constant(read());
    scope.builder.name_value(v, name);
    scope.values[name] = v;
  } catch (const Refusal& refusal) {
    if (refusal.error().code != ErrorCode::kUnsupported) throw;
    refused_.push_back({fmt::format("initializer '{}': {}", name, refusal.error().message)});
    scope.values[name] = kRefusedValue;
  }
}

void GraphImporter::add_initializer(const TensorDef& def, Scope& scope) {
  add_constant(def.name, scope, [&] { return tensor(def); });
  note_type(def.name, element_type(def.message), scope);
}

void GraphImporter::add_sparse_initializer(std::string_view message, Scope& scope) {
  add_constant(name_of_sparse(message), scope,
               [&] { return read_sparse_tensor(message, source_); });
}

void GraphImporter::add_initializers(const GraphDef& graph, Scope& scope) {
  for (const TensorDef& def : graph.initializers) add_initializer(def, scope);
  for (const std::string_view message : graph.sparse_initializers)
    add_sparse_initializer(message, scope);
}

void GraphImporter::note_type(std::string_view name, int64_t onnx_type, Scope& scope) {
  if (const auto type = narrow_type_of(onnx_type)) scope.narrow.insert_or_assign(name, *type);
}

std::optional<NarrowType> GraphImporter::narrow_type(std::string_view name, const Scope& scope) {
  for (const Scope* s = &scope; s != nullptr; s = s->outer) {
    if (const auto found = s->narrow.find(name); found != s->narrow.end()) return found->second;
    if (s->values.contains(name)) return std::nullopt;
  }
  return std::nullopt;
}

void GraphImporter::refuse_small_floats(const NodeDef& node, const Scope& scope) const {
  constexpr std::array<std::string_view, 10> kKnowing = {"BitCast",
                                                         "Cast",
                                                         "CastLike",
                                                         "DequantizeLinear",
                                                         "GatherBlockQuantized",
                                                         "If",
                                                         "Loop",
                                                         "QuantizeLinear",
                                                         "Scan",
                                                         "Shape"};
  if (std::ranges::find(kMoving, node.op_type) != kMoving.end()) return;
  if (std::ranges::find(kKnowing, node.op_type) != kKnowing.end()) return;
  for (const std::string_view input : node.inputs) {
    const auto type = narrow_type(input, scope);
    if (!type || type->as_float == nullptr) continue;
    refuse_unsupported(fmt::format(
        "arithmetic on floats of {} bits ('{}'): cast them to float32 before", type->bits, input));
  }
}

std::optional<NarrowType> GraphImporter::narrow_output(const NodeDef& node, int i,
                                                       const Scope& scope) const {
  if (const auto said = narrow_outputs_.find(i); said != narrow_outputs_.end()) return said->second;
  const bool moves = std::ranges::find(kMoving, node.op_type) != kMoving.end();
  return moves && !node.inputs.empty() ? narrow_type(node.inputs[0], scope) : std::nullopt;
}

std::optional<NarrowType> narrow_input(const OpContext& n, int i) {
  const std::vector<std::string_view>& inputs = n.node().inputs;
  if (i < 0 || static_cast<size_t>(i) >= inputs.size()) return std::nullopt;
  return GraphImporter::narrow_type(inputs[static_cast<size_t>(i)], n.scope());
}

std::optional<NarrowType> narrow_attr(const OpContext& n, std::string_view name) {
  return n.has_attr(name) ? narrow_type_of(n.int_attr(name)) : std::nullopt;
}

ValueId as_number(OpContext& n, int index) {
  const auto narrow = narrow_input(n, index);
  const ValueId v = n.input(index);
  return narrow && narrow->as_float != nullptr ? decode_small_float(n.b, v, *narrow->as_float) : v;
}

SmallFloatRounding small_float_rounding(OpContext& n) {
  using Power = SmallFloatRounding::Power;
  SmallFloatRounding rounding{n.bool_attr("saturate", true), Power::kUp};
  if (!n.has_attr("round_mode")) return rounding;
  const std::string mode = n.string_attr("round_mode");
  n.require(mode == "up" || mode == "down" || mode == "nearest",
            "round_mode must be up, down or nearest");
  if (mode == "down") rounding.power = Power::kDown;
  if (mode == "nearest") rounding.power = Power::kNearest;
  return rounding;
}

void GraphImporter::import_nodes(const std::vector<NodeDef>& nodes,
                                 const std::vector<std::string_view>& outputs, Scope& scope) {
  for (const NodeDef& node : nodes) {
    for (std::string_view name : node.outputs) {
      if (name.empty() || !scope.values.contains(name)) continue;
      refuse_invalid(fmt::format("value '{}' is made twice", name));
    }
  }
  const std::vector<std::string> origins = origin_names(nodes);
  for (size_t n : order_nodes(nodes, outputs)) {
    import_node(nodes[n], scope, scope.prefix + origins[n]);
  }
}

void GraphImporter::import_node(const NodeDef& node, Scope& scope, const std::string& origin) {
  if (--nodes_left_ < 0)
    throw NodeRefusal(invalid_input("too many nodes once its functions are inlined"));
  try {
    std::vector<ValueId> inputs;
    for (std::string_view name : node.inputs) inputs.push_back(lookup(name, scope));
    translate(node, scope, std::move(inputs), origin);
  } catch (const DependsOnRefused&) {
    list_missing(node, scope, origin);
    mark_refused(node, scope);
  } catch (const NodeRefusal&) {
    throw;
  } catch (const Refusal& refusal) {
    if (refusal.error().code != ErrorCode::kUnsupported) {
      throw NodeRefusal({refusal.error().code,
                         fmt::format("{}: {}", describe(node, origin), refusal.error().message)});
    }
    refuse_node(node, scope, origin, refusal);
  }
}

void GraphImporter::translate(const NodeDef& node, Scope& scope, std::vector<ValueId> inputs,
                              const std::string& origin) {
  GraphBuilder& builder = scope.builder;
  builder.start_origin({origin, std::string(node.op_type)});
  const FunctionDef* function = find_function(node);
  const int64_t opset = function == nullptr ? opset_of(node.domain, scope) : 0;
  OpContext context(*this, scope, node, opset, std::move(inputs), origin);
  const std::map<int, NarrowType> outer = std::exchange(narrow_outputs_, {});
  if (function != nullptr) {
    inline_function(*function, context, scope, origin);
  } else {
    const Translator* translator = translator_of(node.domain, node.op_type, opset);
    if (translator == nullptr) refuse_unsupported("there is no such operator in weft");
    refuse_small_floats(node, scope);
    translator->translate(context);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const ValueId v = context.outputs()[i];
    scope.values[node.outputs[i]] = v == kNoValue ? kUnmadeValue : v;
    if (const auto type = narrow_output(node, static_cast<int>(i), scope))
      scope.narrow.insert_or_assign(node.outputs[i], *type);
    if (v >= 0) builder.name_value(v, node.outputs[i]);
  }
  narrow_outputs_ = outer;
}

void GraphImporter::inline_function(const FunctionDef& function, OpContext& call, Scope& scope,
                                    const std::string& origin) {
  if (scope.depth >= kMaxScopeDepth) refuse_invalid("functions call each other too deeply");
  Scope inner{scope.builder, function.opsets, nullptr, origin + "/", scope.depth + 1, {}, {}};
  if (call.input_count() > static_cast<int>(function.inputs.size())) {
    refuse_invalid(fmt::format("the function takes {} inputs", function.inputs.size()));
  }
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    inner.values[function.inputs[i]] = call.any_input(static_cast<int>(i));
    if (const auto type = narrow_input(call, static_cast<int>(i)))
      inner.narrow.insert_or_assign(function.inputs[i], *type);
  }
  const std::vector<NodeDef> body = bind_attributes(function, call.node());
  import_nodes(body, function.outputs, inner);
  const size_t count = std::min(function.outputs.size(), call.node().outputs.size());
  for (size_t i = 0; i < count; ++i) {
    if (call.wants_output(static_cast<int>(i))) {
      call.set_output(static_cast<int>(i), lookup(function.outputs[i], inner));
      if (const auto type = narrow_type(function.outputs[i], inner))
        set_narrow_output(static_cast<int>(i), *type);
    }
  }
}

std::vector<ValueId> GraphImporter::import_subgraph(const GraphDef& graph, const OpContext& node,
                                                    GraphBuilder& builder,
                                                    const std::vector<ValueId>& arguments) {
  const Scope& outer = node.scope();
  if (outer.depth >= kMaxScopeDepth) refuse_invalid("graphs are nested too deeply");
  Scope inner{builder, outer.opsets, &outer, node.origin() + "/", outer.depth + 1, {}, {}};
  if (graph.inputs.size() != arguments.size()) {
    refuse_invalid(fmt::format("a subgraph takes {} inputs and is given {}", graph.inputs.size(),
                               arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!inner.values.emplace(graph.inputs[i].name, arguments[i]).second) {
      refuse_invalid(fmt::format("value '{}' is made twice", graph.inputs[i].name));
    }
  }
  add_initializers(graph, inner);
  std::vector<std::string_view> names;
  for (const ValueDef& output : graph.outputs) names.push_back(output.name);
  import_nodes(graph.nodes, names, inner);
  std::vector<ValueId> results;
  for (std::string_view name : names) {
    results.push_back(lookup(name, inner));
    if (results.back() == kNoValue) refuse_unsupported("a subgraph's output is absent");
  }
  return results;
}

ValueId GraphImporter::lookup(std::string_view name, const Scope& scope) {
  if (name.empty()) return kNoValue;
  const auto found = scope.values.find(name);
  if (found == scope.values.end()) {
    if (scope.outer == nullptr) refuse_invalid(fmt::format("nothing makes the value '{}'", name));
    const ValueId outside = lookup(name, *scope.outer);
    if (&scope.builder == &scope.outer->builder || outside == kNoValue) return outside;
    if (!is_sequence(outside)) return scope.builder.capture(outside);
    std::vector<ValueId> captured;
    for (ValueId v : std::vector<ValueId>(sequence(outside))) {
      captured.push_back(scope.builder.capture(v));
    }
    return add_sequence(std::move(captured));
  }
  if (found->second == kRefusedValue) throw DependsOnRefused{};
  if (found->second == kUnmadeValue) {
    refuse_unsupported(fmt::format("it reads '{}', an output that weft does not make", name));
  }
  return found->second;
}

ValueId GraphImporter::add_sequence(std::vector<ValueId> values) {
  constexpr size_t kMaxElements = 4'000'000;
  sequence_elements_ += values.size();
  if (sequence_elements_ > kMaxElements) refuse_unsupported("sequences of so many tensors");
  sequences_.push_back(std::move(values));
  return kFirstSequence - static_cast<ValueId>(sequences_.size() - 1);
}

const std::vector<ValueId>& GraphImporter::sequence(ValueId v) const {
  WEFT_CHECK(is_sequence(v), "not a sequence");
  return sequences_.at(static_cast<size_t>(kFirstSequence - v));
}

int64_t GraphImporter::opset_of(std::string_view domain, const Scope& scope) const {
  const auto found = scope.opsets.find(domain);
  return found != scope.opsets.end() ? found->second : 1;
}

const FunctionDef* GraphImporter::find_function(const NodeDef& node) const {
  const auto found = functions_.find({node.domain, node.op_type});
  if (found == functions_.end()) return nullptr;
  if (found->second->overload == node.overload) return found->second;
  for (const FunctionDef& function : model_.functions) {
    if (function.domain == node.domain && function.name == node.op_type &&
        function.overload == node.overload) {
      return &function;
    }
  }
  return nullptr;
}

void GraphImporter::refuse_node(const NodeDef& node, Scope& scope, const std::string& origin,
                                const Refusal& refusal) {
  refused_.push_back(
      {fmt::format("{} ({} {}): {}", describe(node, origin), domain_name(node.domain),
                   opset_of(node.domain, scope), refusal.error().message),
       dynamic_cast<const UnknownValue*>(&refusal) != nullptr});
  mark_refused(node, scope);
}

void GraphImporter::mark_refused(const NodeDef& node, Scope& scope) const {
  for (std::string_view name : node.outputs) {
    if (!name.empty()) scope.values[name] = kRefusedValue;
  }
}

void GraphImporter::list_missing(const NodeDef& node, const Scope& scope,
                                 const std::string& origin) {
  const int64_t opset = opset_of(node.domain, scope);
  if (find_function(node) == nullptr &&
      translator_of(node.domain, node.op_type, opset) == nullptr) {
    refused_.push_back({fmt::format("{} ({} {}): there is no such operator in weft",
                                    describe(node, origin), domain_name(node.domain), opset)});
  }
  for (const Attribute& attribute : node.attributes) {
    if (attribute.g == nullptr) continue;
    const std::vector<std::string> names = origin_names(attribute.g->nodes);
    for (size_t n = 0; n < names.size(); ++n) {
      list_missing(attribute.g->nodes[n], scope, origin + "/" + names[n]);
    }
  }
}

void GraphImporter::throw_refused_nodes() const {
  if (refused_.empty()) return;
  std::string message = "the model uses what weft does not support:";
  for (const Refused& refused : refused_) message += "\n  " + refused.line;
  refuse_unsupported(std::move(message));
}

bool GraphImporter::lacks_only_values() const {
  return std::ranges::all_of(refused_, [](const Refused& refused) { return refused.lacks_value; });
}

std::set<std::string> GraphImporter::known_inputs_behind(const GraphBuilder& builder,
                                                         ValueId v) const {
  std::set<std::string> names;
  if (!collect_inputs(builder, v, names)) return {};
  for (const std::string& name : names) {
    if (!options_.known_inputs.contains(name)) return {};
  }
  return names;
}

void GraphImporter::refuse_unknown(GraphBuilder& builder, ValueId v, std::string_view what) const {
  const std::set<std::string> known = known_inputs_behind(builder, v);
  if (!known.empty()) throw NeedsInputs{known};
  std::set<std::string> names;
  std::string where;
  if (collect_inputs(builder, v, names)) {
    where = names.empty() ? " and is too large to compute"
                          : fmt::format(
                                ", but follows from the value of input '{}' (give that "
                                "input's value)",
                                fmt::join(names, "', '"));
  }
  throw UnknownValue(
      unsupported(fmt::format("{} must be known before the model runs{}", what, where)));
}

}  // namespace weft::onnx
