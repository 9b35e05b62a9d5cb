#include "schedule/stages/chain_axes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "schedule/stages/partitions.h"

namespace weft {

namespace {

/// The group with its outputs, as passes over programs take it.
TensorProgram program_of(const BlockSpace& space) {
  TensorProgram out = space.program();
  out.outputs = space.group().outputs;
  return out;
}

/// Whether a contraction makes in each step of the axis, or reduces along it.
bool has_contraction(const CarriedProgram& carried, bool makes) {
  for (size_t p = 0; p < carried.program.exprs.size(); ++p) {
    const TensorExpr& e = carried.program.exprs[p];
    if (e.is_contraction && carried.along[p] >= 0 && (carried.along[p] < e.output_rank()) == makes)
      return true;
  }
  return false;
}

/// Whether one contraction makes in each step what another one reduces.
bool joins_contractions(const CarriedProgram& carried) {
  return has_contraction(carried, true) && has_contraction(carried, false);
}

/// Whether a loop keeps something from memory where no contraction reduces: what is read for a
/// reduction is there for one that depends on it, or a contraction makes what a position is of.
bool joins_reductions(const CarriedProgram& carried) {
  return carried.depends || (carried.positions && has_contraction(carried, true));
}

/// Whether a contraction stands behind the loop: blocks have all columns that it makes.
bool multiplies_behind(const CarriedProgram& carried) {
  for (size_t p = 0; p < carried.program.exprs.size(); ++p) {
    if (carried.program.exprs[p].is_contraction &&
        carried.parts[p] == CarriedProgram::Part::kBehind)
      return true;
  }
  return false;
}

/// By output axis of member `p`: batch where both operands move with it, a row where only what the
/// steps make does. What is no contraction has rows alone.
std::vector<AxisRole> axis_roles(const TensorProgram& program, const CarriedProgram& carried,
                                 int p) {
  const TensorExpr& e = program.exprs[static_cast<size_t>(p)];
  std::vector<AxisRole> out;
  if (!e.is_contraction) return {static_cast<size_t>(e.output_rank()), AxisRole::kRow};
  for (int d = 0; d < e.output_rank(); ++d) {
    bool in_chain = false, outside = false;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const bool moves =
          std::ranges::any_of(s.indices, [&](const IndexExpr& i) { return uses_var(i, d); });
      bool made = false;
      for (size_t m = 0; m < carried.program.exprs.size(); ++m)
        made |= carried.program.exprs[m].output == s.symbol && carried.along[m] >= 0;
      (made ? in_chain : outside) |= moves;
    });
    out.push_back(in_chain && outside ? AxisRole::kBatch
                  : in_chain          ? AxisRole::kRow
                                      : AxisRole::kMade);
  }
  return out;
}

/// The loops of a partition of single elements, one for each axis of the first root.
std::vector<AxisCut> single_cuts(const BlockSpace& steps) {
  const std::vector<int64_t>& extents = steps.expr(partition_along(steps, {}).roots[0]).extents;
  std::vector<AxisCut> cuts;
  for (size_t a = 0; a < extents.size(); ++a) {
    if (extents[a] > 1) cuts.push_back({static_cast<int>(a)});
  }
  return cuts;
}

class AxesFinder {
 public:
  AxesFinder(const BlockSpace& whole, const SharedAxis& shared, const BlockSpace& steps)
      : whole_(whole), shared_(shared), steps_(steps) {
    out_.roles = axis_roles(whole.program(), shared.carried, shared.axis.member);
    for (const BlockSpace::Carry& c : steps.carries()) {
      if (c.reduction == shared.axis.member) out_.last = c.after;
    }
  }

  Result<ChainAxes> run() {
    WEFT_CHECK(out_.last >= 0, "a chain that does not carry its last contraction");
    WEFT_RETURN_IF_ERROR(find_partition());
    out_.loops = loops();
    return std::move(out_);
  }

 private:
  Status find_partition();
  Status check_rows() const;
  ContractionChain loops() const;
  Result<DemandBoxes> demand(const BlockPartition& partition) const {
    return demand_boxes(steps_.program(), steps_.group(), partition,
                        steps_.carrying(shared_.carried, shared_.carried.extent));
  }
  const std::vector<int64_t>& extents() const { return steps_.expr(out_.last).extents; }

  const BlockSpace& whole_;
  const SharedAxis& shared_;
  const BlockSpace& steps_;
  ChainAxes out_;
};

