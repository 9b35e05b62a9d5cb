#include "tile/rewrite/merge_nests.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tile/analysis/same_blocks.h"
#include "tile/analysis/view_parts.h"
#include "tile/rewrite/prune_symbols.h"

namespace weft {

namespace {

/// A place in memory: a tensor, or the part of it that a view shows.
struct Part {
  TileSymbolId tensor = -1, part = -1;  ///< part -1: the whole
  bool meets(const Part& other) const {
    return tensor == other.tensor && (part == other.part || part < 0 || other.part < 0);
  }
};

/// What a nest of statements does to memory.
struct Traffic {
  std::vector<Part> loads, stores;
};

bool meet(const std::vector<Part>& a, const std::vector<Part>& b) {
  return std::ranges::any_of(a, [&](const Part& x) {
    return std::ranges::any_of(b, [&](const Part& y) { return x.meets(y); });
  });
}

int64_t items_of(const TileLoop& loop) {
  int64_t items = 1;
  for (const TileLoop::Dim& dim : loop.dims) {
    const int64_t length = dim.end.constant() - dim.begin.constant();
    items *= (length + dim.step - 1) / dim.step;
  }
  return items;
}

bool is_of_statements(const TileLoop& loop) {
  return std::ranges::all_of(
      loop.body, [](const TileNode& node) { return node.kind == TileNode::Kind::kStatement; });
}

class NestMerging {
 public:
  explicit NestMerging(TileProgram& program) : program_(program) {
    program.body = cloned(program.body);
    const TileStructure structure = structure_of(program);
    parts_ = view_parts(structure);
    for (size_t n = 0; n < program.body.size(); ++n) {
      const TileNode& node = program.body[n];
      if (node.kind != TileNode::Kind::kLoop || !is_recurrence(*node.loop)) continue;
      for (size_t i = 0; i < node.loop->body.size(); ++i) {
        const NestPath path{static_cast<int32_t>(n), static_cast<int32_t>(i)};
        if (!is_nest_of_blocks(structure, path)) continue;
        const TileLoop* nest = node.loop->body[i].loop.get();
        if (is_of_statements(*nest)) mergeable_.insert(nest);
      }
    }
  }

  bool run() {
    for (TileNode& node : program_.body) {
      if (node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop)) merge_in(*node.loop);
    }
    if (!changed_) return false;
    drop_unread();
    prune_symbols(program_);
    return true;
  }

 private:
  void merge_in(TileLoop& steps) {
    TileBody merged;
    std::vector<Traffic> traffic;
    for (TileNode& nest : steps.body) {
      Traffic own = traffic_of(nest);
      const auto at = earlier_nest(merged, traffic, nest, own);
      if (!at) {
        merged.push_back(std::move(nest));
        traffic.push_back(std::move(own));
        continue;
      }
      changed_ = true;
      TileLoop& into = *merged[*at].loop;
      for (TileNode& statement : nest.loop->body) into.body.push_back(std::move(statement));
      sort_by_waits(into.body);
      traffic[*at] = traffic_of(merged[*at]);
    }
    steps.body = std::move(merged);
  }

  /// The first nest that this one can go to, which then reads what that one makes.
  std::optional<size_t> earlier_nest(const TileBody& merged, const std::vector<Traffic>& traffic,
                                     TileNode& nest, const Traffic& own) {
    if (nest.kind != TileNode::Kind::kLoop || mergeable_.count(nest.loop.get()) == 0)
      return std::nullopt;
    const int64_t blocks = program_.blocks.constant();
    std::optional<size_t> out;
    std::vector<TileStatement> forwarded;
    for (size_t n = merged.size(); n-- > 0;) {
      const bool plain =
          merged[n].kind == TileNode::Kind::kLoop && mergeable_.count(merged[n].loop.get()) != 0;
      if (plain && items_of(*merged[n].loop) + items_of(*nest.loop) > blocks) {
        if (auto statements = as_part_of(*merged[n].loop, traffic[n], *nest.loop, own)) {
          out = n;
          forwarded = std::move(*statements);
        }
      }
      if (meet(own.loads, traffic[n].stores) || meet(own.stores, traffic[n].loads) ||
          meet(own.stores, traffic[n].stores))
        break;
    }
    if (!out) return std::nullopt;
    nest.loop->body.clear();
    for (TileStatement& s : forwarded) nest.loop->body.push_back(TileNode::of(std::move(s)));
    return out;
  }

