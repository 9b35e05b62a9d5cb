#include "driver/lower_kernels.h"

#include <optional>
#include <utility>
#include <vector>

#include "driver/generate_kernels.h"
#include "driver/kernel_notes.h"
#include "driver/placed_kernels.h"
#include "lower/lower.h"
#include "runtime/thread_pool.h"
#include "support/for_each_in_parallel.h"
#include "tile/rewrite/open_sizes.h"

namespace weft {

namespace {

/// A planned kernel, and the program at the other binding that holds the same expressions; null
/// where there is none.
struct Planned {
  const PlannedKernel* kernel = nullptr;
  const TensorProgram* other = nullptr;
  bool in_region = false;
};

struct Lowered {
  KernelFunction kernel;
  std::vector<int64_t> arguments;
  std::optional<Hash128> note_key;
  std::optional<KnownCode> code;  ///< the kernel then has no instructions
};

/// Numbers the kernels of a plan and of its regions' plans, in the order of first use.
void collect_kernels(Compilation& c, const FusionPlan& plan, const TensorProgram* other,
                     bool in_region, std::vector<Planned>* kernels) {
  std::vector<size_t>& numbers = c.kernel_of[&plan];
  for (const PlannedKernel& kernel : plan.kernels) {
    numbers.push_back(kernels->size());
    kernels->push_back({&kernel, other, in_region});
  }
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    for (size_t r = 0; r < plan.regions[o].size(); ++r) {
      const TensorProgram* inside = other == nullptr ? nullptr : other->opaques[o].regions[r].get();
      collect_kernels(c, *plan.regions[o][r], inside, true, kernels);
    }
  }
}

/// The tile program with the numbers that depend on the binding open; as it was planned where more
/// than such numbers differs at the other binding.
OpenTileProgram opened(const Planned& planned, const Target& target) {
  const PlannedKernel& kernel = *planned.kernel;
  const TileProgram& here = kernel.schedule.program;
  if (planned.other == nullptr) return {here, {}};
  const auto there =
      build_leaf(*planned.other, kernel.group, kernel.schedule.composition, target, kernel.name);
  if (!there.ok()) return {here, {}};
  auto open = open_sizes(here, there->program);
  return open ? std::move(*open) : OpenTileProgram{here, {}};
}

Result<Lowered> lower(const Planned& planned, const Target& target, KernelNotes* notes) {
  const ScheduledKernel& here = planned.kernel->schedule;
  OpenTileProgram open = opened(planned, target);
  Lowered out;
  out.arguments = std::move(open.values);
  if (target.is_gpu()) {
    WEFT_ASSIGN_OR_RETURN(out.kernel, lower_to_kernel(here.program, here.scopes, target));
    out.kernel.library = here.library;
    return out;
  }
  WEFT_ASSIGN_OR_RETURN(KernelFunction outline, kernel_outline(here.program, here.scopes, target));
  if (notes != nullptr) {
    out.note_key = KernelNotes::key(open.program, here.scopes, outline, target);
    out.code = notes->find(*out.note_key);
    if (out.code) {
      out.kernel = std::move(outline);
      out.kernel.argument_count = static_cast<int32_t>(out.arguments.size());
      return out;
    }
  }
  WEFT_ASSIGN_OR_RETURN(out.kernel, lower_to_kernel(open.program, here.scopes, target));
  WEFT_CHECK(out.kernel.buffers.size() == outline.buffers.size() &&
                 out.kernel.phases.size() == outline.phases.size(),
             "the memory of " + planned.kernel->name + " depends on open sizes");
  out.kernel.buffers = std::move(outline.buffers);
  for (size_t p = 0; p < outline.phases.size(); ++p)
    out.kernel.phases[p].work_items = outline.phases[p].work_items;
  return out;
}

/// Whether nothing but the program is asked for: then kernels whose code is there need no
/// instructions.
bool wants_code_alone(const CompileOptions& o) {
  return !o.cache_dir.empty() && !o.fast_math && !o.verify && !o.tamper && o.dump_dir.empty() &&
         o.stop_after.empty();
}

}  // namespace

Status lower_kernels(Compilation& c) {
  std::vector<Planned> planned;
  const Compilation* other = c.other ? c.other->get() : nullptr;
  collect_kernels(c, c.plan, other == nullptr ? nullptr : &other->tensors, false, &planned);
  const std::unique_ptr<CacheFolder> cache =
      wants_code_alone(c.options) && !c.target.is_gpu() ? open_cache(c.options) : nullptr;
  std::optional<KernelNotes> notes;
  if (cache) notes.emplace(*cache);
  std::vector<std::optional<Result<Lowered>>> made(planned.size());
  for_each_in_parallel(planned.size(), available_cores(), [&](size_t k) {
    made[k].emplace(lower(planned[k], c.target, notes ? &*notes : nullptr));
  });
  for (size_t k = 0; k < planned.size(); ++k) {
    if (!made[k]->ok()) return made[k]->take_error();
    Lowered& lowered = **made[k];
    WEFT_RETURN_IF_ERROR(finish_kernel(c, planned[k].in_region, lowered.kernel));
    c.kernels.push_back(std::move(lowered.kernel));
    c.arguments.push_back(std::move(lowered.arguments));
    c.note_keys.push_back(lowered.note_key);
    c.known_code.push_back(std::move(lowered.code));
  }
  c.other.reset();  // its constants are not needed beside packed ones
  return {};
}

}  // namespace weft
