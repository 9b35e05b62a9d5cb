#include "tile/rewrite/repeat_program.h"

#include <map>
#include <utility>

#include "support/check.h"

namespace weft {

namespace {

int64_t elements_of(const TileSymbol& symbol) {
  int64_t elements = 1;
  for (const IndexExpr& e : symbol.shape) elements *= e.constant();
  return elements;
}

class Repetition {
 public:
  Repetition(const TileProgram& once, const std::vector<RepeatedParameter>& parameters,
             int64_t trips)
      : parameters_(parameters), trips_(trips) {
    out_.program = once;
    out_.program.body = cloned(once.body);
    step_ = program().add_var("t", TileVar::Kind::kOrigin, 0);
  }

  RepeatedProgram run() {
    const std::vector<TileSymbolId> own = std::exchange(program().parameters, {});
    out_.parameter_of.assign(own.size(), -1);
    for (size_t i = 0; i < own.size(); ++i) {
      if (parameters_[i].kind == RepeatedParameter::Kind::kNext) keep(own[i], parameters_[i].carry);
    }
    for (size_t i = 0; i < own.size(); ++i) place(i, own[i]);
    TileLoop loop;
    TileLoop::Dim dim;
    dim.origin = step_;
    dim.begin = 0;
    dim.end = trips_;
    loop.dims.push_back(dim);
    loop.body = std::move(program().body);
    program().body = {};
    for (const auto& [input, carry] : first_) copy_in(input, carry);
    program().body.push_back(TileNode::of(std::move(loop)));
    for (const auto& [output, carry] : last_) copy_out(output, carry);
    return std::move(out_);
  }

 private:
  using Kind = RepeatedParameter::Kind;
  struct Carry {
    TileSymbolId kept = -1;  ///< the workspace
    int64_t elements = 0;
  };

  TileProgram& program() { return out_.program; }
  TileSymbol& symbol(TileSymbolId id) { return program().symbols[static_cast<size_t>(id)]; }
  IndexExpr t() const { return IndexExpr::var(step_); }

  std::string fresh(const std::string& base) {
    std::string name = base;
    for (int n = 1; program().find_symbol(name) >= 0; ++n) name = base + "_" + std::to_string(n);
    return name;
  }
  TileSymbolId add(const std::string& base, TileSymbol::Kind kind, DType type,
                   std::vector<IndexExpr> shape) {
    TileSymbol added;
    added.name = fresh(base);
    added.kind = kind;
    added.type = type;
    added.shape = std::move(shape);
    return program().add_symbol(std::move(added));
  }
  TileSymbolId add_view(const std::string& base, TileSymbol::Kind kind, TileSymbolId of,
                        int64_t elements, IndexExpr at) {
    const TileSymbolId view = add(base, kind, symbol(of).type, {elements});
    symbol(view).view_of = of;
    symbol(view).at = std::move(at);
    return view;
  }
  int32_t add_parameter(TileSymbolId id) {
    program().parameters.push_back(id);
    return static_cast<int32_t>(program().parameters.size()) - 1;
  }

  /// The workspace of a carry.
  void keep(TileSymbolId next, int32_t carry) {
    Carry& c = carries_[carry];
    c.elements = elements_of(symbol(next));
    c.kept = add(symbol(next).name + "_kept", TileSymbol::Kind::kOutput, symbol(next).type,
                 {2, c.elements});
    symbol(c.kept).is_workspace = true;
  }

  /// Views of `id` become views of what `id` is now a view of.
  void show(TileSymbolId id, TileSymbolId whole, const IndexExpr& at) {
    symbol(id).view_of = whole;
    symbol(id).at = at;
    for (TileSymbol& view : program().symbols) {
      if (view.view_of != id) continue;
      view.view_of = whole;
      view.at = at;
    }
  }

