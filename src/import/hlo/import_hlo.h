#pragma once

#include <string>
#include <string_view>

#include "import/builder/imported_model.h"
#include "support/result.h"

namespace weft {

/// Whether the text begins as an HLO module does.
bool is_hlo_module(std::string_view text);

/// Reads an HLO module as text, as it is lowered or as XLA prints what it has optimised, into
/// primitives. Inputs are arg0, arg1, … by parameter number (arg0.0, arg0.1, … where a parameter is
/// a tuple), outputs out0, out1, … by place in the flattened root tuple.
///
/// kInvalidInput with line and column: the text breaks HLO's rules, or an option does not fit.
/// kUnsupported: one error lists every instruction that is not supported, with the reason.
Result<ImportedModel> import_hlo(std::string_view text, const ImportOptions& options = {});

}  // namespace weft
