#include "schedule/share_loads.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

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

class LoadSharing {
 public:
  explicit LoadSharing(TileProgram& program) : program_(program) { index_loops(program.body); }

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

  void index_loops(const TileBody& body) {
    for (const TileNode& node : body) {
      if (node.kind == TileNode::Kind::kLoop) {
        for (const TileLoop::Dim& dim : node.loop->dims) {
          if (dim.offset >= 0) index_of_[dim.offset] = program_.index_of(dim);
        }
        index_loops(node.loop->body);
      }
      if (node.kind == TileNode::Kind::kCondition) index_loops(node.condition->body);
      if (node.kind == TileNode::Kind::kPack) {
        for (const TilePack::Member& m : node.pack->members) index_loops(m.body);
      }
    }
  }

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
    // Found in the order of their first statements; the last first, so that positions stay.
    for (const Shared& shared : std::views::reverse(found)) {
      if (shared.statements.size() > 1) share(body, shared);
    }
  }

  void share(TileBody& body, const Shared& shared) {
    const size_t first = *shared.statements.begin();
    const std::vector<IndexExpr> coordinates = coordinates_of(*shared.read);
    TileSymbol symbol;
    symbol.name =
        unused_name(program_.symbols[static_cast<size_t>(shared.read->symbol)].name + "_v");
    symbol.type = shared.read->type;
    const TileSymbolId id = program_.add_symbol(std::move(symbol));
    const ScalarRef value = scalar_read(id, shared.read->type, coordinates);
    for (const size_t n : shared.statements) {
      TileStatement& st = body[n].statement;
      st.value = rewrite(st.value, {}, [&](const ScalarRef& read) {
        return equal(read, shared.read) ? value : read;
      });
    }
    TileStatement load;
    load.targets.push_back({id, coordinates, false});
    load.value = shared.read;
    load.place = body[first].statement.place;
    body.insert(body.begin() + static_cast<ptrdiff_t>(first), TileNode::of(std::move(load)));
    changed_ = true;
  }

  /// One coordinate for each variable of the box that the read moves with.
  std::vector<IndexExpr> coordinates_of(const Scalar& read) const {
    std::vector<IndexExpr> out;
    std::set<int> seen;
    for (const IndexExpr& e : read.indices) {
      for (const int id : variables(e)) {
        const TileVar::Kind kind = program_.vars[static_cast<size_t>(id)].kind;
        const bool in_box = kind == TileVar::Kind::kOffset || kind == TileVar::Kind::kAxis;
        if (!in_box || !seen.insert(id).second) continue;
        const auto loop = index_of_.find(id);
        out.push_back(loop != index_of_.end() ? loop->second : IndexExpr::var(id));
      }
    }
    return out;
  }

  std::string unused_name(const std::string& base) const {
    const auto taken = [&](const std::string& name) {
      return program_.find_symbol(name) >= 0 ||
             std::any_of(program_.vars.begin(), program_.vars.end(),
                         [&](const TileVar& v) { return v.name == name; });
    };
    std::string name = base;
    for (int n = 1; taken(name); ++n) name = base + std::to_string(n);
    return name;
  }

  TileProgram& program_;
  std::map<TileVarId, IndexExpr> index_of_;  ///< by offset: what its loop's name means
  bool changed_ = false;
};

}  // namespace

std::vector<ScalarRef> certain_reads(const TileProgram& program, const ScalarRef& value) {
  std::vector<ScalarRef> out;
  list_certain_reads(program, value, &out);
  return out;
}

bool share_loads(TileProgram& program) { return LoadSharing(program).run(); }

}  // namespace weft
