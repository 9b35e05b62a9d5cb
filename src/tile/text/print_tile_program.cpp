#include <algorithm>

#include "fmt/format.h"
#include "tile/text/tile_lexer.h"
#include "tile/text/tile_printer.h"

namespace weft {

struct TilePrinter::Comments {
  const ScopeAnalysis* scopes = nullptr;
};

TilePrinter::TilePrinter(const TileProgram& program)
    : program_(program), symbols_(program.symbols.size()), vars_(program.vars.size()) {
  name_symbols();
  std::vector<std::string> open;
  name_loops(program.body, open);
}

std::string TilePrinter::unique(std::string_view name, const std::vector<std::string>& open) const {
  const std::string base = tile_identifier(name);
  std::string candidate = base;
  const auto used = [&](const std::string& s) {
    return taken_.count(s) != 0 || std::find(open.begin(), open.end(), s) != open.end();
  };
  for (int i = 2; used(candidate); ++i) candidate = fmt::format("{}_{}", base, i);
  return candidate;
}

void TilePrinter::name_symbols() {
  for (size_t i = 0; i < program_.symbols.size(); ++i) {
    symbols_[i] = unique(program_.symbols[i].name, {});
    taken_[symbols_[i]] = 1;
  }
  for (size_t i = 0; i < program_.vars.size(); ++i) {
    const TileVar& var = program_.vars[i];
    if (var.kind != TileVar::Kind::kAxis && var.kind != TileVar::Kind::kSize) continue;
    vars_[i] = unique(var.name, {});
    taken_[vars_[i]] = 1;
  }
}

void TilePrinter::name_loops(const TileBody& body, std::vector<std::string>& open) {
  for (const TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        break;
      case TileNode::Kind::kCondition:
        name_loops(node.condition->body, open);
        break;
      case TileNode::Kind::kPack:
        for (const auto& member : node.pack->members) name_loops(member.body, open);
        break;
      case TileNode::Kind::kLoop:
        for (const TileLoop::Dim& dim : node.loop->dims) {
          const size_t origin = static_cast<size_t>(dim.origin);
          vars_[origin] = unique(program_.vars[origin].name, open);
          open.push_back(vars_[origin]);
          if (dim.offset >= 0) {
            vars_[static_cast<size_t>(dim.offset)] = vars_[origin];
            loop_of_origin_[dim.origin] = dim.offset;
            loop_of_offset_[dim.offset] = dim.origin;
          }
        }
        name_loops(node.loop->body, open);
        open.resize(open.size() - node.loop->dims.size());
        break;
    }
  }
}

std::string TilePrinter::declared(TileSymbolId id) const {
  const TileSymbol& s = program_.symbols[static_cast<size_t>(id)];
  return fmt::format("{}: {}{}", symbol(id), dtype_name(s.type),
                     s.shape.empty() ? "[]" : subscripts(s.shape, {}));
}

std::string TilePrinter::header() const {
  std::string out = fmt::format("kernel {}(", tile_identifier(program_.name));
  for (size_t i = 0; i < program_.parameters.size(); ++i) {
    const TileSymbolId id = program_.parameters[i];
    const TileSymbol& p = program_.symbols[static_cast<size_t>(id)];
    if (i > 0) out += ", ";
    if (p.kind == TileSymbol::Kind::kOutput) out += "out ";
    out += declared(id);
    if (!p.layout.axes.empty()) out += " layout";
    for (const Layout::Axis& a : p.layout.axes) {
      out += fmt::format(" {{{}, {}, {}}}", a.axis, a.divisor, a.extent);
    }
  }
  out += fmt::format(") blocks {}{} warps {}", index(program_.blocks),
                     program_.one_cluster ? " cluster" : "", program_.warps);
  if (program_.per_sm > 0) out += fmt::format(" per_sm {}", program_.per_sm);
  return out;
}

