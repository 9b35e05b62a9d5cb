#include "assemble/lifetimes.h"

#include <algorithm>
#include <map>

#include "tile/tile_structure.h"

namespace weft {

namespace {

/// First and last of the phases that a nest runs in: a recurrence goes through several.
using Phases = std::pair<int32_t, int32_t>;

std::vector<Phases> phases_of_nests(const TileProgram& program, const ScopeAnalysis& scopes) {
  std::vector<Phases> out;
  int32_t phase = 0;
  for (int32_t n = 0; n < static_cast<int32_t>(program.body.size()); ++n) {
    int32_t inside = 0;
    for (const BarrierPoint& barrier : scopes.barriers) {
      if (barrier.scope != Scope::kGrid || barrier.before.front() != n) continue;
      barrier.before.size() == 1 ? ++phase : ++inside;
    }
    out.emplace_back(phase, phase + inside);
    phase += inside;
  }
  return out;
}

TileSymbolId shown(const TileProgram& program, TileSymbolId symbol) {
  while (program.symbols[static_cast<size_t>(symbol)].view_of >= 0)
    symbol = program.symbols[static_cast<size_t>(symbol)].view_of;
  return symbol;
}

}  // namespace

StepTensors tensors_of(const PlannedKernel& kernel) {
  const TileProgram& program = kernel.schedule.program;
  StepTensors out{kernel.schedule.parameters, kernel.group.outputs, 1, {}};
  const std::vector<Phases> nests = phases_of_nests(program, kernel.schedule.scopes);
  if (!nests.empty()) out.phases = 1 + nests.back().second;
  if (out.phases == 1) return out;
  struct Use {
    int32_t first = 0, last = -1;
    bool stored = false, read = false;
  };
  std::map<TileSymbolId, Use> uses;
  const TileStructure structure = structure_of(program);
  const auto use = [&](TileSymbolId symbol, const Site& site) -> Use& {
    const Phases in = nests[static_cast<size_t>(site.path.front())];
    Use& own = uses[shown(program, symbol)];
    own.first = own.last < 0 ? in.first : std::min(own.first, in.first);
    own.last = std::max(own.last, in.second);
    return own;
  };
  for (const Site& site : structure.sites) {
    if (site.statement == nullptr) continue;
    for (const TileRef& target : site.statement->targets) use(target.symbol, site).stored = true;
  }
  for (const ReadSite& read : structure.reads)
    use(read.read->symbol, structure.sites[static_cast<size_t>(read.site)]).read = true;
  for (size_t p = 0; p < kernel.schedule.parameters.size(); ++p) {
    const auto found = uses.find(program.parameters[p]);
    if (found == uses.end() || !found->second.stored) continue;
    // What one block stores and does not read is declared to share its place with nobody, as is
    // what a launch is given (codegen/cuda).
    if (!program.cpu && program.blocks.is_const(1) && !found->second.read) continue;
    out.own.push_back({kernel.schedule.parameters[p], found->second.first, found->second.last});
  }
  return out;
}

StepTensors tensors_of(const OpaqueExpr& opaque) {
  return {opaque.operands, opaque.results, 1, {}};
}

Lifetimes lifetimes_of(size_t tensor_count, std::span<const StepTensors> steps) {
  Lifetimes out;
  out.tensors.resize(tensor_count);
  std::vector<size_t> maker(tensor_count, steps.size()), last(tensor_count, 0);
  for (size_t s = 0; s < steps.size(); ++s) {
    const int32_t first = out.end;
    out.end += steps[s].phases;
    out.steps.emplace_back(first, out.end - 1);
    const auto touch = [&](TensorId t) {
      out.tensors[static_cast<size_t>(t)].second = out.end - 1;
      last[static_cast<size_t>(t)] = s;
    };
    for (const TensorId t : steps[s].reads) touch(t);
    for (const TensorId t : steps[s].makes) {
      touch(t);
      out.tensors[static_cast<size_t>(t)].first = first;
      maker[static_cast<size_t>(t)] = s;
    }
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const StepTensors::Own& own : steps[s].own) {
      const auto t = static_cast<size_t>(own.tensor);
      if (maker[t] != s || last[t] != s) continue;
      const int32_t first = out.steps[s].first;
      out.tensors[t] = {first + own.first, first + own.last};
    }
  }
  return out;
}

}  // namespace weft
