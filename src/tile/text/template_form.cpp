#include "tile/text/template_form.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "tile/places.h"
#include "tile/text/tile_text.h"
#include "tile/tile_structure.h"

namespace weft {
namespace {

using Level = TemplateForm::Level;
constexpr int64_t kMostExtent = int64_t{1} << 40;

std::string_view level_name(Level::Kind kind) {
  switch (kind) {
    case Level::Kind::kGrid:
      return "GRID";
    case Level::Kind::kCluster:
      return "CLUSTER";
    case Level::Kind::kWarp:
      return "WARP";
    case Level::Kind::kCta:
      return "CTA";
    default:
      return "THREAD";
  }
}

Level::Kind level_of(PlaceLevel level) {
  if (level == PlaceLevel::kWarp) return Level::Kind::kWarp;
  return level == PlaceLevel::kLane ? Level::Kind::kCta : Level::Kind::kThread;
}

/// The variables of each dimension of a statement: those of an index of its first target, then each
/// reduced axis.
std::vector<std::vector<int>> dimensions_of(const TileStatement& statement) {
  std::vector<std::vector<int>> out;
  for (const IndexExpr& e : statement.targets[0].indices) out.push_back(variables(e));
  for (const TileVarId axis : statement.reduce_axes) out.push_back({axis});
  return out;
}

/// The loops along a dimension that go round more than once.
std::vector<Level> loops_of(const TileStructure& structure, const std::vector<int>& vars) {
  std::vector<Level> levels;
  for (const int id : vars) {
    const auto found = structure.dim_of.find(id);
    if (found == structure.dim_of.end()) continue;
    const TileLoop::Dim& dim = structure.dim(id);
    if (id != dim.origin) continue;
    const Interval r = structure.ranges[static_cast<size_t>(id)];
    const int64_t trips = r.hi < kUnbounded.hi ? (r.hi - r.lo) / dim.step + 1 : 0;
    if (trips == 1) continue;
    const TileLoop::Kind kind = found->second.first->kind;
    levels.push_back({kind == TileLoop::Kind::kSeq       ? Level::Kind::kThread
                      : kind == TileLoop::Kind::kCluster ? Level::Kind::kCluster
                                                         : Level::Kind::kGrid,
                      trips});
  }
  return levels;
}

class FormParser {
 public:
  explicit FormParser(std::string_view text) : text_(text) {}

  Result<TemplateForm> run() {
    TemplateForm form;
    if (!accept('[')) return fail("`[`");
    if (!accept(']')) {
      do {
        std::vector<Level> levels;
        do {
          const auto level = parse_level();
          if (!level)
            return fail("GRID, CLUSTER, WARP, CTA or THREAD, with a number from 1 behind `_`");
          levels.push_back(*level);
        } while (accept('-'));
        form.dimensions.push_back(std::move(levels));
      } while (accept(','));
      if (!accept(']')) return fail("`,`, `-` or `]`");
    }
    form.shared = accept('S');
    if (at_ != text_.size()) return fail("the end");
    return form;
  }

 private:
  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<Level> parse_level() {
    for (const auto kind : {Level::Kind::kGrid, Level::Kind::kCluster, Level::Kind::kWarp,
                            Level::Kind::kCta, Level::Kind::kThread}) {
      const std::string_view name = level_name(kind);
      if (text_.substr(at_, name.size()) != name) continue;
      at_ += name.size();
      if (!accept('_')) return Level{kind, 0};
      int64_t extent = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && extent < kMostExtent) {
        extent = extent * 10 + (text_[at_++] - '0');
      }
      if (extent < 1 || extent > kMostExtent) return std::nullopt;
      return Level{kind, extent};
    }
    return std::nullopt;
  }
  Error fail(std::string_view expected) const {
    return {ErrorCode::kInvalidInput,
            fmt::format("template form {}: expected {} at character {}", text_, expected, at_ + 1)};
  }