  /// A nest's statements in the variables of an earlier one, reading its values in the place of
  /// what it stores; nothing where that cannot be.
  std::optional<std::vector<TileStatement>> as_part_of(const TileLoop& earlier,
                                                       const Traffic& traffic, const TileLoop& own,
                                                       const Traffic& own_traffic) const {
    if (earlier.dims.size() != own.dims.size() || meet(own_traffic.stores, traffic.loads) ||
        meet(own_traffic.stores, traffic.stores) || meet(own_traffic.stores, own_traffic.loads) ||
        meet(traffic.stores, traffic.loads))
      return std::nullopt;
    std::map<TileVarId, TileVarId> names;
    for (size_t d = 0; d < own.dims.size(); ++d) {
      const TileLoop::Dim &a = earlier.dims[d], &b = own.dims[d];
      if (a.begin != b.begin || a.end != b.end || a.step != b.step) return std::nullopt;
      names[b.origin] = a.origin;
      if (b.offset >= 0) names[b.offset] = a.offset;
    }
    const auto var = [&](int id) {
      const auto other = names.find(id);
      return IndexExpr::var(other == names.end() ? id : other->second);
    };
    std::vector<TileStatement> out;
    bool possible = true;
    for (const TileNode& node : own.body) {
      TileStatement s = node.statement;
      for (TileRef& target : s.targets) {
        for (IndexExpr& e : target.indices) e = substitute(e, var);
      }
      for (TileVarId& axis : s.reduce_axes) axis = renamed(axis, names);
      for (Place::Axis& axis : s.place.axes) axis.var = renamed(axis.var, names);
      s.value = rewrite(s.value, var, [&](const ScalarRef& read) {
        if (read->kind != Scalar::Kind::kRead || !stored_by(traffic, read)) return read;
        ScalarRef value = value_stored(earlier, *read);
        possible &= value != nullptr;
        return value != nullptr ? value : read;
      });
      out.push_back(std::move(s));
    }
    return possible ? std::optional(std::move(out)) : std::nullopt;
  }

  static TileVarId renamed(TileVarId v, const std::map<TileVarId, TileVarId>& names) {
    const auto other = names.find(v);
    return other == names.end() ? v : other->second;
  }

  bool stored_by(const Traffic& traffic, const ScalarRef& read) const {
    const auto part = part_of(static_cast<TileSymbolId>(read->symbol));
    return part && meet({*part}, traffic.stores);
  }

  /// The value that a nest stores as the element that is read; null where it is not known to.
  ScalarRef value_stored(const TileLoop& nest, const Scalar& read) const {
    if (!read.operands.empty() || read.fill != nullptr) return nullptr;
    const TileSymbol& shown = program_.symbols[static_cast<size_t>(read.symbol)];
    for (const TileNode& node : nest.body) {
      const TileStatement& s = node.statement;
      const auto target = static_cast<size_t>(s.targets[0].symbol);
      if (program_.symbols[target].kind != TileSymbol::Kind::kOutput) continue;
      const TileSymbol& stored = program_.symbols[target];
      const bool same_place =
          part_of(read.symbol)->tensor == part_of(s.targets[0].symbol)->tensor &&
          offset_of(shown) == offset_of(stored) && shown.shape == stored.shape &&
          shown.type == stored.type;
      const bool plain = s.targets.size() == 1 && s.assign == AssignOp::kAssign &&
                         s.combiner == TileCombiner::kNone && is_value_read(*s.value) &&
                         s.value->type == stored.type;
      if (same_place && plain && s.targets[0].indices == read.indices) return s.value;
    }
    return nullptr;
  }

  static IndexExpr offset_of(const TileSymbol& symbol) {
    return symbol.view_of < 0 ? IndexExpr(0) : symbol.at;
  }
  bool is_value_read(const Scalar& s) const {
    return s.kind == Scalar::Kind::kRead && !s.next && s.operands.empty() && s.fill == nullptr &&
           program_.symbols[static_cast<size_t>(s.symbol)].kind == TileSymbol::Kind::kValue;
  }