namespace {

bool names_threads(const Place& place) {
  for (const auto& axis : place.axes) {
    for (const auto& digit : axis.digits) {
      if (digit.level == PlaceLevel::kWarp || digit.level == PlaceLevel::kLane) return true;
    }
  }
  return false;
}

bool names_threads(const TileBody& body) {
  for (const TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        if (names_threads(node.statement.place)) return true;
        break;
      case TileNode::Kind::kLoop:
        for (const TileCarry& carry : node.loop->carries) {
          if (names_threads(carry.place)) return true;
        }
        if (names_threads(node.loop->body)) return true;
        break;
      case TileNode::Kind::kCondition:
        if (names_threads(node.condition->body)) return true;
        break;
      case TileNode::Kind::kPack:
        for (const auto& member : node.pack->members) {
          if (names_threads(member.body)) return true;
        }
        break;
    }
  }
  return false;
}

void indent(int depth, std::string& out) { out.append(static_cast<size_t>(depth) * 2, ' '); }

}  // namespace

std::string TilePrinter::program(const ScopeAnalysis* scopes) const {
  std::string out = header();
  // A reader takes warps 1 without WARP and LANE for a CPU; anything else is said.
  const bool looks_like_cpu = program_.warps == 1 && !names_threads(program_.body);
  if (program_.cpu != looks_like_cpu) out += program_.cpu ? " cpu" : " gpu";
  out += " {\n";
  std::vector<int> in_header;
  for (const TileSymbolId id : program_.parameters) {
    for (const IndexExpr& e : program_.symbols[static_cast<size_t>(id)].shape) {
      for (const int v : variables(e)) in_header.push_back(v);
    }
  }
  for (const int v : variables(program_.blocks)) in_header.push_back(v);
  for (size_t i = 0; i < program_.vars.size(); ++i) {
    const TileVar& var = program_.vars[i];
    if (var.kind == TileVar::Kind::kAxis) out += fmt::format("  {}: {};\n", vars_[i], var.extent);
    if (var.kind != TileVar::Kind::kSize) continue;
    const bool seen =
        std::find(in_header.begin(), in_header.end(), static_cast<int>(i)) != in_header.end();
    if (var.extent > 0) {
      out += fmt::format("  size {} = {};\n", vars_[i], var.extent);
    } else if (!seen) {
      out += fmt::format("  size {};\n", vars_[i]);
    }
  }
  for (size_t i = 0; i < program_.symbols.size(); ++i) {
    if (!program_.symbols[i].is_workspace) continue;
    out += fmt::format("  workspace {};\n", declared(static_cast<TileSymbolId>(i)));
  }
  views(-1, 1, out);
  std::vector<int32_t> path;
  Comments comments{scopes};
  body(program_.body, 1, path, comments, out);
  out += "}\n";
  if (scopes != nullptr) {
    out += fmt::format("-- {} {} B, workspace {} B, registers {}\n",
                       scope_name(Scope::kBlock, program_.cpu), scopes->block_bytes,
                       scopes->workspace_bytes, scopes->registers);
  }
  return out;
}

namespace {

std::string scope_comment(const TilePrinter& printer, const TileProgram& program,
                          const ScopeAnalysis& scopes, TileSymbolId id) {
  const TileSymbol& symbol = program.symbols[static_cast<size_t>(id)];
  const SymbolScope& scope = scopes.symbols[static_cast<size_t>(id)];
  std::string out =
      fmt::format("-- {}: {}", printer.symbol(id), scope_name(scope.scope, program.cpu));
  if (!scope.extents.empty() || scope.bytes > 0) {
    std::string extents;
    for (const int64_t e : scope.extents) {
      extents += fmt::format("{}{}", extents.empty() ? "" : ",", e);
    }
    std::string base;
    for (const IndexExpr& e : scope.base) {
      base += fmt::format("{}{}", base.empty() ? "" : ", ", printer.index(e));
    }
    out += fmt::format(" {}[{}]", dtype_name(symbol.type), extents);
    if (scope.pad > 0) out += fmt::format(" padded by {}", scope.pad);
    if (scope.copies > 1) out += fmt::format(" x{}", scope.copies);
    for (const SymbolScope::Part& part : scope.parts) {
      out += fmt::format(" for each {} of {}", printer.var(part.origin), part.trips);
    }
    if (scope.swizzle && scope.swizzle->bits > 0) {
      out += fmt::format(" swizzle {},{},{}", scope.swizzle->bits, scope.swizzle->base,
                         scope.swizzle->shift);
      if (scope.swizzle->panel_columns > 0)
        out += fmt::format(" panels {}", scope.swizzle->panel_columns);
    }
    out += fmt::format(" from ({}), {} B at {}", base, scope.bytes, scope.offset);
  }
  if (!scope.reason.empty()) out += fmt::format("; {}", scope.reason);
  return out;
}

void barrier_comments(const TilePrinter& printer, const TileProgram& program,
                      const ScopeAnalysis& scopes, const std::vector<int32_t>& path, int depth,
                      std::string& out) {
  for (const BarrierPoint& barrier : scopes.barriers) {
    if (barrier.before != path) continue;
    indent(depth, out);
    out += fmt::format("-- barrier: {}", scope_name(barrier.scope, program.cpu));
    if (barrier.scope > Scope::kBlock) {
      out += fmt::format(", {} blocks{}", printer.index(barrier.blocks),
                         program.one_cluster ? " of one cluster" : "");
    }
    out += '\n';
  }
}

}  // namespace

