#include "driver/lower_kernels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "driver/cache/kernel_notes.h"
#include "expr/movement/open_axes.h"
#include "group/group_key.h"
#include "lower/lower.h"
#include "runtime/thread_pool.h"
#include "support/for_each_in_parallel.h"
#include "tile/check/fits.h"
#include "tile/rewrite/open_sizes.h"

namespace weft {

namespace {

/// A kernel, and the program at the other binding that holds the same expressions; null where there
/// is none.
struct Planned {
  CompiledKernel kernel;
  const TensorProgram* other = nullptr;
  const Planned* first = nullptr;  ///< that is equal at both bindings, but for names; null: itself
};

/// The kernels of a plan and of its regions' plans, in the order of first use.
void collect_kernels(FusionPlan& plan, const TensorProgram& tensors, const TensorProgram* other,
                     int depth, std::vector<Planned>* kernels) {
  for (PlannedKernel& kernel : plan.kernels) {
    Planned& planned = kernels->emplace_back();
    planned.other = other;
    planned.kernel.planned = &kernel;
    planned.kernel.tensors = &tensors;
    // What runs a whole loop is handed no slices of it.
    planned.kernel.in_region = depth > (kernel.loop ? 1 : 0);
  }
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    for (size_t r = 0; r < plan.regions[o].size(); ++r) {
      const TensorProgram* inside = other == nullptr ? nullptr : other->opaques[o].regions[r].get();
      collect_kernels(*plan.regions[o][r], *tensors.opaques[o].regions[r], inside, depth + 1,
                      kernels);
    }
  }
}

/// Keys of kernels that differ in names alone, at both bindings, as those of equal layers do.
class EqualKernels {
 public:
  /// nullopt for what is more than its groups.
  std::optional<Hash128> key_of(const Planned& planned) {
    const PlannedKernel& kernel = *planned.kernel.planned;
    if (planned.other == nullptr || kernel.loop || !kernel.loops.empty() || !kernel.copies.empty())
      return std::nullopt;
    Hasher hasher;
    hasher.add_value(planned.kernel.in_region ? 1 : 0);
    hasher.add_value(kernel.rereads ? 1 : 0);
    hasher.add_value(kernel.waits ? 1 : 0);
    for (const TensorProgram* program : {planned.kernel.tensors, planned.other}) {
      GroupKeys& keys = keys_.try_emplace(program, *program).first->second;
      add(keys, kernel.group, hasher);
      for (const Group& member : kernel.members) add(keys, member, hasher);
    }
    return hasher.digest128();
  }

 private:
  static void add(GroupKeys& keys, const Group& group, Hasher& hasher) {
    const Hash128 hash = keys.of(group).hash;
    hasher.add_value(group.exprs.size());
    hasher.add_value(hash.high);
    hasher.add_value(hash.low);
  }

