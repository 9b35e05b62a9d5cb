#include "schedule/writer/sum_in_pieces.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/writer/statements.h"

namespace weft {
namespace {

/// Terms of a register, and what is added to it in one piece.
struct Lengths {
  int64_t most, of_piece;
};
/// Where factors stay in registers, new pieces take a few percent of the time. Sums of what is
/// loaded once wait for memory.
constexpr Lengths kOfProducts = {2048, 512}, kOfLoads = {512, 256};

std::optional<Combiner> combiner_of(ScalarOp op) {
  for (const Combiner c : {Combiner::kSum, Combiner::kProd, Combiner::kMin, Combiner::kMax}) {
    if (combiner_op(c) == op) return c;
  }
  return std::nullopt;
}

/// carry' = carry + term, by its place in the loop's body.
struct Update {
  size_t statement = 0;
  ScalarOp op = ScalarOp::kAdd;
};

std::optional<Update> update_of(const TileLoop& loop, const TileCarry& carry) {
  const TileSymbolId symbol = carry.target.symbol;
  for (size_t i = 0; i < loop.body.size(); ++i) {
    const TileStatement& s = loop.body[i].statement;
    if (s.targets.front().symbol != symbol || !s.targets.front().next) continue;
    const Scalar& v = *s.value;
    const bool combines = v.kind == Scalar::Kind::kApply && v.operands.size() == 2 &&
                          combiner_of(v.op) && v.operands[0]->kind == Scalar::Kind::kRead &&
                          v.operands[0]->symbol == symbol && !v.operands[0]->next;
    if (!combines || s.combiner != TileCombiner::kNone || s.targets.size() != 1)
      return std::nullopt;
    return Update{i, v.op};
  }
  return std::nullopt;
}

/// How each carry is updated; nothing where one of them is read for something else, or none is a
/// sum that rounds.
std::optional<std::vector<Update>> updates_of(const TileLoop& loop) {
  const auto is_statement = [](const TileNode& n) {
    return n.kind == TileNode::Kind::kStatement && !n.statement.targets.empty();
  };
  if (loop.kind != TileLoop::Kind::kSeq || loop.stages != 1 || loop.by_cluster ||
      loop.carries.empty() || !std::ranges::all_of(loop.body, is_statement))
    return std::nullopt;
  std::vector<Update> updates;
  std::set<TileSymbolId> carried;
  bool rounds = false;
  for (const TileCarry& carry : loop.carries) {
    const std::optional<Update> update = update_of(loop, carry);
    if (!update) return std::nullopt;
    updates.push_back(*update);
    carried.insert(carry.target.symbol);
    rounds |= update->op == ScalarOp::kAdd && is_float(carry.type);
  }
  size_t reads = 0;
  for (const TileNode& node : loop.body) {
    visit(node.statement.value, [&](const Scalar& s) {
      reads += s.kind == Scalar::Kind::kRead && carried.contains(s.symbol) ? 1U : 0U;
    });
  }
  return rounds && reads == updates.size() ? std::optional(std::move(updates)) : std::nullopt;
}

/// Whether something that is added up is the same for several of the loop's registers or lanes.
bool reuses_loads(const TileLoop& loop, const std::vector<Update>& updates) {
  bool found = false;
  for (size_t c = 0; c < updates.size(); ++c) {
    const TileStatement& s = loop.body[updates[c].statement].statement;
    visit(s.value->operands[1], [&](const Scalar& read) {
      if (read.kind != Scalar::Kind::kRead) return;
      found |= std::ranges::any_of(loop.carries[c].place.axes, [&](const Place::Axis& axis) {
        return std::ranges::none_of(
            read.indices, [&](const IndexExpr& index) { return uses_var(index, axis.var); });
      });
    });
  }
  return found;
}

/// The first loop of a piece, and how many of its iterations one has; 0: all.
struct Cut {
  size_t first = 0;
  int64_t iterations = 0;
};

std::optional<Cut> cut_of(const TileLoop& loop, const Lengths& lengths,
                          const std::set<TileVarId>& open) {
  int64_t terms = 1;
  std::optional<Cut> found;
  for (size_t d = loop.dims.size(); d-- > 0;) {
    const TileLoop::Dim& dim = loop.dims[d];
    if (open.contains(dim.origin)) return std::nullopt;
    if (!dim.begin.is_const() || !dim.end.is_const()) continue;
    const int64_t count = (dim.end.constant() - dim.begin.constant()) / dim.step;
    terms *= std::max<int64_t>(1, count);
    if (found || terms < lengths.of_piece) continue;
    found = Cut{.first = d};
    if (terms <= lengths.most) continue;
    const int64_t pieces = (terms + lengths.of_piece - 1) / lengths.of_piece;
    found->iterations = (count + pieces - 1) / pieces;
  }
  return terms > lengths.most ? found : std::nullopt;
}

class Pieces {
 public:
  Pieces(TileProgram& program, const std::set<TileVarId>& open,
         const std::function<std::string(const std::string&)>& unique)
      : program_(program), open_(open), unique_(unique) {}

