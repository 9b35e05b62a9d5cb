#include "schedule/stages/build_block.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "schedule/gpu/warp_rows.h"
#include "schedule/leaf/rank_candidates.h"
#include "schedule/leaf/template_table.h"
#include "schedule/stages/stage_time.h"
#include "schedule/writer/kernel_names.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/verify_tile_program.h"
#include "tile/register_limit.h"
#include "tile/rewrite/program_taker.h"

namespace weft {

namespace {

/// The loop that makes one nest of statements which no axis of the grid goes around.
bool is_once(const TileLoop& loop) {
  const TileLoop::Dim& dim = loop.dims.front();
  return loop.kind == TileLoop::Kind::kGrid && loop.dims.size() == 1 && loop.carries.empty() &&
         dim.begin.is_const(0) && dim.end.is_const(1) && dim.offset < 0;
}

/// The grid loops of a stage are loops of its block. On a GPU what runs once needs none: others
/// could not know its registers.
void walk_grid(bool gpu, TileBody& body) {
  TileBody out;
  for (TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop) {
      TileLoop& loop = *node.loop;
      const bool once = gpu && is_once(loop);
      if (loop.kind == TileLoop::Kind::kGrid) loop.kind = TileLoop::Kind::kSeq;
      walk_grid(gpu, loop.body);
      if (once) {
        for (TileNode& inside : loop.body) out.push_back(std::move(inside));
        continue;
      }
    }
    out.push_back(std::move(node));
  }
  body = std::move(out);
}

/// Threads of another stage pick elements of a value by the loops around the block, too, which no
/// register can be picked by.
void keep_in_block(const std::set<TileSymbolId>& values, TileBody& body) {
  for_each_statement(body, [&](TileStatement& statement) {
    if (values.contains(statement.targets[0].symbol)) statement.demand = Scope::kBlock;
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

/// What a step leaves of a carry is its next value.
void name_next(TileSymbolId carry, TileBody& body) {
  const auto next = [&](const ScalarRef& s) {
    return rewrite(s, nullptr, [&](const ScalarRef& read) -> ScalarRef {
      if (read->symbol != carry) return read;
      auto copy = std::make_shared<Scalar>(*read);
      copy->next = true;
      return copy;
    });
  };
  for (TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        node.statement.value = next(node.statement.value);
        for (TileRef& target : node.statement.targets) target.next |= target.symbol == carry;
        break;
      case TileNode::Kind::kLoop:
        for (TileCarry& c : node.loop->carries) c.initial = next(c.initial);
        name_next(carry, node.loop->body);
        break;
      case TileNode::Kind::kCondition:
        node.condition->condition = next(node.condition->condition);
        name_next(carry, node.condition->body);
        break;
      case TileNode::Kind::kPack:
        for (TilePack::Member& member : node.pack->members) name_next(carry, member.body);
        break;
    }
  }
}

Status verified(const TileProgram& program, const ScopeAnalysis& scopes) {
  const Status status = verify_tile_program(program, scopes);
  return status.ok() ? status : unsupported("a block of stages: " + status.error().message);
}

class BlockBuilder {
 public:
  BlockBuilder(const BlockSpace& space, const BlockPartition& partition, const DemandBoxes& demand,
               const Stages& stages, const Target& target, const std::string& name, double most_us,
               Handing handing)
      : space_(space),
        partition_(partition),
        demand_(demand),
        stages_(stages),
        target_(inside_block(target)),
        boxes_(demand.boxes(processors(target))),
        name_(name),
        most_us_(most_us),
        handing_(handing),
        taker_(&program_) {
    program_.cpu = !target.is_gpu();
  }

  Result<ScheduledKernel> run(const std::vector<Composition>* how) {
    make_loops();
    bodies_.resize(loops_.size() + 2);
    WEFT_RETURN_IF_ERROR(make_carries());
    for (size_t s = 0; s < stages_.members.size(); ++s)
      WEFT_RETURN_IF_ERROR(add_stage(s, how == nullptr ? nullptr : &(*how)[s]));
    if (target_.is_gpu()) WEFT_RETURN_IF_ERROR(keep_values());
    program_.body = nested();
    if (target_.is_gpu()) program_.blocks = static_cast<int64_t>(demand_.blocks);
    out_.composition.kind =
        demand_.carrying < 0 ? Composition::Kind::kBlock : Composition::Kind::kChain;
    out_.composition.partition = partition_;
    out_.composition.stages = stages_.members;
    WEFT_ASSIGN_OR_RETURN(out_.scopes, derive_scopes(program_));
    if (how != nullptr) WEFT_RETURN_IF_ERROR(verified(program_, out_.scopes));
    WEFT_RETURN_IF_ERROR(check_kept());
    out_.program = std::move(program_);
    return std::move(out_);
  }

 private:
  int64_t length_of(size_t l) const;
  void make_loops();
  void bound_steps();
  Status make_carries();
  void add_unreached(const BlockSpace::Carry& c, TileCarry* carry);
  ScalarRef sum_unreached(const ScalarRef& term, const TileCarry& like, const ScalarRef& before,
                          TileLoop::Dim steps);
  double time_of(const GroupSpace& stage, const ScheduledKernel& kernel) const;
  Status add_time(const GroupSpace& stage, const ScheduledKernel& kernel);
  Status add_stage(size_t s, const Composition* how);
  Result<ScheduledKernel> stage_kernel(const GroupSpace& stage, const Composition* how) const;
  Result<ScheduledKernel> built(const GroupSpace& stage, const Composition& how) const;
  std::map<TensorId, LaidOut> handed_to(const GroupSpace& stage) const;
  void note_handed(const GroupSpace& stage, const Choice& choice);
  /// Whether what a member makes is handed on in registers.
  bool is_in_warps(int member) const {
    return laid_out_.contains(member) && !picked_.contains(member);
  }
  Status keep_values();
  TileSymbolId parameter(TensorId tensor, const TileSymbol& own, TileSymbol::Kind kind);
  TileSymbolId value_of(int member, const TileSymbol& own);
  /// The carry that stands for a tensor, or -1.
  TileSymbolId carry_of(TensorId tensor) const;
  void name_next_values(size_t s, const GroupSpace& stage, ScheduledKernel* kernel) const;
  void in_vectors(Place* place) const;
  Status check_kept() const;
  TileBody nested();
  TileBody in_grid(TileBody body);

  const BlockSpace& space_;
  const BlockPartition& partition_;
  const DemandBoxes& demand_;
  const Stages& stages_;
  const Target target_;
  const BlockBoxes boxes_;
  const std::string& name_;
  const double most_us_;
  const Handing handing_;

  TileProgram program_;
  ProgramTaker taker_;
  ScheduledKernel out_;
  std::vector<TileLoop::Dim> loops_;
  std::vector<TileBody> bodies_;  ///< by loops around: what stands directly inside of them
  std::map<int, TileSymbolId> values_;
  std::map<int, LaidOut> laid_out_;  ///< by member: what threads have at once
  std::set<int> picked_;             ///< members some reader of which does not find it in its warp
  struct Assumed {
    GroupSpace stage;
    ScheduledKernel kernel;
    double us;
  };
  std::vector<Assumed> assumed_;    ///< stages priced as if all readers found what they leave
  std::vector<TileCarry> carries_;  ///< in the order of the space's
  TileBody unreached_;              ///< what sums begin with
};

int64_t BlockBuilder::length_of(size_t l) const {
  if (static_cast<int>(l) == demand_.carrying) return demand_.carried_extent;
  const BlockPartition::Loop& along = partition_.loops[l];
  int64_t length = 0;
  for (size_t r = 0; r < along.axes.size(); ++r) {
    if (along.axes[r] < 0) continue;
    length = space_.expr(partition_.roots[r]).extents[static_cast<size_t>(along.axes[r])];
  }
  return length;
}

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
    const int64_t length = length_of(l);
    dim.end = length;
    if (const int outer = demand_.outer[l]; outer >= 0) {
      const TileLoop::Dim& around = loops_[static_cast<size_t>(outer)];
      dim.begin = IndexExpr::var(around.origin);
      dim.end = dim.begin + around.step;
      if (length % around.step != 0) dim.end = min(dim.end, IndexExpr(length));
    }
    loops_.push_back(dim);
  }
  if (demand_.carrying >= 0) bound_steps();
}

/// The loop over the steps goes as far as masks let any row of the block reach.
void BlockBuilder::bound_steps() {
  const auto in_loops = [&](const IndexExpr& e) {
    return substitute(e,
                      [&](int l) { return IndexExpr::var(loops_[static_cast<size_t>(l)].origin); });
  };
  TileLoop::Dim& steps = loops_[static_cast<size_t>(demand_.carrying)];
  steps.begin = in_loops(demand_.carried_begin);
  steps.end = in_loops(demand_.carried_end);
}

/// Each carry holds the box that a block owes of its reduction.
Status BlockBuilder::make_carries() {
  for (const BlockSpace::Carry& c : space_.carries()) {
    const TensorId tensor = space_.expr(c.after).output;
    TileSymbol symbol;
    symbol.name = KernelNames::identifier(space_.name_of(c.after));
    symbol.kind = TileSymbol::Kind::kCarry;
    symbol.type = space_.program().tensors[static_cast<size_t>(tensor)].type.dtype;
    std::vector<IndexExpr> box;
    Place place;
    for (const BoxAxis& axis : demand_.members[static_cast<size_t>(c.after)].box) {
      TileVarId var = -1;
      if (axis.origin.is_var()) {
        const TileLoop::Dim& loop = loops_[static_cast<size_t>(axis.origin.var_id())];
        box.push_back(program_.index_of(loop));
        var = loop.offset;
      } else if (!axis.origin.is_const(0)) {
        return unsupported(space_.name_of(c.after) + " is carried and no loop walks its boxes");
      } else if (axis.extent == 1) {
        box.emplace_back(0);
      } else {
        var = program_.add_var("c" + std::to_string(program_.vars.size()), TileVar::Kind::kAxis,
                               axis.extent);
        box.push_back(IndexExpr::var(var));
      }
      if (var >= 0) place.axes.push_back(place_of(var, axis.extent, 1).axes[0]);
    }
    in_vectors(&place);
    for (const Place::Axis& axis : place.axes) {
      if (axis.digits.front().extent > kMostRegisters)
        return unsupported(space_.name_of(c.after) +
                           " is carried along an axis of more registers than " +
                           std::to_string(kMostRegisters));
    }
    carries_.push_back(carried(taker_.add_symbol(std::move(symbol)), std::move(box),
                               scalar_constant(c.first), std::move(place)));
    if (c.beyond) add_unreached(c, &carries_.back());
  }
  return {};
}

/// A sum begins with what the terms add that no step goes over: nothing, or NaN.
void BlockBuilder::add_unreached(const BlockSpace::Carry& c, TileCarry* carry) {
  const TileLoop::Dim& steps = loops_[static_cast<size_t>(demand_.carrying)];
  TileLoop::Dim before, behind;
  before.end = steps.begin;
  behind.begin = steps.end;
  behind.end = demand_.carried_extent;
  for (const TileLoop::Dim& dim : {before, behind}) {
    if (!(dim.begin == dim.end))
      carry->initial = sum_unreached(c.beyond, *carry, carry->initial, dim);
  }
}

/// seq n carry g[e] = before { g'[e] = g[e] + 0 * x[n,e] }, over the axes that x has.
ScalarRef BlockBuilder::sum_unreached(const ScalarRef& term, const TileCarry& like,
                                      const ScalarRef& before, TileLoop::Dim steps) {
  steps.origin =
      program_.add_var("n" + std::to_string(program_.vars.size()), TileVar::Kind::kOrigin, 0);
  const auto axes = static_cast<int>(like.target.indices.size());
  const ScalarRef own = rewrite(
      term,
      [&](int v) {
        return v < axes ? like.target.indices[static_cast<size_t>(v)]
                        : IndexExpr::var(steps.origin);
      },
      [&](const ScalarRef& read) {
        const Tensor& tensor = space_.program().tensors[static_cast<size_t>(read->symbol)];
        TileSymbol symbol;
        symbol.name = KernelNames::identifier(tensor.name);
        symbol.type = tensor.type.dtype;
        symbol.layout = tensor.layout;
        return scalar_read(parameter(read->symbol, symbol, TileSymbol::Kind::kInput), read->type,
                           read->indices);
      });
  TileSymbol symbol;
  symbol.name = program_.symbols[static_cast<size_t>(like.target.symbol)].name + "_unreached";
  symbol.kind = TileSymbol::Kind::kCarry;
  symbol.type = like.type;
  std::vector<IndexExpr> box;
  for (const IndexExpr& index : like.target.indices) {
    bool moves = false;
    for (const int v : variables(index)) {
      visit(own, [&](const Scalar& s) {
        for (const IndexExpr& i : s.indices) moves |= uses_var(i, v);
      });
    }
    if (moves) box.push_back(index);
  }
  Place place;
  for (const Place::Axis& axis : like.place.axes) {
    if (std::ranges::any_of(box, [&](const IndexExpr& i) { return uses_var(i, axis.var); }))
      place.axes.push_back(axis);
  }
  const TileSymbolId sum = taker_.add_symbol(std::move(symbol));
  TileLoop loop;
  loop.dims.push_back(steps);
  loop.carries.push_back(carried(sum, box, before, place));
  const ScalarRef zero = scalar_constant(float_value(like.type, 0));
  loop.body.push_back(
      TileNode::of(assign_next(sum, box,
                               scalar_apply(ScalarOp::kAdd,
                                            {scalar_read(sum, like.type, box),
                                             scalar_apply(ScalarOp::kMul, {zero, own}, like.type)},
                                            like.type),
                               place)));
  unreached_.push_back(TileNode::of(std::move(loop)));
  return scalar_read(sum, like.type, std::move(box));
}

/// The last axis lies in vectors where they divide it.
void BlockBuilder::in_vectors(Place* place) const {
  if (place->axes.empty()) return;
  std::vector<Place::Digit>& digits = place->axes.back().digits;
  const int64_t lanes = target_.vector_bytes / 4, extent = digits.back().extent;
  if (extent % lanes == 0) digits = place_of(-1, extent / lanes, lanes).axes[0].digits;
}

TileSymbolId BlockBuilder::carry_of(TensorId tensor) const {
  for (size_t c = 0; c < carries_.size(); ++c) {
    const BlockSpace::Carry& carry = space_.carries()[c];
    if (tensor == carry.before || tensor == space_.expr(carry.after).output)
      return carries_[c].target.symbol;
  }
  return -1;
}

/// In the stages of a step, where it has made them.
void BlockBuilder::name_next_values(size_t s, const GroupSpace& stage,
                                    ScheduledKernel* kernel) const {
  if (stages_.levels[s] != demand_.over_blocks + 1) return;
  for (size_t i = 0; i < kernel->parameters.size(); ++i) {
    const int member =
        space_.producer(stage.original()[static_cast<size_t>(kernel->parameters[i])]);
    if (member >= 0 && space_.is_carried(member))
      name_next(kernel->program.parameters[i], kernel->program.body);
  }
}

Result<ScheduledKernel> BlockBuilder::stage_kernel(const GroupSpace& stage,
                                                   const Composition* how) const {
  if (how != nullptr) return built(stage, *how);
  auto kernel = rank_candidates(stage, target_, name_, {}, nullptr);
  if (handing_ == Handing::kByBlock || !kernel.ok()) return kernel;
  const auto* rows = std::get_if<RowsChoice>(&kernel->composition.choice);
  auto in_warps = rows != nullptr ? rows_in_warps(stage, *rows, handed_to(stage)) : std::nullopt;
  if (!in_warps) return kernel;
  Composition leaf = kernel->composition;
  leaf.choice = *std::move(in_warps);
  return built(stage, leaf);
}

Result<ScheduledKernel> BlockBuilder::built(const GroupSpace& stage, const Composition& how) const {
  for (const Template& t : templates_of(target_)) {
    if (t.name != choice_name(how.choice) || !takes_groups_like(t, stage)) continue;
    if (const Fit fit = t.applies(stage, target_); fit.kind != Fit::Kind::kBuilds)
      return invalid_input("the template " + std::string(t.name) + " does not hold a stage of " +
                           name_ + ": " + fit.reason);
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, t.build(stage, how.choice, target_, name_));
    if (target_.is_gpu()) {
      WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
    }
    kernel.composition = how;
    return kernel;
  }
  return invalid_input(target_.name + " has no template of stages " +
                       std::string(choice_name(how.choice)));
}

