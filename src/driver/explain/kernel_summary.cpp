#include "driver/explain/kernel_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "expr/products/widen_halves.h"
#include "group/cut_group.h"
#include "group/widen_halves.h"
#include "schedule/stages/chain_tiling.h"
#include "schedule/stages/compose_chain.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/check/fits.h"
#include "tile/text/split_form.h"
#include "tile/text/template_form.h"

namespace weft {

namespace {

/// What statements make, in the order of the text.
void list_targets(const TileBody& body, std::vector<TileSymbolId>* out) {
  for (const TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        out->push_back(node.statement.targets[0].symbol);
        break;
      case TileNode::Kind::kLoop:
        list_targets(node.loop->body, out);
        break;
      case TileNode::Kind::kCondition:
        list_targets(node.condition->body, out);
        break;
      case TileNode::Kind::kPack:
        for (const TilePack::Member& m : node.pack->members) list_targets(m.body, out);
        break;
    }
  }
}

}  // namespace

std::vector<std::string> step_names(const TensorProgram& program, int32_t step) {
  const TensorProgram::Step& s = program.steps[static_cast<size_t>(step)];
  const auto& origins = s.opaque ? program.opaques[static_cast<size_t>(s.index)].origins
                                 : program.exprs[static_cast<size_t>(s.index)].origins;
  std::vector<std::string> out;
  for (const int32_t o : origins) {
    if (o >= 0 && static_cast<size_t>(o) < program.origins.size())
      out.push_back(program.origins[static_cast<size_t>(o)].name);
  }
  if (!out.empty()) return out;
  if (s.opaque) {
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(s.index)];
    return {std::string(graph_op_name(opaque.node.op))};
  }
  const TensorExpr& expr = program.exprs[static_cast<size_t>(s.index)];
  return {program.tensors[static_cast<size_t>(expr.output)].name};
}

std::vector<std::string> origin_names(const TensorProgram& program, const Group& group) {
  std::set<int32_t> ids;
  for (const ExprId e : group.exprs) {
    const auto& origins = program.exprs[static_cast<size_t>(e)].origins;
    ids.insert(origins.begin(), origins.end());
  }
  std::vector<std::string> out;
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < program.origins.size())
      out.push_back(program.origins[static_cast<size_t>(id)].name);
  }
  return out;
}

std::vector<std::string> copied_names(const TensorProgram& program, const PlannedKernel& kernel) {
  std::vector<std::string> out;
  for (const ExprId e : kernel.copies) {
    const TensorId made = program.exprs[static_cast<size_t>(e)].output;
    out.push_back(program.tensors[static_cast<size_t>(made)].name);
  }
  return out;
}

std::string scope_summary(const PlannedKernel& kernel) {
  std::map<std::string, int> count;
  const TileProgram& tile = kernel.schedule.program;
  for (size_t s = 0; s < tile.symbols.size(); ++s) {
    const TileSymbol& symbol = tile.symbols[s];
    if (symbol.kind != TileSymbol::Kind::kValue && symbol.kind != TileSymbol::Kind::kCarry)
      continue;
    ++count[std::string(scope_name(kernel.schedule.scopes.symbols[s].scope, tile.cpu))];
  }
  std::string out;
  for (const auto& [scope, n] : count)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", scope, n);
  return out;
}

std::vector<std::string> template_summary(const PlannedKernel& kernel) {
  const TileProgram& tile = kernel.schedule.program;
  if (tile.cpu) return {};
  std::vector<std::string> out;
  std::map<std::string, size_t> known;
  std::vector<TileSymbolId> symbols;
  list_targets(tile.body, &symbols);
  const std::vector<TemplateForm> forms = template_forms(tile, kernel.schedule.scopes);
  for (size_t s = 0; s < forms.size(); ++s) {
    std::string form = print(forms[s]);
    const std::string& name = tile.symbols[static_cast<size_t>(symbols[s])].name;
    const auto [it, fresh] = known.emplace(form, out.size());
    if (fresh) {
      out.push_back(std::move(form.append(" ").append(name)));
    } else {
      out[it->second].append(", ").append(name);
    }
  }
  return out;
}

std::vector<std::string> split_summary(const PlannedKernel& kernel) {
  const TileProgram& tile = kernel.schedule.program;
  std::vector<std::string> out;
  std::map<std::string, size_t> known;
  for (const auto& [symbol, form] : split_forms(tile)) {
    const std::string& name = tile.symbols[static_cast<size_t>(symbol)].name;
    const auto [it, fresh] = known.emplace(print(form), out.size());
    if (fresh) {
      out.push_back(it->first + " " + name);
    } else {
      out[it->second] += ", " + name;
    }
  }
  return out;
}

