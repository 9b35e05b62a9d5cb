#include <algorithm>
#include <map>
#include <set>

#include "tile/rewrite/hoist.h"
#include "tile/scope_analysis.h"
#include "tile/tile_structure.h"

namespace weft {
namespace {

class Hoister {
 public:
  explicit Hoister(TileProgram& program) : program_(program) {}

  bool run() {
    // Other copies of the program keep their loops.
    program_.body = cloned(program_.body);
    bool changed = drop_loops(program_.body);
    changed = hoist_body(program_.body) || changed;
    return changed;
  }

 private:
  // Loops of one iteration.
  bool drop_loops(TileBody& body) {
    bool changed = false;
    for (size_t i = 0; i < body.size(); ++i) {
      TileNode& node = body[i];
      if (node.kind == TileNode::Kind::kCondition) {
        changed = drop_loops(node.condition->body) || changed;
      }
      if (node.kind == TileNode::Kind::kPack) {
        for (TilePack::Member& member : node.pack->members) {
          changed = drop_loops(member.body) || changed;
        }
      }
      if (node.kind != TileNode::Kind::kLoop) continue;
      changed = drop_loops(node.loop->body) || changed;
      if (!runs_once(*node.loop) || !carries_can_go(*node.loop)) continue;
      TileBody inside = unwrap(*node.loop);
      body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), inside.begin(), inside.end());
      i += inside.size();
      --i;
      changed = true;
    }
    return changed;
  }

  static bool runs_once(const TileLoop& loop) {
    if (loop.kind != TileLoop::Kind::kSeq || loop.by_cluster) return false;
    return std::all_of(loop.dims.begin(), loop.dims.end(), [](const TileLoop::Dim& dim) {
      const IndexExpr length = dim.end - dim.begin;
      return length.is_const() && length.constant() >= 1 && length.constant() <= dim.step;
    });
  }

  /// A carry becomes the value that its one unconditional update makes, where that is all of the
  /// carry's box.
  static bool carries_can_go(const TileLoop& loop) {
    for (const TileCarry& carry : loop.carries) {
      for (const TileLoop::Dim& dim : loop.dims) {
        const bool whole = (dim.end - dim.begin).is_const(dim.step);
        for (const IndexExpr& e : carry.target.indices) {
          if (!whole && dim.offset >= 0 && uses_var(e, dim.offset)) return false;
        }
      }
      int updates = 0;
      for (const TileNode& node : loop.body) {
        if (node.kind != TileNode::Kind::kStatement) continue;
        for (const TileRef& target : node.statement.targets) {
          if (target.symbol == carry.target.symbol) ++updates;
        }
      }
      if (updates != 1 || updates_deeper(loop.body, carry.target.symbol)) return false;
    }
    return true;
  }
  static bool updates_deeper(const TileBody& body, TileSymbolId symbol) {
    for (const TileNode& node : body) {
      const TileBody* inside = node.kind == TileNode::Kind::kLoop        ? &node.loop->body
                               : node.kind == TileNode::Kind::kCondition ? &node.condition->body
                                                                         : nullptr;
      if (inside == nullptr) continue;
      for (const TileNode& inner : *inside) {
        if (inner.kind != TileNode::Kind::kStatement) continue;
        for (const TileRef& target : inner.statement.targets) {
          if (target.symbol == symbol) return true;
        }
      }
      if (updates_deeper(*inside, symbol)) return true;
    }
    return false;
  }

  TileBody unwrap(TileLoop& loop) {
    TileBody out;
    std::map<TileSymbolId, TileSymbolId> first;  // carry → its initial value
    for (const TileCarry& carry : loop.carries) {
      TileSymbol symbol = program_.symbols[static_cast<size_t>(carry.target.symbol)];
      symbol.kind = TileSymbol::Kind::kValue;
      symbol.name += "_first";
      TileStatement initial;
      initial.targets = {carry.target};
      initial.targets[0].symbol = program_.add_symbol(std::move(symbol));
      first[carry.target.symbol] = initial.targets[0].symbol;
      initial.value = carry.initial;
      initial.place = carry.place;
      out.push_back(TileNode::of(std::move(initial)));
      program_.symbols[static_cast<size_t>(carry.target.symbol)].kind = TileSymbol::Kind::kValue;
    }
    std::map<TileVarId, IndexExpr> origins;
    for (const TileLoop::Dim& dim : loop.dims) {
      origins[dim.origin] = dim.begin;
      if (dim.offset < 0) continue;
      // What was a tile within the loop is an axis of as many elements as there are.
      TileVar& var = program_.vars[static_cast<size_t>(dim.offset)];
      var.kind = TileVar::Kind::kAxis;
      var.extent = (dim.end - dim.begin).constant();
    }
    out.insert(out.end(), loop.body.begin(), loop.body.end());
    const Rewriting rewriting{origins, first};
    rewrite_body(out, rewriting);
    // Behind the loop the name already means the last value; its readers need no `next` and have
    // none.
    return out;
  }

  struct Rewriting {
    const std::map<TileVarId, IndexExpr>& origins;
    const std::map<TileSymbolId, TileSymbolId>& first;
  };

