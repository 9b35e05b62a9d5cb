#include "import/hlo/import_hlo.h"

#include <fmt/format.h>

#include <algorithm>

#include "import/builder/refusal.h"
#include "import/hlo/module_importer.h"
#include "import/hlo/parse_module.h"

namespace weft {
namespace {

/// An HLO module leaves nothing open: what is known of its inputs must agree with it.
Status check_options(const ImportedModel& model, const ImportOptions& options) {
  if (!options.bind.empty()) {
    return invalid_input(
        fmt::format("there is no dimension '{}' to bind: an HLO module has none "
                    "that are open",
                    options.bind.begin()->first));
  }
  for (const ImportedInput& input : model.inputs) {
    const auto found = options.shapes.find(input.name);
    if (found == options.shapes.end() || found->second == input.type.shape) continue;
    return invalid_input(
        fmt::format("input '{}' is {} in the module and has another shape as given", input.name,
                    print(input.type)));
  }
  return {};
}

}  // namespace

bool is_hlo_module(std::string_view text) { return hlo::is_hlo_text(text); }

Result<ImportedModel> import_hlo(std::string_view text, const ImportOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const hlo::HloModule module, hlo::parse_module(text));
  try {
    ImportedModel model = hlo::ModuleImporter(module).run();
    WEFT_RETURN_IF_ERROR(check_options(model, options));
    if (options.inputs_bound) options.inputs_bound(model.inputs);
    return model;
  } catch (const onnx::Refusal& refusal) {
    return refusal.error();
  }
}

}  // namespace weft
