#pragma once

#include <CLI/CLI.hpp>

#include <future>
#include <map>
#include <string>
#include <vector>

#include "driver/load_or_compile.h"
#include "driver/session.h"

namespace weft {

/// Options that all commands on a model share.
struct ModelOptions {
  std::string model;
  std::vector<std::string> inputs;  ///< NAME=FILE
  std::string inputs_npz;
  std::vector<std::string> binds;  ///< DIM=N
  uint64_t seed = 0;
  std::string target = "cpu";
  std::string planner = "auto";
  int threads = 0;
  std::string cache;
  bool no_cache = false;
  bool fast_math = false;
  bool timings = false;
  std::string dump_dir;
  bool verify_cache = false;
  bool unroll = false;
  int vector_bytes = 0;
};

void add_model_options(CLI::App& app, ModelOptions& options);

/// Whether the path names an artefact (.weft) rather than a model.
bool is_artefact(const std::string& path);

/// Tensors given by --input and --inputs, by name.
Result<std::map<std::string, HostTensor>> load_given_inputs(const ModelOptions& options);
Result<CompileOptions> compile_options(const ModelOptions& options,
                                       const std::map<std::string, HostTensor>& given);
/// The devices that a --target with commas names: `cuda` is the one that is there.
Result<std::vector<Target>> device_targets(const std::string& names);

/// Values for the program's inputs, in its order: the given ones, else random ones of a fixed seed,
/// integers within the range that the graph proves safe, else 0 or 1.
Result<std::vector<HostTensor>> program_inputs(const std::vector<ImportedInput>& inputs,
                                               const std::vector<ProgramIo>& program,
                                               const std::map<std::string, HostTensor>& given,
                                               uint64_t seed);
/// The inputs of a graph, in its order.
std::vector<ProgramIo> graph_inputs(const Graph& graph);

/// A model that is ready to run: compiled, or for --target interp only imported, or an artefact.
struct ReadyModel {
  /// Null for an artefact, and where the cache had the whole model.
  std::shared_ptr<Compilation> compilation;
  std::future<void> stored;          ///< see CompiledModel
  std::unique_ptr<Session> session;  ///< null for the interpreter
  std::vector<HostTensor> inputs;
  std::vector<std::string> output_names;
  double compile_ms = 0;
  PlanTotals totals;  ///< zeros for the interpreter
  int64_t unique_kernels = 0, kernels_from_cache = 0;
};
Result<ReadyModel> prepare_model(const ModelOptions& options);
Result<std::vector<HostTensor>> run_model(ReadyModel& model);
void print_timings(const std::vector<PassTiming>& timings, int64_t kernels_from_cache,
                   int64_t unique_kernels);

/// Unsupported targets and file types: exit code 4 with a message that says so.
Status check_target(const std::string& target);
bool is_artefact(const std::string& path);

}  // namespace weft
