#include <algorithm>

#include "fmt/format.h"
#include "tile/places.h"
#include "tile/tile_program.h"
#include "tile/tile_structure.h"

namespace weft {
namespace {

struct Level {
  std::string_view name;
  int64_t extent = 0;  ///< 0: not known
};

/// The paper's names: WARP is a warp of the block, CTA a thread of the warp, THREAD what one thread
/// does in turn.
std::string_view paper_name(PlaceLevel level) {
  switch (level) {
    case PlaceLevel::kWarp:
      return "WARP";
    case PlaceLevel::kLane:
      return "CTA";
    default:
      return "THREAD";
  }
}

std::string attribute(const std::vector<Level>& levels) {
  if (levels.empty()) return "THREAD";
  if (levels.size() == 1) return std::string(levels[0].name);
  std::string out;
  for (const Level& level : levels) {
    if (!out.empty()) out += "-";
    out +=
        level.extent > 0 ? fmt::format("{}_{}", level.name, level.extent) : std::string(level.name);
  }
  return out;
}

}  // namespace

std::string template_form(const TileProgram& program, const TileStatement& statement, Scope scope) {
  const TileStructure structure = structure_of(program);
  const PlaceTable places = resolve_places(structure);
  Place place = statement.place;
  for (size_t i = 0; i < structure.sites.size(); ++i) {
    if (structure.sites[i].statement == &statement) place = places.of_site[i];
  }
  const auto levels_of = [&](const std::vector<int>& vars) {
    std::vector<Level> levels;
    for (const int id : vars) {
      const auto found = structure.dim_of.find(id);
      if (found == structure.dim_of.end()) continue;
      const TileLoop::Dim& dim = structure.dim(id);
      if (id != dim.origin) continue;
      const Interval r = structure.ranges[static_cast<size_t>(id)];
      const int64_t trips = r.hi < kUnbounded.hi ? (r.hi - r.lo) / dim.step + 1 : 0;
      if (trips == 1) continue;
      levels.push_back(
          {found->second.first->kind == TileLoop::Kind::kSeq ? "THREAD" : "GRID", trips});
    }
    for (const int id : vars) {
      std::vector<PlacedDigit> digits = placed_digits(place, id);
      for (size_t d = digits.size(); d-- > 0;) {
        const std::string_view name = paper_name(digits[d].level);
        if (!levels.empty() && levels.back().name == name && levels.back().extent > 0) {
          levels.back().extent *= digits[d].extent;
        } else {
          levels.push_back({name, digits[d].extent});
        }
      }
    }
    return levels;
  };
  std::string out;
  const auto add = [&](const std::vector<int>& vars) {
    out += (out.empty() ? "" : ",") + attribute(levels_of(vars));
  };
  for (const IndexExpr& e : statement.targets[0].indices) add(variables(e));
  for (const TileVarId axis : statement.reduce_axes) add({axis});
  return "[" + out + "]" + (scope >= Scope::kBlock ? "S" : "");
}

}  // namespace weft