  void place(size_t number, TileSymbolId id) {
    const RepeatedParameter& p = parameters_[number];
    int32_t& at = out_.parameter_of[number];
    const std::string name = symbol(id).name;
    switch (p.kind) {
      case Kind::kWhole:
        at = add_parameter(id);
        return;
      case Kind::kPassed:
        symbol(id).is_workspace = true;
        return;
      case Kind::kSlice: {
        const int64_t elements = elements_of(symbol(id));
        const TileSymbolId whole =
            add(name + "_all", symbol(id).kind, symbol(id).type, {trips_, elements});
        show(id, whole, (p.reversed ? trips_ - 1 - t() : t()) * elements);
        at = add_parameter(whole);
        return;
      }
      case Kind::kCarried: {
        const Carry& carry = carries_.at(p.carry);
        const bool known = first_.count(p.carry) != 0;
        if (!known) {
          first_[p.carry] =
              add(name + "_first", TileSymbol::Kind::kInput, symbol(id).type, {carry.elements});
          add_parameter(first_[p.carry]);
          first_number_[p.carry] = static_cast<int32_t>(program().parameters.size()) - 1;
        }
        at = first_number_[p.carry];
        show(id, carry.kept, mod(t() + 1, 2) * carry.elements);
        return;
      }
      case Kind::kNext: {
        const Carry& carry = carries_.at(p.carry);
        const TileSymbolId last =
            add(name + "_last", TileSymbol::Kind::kOutput, symbol(id).type, {carry.elements});
        at = add_parameter(last);
        last_.emplace(p.carry, last);
        show(id, carry.kept, mod(t(), 2) * carry.elements);
        return;
      }
    }
  }

  /// `to[e] = from[e]` by all threads.
  void copy(TileSymbolId from, TileSymbolId to, int64_t elements) {
    constexpr int64_t kVector = 4, kLanes = 32;
    const int64_t vector = elements % kVector == 0 ? kVector : 1;
    const int64_t step = program().warps * kLanes * vector;
    TileLoop grid;
    grid.kind = TileLoop::Kind::kGrid;
    TileLoop::Dim dim;
    dim.origin = program().add_var("e", TileVar::Kind::kOrigin, 0);
    dim.offset = program().add_var("e", TileVar::Kind::kOffset, step);
    dim.begin = 0;
    dim.end = elements;
    dim.step = step;
    const IndexExpr index = program().index_of(dim);
    TileStatement statement;
    statement.targets.push_back({to, {index}, false});
    statement.value = scalar_read(from, symbol(from).type, {index});
    statement.place.axes.push_back({dim.offset,
                                    {{PlaceLevel::kWarp, program().warps},
                                     {PlaceLevel::kLane, kLanes},
                                     {PlaceLevel::kVec, vector}}});
    grid.dims.push_back(dim);
    grid.body.push_back(TileNode::of(std::move(statement)));
    program().body.push_back(TileNode::of(std::move(grid)));
  }

  /// The first iteration reads the second place.
  void copy_in(int32_t carry, TileSymbolId from) {
    const Carry c = carries_.at(carry);
    copy(from,
         add_view(symbol(from).name + "_place", TileSymbol::Kind::kOutput, c.kept, c.elements,
                  c.elements),
         c.elements);
  }
  void copy_out(int32_t carry, TileSymbolId to) {
    const Carry c = carries_.at(carry);
    copy(add_view(symbol(to).name + "_place", TileSymbol::Kind::kInput, c.kept, c.elements,
                  (trips_ - 1) % 2 * c.elements),
         to, c.elements);
  }

  const std::vector<RepeatedParameter>& parameters_;
  int64_t trips_;
  RepeatedProgram out_;
  TileVarId step_ = -1;
  std::map<int32_t, Carry> carries_;
  std::map<int32_t, TileSymbolId> first_, last_;  ///< by carry: the parameters
  std::map<int32_t, int32_t> first_number_;
};

}  // namespace

RepeatedProgram repeat_program(const TileProgram& once,
                               const std::vector<RepeatedParameter>& parameters, int64_t trips) {
  WEFT_CHECK(parameters.size() == once.parameters.size(), "what each parameter is");
  return Repetition(once, parameters, trips).run();
}

}  // namespace weft
