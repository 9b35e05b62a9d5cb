#include "driver/explain/stitching.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tile/rewrite/reuse_boxes.h"
#include "tile/tile_structure.h"

namespace weft {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"independent", "local", "regional", "global"};

/// What a kernel's tile program does with the values that carry an operation's name.
class Schemes {
 public:
  Schemes(const TensorProgram& program, const PlannedKernel& kernel)
      : program_(program), tile_(kernel.schedule.program), scopes_(kernel.schedule.scopes) {
    for (const ExprId e : kernel.group.exprs) {
      names_.insert(name_of(e));
      visit(expr(e).body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) read_.insert(s.symbol);
      });
    }
    for (const ReadSite& read : structure_of(tile_).reads) {
      const TileSymbolId viewed = tile_.symbols[static_cast<size_t>(read.read->symbol)].view_of;
      if (viewed >= 0) behind_barriers_.insert(viewed);
    }
    for (size_t s = 0; s < tile_.symbols.size(); ++s) {
      const auto id = static_cast<TileSymbolId>(s);
      StitchingScheme& known = of_name_[operation_of(tile_.symbols[s].name)];
      known = std::max(known, scheme_of(id));
    }
    if (!kernel.schedule.composition.in_turns() || kernel.rereads) return;
    for (const TileSymbolId id : reuse_of(tile_, scopes_).given_up)
      demoted_.insert(tile_.symbols[static_cast<size_t>(id)].name);
  }

  StitchedOp of(ExprId e) const {
    StitchedOp out{name_of(e), StitchingScheme::kIndependent, demoted_.contains(name_of(e))};
    if (!read_.contains(expr(e).output)) return out;
    const auto known = of_name_.find(out.name);
    out.scheme = StitchingScheme::kLocal;
    if (known != of_name_.end()) out.scheme = std::max(out.scheme, known->second);
    return out;
  }

 private:
  const TensorExpr& expr(ExprId e) const { return program_.exprs[static_cast<size_t>(e)]; }
  const std::string& name_of(ExprId e) const {
    return program_.tensors[static_cast<size_t>(expr(e).output)].name;
  }

  /// `p` of a value called `p_kept`, where no operation is called that.
  std::string operation_of(const std::string& symbol) const {
    std::string name = symbol;
    while (!names_.contains(name)) {
      const size_t end = name.rfind('_');
      if (end == std::string::npos) return symbol;
      name.resize(end);
    }
    return name;
  }

  StitchingScheme scheme_of(TileSymbolId id) const {
    const StitchingScheme behind_barrier =
        tile_.one_cluster ? StitchingScheme::kRegional : StitchingScheme::kGlobal;
    const TileSymbol& symbol = tile_.symbols[static_cast<size_t>(id)];
    if (symbol.kind == TileSymbol::Kind::kOutput)
      return behind_barriers_.contains(id) ? behind_barrier : StitchingScheme::kIndependent;
    if (symbol.kind == TileSymbol::Kind::kInput) return StitchingScheme::kIndependent;
    switch (scopes_.symbols[static_cast<size_t>(id)].scope) {
      case Scope::kBlock:
      case Scope::kCluster:
        return StitchingScheme::kRegional;
      case Scope::kGrid:
        return behind_barrier;
      default:
        return StitchingScheme::kLocal;
    }
  }

  const TensorProgram& program_;
  const TileProgram& tile_;
  const ScopeAnalysis& scopes_;
  std::set<std::string> names_;             ///< of the kernel's operations
  std::set<TensorId> read_;                 ///< by its operations
  std::set<TileSymbolId> behind_barriers_;  ///< what its views show
  std::map<std::string, StitchingScheme> of_name_;
  std::set<std::string> demoted_;
};

}  // namespace

std::string_view scheme_name(StitchingScheme scheme) { return kNames[static_cast<size_t>(scheme)]; }

std::vector<StitchedOp> stitching_of(const TensorProgram& program, const PlannedKernel& kernel) {
  if (kernel.schedule.program.cpu || kernel.schedule.library) return {};
  const Schemes schemes(program, kernel);
  std::vector<StitchedOp> out;
  for (const ExprId e : kernel.group.exprs) out.push_back(schemes.of(e));
  return out;
}

std::string stitching_text(const std::vector<StitchedOp>& ops) {
  constexpr size_t kMost = 8;
  std::string out;
  for (const auto scheme :
       {StitchingScheme::kLocal, StitchingScheme::kRegional, StitchingScheme::kGlobal}) {
    size_t count = 0;
    for (const StitchedOp& op : ops) {
      if (op.scheme != scheme || ++count > kMost) continue;
      if (count == 1) {
        out += (out.empty() ? "" : "; ") + std::string(scheme_name(scheme)) + ": ";
      } else {
        out += ", ";
      }
      out += op.name + (op.demoted ? " (demoted)" : "");
    }
    if (count > kMost) out += ", " + std::to_string(count - kMost) + " more";
  }
  return out;
}

}  // namespace weft