/// Loops in single steps over the batch and all rows but the longest axis of them: which axes of
/// the root these are, single elements of the root tell.
Status AxesFinder::find_partition() {
  const std::vector<AxisCut> single = single_cuts(steps_);
  WEFT_ASSIGN_OR_RETURN(const DemandBoxes probe, demand(partition_along(steps_, single)));
  const std::vector<BoxAxis>& box = probe.members[static_cast<size_t>(out_.last)].box;
  int rows = -1, made = -1;  // of the result's axes, the longest
  for (size_t d = 0; d < box.size(); ++d) {
    const auto longest = [&](int* axis, int64_t* length) {
      if (*axis >= 0 && extents()[d] <= *length) return;
      *axis = static_cast<int>(d);
      *length = extents()[d];
    };
    if (out_.roles[d] == AxisRole::kRow) longest(&rows, &out_.rows);
    if (out_.roles[d] == AxisRole::kMade) longest(&made, &out_.made);
  }
  std::vector<AxisCut> cuts;
  for (size_t l = 0; l < single.size(); ++l) {
    std::vector<int> moved;
    for (size_t d = 0; d < box.size(); ++d) {
      if (uses_var(box[d].origin, static_cast<int>(l))) moved.push_back(static_cast<int>(d));
    }
    if (moved.size() > 1)
      return unsupported("no loops over blocks give each its rows of " + steps_.name_of(out_.last));
    const int d = moved.empty() ? -1 : moved[0];
    if (d >= 0 && d == made && box[static_cast<size_t>(d)].origin.is_var())
      out_.made_axis = single[l].axis;
    if (d >= 0 && out_.roles[static_cast<size_t>(d)] == AxisRole::kMade) continue;
    if (d < 0 && multiplies_behind(shared_.carried)) continue;
    if (d >= 0 && d == rows && box[static_cast<size_t>(d)].origin.is_var())
      out_.row_loop = static_cast<int>(cuts.size());
    cuts.push_back(single[l]);
  }
  out_.partition = partition_along(steps_, cuts);
  return check_rows();
}

Status AxesFinder::check_rows() const {
  WEFT_ASSIGN_OR_RETURN(const DemandBoxes boxes, demand(out_.partition));
  const std::vector<BoxAxis>& box = boxes.members[static_cast<size_t>(out_.last)].box;
  for (size_t d = 0; d < box.size(); ++d) {
    const bool whole = out_.roles[d] == AxisRole::kMade;
    if (box[d].extent == (whole ? box[d].full : 1)) continue;
    return unsupported("no loops over blocks give each its rows of " + steps_.name_of(out_.last));
  }
  return {};
}

ContractionChain AxesFinder::loops() const {
  const TensorProgram& program = shared_.carried.program;
  ContractionChain out;
  int64_t depth = 1, made = 1, elements = 1;
  for (size_t p = 0; p < program.exprs.size(); ++p) {
    const TensorExpr& e = program.exprs[p];
    if (!e.is_contraction || shared_.carried.along[p] < 0 ||
        shared_.carried.along[p] >= e.output_rank())
      continue;
    for (const int64_t extent : e.reduce_extents) depth *= extent;
  }
  const TensorExpr& last = whole_.expr(shared_.axis.member);
  for (size_t d = 0; d < out_.roles.size(); ++d) {
    elements *= last.extents[d];
    if (out_.roles[d] == AxisRole::kMade) made *= last.extents[d];
  }
  out.extents = {out_.rows, depth, shared_.carried.extent, made};
  out.batch = elements / (out_.rows * made);
  out.element_bytes =
      byte_size(whole_.program().tensors[static_cast<size_t>(last.output)].type.dtype);
  return out;
}

}  // namespace

Result<CarriedProgram> carried_along(const BlockSpace& space, const CarriedAxis& axis) {
  const bool is_member = axis.member >= 0 && axis.member < space.size();
  if (!is_member) return unsupported("a chain along an axis of no member");
  constexpr int64_t kMostSplits = 256;
  if (axis.splits > kMostSplits)
    return unsupported(fmt::format("an axis is split into {} parts at most", kMostSplits));
  return carry_reductions(program_of(space), axis.member,
                          space.expr(axis.member).output_rank() + axis.reduction, axis.splits);
}

Result<std::vector<SharedAxis>> shared_axes(const BlockSpace& space) {
  std::string reason = "no contraction consumes what another one makes";
  std::vector<SharedAxis> out;
  // Axes of contractions; where there is none, the one of the last reduction that depends on
  // others.
  for (const bool of_contractions : {true, false}) {
    for (int p = space.size() - 1; p >= 0 && (of_contractions || out.empty()); --p) {
      const TensorExpr& e = space.expr(p);
      if (e.is_contraction != of_contractions) continue;
      for (int r = 0; r < static_cast<int>(e.reduce_extents.size()); ++r) {
        const CarriedAxis axis{p, r, 1};
        auto carried = carried_along(space, axis);
        if (!carried.ok()) {
          reason = carried.error().message;
        } else if (of_contractions ? joins_contractions(*carried) : joins_reductions(*carried)) {
          out.push_back({axis, std::move(*carried)});
        }
      }
    }
  }
  if (out.empty()) return unsupported(reason);
  std::ranges::sort(out, {}, [](const SharedAxis& s) {
    return std::tuple(-s.carried.extent, -s.axis.member, s.axis.reduction);
  });
  return out;
}

Result<ChainAxes> chain_axes(const BlockSpace& whole, const SharedAxis& shared,
                             const BlockSpace& steps) {
  return AxesFinder(whole, shared, steps).run();
}

}  // namespace weft
