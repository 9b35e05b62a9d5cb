#include "tile/rewrite/prune_symbols.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace weft {

namespace {

/// Calls f on every reference to a symbol: targets of statements and carries, and with the scalars
/// `on_scalar`, which may replace them.
void for_each_reference(TileBody& body, const std::function<void(TileRef&)>& on_target,
                        const std::function<void(ScalarRef&)>& on_scalar) {
  for (TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        for (TileRef& target : node.statement.targets) on_target(target);
        on_scalar(node.statement.value);
        break;
      case TileNode::Kind::kLoop:
        for (TileCarry& carry : node.loop->carries) {
          on_target(carry.target);
          on_scalar(carry.initial);
        }
        for_each_reference(node.loop->body, on_target, on_scalar);
        break;
      case TileNode::Kind::kCondition:
        on_scalar(node.condition->condition);
        for_each_reference(node.condition->body, on_target, on_scalar);
        break;
      case TileNode::Kind::kPack:
        for (TilePack::Member& member : node.pack->members)
          for_each_reference(member.body, on_target, on_scalar);
        break;
    }
  }
}

struct Uses {
  std::vector<bool> read, made;
};

Uses uses_of(TileProgram& program) {
  Uses out{std::vector<bool>(program.symbols.size(), false),
           std::vector<bool>(program.symbols.size(), false)};
  for_each_reference(
      program.body, [&](TileRef& target) { out.made[static_cast<size_t>(target.symbol)] = true; },
      [&](ScalarRef& scalar) {
        visit(scalar, [&](const Scalar& s) {
          if (s.kind == Scalar::Kind::kRead) out.read[static_cast<size_t>(s.symbol)] = true;
        });
      });
  return out;
}

/// Takes statements away whose targets are all among `gone`, and loops of nothing.
void erase_statements(TileBody& body, const std::vector<bool>& gone) {
  for (TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop) erase_statements(node.loop->body, gone);
    if (node.kind == TileNode::Kind::kCondition) erase_statements(node.condition->body, gone);
  }
  std::erase_if(body, [&](const TileNode& node) {
    if (node.kind == TileNode::Kind::kLoop)
      return node.loop->body.empty() && node.loop->carries.empty();
    if (node.kind == TileNode::Kind::kCondition) return node.condition->body.empty();
    return node.kind == TileNode::Kind::kStatement &&
           std::ranges::all_of(node.statement.targets, [&](const TileRef& target) {
             return gone[static_cast<size_t>(target.symbol)];
           });
  });
}

/// Values that nothing reads, those that only such were made of, too.
void erase_unread_values(TileProgram& program) {
  for (;;) {
    const Uses uses = uses_of(program);
    std::vector<bool> unread(program.symbols.size(), false);
    bool any = false;
    for (size_t i = 0; i < unread.size(); ++i) {
      unread[i] = program.symbols[i].kind == TileSymbol::Kind::kValue && !uses.read[i];
      any |= unread[i] && uses.made[i];
    }
    if (!any) return;
    size_t before = 0, behind = 0;
    for_each_statement(program.body, [&](const TileStatement&) { ++before; });
    erase_statements(program.body, unread);
    for_each_statement(program.body, [&](const TileStatement&) { ++behind; });
    if (before == behind) return;
  }
}

}  // namespace

void prune_symbols(TileProgram& program) {
  const Uses uses = uses_of(program);
  std::vector<bool> stays(program.symbols.size(), false);
  for (const TileSymbolId id : program.parameters) stays[static_cast<size_t>(id)] = true;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (!uses.read[i] && !uses.made[i]) continue;
    stays[i] = true;
    if (program.symbols[i].view_of >= 0)
      stays[static_cast<size_t>(program.symbols[i].view_of)] = true;
  }
  std::vector<TileSymbolId> number(stays.size(), -1);
  std::vector<TileSymbol> symbols;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (!stays[i]) continue;
    number[i] = static_cast<TileSymbolId>(symbols.size());
    symbols.push_back(std::move(program.symbols[i]));
  }
  if (symbols.size() == stays.size()) {
    program.symbols = std::move(symbols);
    return;
  }
  program.symbols = std::move(symbols);
  const auto renumber = [&](TileSymbolId& id) {
    if (id >= 0) id = number[static_cast<size_t>(id)];
  };
  for (TileSymbol& symbol : program.symbols) renumber(symbol.view_of);
  for (TileSymbolId& id : program.parameters) renumber(id);
  program.body = cloned(program.body);
  for_each_reference(
      program.body, [&](TileRef& target) { renumber(target.symbol); },
      [&](ScalarRef& scalar) {
        scalar = rewrite(scalar, {}, [&](const ScalarRef& read) -> ScalarRef {
          auto other = std::make_shared<Scalar>(*read);
          renumber(other->symbol);
          return other;
        });
      });
}

std::set<size_t> drop_outputs(TileProgram& program, const std::set<size_t>& parameters) {
  const Uses uses = uses_of(program);
  std::set<size_t> out;
  std::vector<bool> gone(program.symbols.size(), false);
  for (const size_t p : parameters) {
    const TileSymbolId id = program.parameters[p];
    bool read = false;
    for (size_t i = 0; i < program.symbols.size(); ++i)
      read |= program.symbols[i].view_of == id && uses.read[i];
    if (read) continue;
    out.insert(p);
    gone[static_cast<size_t>(id)] = true;
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (program.symbols[i].view_of == id) gone[i] = true;
  }
  if (out.empty()) return out;
  program.body = cloned(program.body);
  erase_statements(program.body, gone);
  erase_unread_values(program);
  std::vector<TileSymbolId> left;
  for (size_t p = 0; p < program.parameters.size(); ++p) {
    if (out.count(p) == 0) left.push_back(program.parameters[p]);
  }
  program.parameters = std::move(left);
  prune_symbols(program);
  return out;
}

}  // namespace weft
