#include "tile/rewrite/join_programs.h"

#include <algorithm>
#include <iterator>

#include "tile/rewrite/program_taker.h"

namespace weft {

TileProgram join_programs(std::string name, std::span<const TileProgram* const> programs,
                          const std::vector<std::vector<int32_t>>& parameter_of, int64_t blocks) {
  TileProgram out;
  out.name = std::move(name);
  out.cpu = programs[0]->cpu;
  out.blocks = blocks;
  ProgramTaker taker(&out);
  for (size_t p = 0; p < programs.size(); ++p) {
    const TileProgram& program = *programs[p];
    const std::vector<int32_t>& numbers = parameter_of[p];
    std::vector<TileSymbolId> parameters;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto at = static_cast<size_t>(numbers[i]);
      if (out.parameters.size() <= at) out.parameters.resize(at + 1, -1);
      TileSymbolId& known = out.parameters[at];
      const TileSymbol& own = program.symbols[static_cast<size_t>(program.parameters[i])];
      // Two of the program's parameters may be one.
      if (known < 0 && std::ranges::count(numbers, numbers[i]) > 1) known = taker.add_symbol(own);
      const bool stored =
          known >= 0 && out.symbols[static_cast<size_t>(known)].kind == TileSymbol::Kind::kOutput;
      if (!stored) {
        parameters.push_back(known);
        continue;
      }
      TileSymbol view = own;
      view.view_of = known;
      parameters.push_back(taker.add_symbol(std::move(view)));
    }
    TileBody body = taker.take(program, &parameters);
    if (out.cpu) out.blocks = taker.renumbered(program.blocks);
    std::ranges::move(body, std::back_inserter(out.body));
    for (size_t i = 0; i < parameters.size(); ++i) {
      TileSymbolId& known = out.parameters[static_cast<size_t>(numbers[i])];
      if (known < 0) known = parameters[i];
    }
    out.warps = std::max(out.warps, program.warps);
  }
  return out;
}

}  // namespace weft
