#include "schedule/stages/demand_boxes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "fmt/format.h"
#include "support/rounding.h"

namespace weft {

namespace {

class Demands {
 public:
  Demands(const TensorProgram& program, const Group& group, const BlockPartition& partition,
          const CarryingLoop& carrying)
      : program_(program), group_(group), partition_(partition), carrying_(carrying) {
    for (size_t e = 0; e < program.exprs.size(); ++e)
      producer_[program.exprs[e].output] = static_cast<int>(e);
  }

  Result<DemandBoxes> run() {
    out_.members.resize(program_.exprs.size());
    known_.assign(program_.exprs.size(), false);
    WEFT_RETURN_IF_ERROR(make_loops());
    if (carrying_.carried != nullptr) WEFT_RETURN_IF_ERROR(add_carrying_loop());
    for (size_t r = 0; r < partition_.roots.size(); ++r) WEFT_RETURN_IF_ERROR(ask_root(r));
    for (int p = static_cast<int>(program_.exprs.size()) - 1; p >= 0; --p)
      WEFT_RETURN_IF_ERROR(owe(p));
    if (carrying_.carried != nullptr) bound_steps();
    for (size_t p = 0; p < program_.exprs.size(); ++p) {
      carrying_.carried == nullptr ? count(static_cast<int>(p))
                                   : count_carried(static_cast<int>(p));
    }
    return std::move(out_);
  }

 private:
  const TensorExpr& expr(int p) const { return program_.exprs[static_cast<size_t>(p)]; }
  Demand& demand(int p) { return out_.members[static_cast<size_t>(p)]; }
  const std::string& name(int p) const {
    return program_.tensors[static_cast<size_t>(expr(p).output)].name;
  }
  int axis_of(const BlockPartition::Loop& loop, size_t root) const { return loop.axes[root]; }

  Status make_loops();
  Status add_carrying_loop();
  Status ask_root(size_t r);
  Status owe(int p);
  Status check_stored(int p);
  std::optional<std::string> not_stored_once(int p) const;
  void ask(int reader, const Scalar& read);
  IndexHull hull_of_reduced(int reader, int var) const;
  bool is_of_step(int p) const {
    return carrying_.carried != nullptr &&
           carrying_.carried->parts[static_cast<size_t>(p)] == CarriedProgram::Part::kStep;
  }
  void count(int p);
  void count_carried(int p);
  void bound_steps();
  std::optional<IndexExpr> reached(const CarriedProgram::Carry& carry, bool first) const;
  BoxAxis clipped(const IndexHull& hull, int64_t full) const {
    if (hull.extent >= full) return {0, full, full};
    return {hull.origin, hull.extent, full};
  }

