#include "schedule/gpu/repeat_kernels.h"

#include <algorithm>
#include <utility>

#include "tile/analysis/derive_scopes.h"
#include "tile/check/fits.h"

namespace weft {

double estimate_repetition(const JoinEstimate& once, int64_t trips, const Target& target) {
  constexpr double kCopies = 2;  // of what is carried: before the first iteration, behind the last
  // One block waits for its own threads alone.
  const double barrier = once.blocks > 1 ? target.meeting_us() : 0;
  const double phases = static_cast<double>(once.phases);
  const double iteration =
      once.microseconds - once.start_us - (phases - 1) * target.meeting_us() + phases * barrier;
  return once.start_us + kCopies * target.meeting_us() + static_cast<double>(trips) * iteration;
}

Result<ScheduledKernel> repeat_kernels(std::span<const JoinMember> members,
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

}  // namespace weft
