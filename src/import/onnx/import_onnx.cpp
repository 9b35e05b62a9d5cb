#include "import/onnx/import_onnx.h"

#include <fmt/format.h>

#include <protozero/exception.hpp>

#include "import/builder/finish_import.h"
#include "import/onnx/bind_inputs.h"
#include "import/onnx/graph_importer.h"
#include "import/onnx/read_model.h"
#include "support/folder_of.h"

namespace weft {
namespace onnx {
namespace {

ImportedModel describe_model(const ModelDef& model) {
  ImportedModel imported;
  imported.node_count = static_cast<int64_t>(model.graph.nodes.size());
  const auto opset = model.opsets.find("");
  imported.opset = opset != model.opsets.end() ? opset->second : 0;
  imported.ir_version = model.ir_version;
  imported.producer = model.producer_name;
  for (const auto& [key, value] : model.metadata) {
    imported.metadata.emplace(std::string(key), std::string(value));
  }
  return imported;
}

/// One import with these inputs as constants. Throws NeedsInputs when that was not enough.
ImportedModel import_once(const ModelDef& model, const ImportOptions& options,
                          const std::set<std::string>& specialised) {
  ImportedModel imported = describe_model(model);
  imported.inputs = bind_inputs(model.graph, options);
  if (options.inputs_bound && specialised.empty()) options.inputs_bound(imported.inputs);
  GraphBuilder builder;
  Scope scope{builder, model.opsets, nullptr, {}, 0, {}, {}};
  GraphImporter importer(model, options);
  for (ImportedInput& input : imported.inputs) {
    ValueId v = kNoValue;
    if (specialised.contains(input.name)) {
      input.specialised = options.known_inputs.at(input.name);
      v = builder.constant(*input.specialised);
      builder.name_value(v, input.name);
    } else {
      input.graph_input = static_cast<int64_t>(builder.graph().inputs.size());
      v = builder.input(input.type, input.name);
    }
    // The key must be a view of the file, which outlives the import.
    for (const ValueDef& def : model.graph.inputs) {
      if (def.name != input.name) continue;
      scope.values[def.name] = v;
      GraphImporter::note_type(def.name, def.element_type, scope);
    }
  }
  importer.import_main(scope);
  finish_import(builder, imported);
  for (const auto& [location, file] : *importer.source().files)
    imported.files.push_back({model.folder + "/" + location, file.bytes});
  return imported;
}

Result<ImportedModel> import_model(const ModelDef& model, const ImportOptions& options) {
  try {
    check_versions(model);
    std::set<std::string> specialised;
    while (true) {
      try {
        return import_once(model, options, specialised);
      } catch (const NeedsInputs& needs) {
        const size_t before = specialised.size();
        specialised.insert(needs.names.begin(), needs.names.end());
        WEFT_CHECK(specialised.size() > before, "specialising does not help");
      }
    }
  } catch (const Refusal& refusal) {
    return refusal.error();
  } catch (const DependsOnRefused&) {
    WEFT_CHECK(false, "a refused value escaped");
  } catch (const protozero::exception&) {
    return invalid_input("a tensor in the model is cut short");
  }
}

}  // namespace
}  // namespace onnx

Result<ImportedModel> import_onnx(const std::string& path, const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(MappedFile file, map_file(path));
  auto imported = import_onnx(file.bytes, file.owner, folder_of(path), options);
  if (imported.ok()) {
    imported->files.insert(imported->files.begin(), {path, file.bytes});
    return imported;
  }
  return Error{imported.error().code, fmt::format("'{}': {}", path, imported.error().message)};
}

Result<OnnxSignature> onnx_signature(MappedFile model) {
  WEFT_ASSIGN_OR_RETURN(const onnx::ModelDef read, onnx::read_model(std::move(model), {}));
  std::set<std::string_view> initialised;
  for (const onnx::TensorDef& tensor : read.graph.initializers) initialised.insert(tensor.name);
  OnnxSignature signature;
  try {
    for (const onnx::ValueDef& output : read.graph.outputs)
      signature.outputs.push_back(onnx::declared(output));
    for (const onnx::ValueDef& input : read.graph.inputs) {
      if (!initialised.contains(input.name)) signature.inputs.push_back(onnx::declared(input));
    }
  } catch (const onnx::Refusal& refusal) {
    return refusal.error();
  }
  return signature;
}

Result<OnnxSignature> onnx_signature(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(MappedFile file, map_file(path));
  auto signature = onnx_signature(std::move(file));
  if (signature.ok()) return signature;
  return Error{signature.error().code, fmt::format("'{}': {}", path, signature.error().message)};
}

Result<ImportedModel> import_onnx(std::span<const std::byte> model,
                                  std::shared_ptr<const void> owner, const std::string& folder,
                                  const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const onnx::ModelDef read,
                        onnx::read_model({std::move(owner), model}, folder));
  return onnx::import_model(read, options);
}

}  // namespace weft