  const TensorProgram& program_;
  const Group& group_;
  const BlockPartition& partition_;
  const CarryingLoop carrying_;
  std::map<TensorId, int> producer_;
  std::vector<bool> known_;  ///< members of which something is asked
  DemandBoxes out_;
};

/// Loops run over the first root's axes; others of the same loop must be as long.
Status Demands::make_loops() {
  const auto members = static_cast<int>(program_.exprs.size());
  for (const int root : partition_.roots) {
    if (root < 0 || root >= members) return invalid_input("a partition of no member");
  }
  if (partition_.roots.empty()) return invalid_input("a partition without a root");
  bool turns = false;
  for (const BlockPartition::Loop& loop : partition_.loops) {
    if (loop.axes.size() != partition_.roots.size() || loop.step < 1 || (turns && !loop.turns))
      return invalid_input("a partition's loops have an axis of each root");
    turns = loop.turns;
    int64_t length = -1;
    for (size_t r = 0; r < loop.axes.size(); ++r) {
      const TensorExpr& e = expr(partition_.roots[r]);
      if (loop.axes[r] < 0) continue;
      if (loop.axes[r] >= e.output_rank()) return invalid_input("a partition along no axis");
      const int64_t extent = e.extents[static_cast<size_t>(loop.axes[r])];
      if (length >= 0 && length != extent)
        return invalid_input("a partition of roots that differ along an axis");
      length = extent;
    }
    if (length < 1) return invalid_input("a loop over no root");
    int outer = -1;
    for (size_t o = 0; o < out_.loops.size(); ++o) {
      if (partition_.loops[o].axes == loop.axes) outer = static_cast<int>(o);
    }
    int64_t trips = ceil_div(length, loop.step);
    if (outer >= 0) {
      const int64_t step = out_.loops[static_cast<size_t>(outer)].step;
      if (!loop.turns || step % loop.step != 0)
        return invalid_input("turns that do not divide the block's step");
      out_.turns *= static_cast<double>(step / loop.step);
    } else {
      (loop.turns ? out_.turns : out_.blocks) *= static_cast<double>(trips);
    }
    out_.over_blocks += loop.turns ? 0 : 1;
    out_.outer.push_back(outer);
    out_.loops.push_back({{0, (trips - 1) * loop.step}, loop.step});
  }
  return {};
}

Status Demands::add_carrying_loop() {
  const int64_t extent = carrying_.carried->extent, step = carrying_.step;
  if (out_.over_blocks != static_cast<int>(out_.loops.size()))
    return invalid_input("blocks that walk in turns carry no reductions");
  if (step < 1) return invalid_input("a loop that carries reductions has steps");
  out_.carrying = static_cast<int>(out_.loops.size());
  out_.carried_extent = extent;
  out_.outer.push_back(-1);
  out_.loops.push_back({{0, (ceil_div(extent, step) - 1) * step}, step});
  for (size_t p = 0; p < program_.exprs.size(); ++p) {
    const int along = carrying_.carried->along[p];
    if (along < program_.exprs[p].output_rank()) continue;
    const IndexHull piece = hull_of_reduced(static_cast<int>(p), along);
    out_.members[p].piece = {along, {piece.origin, piece.extent, extent}};
  }
  return {};
}

/// All of what a reduction goes over; of an axis along which reductions are carried, a step.
IndexHull Demands::hull_of_reduced(int reader, int var) const {
  const int64_t extent = expr(reader).range(var).hi + 1;
  const bool cut = out_.carrying >= 0 &&
                   carrying_.carried->along[static_cast<size_t>(reader)] == var &&
                   carrying_.step < extent;
  return cut ? IndexHull{IndexExpr::var(out_.carrying), carrying_.step} : IndexHull{0, extent};
}

Status Demands::ask_root(size_t r) {
  const int p = partition_.roots[r];
  if (known_[static_cast<size_t>(p)]) return invalid_input("a partition names a root twice");
  known_[static_cast<size_t>(p)] = true;
  for (const int64_t extent : expr(p).extents) demand(p).box.push_back({0, extent, extent});
  for (size_t l = 0; l < partition_.loops.size(); ++l) {
    const int axis = axis_of(partition_.loops[l], r);
    if (axis < 0) continue;
    BoxAxis& box = demand(p).box[static_cast<size_t>(axis)];
    const CutLoop& loop = out_.loops[l];
    box = loop.step >= box.full ? BoxAxis{0, box.full, box.full}
                                : BoxAxis{IndexExpr::var(static_cast<int>(l)), loop.step, box.full};
  }
  return {};
}

/// What a member asks of those that it reads.
Status Demands::owe(int p) {
  if (!known_[static_cast<size_t>(p)])
    return unsupported("no root of the block asks for " + name(p));
  for (const BoxAxis& axis : demand(p).box) {
    const Interval at = range_of(axis.origin, origins_of(out_.loops));
    if (axis.extent == 1 && (at.lo < 0 || at.hi >= axis.full))
      return unsupported("blocks may ask for what lies outside of " + name(p));
  }
  if (std::ranges::find(group_.outputs, expr(p).output) != group_.outputs.end()) {
    if (const auto trouble = not_stored_once(p))
      return unsupported("blocks store " + *trouble + " of " + name(p));
  }
  visit(expr(p).body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    if (producer_.count(s.symbol) != 0) ask(p, s);
    const auto parts = carrying_.parts.find(s.symbol);
    if (parts == carrying_.parts.end()) return;
    Scalar own = s;
    own.symbol = expr(parts->second).output;
    own.indices.erase(own.indices.begin());
    ask(p, own);
  });
  return {};
}

void Demands::ask(int reader, const Scalar& read) {
  const TensorExpr& e = expr(reader);
  const int producer = producer_.at(read.symbol);
  const std::vector<BoxAxis>& box = demand(reader).box;
  demand(producer).read = true;
  const auto hull = [&](int var) -> IndexHull {
    if (var >= e.output_rank()) return hull_of_reduced(reader, var);
    return {box[static_cast<size_t>(var)].origin, box[static_cast<size_t>(var)].extent};
  };
  std::vector<BoxAxis> asked;
  for (size_t d = 0; d < read.indices.size(); ++d) {
    const int64_t full = expr(producer).extents[d];
    const std::vector<int> used = variables(read.indices[d]);
    const bool from_data = !used.empty() && used.back() >= kRuntimeIndexBase;
    const auto own = from_data ? std::nullopt : hull_of(read.indices[d], out_.loops, hull);
    asked.push_back(own ? clipped(*own, full) : BoxAxis{0, full, full});
  }
  std::vector<BoxAxis>& known = demand(producer).box;
  if (!known_[static_cast<size_t>(producer)]) {
    known_[static_cast<size_t>(producer)] = true;
    known = std::move(asked);
    return;
  }
  for (size_t d = 0; d < known.size(); ++d) {
    const auto both =
        joined({known[d].origin, known[d].extent}, {asked[d].origin, asked[d].extent}, out_.loops);
    known[d] = both ? clipped(*both, known[d].full) : BoxAxis{0, known[d].full, known[d].full};
  }
}

/// Whether the boxes of all blocks, one after another, are the tensor: each loop moves one axis,
/// and along an axis the loops are digits of the place. Else what is stored.
std::optional<std::string> Demands::not_stored_once(int p) const {
  struct Digit {
    int64_t factor, length;  // elements between two steps, and in all of them
  };
  std::vector<int> moved(out_.loops.size(), 0);
  for (const BoxAxis& axis : out_.members[static_cast<size_t>(p)].box) {
    AffineForm form;
    if (!as_affine(axis.origin, &form) || form.constant != 0) return "overlapping boxes";
    std::vector<Digit> digits;
    for (const auto& [loop, factor] : form.terms) {
      const CutLoop& l = out_.loops[static_cast<size_t>(loop)];
      ++moved[static_cast<size_t>(loop)];
      const int outer = out_.outer[static_cast<size_t>(loop)];
      if (outer >= 0) ++moved[static_cast<size_t>(outer)];
      digits.push_back({factor * l.step, factor * (l.origins.hi + l.step)});
    }
    std::ranges::sort(digits, {}, &Digit::factor);
    int64_t covered = axis.extent;
    for (const Digit& digit : digits) {
      if (digit.factor != covered) return digit.factor < covered ? "overlapping boxes" : "a part";
      covered = digit.length;
    }
    if (covered < axis.full) return "a part";
  }
  for (size_t l = 0; l < moved.size(); ++l) {
    if (moved[l] > 1) return "a part";
    if (static_cast<int>(l) == out_.carrying && !is_of_step(p)) continue;
    if (moved[l] == 0 && out_.loops[l].origins.hi > 0) return "the same elements several times";
  }
  return std::nullopt;
}

/// The loops around a member, and how often they make its elements.
void Demands::count(int p) {
  Demand& own = demand(p);
  own.level = out_.over_blocks;
  double made = out_.blocks, size = 1;
  for (const BoxAxis& axis : own.box) {
    made *= static_cast<double>(axis.extent);
    size *= static_cast<double>(axis.full);
    for (const int loop : variables(axis.origin)) own.level = std::max(own.level, loop + 1);
  }
  visit(expr(p).body, [&](const Scalar& s) {
    const auto producer =
        s.kind == Scalar::Kind::kRead ? producer_.find(s.symbol) : producer_.end();
    if (producer != producer_.end())
      own.level = std::max(own.level, demand(producer->second).level);
  });
  for (int l = out_.over_blocks; l < own.level; ++l) {
    const auto loop = static_cast<size_t>(l);
    const int outer = out_.outer[loop];
    const int64_t length = outer >= 0 ? out_.loops[static_cast<size_t>(outer)].step
                                      : out_.loops[loop].origins.hi + out_.loops[loop].step;
    made *= static_cast<double>(length / out_.loops[loop].step);
  }
  own.times = made / std::max(size, 1.0);
}

/// Where a loop carries reductions, levels are those of the parts before, in and behind it.
void Demands::count_carried(int p) {
  using Part = CarriedProgram::Part;
  Demand& own = demand(p);
  const Part part = carrying_.carried->parts[static_cast<size_t>(p)];
  own.level = out_.over_blocks + static_cast<int>(part);
  const CutLoop& loop = out_.loops[static_cast<size_t>(out_.carrying)];
  double made = out_.blocks, size = 1;
  for (const BoxAxis& axis : own.box) {
    made *= static_cast<double>(axis.extent);
    size *= static_cast<double>(axis.full);
  }
  // A reduction in pieces goes over each of its terms once, in however many steps.
  if (part == Part::kStep && own.piece.variable < 0)
    made *= static_cast<double>(loop.origins.hi / loop.step + 1);
  own.times = made / std::max(size, 1.0);
}

/// Where a carry's terms begin, or end, to add something for any row of the block: of several
/// bounds, each holds.
std::optional<IndexExpr> Demands::reached(const CarriedProgram::Carry& carry, bool first) const {
  const std::vector<TensorExpr>& exprs = carrying_.carried->program.exprs;
  const auto after = std::ranges::find(exprs, carry.after, &TensorExpr::output);
  const std::vector<BoxAxis>& box = out_.members[static_cast<size_t>(after - exprs.begin())].box;
  std::optional<IndexExpr> out;
  for (const IndexExpr& bound : first ? carry.reach.first : carry.reach.last) {
    const auto rows = hull_of(bound, out_.loops, [&](int var) -> IndexHull {
      return {box[static_cast<size_t>(var)].origin, box[static_cast<size_t>(var)].extent};
    });
    if (!rows) continue;
    const IndexExpr at = first ? rows->origin : rows->origin + (rows->extent - 1);
    out = !out ? at : first ? max(*out, at) : min(*out, at);
  }
  return out;
}

/// The steps that any carry needs.
void Demands::bound_steps() {
  const CarriedProgram& carried = *carrying_.carried;
  out_.carried_end = out_.carried_extent;
  for (size_t p = 0; p < carried.parts.size(); ++p) {
    const bool leaves =
        std::ranges::find(group_.outputs, expr(static_cast<int>(p)).output) != group_.outputs.end();
    if (leaves && is_of_step(static_cast<int>(p))) return;
  }
  const RangeOf range = origins_of(out_.loops);
  std::optional<IndexExpr> begin, end;
  for (const CarriedProgram::Carry& c : carried.carries) {
    const IndexExpr first = reached(c, true).value_or(0),
                    behind = reached(c, false).value_or(out_.carried_extent - 1) + 1;
    begin = begin ? simplify(min(*begin, first), range) : first;
    end = end ? simplify(max(*end, behind), range) : behind;
  }
  if (!begin) return;
  const int64_t step = out_.loops[static_cast<size_t>(out_.carrying)].step;
  const IndexExpr least = simplify(max(*begin, 0), range);
  out_.carried_begin = simplify(floor_div(least, step) * step, range);
  out_.carried_end = simplify(min(max(*end, 0), out_.carried_extent), range);
}

std::string text_of(const BoxAxis& axis) {
  const std::string origin =
      print(axis.origin, [](int loop) { return "i" + std::to_string(loop); });
  return axis.extent == 1 ? fmt::format("[{}]", origin)
                          : fmt::format("[{}, +{})", origin, axis.extent);
}

}  // namespace

