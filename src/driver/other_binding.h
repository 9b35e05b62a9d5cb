#pragma once

#include <optional>
#include <vector>

#include "driver/compile_options.h"
#include "import/builder/imported_model.h"

namespace weft {

/// How to compile a model once more, with the dimensions that it leaves open bound otherwise: where
/// the two tensor programs differ, numbers come from the binding. Extents are those at hand times
/// 2, 3, …, by the names of the dimensions; those of 1 stay, as they make no axis. nullopt where
/// nothing is open.
///
/// `inputs` are bound to shapes, and the model's nodes may be still to read. A model that is
/// specialised on values, which belong to the shapes at hand, has no use for it.
std::optional<CompileOptions> other_binding(const CompileOptions& as_first,
                                            const std::vector<ImportedInput>& inputs);

}  // namespace weft
