#include "import/onnx/model_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <protozero/exception.hpp>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "import/builder/finish_import.h"
#include "import/onnx/bind_inputs.h"
#include "import/onnx/graph_importer.h"
#include "import/onnx/node_order.h"
#include "import/onnx/read_model.h"

namespace weft {

using onnx::GraphImporter;
using onnx::ModelDef;
using onnx::Refusal;
using onnx::Scope;
using onnx::ValueDef;

namespace {

using Names = std::set<std::string_view>;

/// A constant up to this size is handed on as such: what is a shape stays known.
constexpr int64_t kConstantBytes = 4096;

template <typename F>
auto guarded(F&& read) -> decltype(read()) {
  try {
    return read();
  } catch (const Refusal& refusal) {
    return refusal.error();
  } catch (const protozero::exception&) {
    return invalid_input("a tensor in the model is cut short");
  }
}

/// By name. Of a model with hundreds a node reads one.
struct Initializers {
  std::unordered_map<std::string_view, const onnx::TensorDef*> dense;
  std::unordered_map<std::string_view, std::string_view> sparse;

  explicit Initializers(const onnx::GraphDef& graph) {
    for (const onnx::TensorDef& def : graph.initializers) dense.emplace(def.name, &def);
    for (const std::string_view message : graph.sparse_initializers)
      sparse.emplace(onnx::name_of_sparse(message), message);
  }
};

/// A graph of some of the nodes while it grows.
struct GrowingPart {
  GrowingPart(const ModelDef& model, const ImportOptions& options)
      : scope{builder, model.opsets, nullptr, {}, 0, {}, {}}, importer(model, options) {}

  onnx::GraphBuilder builder;
  Scope scope;
  GraphImporter importer;
  ModelPart part;

  /// Those of the values that are wanted as inputs of the graph, or constants, and the
  /// initializers.
  void add_known(const KnownValues& known, const Initializers& initializers, const Names& wanted);
  /// Leaves out the inputs that are not read.
  void drop_inputs(const Names& read);
  void add_output(std::string_view name);
  ModelPart finish();
};

void GrowingPart::add_known(const KnownValues& known, const Initializers& initializers,
                            const Names& wanted) {
  for (const std::string_view name : wanted) {
    if (const auto dense = initializers.dense.find(name); dense != initializers.dense.end())
      importer.add_initializer(*dense->second, scope);
    if (const auto sparse = initializers.sparse.find(name); sparse != initializers.sparse.end())
      importer.add_sparse_initializer(sparse->second, scope);
    const auto found = known.find(std::string(name));
    if (found == known.end()) continue;
    const KnownValue& value = found->second;
    ValueId v = kNoValue;
    if (value.constant) {
      v = builder.constant(*value.constant);
      builder.name_value(v, name);
    } else {
      ImportedInput input;
      input.name = found->first;
      input.type = value.type;
      input.symbols.resize(value.type.shape.size());
      input.open.resize(value.type.shape.size());
      v = builder.input(value.type, found->first);
      part.inputs.push_back(std::move(input));
    }
    scope.values[name] = v;
  }
}

void GrowingPart::drop_inputs(const Names& read) {
  std::vector<ValueId>& ids = builder.graph().inputs;
  size_t kept = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!read.contains(part.inputs[i].name)) continue;
    if (kept != i) part.inputs[kept] = std::move(part.inputs[i]);
    part.inputs[kept].graph_input = static_cast<int64_t>(kept);
    ids[kept++] = ids[i];
  }
  ids.resize(kept);
  part.inputs.resize(kept);
}

void GrowingPart::add_output(std::string_view name) {
  const ValueId v = scope.values.at(name);
  if (v == onnx::kUnmadeValue) return;  // whoever reads it says so
  if (onnx::is_sequence(v) || GraphImporter::narrow_type(name, scope))
    onnx::refuse_unsupported(fmt::format(
        "'{}', a sequence or of less than 8 bits, in a model whose sizes depend on values", name));
  const TensorType& type = builder.type(v);
  const auto bytes = checked_byte_size(type.dtype, type.shape);
  const bool is_small = bytes.value_or(kConstantBytes + 1) <= kConstantBytes;
  const HostTensor* known = is_small ? builder.constant_value(v) : nullptr;
  if (known != nullptr) {
    part.constants.emplace(name, *known);
  } else {
    builder.graph().add_output(v, std::string(name));
  }
}

ModelPart GrowingPart::finish() {
  ImportedModel finished;
  finished.inputs = std::move(part.inputs);
  onnx::finish_import(builder, finished);
  if (!finished.inputs.empty() && finished.inputs.back().drawn)
    onnx::refuse_unsupported("random numbers in a model whose sizes depend on values");
  part.inputs = std::move(finished.inputs);
  part.graph = std::move(finished.graph);
  return std::move(part);
}

}  // namespace

struct ModelParts::Impl {
  const ModelDef model;
  const Initializers initializers;
  std::vector<size_t> order;                         ///< of the model's nodes
  std::vector<std::string> origins;                  ///< names of all of the model's nodes
  std::vector<std::vector<std::string_view>> reads;  ///< by node
  std::vector<std::string> outputs;