BlockBoxes DemandBoxes::boxes(int processors) const {
  BlockBoxes out;
  out.each = static_cast<int64_t>(std::ceil(blocks / processors));
  for (const CutLoop& loop : loops) {
    out.loops.push_back(loop.origins);
    out.steps.push_back(loop.step);
  }
  for (const Demand& member : members) {
    out.boxes.push_back(member.box);
    out.pieces.push_back(member.piece);
    out.kept.push_back(member.read);
  }
  return out;
}

Result<DemandBoxes> demand_boxes(const TensorProgram& program, const Group& group,
                                 const BlockPartition& partition) {
  return demand_boxes(program, group, partition, {});
}

Result<DemandBoxes> demand_boxes(const TensorProgram& program, const Group& group,
                                 const BlockPartition& partition, const CarryingLoop& loop) {
  return Demands(program, group, partition, loop).run();
}

ReachedShare reached_share(const DemandBoxes& demand) {
  constexpr int64_t kMostBlocks = 64;  // that are looked at, all loops from end to end
  if (demand.carrying < 0 || demand.carried_extent < 1) return {};
  const int64_t step = demand.loops[static_cast<size_t>(demand.carrying)].step;
  const auto steps_to = [&](int64_t end) { return ceil_div(std::max<int64_t>(end, 0), step); };
  int64_t blocks = 1;
  for (const IndexExpr& bound : {demand.carried_begin, demand.carried_end}) {
    for (const int l : variables(bound)) {
      const CutLoop& loop = demand.loops[static_cast<size_t>(l)];
      blocks = std::max(blocks, loop.origins.hi / loop.step + 1);
    }
  }
  const int64_t looked_at = std::min(blocks, kMostBlocks);
  int64_t sum = 0, most = 0;
  for (int64_t b = 0; b < looked_at; ++b) {
    const auto origin = [&](int l) {
      const CutLoop& loop = demand.loops[static_cast<size_t>(l)];
      const int64_t trips = loop.origins.hi / loop.step;
      return looked_at < 2 ? 0 : (trips * b / (looked_at - 1)) * loop.step;
    };
    const int64_t begin = evaluate(demand.carried_begin, origin),
                  end = evaluate(demand.carried_end, origin),
                  steps = end > begin ? steps_to(end) - begin / step : 0;
    sum += steps;
    most = std::max(most, steps);
  }
  const auto all = static_cast<double>(steps_to(demand.carried_extent));
  return {static_cast<double>(sum) / static_cast<double>(looked_at) / all,
          static_cast<double>(most) / all};
}

std::string print(const DemandBoxes& demand) {
  std::string out;
  for (size_t l = 0; l < demand.loops.size(); ++l) {
    const CutLoop& loop = demand.loops[l];
    out += fmt::format("{}i{} in 0..{} step {}", l == 0 ? "" : "; ", l, loop.origins.hi + loop.step,
                       loop.step);
  }
  out += "\n";
  for (size_t m = 0; m < demand.members.size(); ++m) {
    out += fmt::format("v{}:", m);
    for (const BoxAxis& axis : demand.members[m].box) out += " " + text_of(axis);
    out += fmt::format(" made {:.2f} times\n", demand.members[m].times);
  }
  return out;
}

}  // namespace weft
