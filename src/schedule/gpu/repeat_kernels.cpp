#include "schedule/gpu/repeat_kernels.h"

#include <algorithm>
#include <utility>

#include "cost/gpu_latency.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/fits.h"
#include "tile/rewrite/make_resident.h"
#include "tile/rewrite/merge_nests.h"
#include "tile/rewrite/reuse_boxes.h"

namespace weft {

double estimate_repetition(const JoinEstimate& once, int64_t trips, const Target& target) {
  constexpr double kCopies = 2;  // of what is carried: before the first iteration, behind the last
  // One block waits for its own threads alone.
  const double meeting = target.meeting_us(once.per_sm);
  const double barrier = once.blocks > 1 ? meeting : 0;
  const double phases = static_cast<double>(once.phases);
  const double iteration =
      once.microseconds - once.start_us - (phases - 1) * meeting + phases * barrier;
  return once.start_us + kCopies * meeting + static_cast<double>(trips) * iteration;
}

namespace {

/// The kernels of one iteration, repeated.
Result<ScheduledKernel> repeated(std::span<const JoinMember> members,
                                 const std::vector<std::vector<TensorId>>& outputs,
                                 const JoinEstimate& estimate, const std::string& name,
                                 const std::map<TensorId, RepeatedParameter>& tensors,
                                 int64_t trips, const Target& target) {
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel out,
                        join_kernels(members, outputs, estimate, name, target,
                                     {.keeps = false, .ahead = false, .own = {}}));
  std::vector<RepeatedParameter> parameters;
  for (size_t p = 0; p < out.parameters.size(); ++p) {
    const auto found = tensors.find(out.parameters[p]);
    parameters.push_back(found == tensors.end() ? RepeatedParameter{} : found->second);
    const TileSymbol& symbol = out.program.symbols[static_cast<size_t>(out.program.parameters[p])];
    if (parameters.back().kind != RepeatedParameter::Kind::kWhole && !symbol.layout.is_row_major())
      return unsupported(symbol.name + " is not row-major");
  }
  RepeatedProgram repeated = repeat_program(out.program, parameters, trips);
  std::vector<TensorId> tensor_of(repeated.program.parameters.size(), -1);
  for (size_t p = 0; p < out.parameters.size(); ++p) {
    const int32_t at = repeated.parameter_of[p];
    if (at >= 0) tensor_of[static_cast<size_t>(at)] = out.parameters[p];
  }
  out.program = std::move(repeated.program);
  out.parameters = std::move(tensor_of);
  out.composition.kind = Composition::Kind::kRecur;  // of a cluster, whose blocks it has
  out.estimate.microseconds = estimate_repetition(estimate, trips, target);
  out.estimate.flops *= trips;
  out.estimate.arithmetic_us *= static_cast<double>(trips);
  out.schedule_template = "all steps: " + out.schedule_template;
  WEFT_ASSIGN_OR_RETURN(out.scopes, derive_scopes(out.program));
  if (Decision fit = fits(out.program, out.scopes, target); !fit) return unsupported(fit.reason());
  return out;
}

/// Loads what all steps read alike before the first one, as much as fits; false where that is
/// nothing.
Result<bool> keep_residents(ScheduledKernel& kernel, const Target& target) {
  merge_nests(kernel.program);
  WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
  if (Decision fit = fits(kernel.program, kernel.scopes, target); !fit) return false;
  // Buffers that live at other times leave gaps, so that less may fit.
  int64_t room = room_for_arena(kernel, target) - kernel.scopes.block_bytes;
  for (; room > 0; room = room * 7 / 8) {
    TileProgram program = kernel.program;
    if (!make_resident(program, room)) return false;
    WEFT_ASSIGN_OR_RETURN(ScopeAnalysis scopes, derive_scopes(program));
    if (!fits(program, scopes, target)) continue;
    kernel.program = std::move(program);
    kernel.scopes = std::move(scopes);
    return true;
  }
  return false;
}

}  // namespace

Result<ScheduledKernel> repeat_kernels(std::span<const JoinMember> members,
                                       const std::vector<std::vector<TensorId>>& outputs,
                                       const JoinEstimate& estimate, const std::string& name,
                                       const std::map<TensorId, RepeatedParameter>& tensors,
                                       int64_t trips, const Target& target, bool resident) {
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel plain,
                        repeated(members, outputs, estimate, name, tensors, trips, target));
  if (!resident) return plain;
  JoinEstimate spread = estimate;
  spread.per_sm = 1;
  spread.blocks = std::min<int64_t>(estimate.blocks, target.sm_count);
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel out,
                        repeated(members, outputs, spread, name, tensors, trips, target));
  WEFT_ASSIGN_OR_RETURN(const bool keeps, keep_residents(out, target));
  if (!keeps) return unsupported("no block can keep what all steps read");
  int64_t bytes = 0;
  for (const JoinMember& member : members)
    bytes += member.kernel->estimate.bytes_read + member.kernel->estimate.bytes_written;
  const int64_t saved = reuse_of(out.program, out.scopes).saved_bytes / trips;
  const double asking = step_latency_us(plain.program, plain.scopes, bytes, target);
  const double keeping =
      step_latency_us(out.program, out.scopes, std::max<int64_t>(bytes - saved, 0), target);
  out.estimate.microseconds = plain.estimate.microseconds * keeping / asking;
  out.composition.resident = true;
  return out;
}

}  // namespace weft
