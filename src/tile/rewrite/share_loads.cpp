#include "tile/rewrite/share_loads.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "tile/tile_structure.h"

namespace weft {

namespace {

void list_certain_reads(const TileProgram& program, const ScalarRef& s,
                        std::vector<ScalarRef>* out) {
  if (s->kind == Scalar::Kind::kRead) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(s->symbol)];
    const bool plain = s->operands.empty() && s->fill == nullptr;
    if (plain && symbol.kind == TileSymbol::Kind::kInput) out->push_back(s);
    return;
  }
  const bool select = s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kSelect;
  const size_t certain = select ? 1 : s->operands.size();
  for (size_t o = 0; o < certain; ++o) list_certain_reads(program, s->operands[o], out);
}

/// What the loop of an offset means by its name.
void index_loops(const TileProgram& program, const TileBody& body,
                 std::map<TileVarId, IndexExpr>* index_of) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop) {
      for (const TileLoop::Dim& dim : node.loop->dims) {
        if (dim.offset >= 0) (*index_of)[dim.offset] = program.index_of(dim);
      }
      index_loops(program, node.loop->body, index_of);
    }
    if (node.kind == TileNode::Kind::kCondition) {
      index_loops(program, node.condition->body, index_of);
    }
    if (node.kind == TileNode::Kind::kPack) {
      for (const TilePack::Member& m : node.pack->members) index_loops(program, m.body, index_of);
    }
  }
}

/// One coordinate for each variable of the box that the read moves with.
std::vector<IndexExpr> coordinates_of(const TileProgram& program, const Scalar& read) {
  std::map<TileVarId, IndexExpr> index_of;
  index_loops(program, program.body, &index_of);
  std::vector<IndexExpr> out;
  std::set<int> seen;
  for (const IndexExpr& e : read.indices) {
    for (const int id : variables(e)) {
      const TileVar::Kind kind = program.vars[static_cast<size_t>(id)].kind;
      const bool in_box = kind == TileVar::Kind::kOffset || kind == TileVar::Kind::kAxis;
      if (!in_box || !seen.insert(id).second) continue;
      const auto loop = index_of.find(id);
      out.push_back(loop != index_of.end() ? loop->second : IndexExpr::var(id));
    }
  }
  return out;
}

std::string unused_name(const TileProgram& program, const std::string& base) {
  const auto taken = [&](const std::string& name) {
    return program.find_symbol(name) >= 0 ||
           std::any_of(program.vars.begin(), program.vars.end(),
                       [&](const TileVar& v) { return v.name == name; });
  };
  std::string name = base;
  for (int n = 1; taken(name); ++n) name = base + std::to_string(n);
  return name;
}

class LoadSharing {
 public:
  explicit LoadSharing(TileProgram& program) : program_(program) {}

  bool run() {
    walk(program_.body);
    return changed_;
  }

 private:
  struct Shared {
    ScalarRef read;
    std::set<size_t> statements;
    bool operator()(const ScalarRef& other) const { return equal(read, other); }
  };

  void walk(TileBody& body) {
    for (TileNode& node : body) {
      if (node.kind == TileNode::Kind::kLoop) walk(node.loop->body);
      if (node.kind == TileNode::Kind::kCondition) walk(node.condition->body);
      if (node.kind == TileNode::Kind::kPack) {
        for (TilePack::Member& m : node.pack->members) walk(m.body);
      }
    }
    share_in(body);
  }

  void share_in(TileBody& body) {
    std::vector<Shared> found;
    for (size_t n = 0; n < body.size(); ++n) {
      if (body[n].kind != TileNode::Kind::kStatement) continue;
      for (const ScalarRef& r : certain_reads(program_, body[n].statement.value)) {
        const auto known =
            std::find_if(found.begin(), found.end(), [&](const Shared& s) { return s(r); });
        Shared& shared = known != found.end() ? *known : found.emplace_back(Shared{r, {}});
        shared.statements.insert(n);
      }
    }
    // Found in the order of their first statements; the last goes in first, so that the positions
    // of the others stay.
    std::vector<std::pair<size_t, TileStatement>> loads;
    for (const Shared& shared : std::views::reverse(found)) {
      if (shared.statements.size() > 1) {
        loads.emplace_back(*shared.statements.begin(), share(body, shared));
      }
    }
    for (auto& [first, load] : loads) {
      body.insert(body.begin() + static_cast<ptrdiff_t>(first), TileNode::of(std::move(load)));
    }
    changed_ = changed_ || !loads.empty();
  }

  /// The load, which is to stand before the first of the statements.
  TileStatement share(TileBody& body, const Shared& shared) {
    LoadedValue loaded =
        loaded_value(program_, shared.read, body[*shared.statements.begin()].statement.place);
    for (const size_t n : shared.statements) {
      TileStatement& st = body[n].statement;
      st.value = rewrite(st.value, {}, [&](const ScalarRef& read) {
        return equal(read, shared.read) ? loaded.value : read;
      });
    }
    return std::move(loaded.load);
  }

  TileProgram& program_;
  bool changed_ = false;
};

}  // namespace

LoadedValue loaded_value(TileProgram& program, const ScalarRef& read, const Place& reader) {
  const std::vector<IndexExpr> coordinates = coordinates_of(program, *read);
  TileSymbol symbol;
  symbol.name =
      unused_name(program, program.symbols[static_cast<size_t>(read->symbol)].name + "_v");
  symbol.type = read->type;
  const TileSymbolId id = program.add_symbol(std::move(symbol));
  LoadedValue out;
  out.load.targets.push_back({id, coordinates, false});
  out.load.value = read;
  std::set<TileVarId> box;
  for (const IndexExpr& e : coordinates) add_box_variables(program, e, &box);
  for (const Place::Axis& axis : reader.axes) {
    if (box.count(axis.var) != 0) out.load.place.axes.push_back(axis);
  }
  out.value = scalar_read(id, read->type, coordinates);
  return out;
}

std::vector<ScalarRef> certain_reads(const TileProgram& program, const ScalarRef& value) {
  std::vector<ScalarRef> out;
  list_certain_reads(program, value, &out);
  return out;
}

bool share_loads(TileProgram& program) { return LoadSharing(program).run(); }

}  // namespace weft
