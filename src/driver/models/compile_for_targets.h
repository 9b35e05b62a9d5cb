#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "driver/models/load_or_compile.h"
#include "driver/models/prepare_model.h"
#include "support/result.h"

namespace weft {

/// Compiles a model for each target of the request (NAME,NAME), as an artefact holds them. For a
/// CPU a program whose kernels multiply bytes or bfloat16 comes twice: with the instructions for
/// that, and for the x86-64 level alone. For a GPU one that has barriers of the grid also without
/// them, for devices that hold fewer blocks at a time. `fallback` false: without the second ones,
/// and without the code that does the work of library calls where the library is missing.
/// kInvalidInput for targets without artefacts.
Result<std::vector<CompiledModel>> compile_for_targets(const ModelRequest& request, bool fallback);

/// Extents of symbolic dimensions, by name.
using Binding = std::map<std::string, int64_t>;

/// The same for each of several bindings, beside those of the request (Souffle §9: versions by
/// shape). Which program runs, the shapes of a run's inputs decide.
/// kInvalidInput also where two of them give the inputs the same shapes.
Result<std::vector<CompiledModel>> compile_versions(const ModelRequest& request,
                                                    const std::vector<Binding>& versions,
                                                    bool fallback);

}  // namespace weft
