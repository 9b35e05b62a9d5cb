#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/builder/imported_model.h"
#include "kernel/kernel_function.h"
#include "library/performance_library.h"
#include "support/entry_cache.h"
#include "target/target.h"

namespace weft {

/// How far a compilation is. `done` of `total` kernels, in the pass that generates their code; 0 of
/// 0 where a pass begins.
struct CompileProgress {
  std::string_view pass;
  int64_t done = 0, total = 0;
};

/// In which type contractions multiply: that of the model, or bfloat16
/// (expr/products/round_factors.h).
enum class Precision : uint8_t { kModel, kBFloat16 };
std::string_view precision_name(Precision precision);
/// "model" or "bf16".
Result<Precision> parse_precision(std::string_view name);

struct CompileOptions {
  std::string planner = "auto";  ///< a name of plan/planners.h
  /// Kinds of compositions that the planner may try, `leaf,block,grid,chain,recur,cluster`; empty:
  /// its own.
  std::string compositions;
  std::string planner_parameters;  ///< `top=5,beam=8` (plan/planners/planner_parameters.h)
  /// The text of a plan that is built as it stands, in the place of what the planner would make:
  /// its name is in the text. Where it came from, for messages.
  std::string plan_text, plan_source;
  /// Rows of a performance library, which the planner goes by where they are of the target; null:
  /// none.
  std::shared_ptr<const std::vector<MeasuredRow>> measured;
  /// Contractions count as library calls, each alone (PlanOptions): for comparing plans.
  bool compute_as_calls = false;
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
  Precision precision = Precision::kModel;
  bool unroll = false;  ///< write recurrences out
  bool fixed_sizes =
      false;              ///< constants in the code even for dimensions that the model leaves open
  bool verify = false;    ///< every level after every pass
  std::string cache_dir;  ///< empty: no cache on disk
  /// What this compilation shares with others of the process where there is no folder; null:
  /// nothing.
  std::shared_ptr<EntryCache> shared;
  bool verify_cache = false;  ///< hash whole files, of the model and of the cache
  std::string dump_dir;       ///< empty: none; otherwise each level before and after each pass
  std::string stop_after;     ///< name of a pass, or kImportPass; later ones do not run
  /// Where an internal error leaves a reproducer, which its message then names; empty: nowhere.
  std::string reproducer_dir;
  std::function<void(const std::string&)> warn;
  /// Once true, the compilation stops between passes and kernels with kInterrupted; set from any
  /// thread, also from a signal handler.
  const std::atomic<bool>* cancel = nullptr;
  /// Called by one thread at a time, not always the same one.
  std::function<void(const CompileProgress&)> progress;
  /// Called on every kernel between lowering and code generation: for tests that plant a defect.
  std::function<void(KernelFunction&)> tamper;
};

/// What reading a model is called among the passes.
inline constexpr const char* kImportPass = "import";

/// kInterrupted where the options' flag says so.
Status check_cancelled(const CompileOptions& options);

/// The folder that the options name, else the memory that they share; nullptr where there is none.
std::shared_ptr<EntryCache> open_cache(const CompileOptions& options);
bool has_cache(const CompileOptions& options);

}  // namespace weft