  std::string_view text_;
  size_t at_ = 0;
};

Error misfit(const TileProgram& program, const TileStatement& statement, std::string_view what) {
  const TileSymbolId symbol = statement.targets[0].symbol;
  return {ErrorCode::kInvalidInput,
          fmt::format("tile program {}: the template form of {} {}", program.name,
                      program.symbols[static_cast<size_t>(symbol)].name, what)};
}

/// The digits of one dimension behind its loops.
Result<std::vector<Place::Digit>> digits_of(const TileProgram& program,
                                            const TileStatement& statement,
                                            const std::vector<Level>& levels,
                                            const std::vector<Level>& loops, int64_t extent) {
  const size_t of_loops = loops.size();
  if (levels.size() < of_loops) return misfit(program, statement, "has fewer levels than loops");
  std::vector<Place::Digit> digits;
  for (size_t l = 0; l < of_loops; ++l) {
    int64_t trips = levels[l].extent;
    // A seq loop and registers below it are one level.
    const bool joined = l + 1 == of_loops && levels[l].kind == Level::Kind::kThread &&
                        loops[l].extent > 0 && trips > 0 && trips % loops[l].extent == 0;
    if (joined && trips > loops[l].extent) {
      digits.push_back({PlaceLevel::kReg, trips / loops[l].extent});
      trips = loops[l].extent;
    }
    if (levels[l].kind != loops[l].kind || (trips > 0 && loops[l].extent != trips)) {
      return misfit(program, statement, "has other loops than stand around it");
    }
  }
  int64_t stated = 1, open = 0;
  for (size_t l = of_loops; l < levels.size(); ++l) {
    stated *= std::max<int64_t>(levels[l].extent, 1);
    open += levels[l].extent == 0 ? 1 : 0;
    if (stated > kMostExtent) return misfit(program, statement, "is too large");
  }
  if (open > 1) return misfit(program, statement, "leaves two levels of a dimension open");
  for (size_t l = of_loops; l < levels.size(); ++l) {
    const auto kind = levels[l].kind;
    if (kind <= Level::Kind::kCluster) {
      return misfit(program, statement, "names a loop that is not there");
    }
    const int64_t n = levels[l].extent > 0 ? levels[l].extent : (extent + stated - 1) / stated;
    if (n < 2) continue;
    digits.push_back({kind == Level::Kind::kWarp  ? PlaceLevel::kWarp
                      : kind == Level::Kind::kCta ? PlaceLevel::kLane
                                                  : PlaceLevel::kReg,
                      n});
  }
  return digits;
}

Status place_by_form(const TileStructure& structure, const TemplateForm& form,
                     TileStatement* statement) {
  const TileProgram& program = *structure.program;
  const auto dimensions = dimensions_of(*statement);
  if (dimensions.size() != form.dimensions.size()) {
    return misfit(
        program, *statement,
        fmt::format("has {} dimensions, not {}", form.dimensions.size(), dimensions.size()));
  }
  Place place;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    std::vector<TileVarId> box;
    for (const int id : dimensions[d]) {
      const TileVar::Kind kind = program.vars[static_cast<size_t>(id)].kind;
      if (kind == TileVar::Kind::kOffset || kind == TileVar::Kind::kAxis) box.push_back(id);
    }
    if (box.size() > 1) return misfit(program, *statement, "stands for an index of two axes");
    const int64_t extent = box.empty() ? 1 : program.vars[static_cast<size_t>(box[0])].extent;
    WEFT_ASSIGN_OR_RETURN(std::vector<Place::Digit> digits,
                          digits_of(program, *statement, form.dimensions[d],
                                    loops_of(structure, dimensions[d]), extent));
    if (digits.empty()) continue;
    if (box.empty()) return misfit(program, *statement, "splits a dimension of one element");
    place.axes.push_back({box[0], std::move(digits)});
  }
  statement->place = std::move(place);
  if (form.shared) statement->demand = Scope::kBlock;
  return {};
}

}  // namespace

std::string print(const TemplateForm& form) {
  std::string out;
  for (const std::vector<Level>& levels : form.dimensions) {
    if (!out.empty()) out += ",";
    std::string one;
    for (const Level& level : levels) {
      if (!one.empty()) one += "-";
      one += level_name(level.kind);
      if (levels.size() > 1 && level.extent > 0) one += fmt::format("_{}", level.extent);
    }
    out += one.empty() ? "THREAD" : one;
  }
  return "[" + out + "]" + (form.shared ? "S" : "");
}

Result<TemplateForm> parse_template_form(std::string_view text) { return FormParser(text).run(); }

namespace {

TemplateForm form_of(const TileStructure& structure, const TileStatement& statement,
                     const Place& place, Scope scope) {
  TemplateForm form;
  form.shared = scope == Scope::kBlock || scope == Scope::kCluster;
  for (const std::vector<int>& vars : dimensions_of(statement)) {
    std::vector<Level> levels = loops_of(structure, vars);
    for (const int id : vars) {
      const std::vector<PlacedDigit> digits = placed_digits(place, id);
      for (size_t d = digits.size(); d-- > 0;) {
        const Level::Kind kind = level_of(digits[d].level);
        if (!levels.empty() && levels.back().kind == kind && levels.back().extent > 0) {
          levels.back().extent *= digits[d].extent;
        } else {
          levels.push_back({kind, digits[d].extent});
        }
      }
    }
    form.dimensions.push_back(std::move(levels));
  }
  return form;
}

}  // namespace

TemplateForm template_form_of(const TileProgram& program, const TileStatement& statement,
                              Scope scope) {
  const TileStructure structure = structure_of(program);
  const PlaceTable places = resolve_places(structure);
  Place place = statement.place;
  for (size_t i = 0; i < structure.sites.size(); ++i) {
    if (structure.sites[i].statement == &statement) place = places.of_site[i];
  }
  return form_of(structure, statement, place, scope);
}

std::vector<TemplateForm> template_forms(const TileProgram& program, const ScopeAnalysis& scopes) {
  const TileStructure structure = structure_of(program);
  std::vector<TemplateForm> out;
  for (const Site& site : structure.sites) {
    if (site.kind != Site::Kind::kStatement) continue;
    const TileSymbolId symbol = site.statement->targets[0].symbol;
    out.push_back(form_of(structure, *site.statement, scopes.statement_places[out.size()],
                          scopes.symbols[static_cast<size_t>(symbol)].scope));
  }
  return out;
}

std::string template_form(const TileProgram& program, const TileStatement& statement, Scope scope) {
  return print(template_form_of(program, statement, scope));
}

Status place_by_forms(TileProgram& program,
                      const std::vector<std::pair<size_t, TemplateForm>>& forms) {
  if (forms.empty()) return {};
  std::vector<TileStatement*> statements;
  for_each_statement(program.body, [&](TileStatement& s) { statements.push_back(&s); });
  const TileStructure structure = structure_of(program);
  for (const auto& [number, form] : forms) {
    WEFT_RETURN_IF_ERROR(place_by_form(structure, form, statements[number]));
  }
  return {};
}

}  // namespace weft