void TilePrinter::views(TileVarId var, int depth, std::string& out) const {
  for (size_t i = 0; i < program_.symbols.size(); ++i) {
    const TileSymbol& s = program_.symbols[i];
    if (s.view_of < 0 || (var < 0 ? !variables(s.at).empty() : !uses_var(s.at, var))) continue;
    indent(depth, out);
    out += fmt::format("view {}{} of {}", s.kind == TileSymbol::Kind::kOutput ? "out " : "",
                       declared(static_cast<TileSymbolId>(i)), symbol(s.view_of));
    out += s.at.is_const(0) ? ";\n" : fmt::format(" at {};\n", index(s.at));
  }
}

void TilePrinter::body(const TileBody& body, int depth, std::vector<int32_t>& path,
                       const Comments& comments, std::string& out) const {
  path.push_back(0);
  for (size_t i = 0; i <= body.size(); ++i) {
    path.back() = static_cast<int32_t>(i);
    if (comments.scopes != nullptr) {
      barrier_comments(*this, program_, *comments.scopes, path, depth, out);
    }
    if (i == body.size()) break;
    const TileNode& node = body[i];
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        indent(depth, out);
        out += statement(node.statement) + "\n";
        if (comments.scopes == nullptr) break;
        for (const TileRef& target : node.statement.targets) {
          const TileSymbol& symbol = program_.symbols[static_cast<size_t>(target.symbol)];
          if (symbol.kind != TileSymbol::Kind::kValue) continue;
          indent(depth + 1, out);
          out += scope_comment(*this, program_, *comments.scopes, target.symbol) + "\n";
        }
        break;
      case TileNode::Kind::kLoop:
        loop_header(*node.loop, depth, comments, out);
        if (is_recurrence(*node.loop) && depth == 1)
          views(node.loop->dims[0].origin, depth + 1, out);
        this->body(node.loop->body, depth + 1, path, comments, out);
        indent(depth, out);
        out += "}\n";
        break;
      case TileNode::Kind::kCondition:
        indent(depth, out);
        out += fmt::format("if {} {{\n", scalar(node.condition->condition, DType::kBool));
        this->body(node.condition->body, depth + 1, path, comments, out);
        indent(depth, out);
        out += "}\n";
        break;
      case TileNode::Kind::kPack:
        indent(depth, out);
        out += "pack {\n";
        path.push_back(0);
        for (const TilePack::Member& member : node.pack->members) {
          indent(depth + 1, out);
          out += fmt::format("share {} {{\n", member.share);
          this->body(member.body, depth + 2, path, comments, out);
          indent(depth + 1, out);
          out += "}\n";
          ++path.back();
        }
        path.pop_back();
        indent(depth, out);
        out += "}\n";
        break;
    }
  }
  path.pop_back();
}

std::string TilePrinter::dim(const TileLoop::Dim& dim) const {
  std::string out = vars_[static_cast<size_t>(dim.origin)] + " in ";
  if (!dim.begin.is_const(0)) out += index(dim.begin) + " .. ";
  out += index(dim.end);
  if (dim.step != 1) out += fmt::format(" step {}", dim.step);
  if (dim.unroll == 0) out += " unroll";
  if (dim.unroll > 1) out += fmt::format(" unroll {}", dim.unroll);
  return out;
}