/// Where what a stage reads lies in the threads of the block, by tensor of the stage.
std::map<TensorId, LaidOut> BlockBuilder::handed_to(const GroupSpace& stage) const {
  std::map<TensorId, LaidOut> out;
  for (size_t t = 0; t < stage.original().size(); ++t) {
    const auto made = laid_out_.find(space_.producer(stage.original()[t]));
    if (made != laid_out_.end() && stage.axes().producer(static_cast<TensorId>(t)) < 0)
      out[static_cast<TensorId>(t)] = made->second;
  }
  return out;
}

/// What a stage reads that its threads do not find in their warp, and what it leaves in its own.
void BlockBuilder::note_handed(const GroupSpace& stage, const Choice& choice) {
  const auto* rows = std::get_if<RowsChoice>(&choice);
  const std::map<TensorId, LaidOut> handed = handed_to(stage);
  for (const auto& [t, made] : handed) {
    if (rows == nullptr || !finds_in_warp(stage, *rows, t, made))
      picked_.insert(space_.producer(stage.original()[static_cast<size_t>(t)]));
  }
  if (rows == nullptr) return;
  for (auto& [t, made] : weft::laid_out(stage, *rows))
    laid_out_[space_.producer(stage.original()[static_cast<size_t>(t)])] = std::move(made);
}

