#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "driver/compile_options.h"
#include "import/builder/imported_model.h"

namespace weft {

/// A size that decides (what is small enough to compute at once) may lie between an extent and
/// twice that: then the model is another program at larger extents, and the same at smaller ones.
enum class OtherExtents : uint8_t { kLarger, kSmaller };

/// How to compile a model once more, with the dimensions that it leaves open bound otherwise: where
/// the two tensor programs differ, numbers come from the binding. Extents are those at hand times
/// 2, 3, …, by the names of the dimensions, or divided by these; those of 1 stay, as they make no
/// axis. nullopt where nothing is open.
///
/// `inputs` are bound to shapes, and the model's nodes may be still to read. A model that is
/// specialised on values, which belong to the shapes at hand, has no use for it.
std::optional<CompileOptions> other_binding(const CompileOptions& as_first,
                                            const std::vector<ImportedInput>& inputs,
                                            OtherExtents which);

}  // namespace weft