void TilePrinter::loop_header(const TileLoop& loop, int depth, const Comments& comments,
                              std::string& out) const {
  indent(depth, out);
  out += loop.kind == TileLoop::Kind::kGrid      ? "grid "
         : loop.kind == TileLoop::Kind::kCluster ? "cluster "
                                                 : "seq ";
  for (size_t i = 0; i < loop.dims.size(); ++i) {
    if (i > 0) out += ", ";
    out += dim(loop.dims[i]);
  }
  if (loop.stages > 1) out += fmt::format(" stages {}", loop.stages);
  if (loop.ahead) out += " ahead";
  if (loop.by_cluster) out += " by cluster";
  for (size_t i = 0; i < loop.carries.size(); ++i) {
    const TileCarry& carry = loop.carries[i];
    out += i == 0 ? " carry " : ", ";
    out += fmt::format("{}: {} = {}", ref(carry.target), dtype_name(carry.type),
                       scalar(carry.initial, carry.type));
    if (!carry.place.empty()) out += " " + place(carry.place);
  }
  out += " {\n";
  if (comments.scopes == nullptr) return;
  for (const TileCarry& carry : loop.carries) {
    indent(depth + 1, out);
    out += scope_comment(*this, program_, *comments.scopes, carry.target.symbol) + "\n";
  }
}

std::string TilePrinter::statement(const TileStatement& s) const {
  std::string out;
  for (const TileRef& target : s.targets) out += (out.empty() ? "" : ", ") + ref(target);
  switch (s.assign) {
    case AssignOp::kAssign:
      out += " = ";
      break;
    case AssignOp::kAdd:
      out += " += ";
      break;
    case AssignOp::kMax:
      out += " max= ";
      break;
    case AssignOp::kMin:
      out += " min= ";
      break;
  }
  static constexpr std::string_view kCombiners[] = {"",    "sum", "prod",   "min",    "max",
                                                    "and", "or",  "argmax", "welford"};
  if (s.combiner != TileCombiner::kNone) {
    out += fmt::format("{}[", kCombiners[static_cast<size_t>(s.combiner)]);
    for (size_t i = 0; i < s.reduce_axes.size(); ++i) {
      out += (i > 0 ? ", " : "") + var(s.reduce_axes[i]);
    }
    out += "] ";
  }
  // A value is defined by its statement and lends a literal no type; carries and outputs do.
  const TileSymbol& target = program_.symbols[static_cast<size_t>(s.targets[0].symbol)];
  std::optional<DType> context;
  if (target.kind != TileSymbol::Kind::kValue) context = target.type;
  out += scalar(s.value, context);
  if (!s.unit.empty()) out += " by " + s.unit;
  // A value's own type counts, however the statement came by it.
  std::optional<DType> type = s.type;
  if (target.kind == TileSymbol::Kind::kValue && target.type != s.value->type) type = target.type;
  if (type.has_value()) out += fmt::format(" : {}", dtype_name(*type));
  if (s.demand.has_value()) {
    out += fmt::format(" at {}",
                       *s.demand == Scope::kWarp ? "warp" : scope_name(*s.demand, program_.cpu));
  }
  if (!s.place.empty()) out += " " + place(s.place);
  return out + ";";
}

std::string TilePrinter::place(const Place& place) const {
  static constexpr std::string_view kLevels[] = {"WARP", "LANE", "REG", "VEC"};
  std::string out = "@[";
  for (size_t i = 0; i < place.axes.size(); ++i) {
    const Place::Axis& axis = place.axes[i];
    if (i > 0) out += ", ";
    out += (axis.var < 0 ? "copies" : var(axis.var)) + "=";
    for (size_t d = 0; d < axis.digits.size(); ++d) {
      out += fmt::format("{}{}_{}", d > 0 ? "-" : "",
                         kLevels[static_cast<size_t>(axis.digits[d].level)], axis.digits[d].extent);
    }
  }
  return out + "]";
}

std::string TilePrinter::ref(const TileRef& ref) const {
  return symbol(ref.symbol) + (ref.next ? "'" : "") + subscripts(ref.indices, {});
}

std::string print(const TileProgram& program) { return TilePrinter(program).program(nullptr); }

std::string print(const TileProgram& program, const ScopeAnalysis& scopes) {
  return TilePrinter(program).program(&scopes);
}

}  // namespace weft