  std::map<const TensorProgram*, GroupKeys> keys_;
};

void find_equal_kernels(std::vector<Planned>& planned) {
  EqualKernels equal;
  std::map<Hash128, const Planned*> first_of;
  for (Planned& p : planned) {
    const std::optional<Hash128> key = equal.key_of(p);
    if (!key) continue;
    const Planned* first = first_of.try_emplace(*key, &p).first->second;
    const auto& composition = first->kernel.planned->schedule.composition;
    if (first != &p && p.kernel.planned->schedule.composition == composition) p.first = first;
  }
}

/// Whether the kernel's expressions are those of the other binding.
bool is_there(const Planned& planned) {
  if (planned.other == nullptr) return false;
  const auto is_same = [&](const Group& group) {
    return std::ranges::all_of(group.exprs, [&](ExprId e) {
      return differs_in_numbers_only(planned.kernel.tensors->exprs[static_cast<size_t>(e)],
                                     planned.other->exprs[static_cast<size_t>(e)]);
    });
  };
  const PlannedKernel& kernel = *planned.kernel.planned;
  return is_same(kernel.group) && std::ranges::all_of(kernel.members, is_same);
}

/// The tile program with the numbers that depend on the binding open; as it was planned where more
/// than such numbers differs at the other binding.
OpenTileProgram opened(const Planned& planned, const Target& target) {
  const PlannedKernel& kernel = *planned.kernel.planned;
  const TileProgram& here = kernel.schedule.program;
  if (!is_there(planned)) return {here, {}};
  const auto there = build_kernel(*planned.other, kernel, kernel.schedule.composition, target);
  if (!there.ok()) return {here, {}};
  auto open = open_sizes(here, there->program);
  return open ? std::move(*open) : OpenTileProgram{here, {}};
}

/// Kernels are compiled for the residency that they were priced with.
void bound_registers(const PlannedKernel& planned, const ScheduledKernel& schedule,
                     const Target& target, KernelFunction* f) {
  if (!is_bounded(schedule.program, planned.is_compute) || f->blocks_per_sm > 0) return;
  const int64_t blocks = bounded_blocks_per_sm(schedule.program, schedule.scopes, target);
  const int64_t held = resident_blocks_per_sm(target, int64_t{f->warps} * 32, 1, f->shared_bytes);
  f->blocks_per_sm = static_cast<int32_t>(std::max<int64_t>(std::min(blocks, held), 1));
}

/// The code of the kernel that is equal to this one, where it is there.
Result<bool> take_code_of_first(const Target& target, Planned& planned) {
  if (planned.first == nullptr || !planned.first->kernel.known_code) return false;
  CompiledKernel& kernel = planned.kernel;
  const ScheduledKernel& here = kernel.planned->schedule;
  WEFT_ASSIGN_OR_RETURN(kernel.function, kernel_outline(here.program, here.scopes, target));
  const CompiledKernel& first = planned.first->kernel;
  kernel.arguments = first.arguments;
  kernel.literals = first.literals;
  kernel.note_key = first.note_key;
  kernel.known_code = first.known_code;
  kernel.function.argument_count = first.function.argument_count;
  return true;
}

Status lower(const Target& target, const KernelNotes* notes, Planned* planned) {
  CompiledKernel& kernel = planned->kernel;
  const ScheduledKernel& here = kernel.planned->schedule;
  OpenTileProgram open = opened(*planned, target);
  kernel.arguments = std::move(open.values);
  if (target.is_gpu()) {
    WEFT_ASSIGN_OR_RETURN(kernel.function, lower_to_kernel(here.program, here.scopes, target));
    kernel.function.library = here.library;
    bound_registers(*kernel.planned, here, target, &kernel.function);
    return {};
  }
  WEFT_ASSIGN_OR_RETURN(KernelFunction outline, kernel_outline(here.program, here.scopes, target));
  if (notes != nullptr) {
    kernel.note_key = KernelNotes::key(open.program, here.scopes, outline, target);
    if (std::optional<NotedCode> noted = notes->find(*kernel.note_key)) {
      kernel.known_code = std::move(noted->code);
      kernel.literals = noted->literals.size();
      kernel.arguments.insert(kernel.arguments.end(), noted->literals.begin(),
                              noted->literals.end());
      kernel.function = std::move(outline);
      kernel.function.argument_count = static_cast<int32_t>(kernel.arguments.size());
      return {};
    }
  }
  WEFT_ASSIGN_OR_RETURN(kernel.function, lower_to_kernel(open.program, here.scopes, target));
  WEFT_CHECK(kernel.function.buffers.size() == outline.buffers.size() &&
                 kernel.function.phases.size() == outline.phases.size(),
             "the memory of " + kernel.planned->name + " depends on open sizes");
  kernel.function.buffers = std::move(outline.buffers);
  for (size_t p = 0; p < outline.phases.size(); ++p)
    kernel.function.phases[p].work_items = outline.phases[p].work_items;
  return {};
}

/// Slices that a loop hands to its body start at any element.
void forget_alignment(KernelFunction& kernel) {
  for (KernelBuffer& b : kernel.buffers) {
    const bool own =
        b.kind == KernelBuffer::Kind::kWorkspace || b.kind == KernelBuffer::Kind::kShared;
    if (!own) b.alignment = static_cast<int32_t>(byte_size(b.dtype));
  }
}

/// What follows the lowering of each kernel, in their order.
Status finish_kernel(const Compilation& c, bool in_region, KernelFunction& f) {
  if (f.is_gpu() && in_region) forget_alignment(f);
  if (c.options.tamper) c.options.tamper(f);
  return c.options.verify ? verify_kernel(f) : Status();
}

/// Whether nothing but the program is asked for: then kernels whose code is there need no
/// instructions.
bool wants_code_alone(const CompileOptions& o) {
  return has_cache(o) && !o.fast_math && !o.verify && !o.tamper && o.dump_dir.empty() &&
         o.stop_after.empty();
}

}  // namespace

Status lower_kernels(Compilation& c) {
  std::vector<Planned> planned;
  const Compilation* other = other_binding_of(c);
  collect_kernels(c.plan, c.tensors, other == nullptr ? nullptr : &other->tensors, 0, &planned);
  const std::shared_ptr<EntryCache> cache =
      wants_code_alone(c.options) && !c.target.is_gpu() ? open_cache(c.options) : nullptr;
  std::optional<KernelNotes> notes;
  if (cache) notes.emplace(*cache);
  if (notes) find_equal_kernels(planned);
  std::vector<Status> made(planned.size());
  const auto lower_one = [&](size_t k) -> Status {
    WEFT_RETURN_IF_ERROR(check_cancelled(c.options));
    WEFT_ASSIGN_OR_RETURN(const bool taken, take_code_of_first(c.target, planned[k]));
    return taken ? Status() : lower(c.target, notes ? &*notes : nullptr, &planned[k]);
  };
  for (const bool firsts : {true, false}) {
    for_each_in_parallel(planned.size(), available_cores(), [&](size_t k) {
      if ((planned[k].first == nullptr) == firsts) made[k] = lower_one(k);
    });
  }
  for (size_t k = 0; k < planned.size(); ++k) {
    WEFT_RETURN_IF_ERROR(made[k]);
    CompiledKernel& kernel = c.kernels.emplace_back(std::move(planned[k].kernel));
    WEFT_RETURN_IF_ERROR(finish_kernel(c, kernel.in_region, kernel.function));
  }
  c.other = {};  // its constants are not needed beside those that are laid out
  return {};
}

Result<KernelFunction> lower_again(const Compilation& c, const CompiledKernel& kernel,
                                   const ScheduledKernel& schedule) {
  WEFT_ASSIGN_OR_RETURN(KernelFunction f,
                        lower_to_kernel(schedule.program, schedule.scopes, c.target));
  f.library = schedule.library;
  bound_registers(*kernel.planned, schedule, c.target, &f);
  WEFT_RETURN_IF_ERROR(finish_kernel(c, kernel.in_region, f));
  return f;
}

}  // namespace weft
