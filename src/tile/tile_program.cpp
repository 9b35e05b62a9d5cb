#include "tile/tile_program.h"

#include <algorithm>

namespace weft {

std::string_view scope_name(Scope scope, bool cpu) {
  switch (scope) {
    case Scope::kRegister:
      return "register";
    case Scope::kWarp:
      return cpu ? "lanes" : "warp";
    case Scope::kBlock:
      return cpu ? "scratch" : "block";
    case Scope::kCluster:
      return "cluster";
    case Scope::kGrid:
      return "grid";
  }
  return "";
}

TileNode TileNode::of(TileStatement s) {
  TileNode node;
  node.kind = Kind::kStatement;
  node.statement = std::move(s);
  return node;
}

TileNode TileNode::of(TileLoop l) {
  TileNode node;
  node.kind = Kind::kLoop;
  node.loop = std::make_shared<TileLoop>(std::move(l));
  return node;
}

TileNode TileNode::of(TileCondition c) {
  TileNode node;
  node.kind = Kind::kCondition;
  node.condition = std::make_shared<TileCondition>(std::move(c));
  return node;
}

TileNode TileNode::of(TilePack p) {
  TileNode node;
  node.kind = Kind::kPack;
  node.pack = std::make_shared<TilePack>(std::move(p));
  return node;
}

TileBody cloned(const TileBody& body) {
  TileBody out = body;
  for (TileNode& node : out) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        break;
      case TileNode::Kind::kLoop:
        node.loop = std::make_shared<TileLoop>(*node.loop);
        node.loop->body = cloned(node.loop->body);
        break;
      case TileNode::Kind::kCondition:
        node.condition = std::make_shared<TileCondition>(*node.condition);
        node.condition->body = cloned(node.condition->body);
        break;
      case TileNode::Kind::kPack:
        node.pack = std::make_shared<TilePack>(*node.pack);
        for (TilePack::Member& member : node.pack->members) member.body = cloned(member.body);
        break;
    }
  }
  return out;
}

bool is_recurrence(const TileLoop& loop) {
  return loop.kind == TileLoop::Kind::kSeq &&
         std::ranges::any_of(loop.body, [](const TileNode& node) {
           return node.kind == TileNode::Kind::kLoop && node.loop->kind == TileLoop::Kind::kGrid;
         });
}

TileVarId TileProgram::add_var(std::string label, TileVar::Kind kind, int64_t extent) {
  vars.push_back({std::move(label), kind, extent});
  return static_cast<TileVarId>(vars.size()) - 1;
}

TileSymbolId TileProgram::add_symbol(TileSymbol symbol) {
  symbols.push_back(std::move(symbol));
  return static_cast<TileSymbolId>(symbols.size()) - 1;
}

TileSymbolId TileProgram::find_symbol(std::string_view wanted) const {
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].name == wanted) return static_cast<TileSymbolId>(i);
  }
  return -1;
}

IndexExpr TileProgram::index_of(const TileLoop::Dim& dim) const {
  const IndexExpr origin = IndexExpr::var(dim.origin);
  return dim.offset < 0 ? origin : origin + IndexExpr::var(dim.offset);
}

}  // namespace weft
