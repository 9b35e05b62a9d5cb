#include "schedule/stages/block_space.h"

#include <algorithm>
#include <set>

#include "expr/movement/read_composer.h"
#include "group/merge_side_by_side.h"
#include "group/widen_halves.h"

namespace weft {

namespace {

GroupView merged_view(const TensorProgram& program, const Group& group, const GroupKey* key) {
  GroupCut cut = begin_cut(program, group, {.key = key});
  merge_side_by_side(cut);
  return finished(std::move(cut));
}

Group all_of(const CarriedProgram& carried) {
  Group group;
  for (size_t e = 0; e < carried.program.exprs.size(); ++e)
    group.exprs.push_back(static_cast<ExprId>(e));
  group.outputs = carried.program.outputs;
  return group;
}

}  // namespace

BlockSpace::BlockSpace(GroupView view, const Target& target)
    : declared_(std::move(view)), wide_(declared_) {
  widen_halves(&wide_, target);
  relate();
}

BlockSpace::BlockSpace(const TensorProgram& program, const Group& group, const Target& target,
                       const GroupKey* key)
    : BlockSpace(merged_view(program, group, key), target) {}

// What carries hand on ties axes together that the program alone does not.
BlockSpace::BlockSpace(const BlockSpace& whole, const CarriedProgram& carried, const Target& target)
    : BlockSpace(cut_group(carried.program, all_of(carried)), target) {
  std::vector<TensorId> local(carried.program.tensors.size(), -1);
  for (size_t t = 0; t < wide_.original.size(); ++t) {
    const auto of = static_cast<size_t>(wide_.original[t]);
    local[of] = static_cast<TensorId>(t);
    wide_.original[t] = of < whole.original().size() ? whole.original()[of] : -1;
  }
  declared_.original = wide_.original;
  for (const CarriedProgram::Carry& c : carried.carries) {
    ScalarRef beyond;
    if (c.reach.beyond) {
      beyond = rewrite(c.reach.beyond, nullptr, [&](const ScalarRef& read) -> ScalarRef {
        return scalar_read(local[static_cast<size_t>(read->symbol)], read->type, read->indices);
      });
    }
    carries_.push_back({c.reduction, local[static_cast<size_t>(c.before)],
                        producer(local[static_cast<size_t>(c.after)]),
                        c.parts < 0 ? -1 : local[static_cast<size_t>(c.parts)], c.first,
                        std::move(beyond)});
  }
  splits_ = carried.splits;
  over_parts_ = carried.over_parts;
  relate();
}

bool BlockSpace::is_carried(int p) const {
  return std::ranges::find(carries_, p, &Carry::after) != carries_.end();
}

bool BlockSpace::is_carry(TensorId t) const {
  return std::ranges::find(carries_, t, &Carry::before) != carries_.end();
}

CarryingLoop BlockSpace::carrying(const CarriedProgram& carried, int64_t step) const {
  CarryingLoop out{&carried, step, {}};
  for (const Carry& c : carries_) {
    if (c.parts >= 0) out.parts[c.parts] = c.after;
  }
  return out;
}

void BlockSpace::relate() {
  producer_.assign(wide_.program.tensors.size(), -1);
  std::vector<std::set<int>> readers(wide_.program.exprs.size());
  for (int p = 0; p < size(); ++p) {
    producer_[static_cast<size_t>(expr(p).output)] = p;
    visit(expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const auto parts = std::ranges::find(carries_, s.symbol, &Carry::parts);
      const int from = parts != carries_.end() ? parts->after : producer(s.symbol);
      if (from >= 0) readers[static_cast<size_t>(from)].insert(p);
    });
  }
  readers_.clear();
  for (const std::set<int>& all : readers) readers_.emplace_back(all.begin(), all.end());
}

bool BlockSpace::may_be_made_again(int p) const {
  const TensorExpr& e = expr(p);
  const Tensor& made = wide_.program.tensors[static_cast<size_t>(e.output)];
  bool from_data = false;
  visit(e.body, [&](const Scalar& s) {
    from_data |= s.kind == Scalar::Kind::kRead && !s.operands.empty();
  });
  return e.reduce_extents.empty() && !is_output(p) && !readers(p).empty() && carries_.empty() &&
         !from_data && e.body->type == made.type.dtype;
}

std::optional<BlockSpace> BlockSpace::without(const std::vector<int>& members) const {
  BlockSpace out = *this;
  TensorProgram& program = out.wide_.program;
  // Readers first: what a member reads is then read by what took it.
  for (int p = size(); p-- > 0;) {
    if (std::ranges::find(members, p) == members.end()) continue;
    if (!may_be_made_again(p)) return std::nullopt;
    const TensorExpr& own = program.exprs[static_cast<size_t>(p)];
    for (TensorExpr& reader : program.exprs) {
      const auto body_of = [&](const Scalar& read) -> ScalarRef {
        return read.symbol == own.output ? own.body : nullptr;
      };
      bool reads = false;
      visit(reader.body, [&](const Scalar& s) {
        reads |= s.kind == Scalar::Kind::kRead && s.symbol == own.output;
      });
      if (!reads) continue;
      ScalarRef body = ReadComposer(program, reader, body_of).run();
      if (body == nullptr) return std::nullopt;
      reader.body = std::move(body);
    }
  }
  std::vector<TensorExpr> left;
  out.positions_.clear();
  for (int p = 0; p < size(); ++p) {
    if (std::ranges::find(members, p) != members.end()) continue;
    left.push_back(std::move(program.exprs[static_cast<size_t>(p)]));
    out.positions_.push_back(position(p));
  }
  program.exprs = std::move(left);
  program.steps.clear();
  out.wide_.group.exprs.clear();
  for (size_t e = 0; e < program.exprs.size(); ++e) {
    program.steps.push_back({false, static_cast<int32_t>(e)});
    out.wide_.group.exprs.push_back(static_cast<ExprId>(e));
  }
  out.relate();
  return out;
}

bool BlockSpace::is_output(int p) const {
  return std::ranges::find(group().outputs, expr(p).output) != group().outputs.end();
}

}  // namespace weft