  static IndexExpr moved(const IndexExpr& e, const Rewriting& r) {
    return substitute(e, [&](int id) -> IndexExpr {
      const auto found = r.origins.find(id);
      return found == r.origins.end() ? IndexExpr::var(id) : found->second;
    });
  }
  static ScalarRef moved(const ScalarRef& s, const Rewriting& r) {
    return rewrite(
        s,
        [&](int id) {
          const auto found = r.origins.find(id);
          return found == r.origins.end() ? IndexExpr::var(id) : found->second;
        },
        [&](const ScalarRef& read) -> ScalarRef {
          const auto found = r.first.find(read->symbol);
          if (found == r.first.end()) return read;
          Scalar copy = *read;
          if (!copy.next) copy.symbol = found->second;
          copy.next = false;
          return std::make_shared<const Scalar>(std::move(copy));
        });
  }
  static void move_target(TileRef& target, const Rewriting& r) {
    for (IndexExpr& e : target.indices) e = moved(e, r);
    if (r.first.count(target.symbol) != 0) target.next = false;
  }

  static void rewrite_body(TileBody& body, const Rewriting& r) {
    for (TileNode& node : body) {
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          for (TileRef& target : node.statement.targets) move_target(target, r);
          node.statement.value = moved(node.statement.value, r);
          break;
        case TileNode::Kind::kCondition:
          node.condition->condition = moved(node.condition->condition, r);
          rewrite_body(node.condition->body, r);
          break;
        case TileNode::Kind::kLoop:
          for (TileLoop::Dim& dim : node.loop->dims) {
            dim.begin = moved(dim.begin, r);
            dim.end = moved(dim.end, r);
          }
          for (TileCarry& carry : node.loop->carries) {
            for (IndexExpr& e : carry.target.indices) e = moved(e, r);
            carry.initial = moved(carry.initial, r);
          }
          rewrite_body(node.loop->body, r);
          break;
        case TileNode::Kind::kPack:
          for (TilePack::Member& member : node.pack->members) rewrite_body(member.body, r);
          break;
      }
    }
  }

  // Statements.
  bool hoist_body(TileBody& body) {
    bool changed = false;
    for (size_t i = 0; i < body.size(); ++i) {
      TileNode& node = body[i];
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          break;
        case TileNode::Kind::kCondition:
          changed = hoist_body(node.condition->body) || changed;
          break;
        case TileNode::Kind::kPack:
          for (TilePack::Member& member : node.pack->members) {
            changed = hoist_body(member.body) || changed;
          }
          break;
        case TileNode::Kind::kLoop: {
          changed = hoist_body(node.loop->body) || changed;
          if (node.loop->kind != TileLoop::Kind::kSeq) break;
          TileBody free = take_independent(*node.loop);
          changed = changed || !free.empty();
          body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), free.begin(), free.end());
          i += free.size();
          break;
        }
      }
    }
    return changed;
  }

  /// Removes and returns the statements of the loop's body, in order, that make the same value in
  /// every iteration.
  TileBody take_independent(TileLoop& loop) const {
    std::set<TileSymbolId> inside;
    for (const TileCarry& carry : loop.carries) inside.insert(carry.target.symbol);
    made_in(loop.body, &inside);
    std::set<TileVarId> vars;
    for (const TileLoop::Dim& dim : loop.dims) {
      vars.insert(dim.origin);
      if (dim.offset >= 0) vars.insert(dim.offset);
    }
    TileBody free, rest;
    for (TileNode& node : loop.body) {
      if (node.kind == TileNode::Kind::kStatement && independent(node.statement, vars, inside)) {
        for (const TileRef& target : node.statement.targets) inside.erase(target.symbol);
        free.push_back(std::move(node));
      } else {
        rest.push_back(std::move(node));
      }
    }
    loop.body = std::move(rest);
    return free;
  }

  static void made_in(const TileBody& body, std::set<TileSymbolId>* out) {
    for (const TileNode& node : body) {
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          for (const TileRef& target : node.statement.targets) out->insert(target.symbol);
          break;
        case TileNode::Kind::kLoop:
          for (const TileCarry& carry : node.loop->carries) out->insert(carry.target.symbol);
          made_in(node.loop->body, out);
          break;
        case TileNode::Kind::kCondition:
          made_in(node.condition->body, out);
          break;
        case TileNode::Kind::kPack:
          for (const TilePack::Member& member : node.pack->members) made_in(member.body, out);
          break;
      }
    }
  }

  bool independent(const TileStatement& s, const std::set<TileVarId>& vars,
                   const std::set<TileSymbolId>& inside) const {
    const auto uses = [&](const IndexExpr& e) {
      return std::any_of(vars.begin(), vars.end(), [&](TileVarId v) { return uses_var(e, v); });
    };
    for (const TileRef& target : s.targets) {
      if (program_.symbols[static_cast<size_t>(target.symbol)].kind != TileSymbol::Kind::kValue) {
        return false;
      }
      for (const IndexExpr& e : target.indices) {
        if (uses(e)) return false;
      }
    }
    for (const TileVarId axis : s.reduce_axes) {
      if (vars.count(axis) != 0) return false;
    }
    bool free = true;
    visit(s.value, [&](const Scalar& node) {
      if (node.kind == Scalar::Kind::kIndex && uses(node.index)) free = false;
      for (const IndexExpr& e : node.indices) free = free && !uses(e);
      if (node.kind == Scalar::Kind::kRead && inside.count(node.symbol) != 0) free = false;
    });
    return free;
  }

  TileProgram& program_;
};

}  // namespace

bool hoist(TileProgram& program) { return Hoister(program).run(); }

}  // namespace weft
