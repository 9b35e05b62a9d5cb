#include "schedule/gpu/pack_kernels.h"

#include <algorithm>

#include "cost/estimate.h"
#include "support/rounding.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/rewrite/pack_programs.h"

namespace weft {

namespace {

/// Threads of an SM that keep its share of the memory bandwidth busy.
constexpr int64_t kBusyThreads = 512;

const TileSymbol& parameter(const TileProgram& program, size_t i) {
  return program.symbols[static_cast<size_t>(program.parameters[i])];
}

bool has_cluster(const TileBody& body) {
  return std::ranges::any_of(body, [](const TileNode& node) {
    return node.kind == TileNode::Kind::kLoop &&
           (node.loop->kind == TileLoop::Kind::kCluster || has_cluster(node.loop->body));
  });
}

}  // namespace

double work_us(const ScheduledKernel& kernel, const Target& target) {
  const Estimate& e = kernel.estimate;
  if (kernel.predicted_us) return std::max(0.0, *kernel.predicted_us - target.launch_us);
  return roofline_us(e.bytes_read + e.bytes_written, e.arithmetic_us, target);
}

int64_t grid_items(const TileNode& node) {
  if (node.kind != TileNode::Kind::kLoop || node.loop->kind != TileLoop::Kind::kGrid) return 1;
  int64_t items = 1;
  for (const TileLoop::Dim& dim : node.loop->dims) {
    if (!dim.begin.is_const() || !dim.end.is_const()) return 0;
    items *= ceil_div(std::max<int64_t>(dim.end.constant() - dim.begin.constant(), 0), dim.step);
  }
  for (const TileNode& inner : node.loop->body) items *= grid_items(inner);
  return items;
}

double busy_share(int64_t blocks, int64_t warps, const Target& target) {
  return static_cast<double>(blocks * warps * 32) /
         static_cast<double>(kBusyThreads * target.sm_count);
}

std::vector<int32_t> take_member(const ScheduledKernel& member,
                                 const std::map<TensorId, int32_t>& known,
                                 std::vector<const TileSymbol*>* symbols, ScheduledKernel* launch) {
  std::vector<int32_t> numbers;
  for (size_t i = 0; i < member.parameters.size(); ++i) {
    const TensorId t = member.parameters[i];
    if (const auto number = known.find(t); number != known.end()) {
      numbers.push_back(number->second);
      continue;
    }
    const TileSymbol* symbol = &parameter(member.program, i);
    size_t at = 0;
    while (at < symbols->size() &&
           !(launch->parameters[at] == t && (*symbols)[at]->shape == symbol->shape &&
             (*symbols)[at]->layout == symbol->layout)) {
      ++at;
    }
    numbers.push_back(static_cast<int32_t>(at));
    if (at < symbols->size()) continue;
    symbols->push_back(symbol);
    launch->parameters.push_back(t);
  }
  launch->composition.members.push_back(member.composition);
  const Estimate& e = member.estimate;
  launch->estimate.flops += e.flops;
  launch->estimate.arithmetic_us += e.arithmetic_us;
  launch->estimate.bytes_read += e.bytes_read;
  launch->estimate.bytes_written += e.bytes_written;
  return numbers;
}

Decision can_pack(const ScheduledKernel& kernel) {
  const TileProgram& program = kernel.program;
  if (kernel.library) return Decision::forbid("a library runs it");
  if (program.cpu || !program.blocks.is_const())
    return Decision::forbid("its blocks are not counted");
  const bool waits = std::ranges::any_of(kernel.scopes.barriers, [](const BarrierPoint& b) {
    return b.scope == Scope::kGrid || b.scope == Scope::kCluster;
  });
  // Without that, how many blocks an SM should hold is but a wish.
  if (program.body.size() != 1 || waits || has_cluster(program.body))
    return Decision::forbid("its blocks wait for each other");
  if (program.body[0].kind == TileNode::Kind::kPack) return Decision::forbid("it is packed");
  if (grid_items(program.body[0]) != program.blocks.constant())
    return Decision::forbid("a block goes through several of its items");
  return Decision::allow();
}

Result<ScheduledKernel> pack_kernels(const std::vector<const ScheduledKernel*>& members,
                                     const std::string& name, const Target& target) {
  ScheduledKernel out;
  std::vector<const TileProgram*> programs;
  std::vector<std::vector<int32_t>> parameter_of;
  std::vector<const TileSymbol*> symbols;  // by parameter
  double longest = 0, work = 0, shared = 0, in_turn = target.launch_us;
  out.composition.kind = Composition::Kind::kPack;
  for (const ScheduledKernel* member : members) {
    programs.push_back(&member->program);
    parameter_of.push_back(take_member(*member, {}, &symbols, &out));
    longest = std::max(longest, member->estimate.microseconds);
    work = std::max(work, work_us(*member, target));
    in_turn += work_us(*member, target);
    shared += work_us(*member, target) * std::min(1.0, busy_share(member->program.blocks.constant(),
                                                                  member->program.warps, target));
    out.schedule_template +=
        (out.schedule_template.empty() ? "side by side: " : " | ") + member->schedule_template;
  }
  const Estimate& all = out.estimate;
  const double device =
      std::max(shared, roofline_us(all.bytes_read + all.bytes_written, all.arithmetic_us, target));
  // Blocks of one member after those of another are no worse than launches of each.
  out.estimate.microseconds = std::min(longest + std::max(0.0, device - work), in_turn);
  out.program = pack_programs(name, programs, parameter_of);
  WEFT_ASSIGN_OR_RETURN(out.scopes, derive_scopes(out.program));
  return out;
}

}  // namespace weft