  explicit Impl(ModelDef read) : model(std::move(read)), initializers(model.graph) {
    onnx::check_versions(model);
    Names names;
    for (const ValueDef& output : model.graph.outputs) {
      names.insert(output.name);
      outputs.emplace_back(output.name);
    }
    order = onnx::order_nodes(model.graph.nodes, {names.begin(), names.end()});
    origins = onnx::origin_names(model.graph.nodes);
    for (size_t n = 0; n < order.size(); ++n) reads.push_back(onnx::names_read(node(n)));
  }
  const onnx::NodeDef& node(size_t n) const { return model.graph.nodes[order[n]]; }
  Names needed(const std::vector<bool>& done) const {
    Names names(outputs.begin(), outputs.end());
    for (size_t n = 0; n < order.size(); ++n) {
      if (!done[n]) names.insert(reads[n].begin(), reads[n].end());
    }
    return names;
  }
  void import_node(size_t n, GrowingPart& growing) const {
    growing.importer.import_node(node(n), growing.scope, origins[order[n]]);
  }
  ModelPart import(std::vector<bool> done, const KnownValues& known) const;
  ModelPart import_node(size_t n, const KnownValues& known, const ImportOptions& options) const;
};

ModelPart ModelParts::Impl::import(std::vector<bool> done, const KnownValues& known) const {
  const ImportOptions no_values;
  GrowingPart growing(model, no_values);
  const GraphImporter& importer = growing.importer;
  const Names wanted = needed(done);
  growing.add_known(known, initializers, wanted);
  Names read;
  for (size_t n = 0; n < order.size(); ++n) {
    if (done[n]) continue;
    const size_t before = importer.mark();
    import_node(n, growing);
    if (importer.mark() > before) {
      growing.part.waiting.push_back(n);
    } else if (!importer.has_refused(node(n), growing.scope)) {
      growing.part.nodes.push_back(n);
      done[n] = true;
      read.insert(reads[n].begin(), reads[n].end());
    }
  }
  if (!importer.lacks_only_values()) importer.throw_refused_nodes();
  growing.drop_inputs(read);
  const Names needed_behind = needed(done);
  for (const size_t n : growing.part.nodes) {
    for (const std::string_view name : node(n).outputs) {
      if (!name.empty() && needed_behind.contains(name)) growing.add_output(name);
    }
  }
  return growing.finish();
}

ModelPart ModelParts::Impl::import_node(size_t n, const KnownValues& known,
                                        const ImportOptions& options) const {
  GrowingPart growing(model, options);
  const Names read(reads[n].begin(), reads[n].end());
  growing.add_known(known, initializers, read);
  import_node(n, growing);
  growing.importer.throw_refused_nodes();
  growing.drop_inputs(read);
  for (const std::string_view name : node(n).outputs) {
    if (!name.empty()) growing.add_output(name);
  }
  growing.part.nodes = {n};
  return growing.finish();
}

ModelParts::ModelParts(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelParts::~ModelParts() = default;

Result<std::unique_ptr<ModelParts>> ModelParts::open(MappedFile model, std::string folder) {
  return guarded([&]() -> Result<std::unique_ptr<ModelParts>> {
    WEFT_ASSIGN_OR_RETURN(ModelDef read, onnx::read_model(std::move(model), std::move(folder)));
    return std::unique_ptr<ModelParts>(new ModelParts(std::make_unique<Impl>(std::move(read))));
  });
}

size_t ModelParts::node_count() const { return impl_->order.size(); }
const std::vector<std::string>& ModelParts::outputs() const { return impl_->outputs; }

Result<std::vector<ImportedInput>> ModelParts::bind(const ImportOptions& options) const {
  return guarded([&]() -> Result<std::vector<ImportedInput>> {
    return onnx::bind_inputs(impl_->model.graph, options);
  });
}

Result<ModelPart> ModelParts::import(const std::vector<bool>& done,
                                     const KnownValues& known) const {
  return guarded([&]() -> Result<ModelPart> { return impl_->import(done, known); });
}

Result<ModelPart> ModelParts::import_node(size_t node, const KnownValues& known,
                                          const std::map<std::string, HostTensor>& values) const {
  return guarded([&]() -> Result<ModelPart> {
    ImportOptions options;
    options.known_inputs = values;
    KnownValues specialised = known;
    while (true) {
      try {
        return impl_->import_node(node, specialised, options);
      } catch (const onnx::NeedsInputs& needs) {
        bool helps = false;
        for (const std::string& name : needs.names) {
          helps = helps || !specialised.at(name).constant;
          specialised.at(name).constant = values.at(name);
        }
        WEFT_CHECK(helps, "specialising does not help");
      }
    }
  });
}

std::vector<std::string> ModelParts::names_needed(const std::vector<bool>& done) const {
  const Names names = impl_->needed(done);
  return {names.begin(), names.end()};
}

std::vector<std::string> ModelParts::names_read(size_t node) const {
  return {impl_->reads[node].begin(), impl_->reads[node].end()};
}

std::string ModelParts::describe(size_t node) const {
  return fmt::format("{} '{}'", impl_->node(node).op_type, impl_->origins[impl_->order[node]]);
}

}  // namespace weft