std::string_view pattern_name(const TensorProgram& program, const PlannedKernel& kernel) {
  std::string_view name = "elementwise";
  for (const ExprId e : kernel.group.exprs) {
    const TensorExpr& expr = program.exprs[static_cast<size_t>(e)];
    if (expr.is_contraction) return "gemm";
    if (!expr.reduce_extents.empty()) name = "reduction";
  }
  return name;
}

std::optional<Emission> emission_of(const TensorProgram& program, const PlannedKernel& kernel) {
  const Composition& how = kernel.schedule.composition;
  if (how.kind != Composition::Kind::kBlock) return std::nullopt;
  const std::vector<ExprId>& exprs = kernel.group.exprs;
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> stage_of(exprs.size(), kNone);
  for (size_t s = 0; s < how.stages.size(); ++s) {
    for (const int member : how.stages[s]) stage_of[static_cast<size_t>(member)] = s;
  }
  const auto expr = [&](size_t p) -> const TensorExpr& {
    return program.exprs[static_cast<size_t>(exprs[p])];
  };
  std::map<TensorId, std::set<size_t>> read_by;  // stages
  for (size_t p = exprs.size(); p-- > 0;) {
    // What no stage makes is made again by those that read it: they read what it reads.
    std::set<size_t> readers{stage_of[p]};
    if (stage_of[p] == kNone) readers = read_by[expr(p).output];
    visit(expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) read_by[s.symbol].insert(readers.begin(), readers.end());
    });
  }
  std::vector<bool> kept_in_stage(exprs.size(), false);
  for (size_t s = 0; s < how.stages.size(); ++s) {
    const auto* sweep = std::get_if<SweepChoice>(&how.members[s].choice);
    for (size_t m = 0; sweep != nullptr && m < sweep->kept.size(); ++m)
      kept_in_stage[static_cast<size_t>(how.stages[s][m])] = sweep->kept[m];
  }
  Emission out;
  for (size_t p = 0; p < exprs.size(); ++p) {
    const TensorId t = expr(p).output;
    const bool is_stored = std::ranges::find(kernel.group.outputs, t) != kernel.group.outputs.end();
    const bool is_kept = kept_in_stage[p] || std::ranges::any_of(read_by[t], [&](size_t s) {
                           return s != stage_of[p];
                         });
    const bool stitched =
        stage_of[p] != kNone && (is_stored || is_kept || !expr(p).reduce_extents.empty());
    (stitched ? out.stitched : out.inlined).push_back(program.tensors[static_cast<size_t>(t)].name);
  }
  return out;
}

std::optional<ArenaUse> arena_summary(const PlannedKernel& kernel) {
  if (kernel.schedule.library || kernel.schedule.scopes.block_bytes == 0) return std::nullopt;
  return arena_use(kernel.schedule.program, kernel.schedule.scopes);
}

std::optional<GpuLatency> latency_of(const TensorProgram& program, const PlannedKernel& kernel,
                                     const Target& target) {
  const ScheduledKernel& own = kernel.schedule;
  const bool multiplies = pattern_name(program, kernel) == "gemm";
  if (own.library || multiplies || !target.is_gpu()) return std::nullopt;
  return gpu_latency(own.program, own.scopes, own.estimate.bytes_read + own.estimate.bytes_written,
                     target);
}

RoundedTensors rounded_tensors(const TensorProgram& program, const PlannedKernel& kernel,
                               const Target& target) {
  RoundedTensors out;
  const std::vector<Group> alone{kernel.group};
  for (const LoopMember& loop : kernel.loops) {
    const TensorProgram& body = *program.opaques[static_cast<size_t>(loop.opaque)].regions.back();
    for (const PlannedKernel& inner : loop.body->kernels) {
      const RoundedTensors own = rounded_tensors(body, inner, target);
      for (const auto list :
           {&RoundedTensors::stored, &RoundedTensors::multiplied, &RoundedTensors::kept})
        (out.*list).insert((out.*list).end(), (own.*list).begin(), (own.*list).end());
    }
  }
  for (const Group& group : kernel.members.empty() ? alone : kernel.members) {
    if (group.exprs.empty()) continue;  // a loop
    GroupView view = cut_group(program, group);
    if (!holds_halves(view.program)) continue;
    const GroupView declared = view;
    widen_halves(&view, target);
    for (const TensorExpr& e : declared.program.exprs) {
      const auto t = static_cast<size_t>(e.output);
      if (!is_half(declared.program.tensors[t].type.dtype)) continue;
      const std::string& name = declared.program.tensors[t].name;
      const bool leaves = std::ranges::count(declared.group.outputs, e.output) > 0;
      const bool is_rounded = is_half(view.program.tensors[t].type.dtype);
      (leaves ? out.stored : is_rounded ? out.multiplied : out.kept).push_back(name);
    }
  }
  return out;
}

std::vector<std::string> postponed_factors(const TensorProgram& program,
                                           const PlannedKernel& kernel, const Target& target) {
  const Composition& how = kernel.schedule.composition;
  if (how.kind != Composition::Kind::kChain) return {};
  return postponed_factors(program, kernel.group, how.carried, target);
}

