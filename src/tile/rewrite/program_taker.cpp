#include "tile/rewrite/program_taker.h"

#include <algorithm>
#include <map>

#include "support/check.h"

namespace weft {

TileSymbolId ProgramTaker::add_symbol(TileSymbol symbol) {
  const std::string base = symbol.name;
  for (int n = 1; !names_.insert(symbol.name).second; ++n)
    symbol.name = base + "_b" + std::to_string(n);
  return out_.add_symbol(std::move(symbol));
}

TileBody ProgramTaker::take(const TileProgram& from, std::vector<TileSymbolId>* parameters,
                            const std::vector<TileVarId>& sizes) {
  vars_.clear();
  size_t size = 0;  // of those of `from`
  for (const TileVar& var : from.vars) {
    const bool stands_for =
        var.kind == TileVar::Kind::kSize && size++ > 0 && size - 2 < sizes.size();
    vars_.push_back(stands_for ? sizes[size - 2] : take_var(var));
  }
  std::map<TileSymbolId, size_t> number;
  for (size_t i = 0; i < from.parameters.size(); ++i) number[from.parameters[i]] = i;
  symbols_.clear();
  std::vector<TileSymbolId> views;
  for (size_t s = 0; s < from.symbols.size(); ++s) {
    const auto parameter = number.find(static_cast<TileSymbolId>(s));
    TileSymbolId known = parameter == number.end() ? -1 : (*parameters)[parameter->second];
    if (known < 0) known = add_symbol(from.symbols[s]);
    if (parameter != number.end()) (*parameters)[parameter->second] = known;
    symbols_.push_back(known);
    if (from.symbols[s].view_of >= 0) views.push_back(known);
  }
  for (const TileSymbolId view : views) show(view);
  TileBody body = cloned(from.body);
  renumber(body);
  return body;
}

void ProgramTaker::show(TileSymbolId id) {
  TileSymbol& view = out_.symbols[static_cast<size_t>(id)];
  const TileSymbolId of = symbols_[static_cast<size_t>(view.view_of)];
  const TileSymbol& shown = out_.symbols[static_cast<size_t>(of)];
  view.at = renumbered(view.at) + shown.at;
  view.view_of = shown.view_of >= 0 ? shown.view_of : of;
}

TileVarId ProgramTaker::take_var(const TileVar& var) {
  if (var.kind == TileVar::Kind::kSize) {
    const auto same = std::ranges::find_if(out_.vars, [&](const TileVar& v) {
      return v.kind == TileVar::Kind::kSize && v.name == var.name;
    });
    if (same != out_.vars.end()) return static_cast<TileVarId>(same - out_.vars.begin());
  }
  return out_.add_var(var.name, var.kind, var.extent);
}

IndexExpr ProgramTaker::renumbered(const IndexExpr& e) const {
  return substitute(e, [&](int id) {
    return IndexExpr::var(id < kRuntimeIndexBase ? vars_[static_cast<size_t>(id)] : id);
  });
}

ScalarRef ProgramTaker::renumbered(const ScalarRef& s) const {
  if (s == nullptr) return s;
  return rewrite(
      s,
      [&](int id) {
        return IndexExpr::var(id < kRuntimeIndexBase ? vars_[static_cast<size_t>(id)] : id);
      },
      [&](const ScalarRef& read) -> ScalarRef {
        auto copy = std::make_shared<Scalar>(*read);
        copy->symbol = symbols_[static_cast<size_t>(read->symbol)];
        return copy;
      });
}

void ProgramTaker::renumber(TileVarId& id) const {
  if (id >= 0) id = vars_[static_cast<size_t>(id)];
}

void ProgramTaker::renumber(TileRef& ref) const {
  ref.symbol = symbols_[static_cast<size_t>(ref.symbol)];
  for (IndexExpr& e : ref.indices) e = renumbered(e);
}

void ProgramTaker::renumber(Place& place) const {
  for (Place::Axis& a : place.axes) renumber(a.var);
}

void ProgramTaker::renumber(TileStatement& st) const {
  for (TileRef& ref : st.targets) renumber(ref);
  for (TileVarId& a : st.reduce_axes) renumber(a);
  st.value = renumbered(st.value);
  renumber(st.place);
}

void ProgramTaker::renumber(TileLoop& loop) const {
  for (TileLoop::Dim& dim : loop.dims) {
    renumber(dim.origin);
    renumber(dim.offset);
    dim.begin = renumbered(dim.begin);
    dim.end = renumbered(dim.end);
  }
  for (TileCarry& carry : loop.carries) {
    renumber(carry.target);
    carry.initial = renumbered(carry.initial);
    renumber(carry.place);
  }
  renumber(loop.body);
}

void ProgramTaker::renumber(TileBody& body) const {
  for (TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        renumber(node.statement);
        break;
      case TileNode::Kind::kLoop:
        renumber(*node.loop);
        break;
      case TileNode::Kind::kCondition:
        node.condition->condition = renumbered(node.condition->condition);
        renumber(node.condition->body);
        break;
      case TileNode::Kind::kPack:
        WEFT_CHECK(false, "a pack inside a pack");
    }
  }
}

}  // namespace weft