/// What is handed on stays in registers where all readers find it there, else in block memory.
Status BlockBuilder::keep_values() {
  std::set<TileSymbolId> in_block;
  for (const auto& [member, symbol] : values_) {
    if (!is_in_warps(member)) in_block.insert(symbol);
  }
  if (handing_ == Handing::kByWarp && in_block.size() == values_.size())
    return unsupported(kNoneInWarps);
  for (TileBody& body : bodies_) keep_in_block(in_block, body);
  for (const auto& [stage, kernel, us] : assumed_)
    *out_.predicted_us += time_of(stage, kernel) - us;
  return {};
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

double BlockBuilder::time_of(const GroupSpace& stage, const ScheduledKernel& kernel) const {
  std::vector<bool> in_warps;
  for (const TensorId t : stage.original()) in_warps.push_back(is_in_warps(space_.producer(t)));
  return stage_us(stage, kernel, target_, in_warps);
}

/// That of a stage before its readers are known: at least so much.
Status BlockBuilder::add_time(const GroupSpace& stage, const ScheduledKernel& kernel) {
  const double us = time_of(stage, kernel);
  out_.predicted_us = out_.predicted_us.value_or(0) + us;
  if (*out_.predicted_us >= most_us_)
    return unsupported(fmt::format("its stages take {:.2f} us and more", *out_.predicted_us));
  const auto& outputs = stage.group().outputs;
  if (std::ranges::any_of(outputs, [&](TensorId t) {
        return is_in_warps(space_.producer(stage.original()[static_cast<size_t>(t)]));
      }))
    assumed_.push_back({stage, kernel, us});
  return {};
}

Status BlockBuilder::add_stage(size_t s, const Composition* how) {
  const std::vector<int>& members = stages_.members[s];
  WEFT_ASSIGN_OR_RETURN(
      const GroupSpace stage,
      GroupSpace::of_stage(space_.program(), stage_group(space_, members), target_, boxes_));
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, stage_kernel(stage, how));
  if (target_.is_gpu()) {
    note_handed(stage, kernel.composition.choice);
    WEFT_RETURN_IF_ERROR(add_time(stage, kernel));
  }
  name_next_values(s, stage, &kernel);
  std::vector<TileSymbolId> symbols;
  std::map<TileSymbolId, TileSymbolId> stored;  // outputs of values
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const TensorId tensor = stage.original()[static_cast<size_t>(kernel.parameters[i])];
    const TileSymbol& own =
        kernel.program.symbols[static_cast<size_t>(kernel.program.parameters[i])];
    if (const TileSymbolId carry = carry_of(tensor); carry >= 0) {
      symbols.push_back(carry);
      continue;
    }
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
  walk_grid(target_.is_gpu(), body);
  store_behind(stored, body);
  TileBody& to = bodies_[static_cast<size_t>(stages_.levels[s])];
  for (TileNode& node : body) to.push_back(std::move(node));
  program_.warps = std::max(program_.warps, kernel.program.warps);
  out_.schedule_template +=
      (out_.schedule_template.empty() ? "stages: " : ", ") + kernel.schedule_template;
  out_.composition.members.push_back(std::move(kernel.composition));
  return {};
}

