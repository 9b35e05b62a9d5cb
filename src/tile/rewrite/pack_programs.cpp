#include "tile/rewrite/pack_programs.h"

#include <algorithm>

#include "tile/rewrite/program_taker.h"

namespace weft {

TileProgram pack_programs(std::string name, std::span<const TileProgram* const> programs,
                          const std::vector<std::vector<int32_t>>& parameter_of,
                          std::span<const int64_t> shares) {
  TileProgram out;
  out.name = std::move(name);
  out.cpu = programs[0]->cpu;
  ProgramTaker taker(&out);
  TilePack pack;
  int64_t blocks = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    TilePack::Member member;
    member.share = shares[p];
    std::vector<TileSymbolId> parameters;
    for (const int32_t number : parameter_of[p]) {
      const auto at = static_cast<size_t>(number);
      if (out.parameters.size() <= at) out.parameters.resize(at + 1, -1);
      parameters.push_back(out.parameters[at]);
    }
    member.body = taker.take(*programs[p], &parameters);
    if (out.cpu) out.blocks = taker.renumbered(programs[p]->blocks);
    for (size_t i = 0; i < parameters.size(); ++i)
      out.parameters[static_cast<size_t>(parameter_of[p][i])] = parameters[i];
    blocks += member.share;
    pack.members.push_back(std::move(member));
    out.warps = std::max(out.warps, programs[p]->warps);
  }
  if (!out.cpu) out.blocks = blocks;
  out.body.push_back(TileNode::of(std::move(pack)));
  return out;
}

}  // namespace weft
