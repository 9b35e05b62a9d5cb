#include "schedule/writer/launch_members.h"

#include <algorithm>

#include "support/rounding.h"
#include "tile/rewrite/join_programs.h"
#include "tile/rewrite/pack_programs.h"

namespace weft {

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
    const TileSymbol* symbol =
        &member.program.symbols[static_cast<size_t>(member.program.parameters[i])];
    size_t at = 0;
    while (at < symbols->size() &&
           !(launch->parameters[at] == t && (*symbols)[at]->shape == symbol->shape &&
             (*symbols)[at]->layout == symbol->layout && (*symbols)[at]->type == symbol->type)) {
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

ScheduledKernel members_in_turn(std::span<const ScheduledKernel* const> members,
                                const std::vector<std::vector<TensorId>>& outputs,
                                const std::string& name, int64_t blocks) {
  ScheduledKernel out;
  std::vector<const TileProgram*> programs;
  std::vector<std::vector<int32_t>> parameter_of;
  std::vector<const TileSymbol*> symbols;  // by parameter
  std::map<TensorId, int32_t> stored;      // its parameter
  out.composition.kind = Composition::Kind::kGrid;
  for (size_t m = 0; m < members.size(); ++m) {
    const ScheduledKernel& member = *members[m];
    programs.push_back(&member.program);
    const std::vector<int32_t>& numbers =
        parameter_of.emplace_back(take_member(member, stored, &symbols, &out));
    for (size_t i = 0; i < member.parameters.size(); ++i) {
      if (std::ranges::find(outputs[m], member.parameters[i]) != outputs[m].end())
        stored.emplace(member.parameters[i], numbers[i]);
    }
    out.schedule_template += (m == 0 ? "one after another: " : " | ") + member.schedule_template;
  }
  out.program = join_programs(name, programs, parameter_of, blocks);
  return out;
}

ScheduledKernel members_side_by_side(std::span<const ScheduledKernel* const> members,
                                     std::span<const int64_t> shares, const std::string& name) {
  ScheduledKernel out;
  std::vector<const TileProgram*> programs;
  std::vector<std::vector<int32_t>> parameter_of;
  std::vector<const TileSymbol*> symbols;  // by parameter
  out.composition.kind = Composition::Kind::kPack;
  for (const ScheduledKernel* member : members) {
    programs.push_back(&member->program);
    parameter_of.push_back(take_member(*member, {}, &symbols, &out));
    out.schedule_template +=
        (out.schedule_template.empty() ? "side by side: " : " | ") + member->schedule_template;
  }
  out.program = pack_programs(name, programs, parameter_of, shares);
  return out;
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

bool has_constant_shapes(const TileProgram& program) {
  return std::ranges::all_of(program.parameters, [&](TileSymbolId id) {
    return std::ranges::all_of(program.symbols[static_cast<size_t>(id)].shape,
                               [](const IndexExpr& e) { return e.is_const(); });
  });
}

}  // namespace weft
