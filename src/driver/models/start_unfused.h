#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/compile_options.h"
#include "driver/models/prepare_model.h"
#include "import/builder/imported_model.h"
#include "runtime/later_programs.h"
#include "runtime/switching_context.h"

namespace weft {

/// A model that is compiled in two ways at once (FusionStitching 2021, section 6): unfused, by a
/// thread of low priority that takes what the other leaves idle, and as the options say. What is
/// ready first runs.
struct StartedModel {
  StartedPrograms programs;
  std::vector<ImportedInput> inputs;
  std::map<std::string, std::string> metadata;
  /// The writing of entries in the cache: whoever drops it waits for that.
  std::shared_ptr<const void> stored;
};

/// Errors as those of load_or_compile by the options' plan, where neither compiles. The options'
/// flag is seen, and their callbacks are called, as long as `programs.later` works; progress tells
/// of the compilation by their plan.
Result<StartedModel> start_unfused(const ModelSource& source, const CompileOptions& options);

/// A started model that is ready to run.
struct StartedRun {
  StartedModel model;
  std::unique_ptr<SwitchingContext> context;
  std::vector<HostTensor> inputs;
  std::vector<ProgramIo> outputs;
};
/// Error (kInvalidInput): what is not compiled here: an artefact, the interpreter, the emulator.
Result<StartedRun> prepare_unfused(const ModelRequest& request);

/// Fresh outputs.
Result<std::vector<HostTensor>> run_model(StartedRun& run);

}  // namespace weft
