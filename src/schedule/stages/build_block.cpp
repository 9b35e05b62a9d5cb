#include "schedule/stages/build_block.h"

#include <algorithm>
#include <map>
#include <utility>

#include "schedule/leaf/rank_candidates.h"
#include "schedule/leaf/template_table.h"
#include "schedule/writer/statements.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/verify_tile_program.h"
#include "tile/rewrite/program_taker.h"

namespace weft {

namespace {

/// The grid loops of a stage are loops of its block.
void walk_grid(TileBody& body) {
  for (TileNode& node : body) {
    if (node.kind != TileNode::Kind::kLoop) continue;
    if (node.loop->kind == TileLoop::Kind::kGrid) node.loop->kind = TileLoop::Kind::kSeq;
    walk_grid(node.loop->body);
  }
}

/// Threads of another stage pick elements of a value by the loops around the block, too, which no
/// register can be picked by.
void keep_in_block(const std::map<int, TileSymbolId>& values, TileBody& body) {
  for_each_statement(body, [&](TileStatement& statement) {
    const auto made = [&](const auto& value) {
      return value.second == statement.targets[0].symbol;
    };
    if (std::ranges::any_of(values, made)) statement.demand = Scope::kBlock;
  });
}

/// Behind each statement that makes one of the values, its store into the output.
void store_behind(const std::map<TileSymbolId, TileSymbolId>& outputs, TileBody& body) {
  TileBody out;
  for (TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop) store_behind(outputs, node.loop->body);
    if (node.kind == TileNode::Kind::kCondition) store_behind(outputs, node.condition->body);
    out.push_back(std::move(node));
    if (out.back().kind != TileNode::Kind::kStatement) continue;
    const TileStatement made = out.back().statement;
    const auto output = outputs.find(made.targets[0].symbol);
    if (output == outputs.end()) continue;
    out.push_back(TileNode::of(
        assign(output->second, made.targets[0].indices,
               scalar_read(output->first, made.value->type, made.targets[0].indices), made.place)));
  }
  body = std::move(out);
}

class BlockBuilder {
 public:
  BlockBuilder(const BlockSpace& space, const BlockPartition& partition, const DemandBoxes& demand,
               const Stages& stages, const Target& target, const std::string& name)
      : space_(space),
        partition_(partition),
        demand_(demand),
        stages_(stages),
        target_(inside_block(target)),
        boxes_(demand.boxes()),
        name_(name),
        taker_(&program_) {
    program_.cpu = !target.is_gpu();
  }

  Result<ScheduledKernel> run(const std::vector<Composition>* how) {
    make_loops();
    bodies_.resize(loops_.size() + 1);
    for (size_t s = 0; s < stages_.members.size(); ++s)
      WEFT_RETURN_IF_ERROR(add_stage(s, how == nullptr ? nullptr : &(*how)[s]));
    program_.body = nested();
    if (target_.is_gpu()) program_.blocks = static_cast<int64_t>(demand_.blocks);
    if (Status status = verify_tile_program(program_); !status.ok())
      return unsupported("a block of stages: " + status.error().message);
    out_.composition.kind = Composition::Kind::kBlock;
    out_.composition.partition = partition_;
    out_.composition.stages = stages_.members;
    WEFT_ASSIGN_OR_RETURN(out_.scopes, derive_scopes(program_));
    out_.program = std::move(program_);
    return std::move(out_);
  }

 private:
  void make_loops();
  Status add_stage(size_t s, const Composition* how);
  Result<ScheduledKernel> stage_kernel(const GroupSpace& stage, const Composition* how) const;
  TileSymbolId parameter(TensorId tensor, const TileSymbol& own, TileSymbol::Kind kind);
  TileSymbolId value_of(int member, const TileSymbol& own);
  TileBody nested();

  const BlockSpace& space_;
  const BlockPartition& partition_;
  const DemandBoxes& demand_;
  const Stages& stages_;
  const Target target_;
  const BlockBoxes boxes_;
  const std::string& name_;

  TileProgram program_;
  ProgramTaker taker_;
  ScheduledKernel out_;
  std::vector<TileLoop::Dim> loops_;
  std::vector<TileBody> bodies_;  ///< by loops around: what stands directly inside of them
  std::map<int, TileSymbolId> values_;
};

void BlockBuilder::make_loops() {
  program_.name = name_;
  const TileVarId p = program_.add_var("P", TileVar::Kind::kSize, 0);
  program_.blocks = IndexExpr::var(p);
  for (size_t l = 0; l < demand_.loops.size(); ++l) {
    const CutLoop& loop = demand_.loops[l];
    const std::string name = "b" + std::to_string(l);
    TileLoop::Dim dim;
    dim.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
    if (loop.step > 1) dim.offset = program_.add_var(name, TileVar::Kind::kOffset, loop.step);
    dim.step = loop.step;
    const BlockPartition::Loop& along = partition_.loops[l];
    int64_t length = 0;
    for (size_t r = 0; r < along.axes.size(); ++r) {
      if (along.axes[r] < 0) continue;
      length = space_.expr(partition_.roots[r]).extents[static_cast<size_t>(along.axes[r])];
    }
    dim.end = length;
    if (const int outer = demand_.outer[l]; outer >= 0) {
      const TileLoop::Dim& around = loops_[static_cast<size_t>(outer)];
      dim.begin = IndexExpr::var(around.origin);
      dim.end = dim.begin + around.step;
      if (length % around.step != 0) dim.end = min(dim.end, IndexExpr(length));
    }
    loops_.push_back(dim);
  }
}

Result<ScheduledKernel> BlockBuilder::stage_kernel(const GroupSpace& stage,
                                                   const Composition* how) const {
  if (how == nullptr) return rank_candidates(stage, target_, name_, nullptr);
  for (const Template& t : templates_of(target_)) {
    if (t.name != choice_name(how->choice) || !takes_groups_like(t, stage)) continue;
    if (const Fit fit = t.applies(stage, target_); fit.kind != Fit::Kind::kBuilds)
      return invalid_input("the template " + std::string(t.name) + " does not hold a stage of " +
                           name_ + ": " + fit.reason);
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, t.build(stage, how->choice, target_, name_));
    kernel.composition = *how;
    return kernel;
  }
  return invalid_input(target_.name + " has no template of stages " +
                       std::string(choice_name(how->choice)));
}