  void run(TileBody& body) {
    for (TileNode& node : body) {
      if (node.condition) run(node.condition->body);
      if (node.pack) {
        for (TilePack::Member& member : node.pack->members) run(member.body);
      }
      if (!node.loop) continue;
      run(node.loop->body);
      // Most loops are shorter than either asks for.
      auto cut = cut_of(*node.loop, kOfLoads, open_);
      const auto updates = cut ? updates_of(*node.loop) : std::nullopt;
      if (!updates) continue;
      if (reuses_loads(*node.loop, *updates)) cut = cut_of(*node.loop, kOfProducts, open_);
      if (cut) *node.loop = in_pieces(std::move(*node.loop), *updates, *cut);
    }
  }

 private:
  TileLoop in_pieces(TileLoop loop, const std::vector<Update>& updates, const Cut& cut) {
    TileLoop whole;
    whole.dims.assign(loop.dims.begin(),
                      loop.dims.begin() + static_cast<std::ptrdiff_t>(cut.first));
    loop.dims.erase(loop.dims.begin(), loop.dims.begin() + static_cast<std::ptrdiff_t>(cut.first));
    if (cut.iterations > 0) whole.dims.push_back(number_of_piece(loop.dims.front(), cut));
    std::vector<TileNode> joins;
    for (size_t c = 0; c < loop.carries.size(); ++c) {
      TileCarry& carry = loop.carries[c];
      whole.carries.push_back(behind(loop, carry));
      const TileSymbolId part = new_part(carry.type);
      joins.push_back(join(whole.carries.back(), part, updates[c].op));
      TileStatement& update = loop.body[updates[c].statement].statement;
      const ScalarRef before = update.value->operands[0], term = update.value->operands[1];
      update.value = scalar_apply(
          updates[c].op, {scalar_read(part, before->type, before->indices), term}, carry.type);
      update.targets.front().symbol = carry.target.symbol = part;
      carry.initial = scalar_constant(combiner_identity(*combiner_of(updates[c].op), carry.type));
    }
    whole.body.push_back(TileNode::of(std::move(loop)));
    for (TileNode& node : joins) whole.body.push_back(std::move(node));
    return whole;
  }

  /// The loop over the pieces of a dimension, whose bounds become those of one.
  TileLoop::Dim number_of_piece(TileLoop::Dim& dim, const Cut& cut) {
    const int64_t begin = dim.begin.constant(), end = dim.end.constant();
    const int64_t length = cut.iterations * dim.step;
    TileLoop::Dim number;
    number.origin = program_.add_var(unique_("piece"), TileVar::Kind::kOrigin, 0);
    number.begin = 0;
    number.end = (end - begin + length - 1) / length;
    dim.begin = IndexExpr::var(number.origin) * length + begin;
    dim.end = dim.begin + length;
    if ((end - begin) % length != 0) dim.end = min(dim.end, end);
    return number;
  }

  /// The carry as it is behind the loop, where the offsets of its dimensions are no more.
  TileCarry behind(const TileLoop& loop, TileCarry carry) {
    std::map<TileVarId, TileVarId> axes;
    for (const TileLoop::Dim& dim : loop.dims) {
      if (dim.offset < 0) continue;
      const auto uses = [&](const IndexExpr& index) { return uses_var(index, dim.offset); };
      const bool used = std::ranges::any_of(carry.target.indices, uses);
      if (used) axes[dim.offset] = program_.add_var(unique_("jj"), TileVar::Kind::kAxis, dim.step);
    }
    const auto there = [&](int var) { return axes.contains(var) ? axes.at(var) : var; };
    for (Place::Axis& axis : carry.place.axes) axis.var = there(axis.var);
    for (IndexExpr& index : carry.target.indices)
      index = substitute(index, [&](int var) { return IndexExpr::var(there(var)); });
    return carry;
  }

  TileSymbolId new_part(DType type) {
    TileSymbol symbol;
    symbol.name = unique_("part");
    symbol.kind = TileSymbol::Kind::kCarry;
    symbol.type = type;
    return program_.add_symbol(std::move(symbol));
  }

  static TileNode join(const TileCarry& whole, TileSymbolId part, ScalarOp op) {
    const std::vector<IndexExpr>& box = whole.target.indices;
    const ScalarRef before = scalar_read(whole.target.symbol, whole.type, box);
    const ScalarRef more = scalar_read(part, whole.type, box);
    return TileNode::of(assign_next(whole.target.symbol, box,
                                    scalar_apply(op, {before, more}, whole.type), whole.place));
  }

  TileProgram& program_;
  const std::set<TileVarId>& open_;
  const std::function<std::string(const std::string&)>& unique_;
};

}  // namespace

void sum_in_pieces(TileProgram& program, const std::set<TileVarId>& open,
                   const std::function<std::string(const std::string&)>& unique) {
  Pieces(program, open, unique).run(program.body);
}

}  // namespace weft
