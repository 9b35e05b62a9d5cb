#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/compile_kernels.h"
#include "driver/model_files.h"
#include "driver/other_binding.h"
#include "driver/program_builder.h"
#include "expr/tensor_program.h"
#include "import/onnx/import_onnx.h"
#include "kernel/kernel_function.h"
#include "plan/fusion_plan.h"
#include "runtime/program.h"
#include "support/result.h"
#include "target/target.h"

namespace weft {

struct CompileOptions {
  std::string planner = "auto";
  int threads = 0;               ///< 0: all that the process may use
  int max_vector_bytes = 0;      ///< 0: the machine's
  std::optional<Target> device;  ///< planned and generated for instead of this machine
  /// With a GPU as `device`: its kernels are compiled to cubins; without, they are left as text.
  bool device_code = false;
  ImportOptions import;
  /// Shorter recipes for some operations, listed in Compilation::substitutions: divisions by what a
  /// loop does not change (kernel/divide_by_invariants.h) and exponentials
  /// (kernel/shorten_exponentials.h), which say how far they may be off.
  bool fast_math = false;
  bool unroll = false;  ///< write recurrences out
  bool fixed_sizes =
      false;              ///< constants in the code even for dimensions that the model leaves open
  bool verify = false;    ///< every level after every pass
  std::string cache_dir;  ///< empty: no cache on disk
  bool verify_cache = false;  ///< hash whole files, of the model and of the cache
  std::string dump_dir;       ///< empty: none; otherwise each level before and after each pass
  std::string stop_after;     ///< name of a pass, or kImportPass; later ones do not run
  /// Where an internal error leaves a reproducer, which its message then names; empty: nowhere.
  std::string reproducer_dir;
  std::function<void(const std::string&)> warn;
  /// Called on every kernel between lowering and code generation: for tests that plant a defect.
  std::function<void(KernelFunction&)> tamper;
};

struct PlanTotals {
  int64_t ops = 0;                                  ///< nodes of the model
  int64_t memory_kernels = 0, compute_kernels = 0;  ///< in the plan, not launches
  int64_t library_calls = 0;                        ///< the same, of a vendor's library
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
  double predicted_us = 0;
};

/// What reading a model is called among the passes.
inline constexpr const char* kImportPass = "import";

struct PassTiming {
  std::string name;
  double milliseconds = 0;
};

/// A model on its way: every level that has been reached. What a later pass replaces stays as it
/// was for printing.
struct Compilation {
  std::string model;
  CompileOptions options;
  Target target;
  ImportedModel imported;
  Graph graph;            ///< after the rewrites
  TensorProgram tensors;  ///< after vertical and horizontal transformation
  /// Of a model that leaves dimensions open: the same at other extents, for comparison.
  std::unique_ptr<OtherBinding> other;
  FusionPlan plan;
  /// Peak of the arena between kernels, as planned and with every expression a kernel of its own.
  int64_t planned_arena_bytes = 0, unfused_arena_bytes = 0;
  std::vector<KernelFunction>
      kernels;  ///< of the plan and its regions' plans, in order of first use
  std::map<const FusionPlan*, std::vector<size_t>>
      kernel_of;  ///< by plan: its kernels' numbers in `kernels`
  /// What --fast-math put in the place of exact operations, kernel by kernel: "k0_y: 2 divisions…".
  std::vector<std::string> substitutions;
  /// What became of kernels whose code spills registers.
  std::vector<std::string> device_notes;
  std::vector<std::vector<int64_t>> arguments;  ///< by kernel: of its launches
  /// By kernel, with a cache on disk: under which key its code is noted there (driver/
  /// kernel_notes.h), and the code, if it was found. Such kernels have no instructions.
  std::vector<std::optional<Hash128>> note_keys;
  std::vector<std::optional<KnownCode>> known_code;
  std::vector<int32_t> image_of;  ///< by kernel: its image in the program
  Program program;
  ModelFiles files;  ///< of the model, with a cache on disk
  /// By constant of the program: its key in the cache folder, when it is a view of a file there.
  std::vector<std::optional<Hash128>> cached_constants;
  std::vector<PassTiming> timings;
  int64_t kernels_from_cache = 0;
  int64_t unique_kernels = 0;
};

/// One step of the pipeline; the list is in pipeline.cpp.
struct Pass {
  const char* name;
  const char* level;  ///< of what it makes: graph, tensor-program, plan, tile-program, kernel, code
  Result<bool> (*run)(Compilation&);  ///< whether it changed the level
};
/// Those that make a graph come first and run, in turn, until a round changes nothing; the others
/// run once.
const std::vector<Pass>& pipeline();

/// What build_program needs to know of the kernels of a compilation that has code.
CodeOfPlan code_of_plan(const Compilation& c);

/// Runs the pipeline on a .onnx or .graph file. Internal errors come back as kInternal, with the
/// path of a reproducer where the options name a folder for it.
Result<std::unique_ptr<Compilation>> compile_model(const std::string& path,
                                                   const CompileOptions& options);
/// The same from a graph made elsewhere.
Result<std::unique_ptr<Compilation>> compile_graph(Graph graph, const CompileOptions& options);

/// Text of a level that the compilation has reached: graph, tensor-program, plan, tile-program,
/// kernel, code.
Result<std::string> print_level(const Compilation& compilation, const std::string& level);

}  // namespace weft
