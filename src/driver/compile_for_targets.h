#pragma once

#include <string>
#include <vector>

#include "driver/load_or_compile.h"
#include "driver/prepare_model.h"
#include "support/result.h"

namespace weft {

/// Compiles a model for each target of the request (NAME,NAME), as an artefact holds them. For a
/// CPU a program whose kernels multiply bytes or bfloat16 comes twice: with the instructions for
/// that, and for the x86-64 level alone. For a GPU one that has barriers of the grid also without
/// them, for devices that hold fewer blocks at a time. `fallback` false: without the second ones,
/// and without the code that does the work of library calls where the library is missing.
/// kInvalidInput for targets without artefacts.
Result<std::vector<CompiledModel>> compile_for_targets(const ModelRequest& request, bool fallback);

}  // namespace weft
