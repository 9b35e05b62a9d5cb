#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assemble/build_program.h"
#include "choice/measured_compositions.h"
#include "codegen/cpu/compile_kernels.h"
#include "driver/cache/model_files.h"
#include "driver/compile_options.h"
#include "driver/explain/explained.h"
#include "driver/explain/plan_totals.h"
#include "driver/model_source.h"
#include "expr/tensor_program.h"
#include "import/builder/imported_model.h"
#include "kernel/kernel_function.h"
#include "plan/fusion_plan.h"
#include "plan/planners/planners.h"
#include "plan/planning_memory.h"
#include "runtime/program.h"
#include "target/target.h"

namespace weft {

/// A kernel of the plan, or of the plan of a region, on its way from tile program to code.
struct CompiledKernel {
  PlannedKernel* planned = nullptr;        ///< null for one that is of no plan
  const TensorProgram* tensors = nullptr;  ///< what it was planned from
  bool in_region = false;
  KernelFunction function;
  std::vector<int64_t> arguments;  ///< of its launches
  /// How many of them, behind the others, are numbers that equal kernels have of their own
  /// (kernel/share_literals.h).
  size_t literals = 0;
  /// With a cache on disk: under which key its code is noted there (driver/cache/kernel_notes.h),
  /// and the code, if it was found. `function` has no instructions then.
  std::optional<Hash128> note_key;
  std::optional<KnownCode> known_code;
  int32_t image = -1;  ///< number of its code in the program
};

struct PassTiming {
  std::string name;
  double milliseconds = 0;
};

struct Compilation;
using OtherCompilation = std::shared_future<std::shared_ptr<Compilation>>;

/// A model on its way: every level that has been reached. What a later pass replaces stays as it
/// was for printing.
struct Compilation {
  ModelSource source = "";
  std::string model;  ///< its name
  CompileOptions options;
  Target target;
  const Planner* planner = nullptr;
  /// Whether products of one input become one before the model is planned, as the planner has it.
  bool merges_products = false;
  /// Whether what repeats becomes a scan on a GPU, too, and scans above or beside each other one
  /// (rewrite/roll_loops.h, skew_scans.h, unite_scans.h), before the model is planned.
  bool rolls = false, skews = false, unites = false;
  /// How often element-wise expressions may be computed to go into their readers; 0: none does.
  double recompute = 0;
  /// PlannerParameters::filter, and what was made so; a plan's text says which tensors are.
  int64_t filter = 0;
  std::optional<std::vector<std::string>> filtered;
  ImportedModel imported;
  Graph graph;                    ///< after the rewrites
  MeasuredCompositions measured;  ///< of the options' library, on the target
  TensorProgram tensors;          ///< after vertical and horizontal transformation
  /// Of a model that leaves dimensions open: the same at other extents up to its tensor program,
  /// for comparison (driver/other_binding.h), made on a thread of its own. Not valid where nothing
  /// is open; null where the model does not allow that binding.
  OtherCompilation other;
  /// Begins the same at smaller extents, for a model that is another program at larger ones.
  std::function<OtherCompilation()> begin_smaller;
  FusionPlan plan;
  std::shared_ptr<PlanningMemory> planning;  ///< while it is planned, in one form after another
  /// Peak of the arena between kernels, as planned and with every expression a kernel of its own.
  int64_t planned_arena_bytes = 0, unfused_arena_bytes = 0;
  /// Of the plan and its regions' plans, in order of first use.
  std::vector<CompiledKernel> kernels;
  /// What --fast-math put in the place of exact operations ("k0_y: 2 divisions…"), and --precision.
  std::vector<std::string> substitutions;
  /// What became of kernels whose code spills registers.
  std::vector<std::string> device_notes;
  Program program;
  ModelFiles files;  ///< of the model, with a cache on disk
  /// By constant of the program: its key in the cache, when it is a view of an entry there.
  std::vector<std::optional<Hash128>> cached_constants;
  std::vector<PassTiming> timings;
  int64_t kernels_from_cache = 0;
  int64_t unique_kernels = 0;
};

/// The model at the other binding, once it is made; null where there is none.
Compilation* other_binding_of(const Compilation& c);

/// The functions of the kernels, in their order.
std::vector<const KernelFunction*> functions_of(const Compilation& c);

/// What build_program needs to know of the kernels of a compilation that has code.
CodeOfPlan code_of_plan(const Compilation& c);

/// Sums over a run of its plan.
PlanTotals totals_of(const Compilation& c);

/// Views of what explain_text and explain_json tell.
Explained explained(const Compilation& c);

}  // namespace weft