  /// The place in memory that a symbol names; nothing of a value.
  std::optional<Part> part_of(TileSymbolId id) const {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    const bool in_memory =
        symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput;
    if (!in_memory) return std::nullopt;
    return Part{symbol.view_of >= 0 ? symbol.view_of : id, parts_[static_cast<size_t>(id)]};
  }

  Traffic traffic_of(const TileNode& nest) const {
    Traffic out;
    const auto add = [&](TileSymbolId id, std::vector<Part>* to) {
      if (const auto part = part_of(id)) to->push_back(*part);
    };
    const std::function<void(const TileNode&)> walk = [&](const TileNode& node) {
      const auto reads = [&](const ScalarRef& value) {
        visit(value, [&](const Scalar& s) {
          if (s.kind == Scalar::Kind::kRead) add(static_cast<TileSymbolId>(s.symbol), &out.loads);
        });
      };
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          reads(node.statement.value);
          for (const TileRef& target : node.statement.targets) add(target.symbol, &out.stores);
          return;
        case TileNode::Kind::kLoop:
          for (const TileCarry& carry : node.loop->carries) reads(carry.initial);
          for (const TileNode& inner : node.loop->body) walk(inner);
          return;
        case TileNode::Kind::kCondition:
          reads(node.condition->condition);
          for (const TileNode& inner : node.condition->body) walk(inner);
          return;
        case TileNode::Kind::kPack:
          for (const TilePack::Member& m : node.pack->members) {
            for (const TileNode& inner : m.body) walk(inner);
          }
          return;
      }
    };
    walk(nest);
    return out;
  }

  /// By how many statements each waits for, one behind the other.
  void sort_by_waits(TileBody& body) const {
    std::map<TileSymbolId, int> level_of;  // of values
    std::vector<std::pair<int, size_t>> order;
    for (size_t n = 0; n < body.size(); ++n) {
      int level = 0;
      visit(body[n].statement.value, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const auto made = level_of.find(static_cast<TileSymbolId>(s.symbol));
        if (made != level_of.end()) level = std::max(level, made->second + 1);
      });
      for (const TileRef& target : body[n].statement.targets) {
        if (program_.symbols[static_cast<size_t>(target.symbol)].kind == TileSymbol::Kind::kValue)
          level_of[target.symbol] = level;
      }
      order.emplace_back(level, n);
    }
    std::ranges::sort(order);
    TileBody sorted;
    for (const auto& [level, n] : order) sorted.push_back(std::move(body[n]));
    body = std::move(sorted);
  }

  /// Takes stores into workspaces away that nothing reads.
  void drop_unread() {
    std::set<TileSymbolId> read;
    for_each_statement(program_.body, [&](const TileStatement& s) {
      visit(s.value, [&](const Scalar& node) {
        if (node.kind != Scalar::Kind::kRead) return;
        if (const auto part = part_of(static_cast<TileSymbolId>(node.symbol)))
          read.insert(part->tensor);
      });
    });
    const auto is_unread = [&](const TileNode& node) {
      if (node.kind != TileNode::Kind::kStatement || node.statement.targets.size() != 1)
        return false;
      const auto part = part_of(node.statement.targets[0].symbol);
      return part && read.count(part->tensor) == 0 &&
             program_.symbols[static_cast<size_t>(part->tensor)].is_workspace;
    };
    for (TileNode& node : program_.body) {
      if (node.kind != TileNode::Kind::kLoop || !is_recurrence(*node.loop)) continue;
      for (TileNode& nest : node.loop->body) {
        if (nest.kind == TileNode::Kind::kLoop) std::erase_if(nest.loop->body, is_unread);
      }
    }
  }

  TileProgram& program_;
  std::vector<TileSymbolId> parts_;  ///< of views, by symbol
  std::set<const TileLoop*> mergeable_;
  bool changed_ = false;
};

}  // namespace

bool merge_nests(TileProgram& program) {
  if (program.cpu || !program.blocks.is_const()) return false;
  return NestMerging(program).run();
}

}  // namespace weft