/// What a block of a GPU keeps is its own: others do not wait until it is there.
Status BlockBuilder::check_kept() const {
  for (const auto& [member, symbol] : values_) {
    const Scope scope = out_.scopes.symbols[static_cast<size_t>(symbol)].scope;
    if (target_.is_gpu() && scope > Scope::kBlock)
      return unsupported("blocks would share what they keep of " + space_.name_of(member));
  }
  return {};
}

/// grid loops { stages of these alone; seq turns { stages of these, too; … } }, or
/// grid loops { stages before; seq step carry … { stages of a step } stages behind }
TileBody BlockBuilder::nested() {
  const auto around = [&](int l, TileBody own, TileBody inside) {
    TileLoop loop;
    loop.kind = TileLoop::Kind::kSeq;
    loop.dims.push_back(loops_[static_cast<size_t>(l)]);
    loop.body = std::move(own);
    for (TileNode& node : inside) loop.body.push_back(std::move(node));
    return loop;
  };
  const auto over_blocks = static_cast<size_t>(demand_.over_blocks);
  TileBody inside;
  if (demand_.carrying >= 0) {
    inside = std::move(unreached_);
    TileLoop steps = around(demand_.carrying, std::move(bodies_[over_blocks + 1]), {});
    steps.carries = std::move(carries_);
    inside.push_back(TileNode::of(std::move(steps)));
    for (TileNode& node : bodies_[over_blocks + 2]) inside.push_back(std::move(node));
  } else {
    for (size_t l = loops_.size(); l > over_blocks; --l) {
      TileLoop turn = around(static_cast<int>(l) - 1, std::move(bodies_[l]), std::move(inside));
      inside.clear();
      inside.push_back(TileNode::of(std::move(turn)));
    }
  }
  TileBody body = std::move(bodies_[over_blocks]);
  for (TileNode& node : inside) body.push_back(std::move(node));
  return in_grid(std::move(body));
}

TileBody BlockBuilder::in_grid(TileBody body) {
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  grid.dims.assign(loops_.begin(), loops_.begin() + demand_.over_blocks);
  if (grid.dims.empty()) {
    TileLoop::Dim once;
    once.origin = program_.add_var("once", TileVar::Kind::kOrigin, 0);
    once.end = 1;
    grid.dims.push_back(once);
  }
  grid.body = std::move(body);
  TileBody out;
  out.push_back(TileNode::of(std::move(grid)));
  return out;
}

}  // namespace

Status verify_block(const ScheduledKernel& kernel) {
  return verified(kernel.program, kernel.scopes);
}

Result<ScheduledKernel> build_block(const BlockSpace& space, const BlockPartition& partition,
                                    const DemandBoxes& demand, const Stages& stages,
                                    const std::vector<Composition>* how, const Target& target,
                                    const std::string& name, double most_us, Handing handing) {
  return BlockBuilder(space, partition, demand, stages, target, name, most_us, handing).run(how);
}

}  // namespace weft