std::string tiling_text(const TensorProgram& program, const PlannedKernel& kernel,
                        const Target& target) {
  const auto tiling = tiling_of(program, kernel.group, kernel.schedule, target);
  return tiling ? print(*tiling) : "";
}

std::optional<ReuseSummary> reuse_summary(const TensorProgram& program,
                                          const PlannedKernel& kernel) {
  const bool in_turns = kernel.schedule.composition.in_turns();
  if (!in_turns || kernel.rereads) return std::nullopt;
  ReuseSummary out{reuse_of(kernel.schedule.program, kernel.schedule.scopes), {}};
  for (const TensorId t : kept_outputs(kernel))
    out.never_stored.push_back(program.tensors[static_cast<size_t>(t)].name);
  if (out.reuse.hits == 0 && out.reuse.evictions == 0) return std::nullopt;
  return out;
}

std::optional<AheadSummary> ahead_summary(const TensorProgram& program, const PlannedKernel& kernel,
                                          const Target& target) {
  const TileProgram& tile = kernel.schedule.program;
  if (!has_loop_ahead(tile.body)) return std::nullopt;
  AheadSummary out;
  const ScopeAnalysis& scopes = kernel.schedule.scopes;
  for (const LoopAhead& loop : loops_ahead(structure_of(tile), scopes, /*marked=*/true)) {
    out.bytes += loop.bytes;
    for (const TileStatement* load : loop.loads) {
      TileSymbolId symbol = load->value->symbol;
      while (tile.symbols[static_cast<size_t>(symbol)].view_of >= 0)
        symbol = tile.symbols[static_cast<size_t>(symbol)].view_of;
      const auto at = std::ranges::find(tile.parameters, symbol) - tile.parameters.begin();
      const TensorId t = kernel.schedule.parameters[static_cast<size_t>(at)];
      const std::string& name = program.tensors[static_cast<size_t>(t)].name;
      if (std::ranges::find(out.tensors, name) == out.tensors.end()) out.tensors.push_back(name);
    }
  }
  out.hidden_us = hidden_by_barriers_us(tile, scopes, target);
  return out;
}

std::vector<std::string> assumed_masks(const TensorProgram& program, const PlannedKernel& kernel,
                                       const Target& target) {
  const Composition& how = kernel.schedule.composition;
  if (how.kind != Composition::Kind::kChain) return {};
  return assumed_masks(program, kernel.group, how.carried, target);
}

std::string launch_bound(const PlannedKernel& kernel, const Target& target) {
  const TileProgram& tile = kernel.schedule.program;
  if (tile.cpu || !is_bounded(tile, kernel.is_compute) || tile.per_sm > 0) return {};
  const int64_t blocks = bounded_blocks_per_sm(tile, kernel.schedule.scopes, target);
  if (blocks == 1) return {};
  return fmt::format("launch bound: {} blocks of {} threads on an SM, {} registers each", blocks,
                     tile.warps * 32, registers_for_residency(target, tile.warps * 32, blocks));
}

std::string residency_proof(const PlannedKernel& kernel, const Target& target) {
  const TileProgram& tile = kernel.schedule.program;
  const ScopeAnalysis& scopes = kernel.schedule.scopes;
  const bool waits = std::any_of(scopes.barriers.begin(), scopes.barriers.end(),
                                 [](const BarrierPoint& b) { return b.scope == Scope::kGrid; });
  if (!waits && scopes.cluster_blocks > 1) {
    return fmt::format("clusters of {} blocks, {} has up to {}", scopes.cluster_blocks, target.name,
                       target.cluster_blocks);
  }
  if (tile.cpu || !waits || !tile.blocks.is_const()) return {};
  const int64_t blocks = tile.blocks.constant(), threads = tile.warps * 32;
  const int64_t per_sm = std::max<int64_t>(tile.per_sm, 1);
  const int64_t registers = registers_for_residency(target, threads, per_sm);
  const int64_t fit = resident_blocks_per_sm(target, threads, registers, scopes.block_bytes);
  if (tile.one_cluster) {
    return fmt::format(
        "cluster barrier: {} blocks {} {} of a cluster of {}, {} threads, at most {} registers and "
        "{} B shared each, of which an SM holds {}",
        blocks, blocks <= target.cluster_blocks ? "<=" : ">", target.cluster_blocks, target.name,
        threads, registers, scopes.block_bytes, fit);
  }
  return fmt::format(
      "grid barrier: {} blocks {} {} SMs x {} of {} threads, at most {} registers and {} B shared "
      "each, of which an SM holds {}",
      blocks, blocks <= per_sm * target.sm_count ? "<=" : ">", target.sm_count, per_sm, threads,
      registers, scopes.block_bytes, fit);
}

}  // namespace weft
