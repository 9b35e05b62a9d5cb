#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "driver/compilation.h"
#include "driver/models/model_in_parts.h"
#include "driver/models/model_inputs.h"
#include "driver/session.h"
#include "support/result.h"

namespace weft {

/// A model, how to compile it and what to run it on.
struct ModelRequest {
  std::string model;  ///< a model's file or an artefact
  /// cpu, interp (the reference interpreter), simt (CUDA text on an emulator), or what
  /// target_by_name knows.
  std::string target = "cpu";
  CompileOptions options;  ///< but for the device, which the target says
  GivenInputs inputs;
};

/// Whether the path names an artefact (.weft) rather than a model.
bool is_artefact(const std::string& path);

/// The request's options with the device that its target names, a single one; none for cpu and
/// interp. It need not be there, and a CPU may have what this one lacks.
Result<CompileOptions> options_for_target(const ModelRequest& request);

/// The same for running here: with code for the device, which must be there (kMissingDevice).
Result<CompileOptions> options_for_machine(const ModelRequest& request);

/// A model that is ready to run: compiled, or for the interpreter only imported, or an artefact.
struct ReadyModel {
  /// Null for an artefact, and where the cache had the whole model.
  std::shared_ptr<Compilation> compilation;
  std::future<void> stored;          ///< see CompiledModel
  std::unique_ptr<Session> session;  ///< null for the interpreter, and where there are parts
  /// Of a model whose sizes depend on values, which is compiled while it runs; else null.
  std::unique_ptr<ModelInParts> parts;
  std::vector<HostTensor> inputs;
  std::vector<std::string> output_names;
  double compile_ms = 0;
  std::vector<PassTiming> timings;  ///< empty for an artefact
  PlanTotals totals;                ///< zeros for the interpreter
  int64_t unique_kernels = 0, kernels_from_cache = 0;
  std::vector<std::string> notes;  ///< what runs otherwise here than it was compiled for
};
Result<ReadyModel> prepare_model(const ModelRequest& request);

Result<std::vector<HostTensor>> run_model(ReadyModel& model);

}  // namespace weft