TileSymbolId BlockBuilder::parameter(TensorId tensor, const TileSymbol& own,
                                     TileSymbol::Kind kind) {
  for (size_t i = 0; i < out_.parameters.size(); ++i) {
    const TileSymbolId known = program_.parameters[i];
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(known)];
    if (out_.parameters[i] == tensor && symbol.layout == own.layout) return known;
  }
  TileSymbol symbol = own;
  symbol.kind = kind;
  symbol.shape.clear();
  for (const int64_t e : space_.program().tensors[static_cast<size_t>(tensor)].type.shape)
    symbol.shape.emplace_back(e);
  program_.parameters.push_back(taker_.add_symbol(std::move(symbol)));
  out_.parameters.push_back(tensor);
  return program_.parameters.back();
}

/// What a member leaves to other stages.
TileSymbolId BlockBuilder::value_of(int member, const TileSymbol& own) {
  const auto known = values_.find(member);
  if (known != values_.end()) return known->second;
  TileSymbol symbol;
  symbol.name = own.name + (space_.is_output(member) ? "_kept" : "");
  symbol.kind = TileSymbol::Kind::kValue;
  symbol.type = own.type;
  return values_[member] = taker_.add_symbol(std::move(symbol));
}

Status BlockBuilder::add_stage(size_t s, const Composition* how) {
  const std::vector<int>& members = stages_.members[s];
  WEFT_ASSIGN_OR_RETURN(
      const GroupSpace stage,
      GroupSpace::of_stage(space_.program(), stage_group(space_, members), target_, boxes_));
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, stage_kernel(stage, how));
  std::vector<TileSymbolId> symbols;
  std::map<TileSymbolId, TileSymbolId> stored;  // outputs of values
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const TensorId tensor = stage.original()[static_cast<size_t>(kernel.parameters[i])];
    const TileSymbol& own =
        kernel.program.symbols[static_cast<size_t>(kernel.program.parameters[i])];
    const int member = space_.producer(tensor);
    const bool made_here = std::ranges::binary_search(members, member);
    const bool handed_on =
        member >= 0 && (!made_here || !std::ranges::all_of(space_.readers(member), [&](int r) {
          return std::ranges::binary_search(members, r);
        }));
    if (!handed_on) {
      symbols.push_back(parameter(tensor, own, own.kind));
      continue;
    }
    const bool leaves = made_here && space_.is_output(member);
    const TileSymbolId output = leaves ? parameter(tensor, own, TileSymbol::Kind::kOutput) : -1;
    symbols.push_back(value_of(member, own));
    if (leaves) stored[symbols.back()] = output;
  }
  std::vector<TileVarId> origins;
  for (const TileLoop::Dim& loop : loops_) origins.push_back(loop.origin);
  TileBody body = taker_.take(kernel.program, &symbols, origins);
  walk_grid(body);
  if (target_.is_gpu()) keep_in_block(values_, body);
  store_behind(stored, body);
  TileBody& to = bodies_[static_cast<size_t>(stages_.levels[s])];
  for (TileNode& node : body) to.push_back(std::move(node));
  program_.warps = std::max(program_.warps, kernel.program.warps);
  out_.schedule_template +=
      (out_.schedule_template.empty() ? "stages: " : ", ") + kernel.schedule_template;
  out_.composition.members.push_back(std::move(kernel.composition));
  return {};
}

/// grid loops { stages of these alone; seq turns { stages of these, too; … } }
TileBody BlockBuilder::nested() {
  TileBody inside;
  for (size_t l = loops_.size(); l > static_cast<size_t>(demand_.over_blocks); --l) {
    TileLoop turn;
    turn.kind = TileLoop::Kind::kSeq;
    turn.dims.push_back(loops_[l - 1]);
    turn.body = std::move(bodies_[l]);
    for (TileNode& node : inside) turn.body.push_back(std::move(node));
    inside.clear();
    inside.push_back(TileNode::of(std::move(turn)));
  }
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  grid.dims.assign(loops_.begin(), loops_.begin() + demand_.over_blocks);
  if (grid.dims.empty()) {
    TileLoop::Dim once;
    once.origin = program_.add_var("once", TileVar::Kind::kOrigin, 0);
    once.end = 1;
    grid.dims.push_back(once);
  }
  grid.body = std::move(bodies_[static_cast<size_t>(demand_.over_blocks)]);
  for (TileNode& node : inside) grid.body.push_back(std::move(node));
  TileBody out;
  out.push_back(TileNode::of(std::move(grid)));
  return out;
}

}  // namespace

Result<ScheduledKernel> build_block(const BlockSpace& space, const BlockPartition& partition,
                                    const DemandBoxes& demand, const Stages& stages,
                                    const std::vector<Composition>* how, const Target& target,
                                    const std::string& name) {
  return BlockBuilder(space, partition, demand, stages, target, name).run(how);
}

}  // namespace weft
