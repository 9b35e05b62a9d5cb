#include "tile/rewrite/pack_programs.h"

#include <algorithm>

#include "tile/rewrite/program_taker.h"

namespace weft {

TileProgram pack_programs(std::string name, std::span<const TileProgram* const> programs,
                          const std::vector<std::vector<int32_t>>& parameter_of) {
  TileProgram out;
  out.name = std::move(name);
  out.cpu = false;
  ProgramTaker taker(&out);
  TilePack pack;
  int64_t blocks = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    TilePack::Member member;
    member.share = programs[p]->blocks.constant();
    std::vector<TileSymbolId> parameters;
    for (const int32_t number : parameter_of[p]) {
      const auto at = static_cast<size_t>(number);
      if (out.parameters.size() <= at) out.parameters.resize(at + 1, -1);
      parameters.push_back(out.parameters[at]);
    }
    member.body = taker.take(*programs[p], &parameters);
    for (size_t i = 0; i < parameters.size(); ++i)
      out.parameters[static_cast<size_t>(parameter_of[p][i])] = parameters[i];
    pack.members.push_back(std::move(member));
    blocks += programs[p]->blocks.constant();
    out.warps = std::max(out.warps, programs[p]->warps);
  }
  out.blocks = blocks;
  out.body.push_back(TileNode::of(std::move(pack)));
  return out;
}

}  // namespace weft
