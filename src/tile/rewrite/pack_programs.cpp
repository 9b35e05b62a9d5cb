#include "tile/rewrite/pack_programs.h"

#include <algorithm>
#include <map>
#include <set>

#include "support/check.h"

namespace weft {

namespace {

/// Takes programs over into one whose variables and symbols have other numbers.
class Packer {
 public:
  explicit Packer(TileProgram* out) : out_(*out) {}

  /// The body of `from` in the numbers of the result.
  TileBody take(const TileProgram& from, const std::vector<int32_t>& parameter_of) {
    vars_.clear();
    symbols_.clear();
    for (const TileVar& var : from.vars) vars_.push_back(take_var(var));
    std::map<TileSymbolId, int32_t> number;
    for (size_t i = 0; i < from.parameters.size(); ++i)
      number[from.parameters[i]] = parameter_of[i];
    for (size_t s = 0; s < from.symbols.size(); ++s) {
      const auto parameter = number.find(static_cast<TileSymbolId>(s));
      symbols_.push_back(parameter == number.end()
                             ? take_symbol(from.symbols[s])
                             : take_parameter(from.symbols[s], parameter->second));
    }
    TileBody body = cloned(from.body);
    renumber(body);
    return body;
  }

 private:
  TileVarId take_var(const TileVar& var) {
    if (var.kind == TileVar::Kind::kSize) {
      const auto same = std::ranges::find_if(out_.vars, [&](const TileVar& v) {
        return v.kind == TileVar::Kind::kSize && v.name == var.name;
      });
      if (same != out_.vars.end()) return static_cast<TileVarId>(same - out_.vars.begin());
    }
    return out_.add_var(var.name, var.kind, var.extent);
  }

  std::string fresh(const std::string& base) {
    std::string name = base;
    for (int n = 1; !names_.insert(name).second; ++n) name = base + "_b" + std::to_string(n);
    return name;
  }

  TileSymbolId take_symbol(const TileSymbol& symbol) {
    TileSymbol copy = symbol;
    copy.name = fresh(symbol.name);
    for (IndexExpr& e : copy.shape) e = renumbered(e);
    return out_.add_symbol(std::move(copy));
  }

  TileSymbolId take_parameter(const TileSymbol& symbol, int32_t number) {
    const auto at = static_cast<size_t>(number);
    if (out_.parameters.size() <= at) out_.parameters.resize(at + 1, -1);
    if (out_.parameters[at] < 0) out_.parameters[at] = take_symbol(symbol);
    return out_.parameters[at];
  }

  IndexExpr renumbered(const IndexExpr& e) const {
    return substitute(e, [&](int id) {
      return IndexExpr::var(id < kRuntimeIndexBase ? vars_[static_cast<size_t>(id)] : id);
    });
  }
  ScalarRef renumbered(const ScalarRef& s) const {
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
  void renumber(TileVarId& id) const {
    if (id >= 0) id = vars_[static_cast<size_t>(id)];
  }
  void renumber(TileRef& ref) const {
    ref.symbol = symbols_[static_cast<size_t>(ref.symbol)];
    for (IndexExpr& e : ref.indices) e = renumbered(e);
  }
  void renumber(Place& place) const {
    for (Place::Axis& a : place.axes) renumber(a.var);
  }
  void renumber(TileStatement& st) const {
    for (TileRef& ref : st.targets) renumber(ref);
    for (TileVarId& a : st.reduce_axes) renumber(a);
    st.value = renumbered(st.value);
    renumber(st.place);
  }
  void renumber(TileLoop& loop) const {
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
  void renumber(TileBody& body) const {
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

  TileProgram& out_;
  std::set<std::string> names_;        ///< of symbols
  std::vector<TileVarId> vars_;        ///< by variable of the program at hand
  std::vector<TileSymbolId> symbols_;  ///< by symbol of it
};

}  // namespace

TileProgram pack_programs(std::string name, std::span<const TileProgram* const> programs,
                          const std::vector<std::vector<int32_t>>& parameter_of) {
  TileProgram out;
  out.name = std::move(name);
  out.cpu = false;
  Packer packer(&out);
  TilePack pack;
  int64_t blocks = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    TilePack::Member member;
    member.share = programs[p]->blocks.constant();
    member.body = packer.take(*programs[p], parameter_of[p]);
    pack.members.push_back(std::move(member));
    blocks += programs[p]->blocks.constant();
    out.warps = std::max(out.warps, programs[p]->warps);
  }
  out.blocks = blocks;
  out.body.push_back(TileNode::of(std::move(pack)));
  return out;
}

}  // namespace weft
