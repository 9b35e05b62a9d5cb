#include "group/group_space.h"

#include <algorithm>
#include <deque>

#include "expr/analysis/dependence.h"
#include "group/strides.h"
#include "group/widen_halves.h"

namespace weft {

namespace {

/// The read of an expression that covers most elements of a tensor from outside the group.
const Scalar* largest_input(const TensorProgram& program, const TensorExpr& e,
                            const GroupAxes& axes, int64_t* elements) {
  const Scalar* largest = nullptr;
  *elements = 0;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || axes.producer(s.symbol) >= 0) return;
    const int64_t n = distinct_elements(program, e, s);
    if (n <= *elements) return;
    *elements = n;
    largest = &s;
  });
  return largest;
}

/// Constants are not meant on a CPU, which lays them out along the output instead, but for those of
/// which parts are chosen at run time. On a GPU nothing is laid out anew, and a matrix along its
/// columns is reduced just as well.
bool reads_its_matrix_once(const TensorProgram& program, const GroupAxes& axes,
                           const Target& target) {
  const int root = axes.reductions[0];
  const TensorExpr& e = program.exprs[static_cast<size_t>(root)];
  int64_t most = 0;
  const Scalar* largest = largest_input(program, e, axes, &most);
  if (largest == nullptr) return false;
  // Windows that overlap read elements again; padding alone reads fewer than there are points.
  int64_t points = 1;
  for (int a = 0; a < e.axis_count(); ++a) points *= e.range(a).hi + 1;
  if (most <= points / 2) return false;
  const bool laid_out =
      largest->operands.empty() &&
      program.tensors[static_cast<size_t>(largest->symbol)].kind == Tensor::Kind::kConstant;
  if (!target.is_gpu() && laid_out) return false;
  bool along = false;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (axes.axes[a].extent == 1) continue;
    const int64_t stride = stride_along(program, axes, root, *largest, static_cast<int>(a));
    if (stride == 0) return false;
    along |= stride == 1 && axes.axes[a].reduced;
  }
  return along || target.is_gpu();
}

/// Whether some index of the expression adds an output axis and a reduced one.
bool reads_windows(const TensorExpr& e) {
  bool window = false;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    for (const IndexExpr& i : s.indices) {
      const std::vector<int> used = variables(i);
      window |= used.size() > 1 && used.front() < e.output_rank() && used.back() >= e.output_rank();
    }
  });
  return window;
}

}  // namespace

bool reduces_behind_product(const TensorProgram& program, const Group& group) {
  const auto count = [&](const auto& is) {
    return std::ranges::count_if(
        group.exprs, [&](ExprId e) { return is(program.exprs[static_cast<size_t>(e)]); });
  };
  return count([](const TensorExpr& e) { return e.is_contraction; }) > 0 &&
         count([](const TensorExpr& e) { return !e.reduce_extents.empty(); }) > 1;
}

Result<GroupSpace> GroupSpace::of(const TensorProgram& program, const Group& group,
                                  const Target& target, const CutOptions& options) {
  CutOptions cut = options;
  // A library's convolution has its groups in one axis.
  cut.divides = !target.is_gpu() || target.libraries.empty();
  if (!target.is_gpu()) cut.block_lanes = target.lanes(sizeof(float));
  WEFT_ASSIGN_OR_RETURN(CollapsedGroup collapsed, collapse_axes(program, group, cut));
  GroupSpace space = of_view(std::move(collapsed.view), std::move(collapsed.axes), target);
  space.is_of_key_ = options.key != nullptr;
  return space;
}

namespace {

ReducedPiece piece_of(const BlockBoxes& boxes, ExprId e) {
  return boxes.pieces.empty() ? ReducedPiece{} : boxes.pieces[static_cast<size_t>(e)];
}

/// Of all axes of an expression, with those that it reduces.
std::vector<BoxAxis> boxes_of(const BlockBoxes& boxes, ExprId e, const TensorExpr& expr) {
  std::vector<BoxAxis> out = boxes.boxes[static_cast<size_t>(e)];
  const ReducedPiece piece = piece_of(boxes, e);
  for (int v = expr.output_rank(); v < expr.axis_count(); ++v) {
    const int64_t extent = expr.range(v).hi + 1;
    out.push_back(v == piece.variable ? piece.box : BoxAxis{0, extent, extent});
  }
  return out;
}

/// The group with the extents of its boxes.
GroupView boxed_view(const TensorProgram& program, const Group& group, const BlockBoxes& boxes) {
  GroupView view = cut_group(program, group);
  for (size_t e = 0; e < program.exprs.size(); ++e) {
    const auto made = std::ranges::find(view.original, program.exprs[e].output);
    if (made == view.original.end()) continue;
    Shape& shape =
        view.program.tensors[static_cast<size_t>(made - view.original.begin())].type.shape;
    shape.clear();
    for (const BoxAxis& axis : boxes.boxes[e]) shape.push_back(axis.extent);
  }
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    TensorExpr& e = view.program.exprs[p];
    e.extents = view.program.tensors[static_cast<size_t>(e.output)].type.shape;
    const ReducedPiece piece = piece_of(boxes, group.exprs[p]);
    if (piece.variable >= 0)
      e.reduce_extents[static_cast<size_t>(piece.variable - e.output_rank())] = piece.box.extent;
  }
  return view;
}

/// By tensor of the view, what a block keeps.
std::vector<bool> kept_tensors(const TensorProgram& program, const GroupView& view,
                               const BlockBoxes& boxes) {
  std::vector<bool> kept(program.tensors.size(), false);
  for (size_t e = 0; e < program.exprs.size(); ++e)
    kept[static_cast<size_t>(program.exprs[e].output)] = boxes.kept[e];
  std::vector<bool> out;
  for (const TensorId t : view.original) out.push_back(kept[static_cast<size_t>(t)]);
  return out;
}

BlockFrame::Axis frame_axis(const BoxAxis& box, const RangeOf& range) {
  const Interval at = range_of(box.origin, range);
  const IndexExpr end = simplify(box.origin + box.extent, range);
  return {at.lo < 0 ? max(box.origin, IndexExpr(0)) : box.origin,
          at.hi + box.extent > box.full ? min(end, IndexExpr(box.full)) : end};
}

}  // namespace

Result<GroupSpace> GroupSpace::of_stage(const TensorProgram& program, const Group& group,
                                        const Target& target, const BlockBoxes& boxes) {
  GroupView view = boxed_view(program, group, boxes);
  WEFT_ASSIGN_OR_RETURN(GroupAxes axes, derive_group_axes(view.program, view.group));
  BlockFrame frame;
  frame.loops = boxes.steps;
  frame.each = boxes.each;
  frame.kept = kept_tensors(program, view, boxes);
  frame.axes.resize(axes.axes.size());
  std::vector<const BoxAxis*> box_of(axes.axes.size(), nullptr);
  std::deque<std::vector<BoxAxis>> box_storage;
  for (size_t a = 0; a < axes.axes.size(); ++a) frame.axes[a].end = axes.axes[a].extent;
  const RangeOf range = [&](int loop) { return boxes.loops[static_cast<size_t>(loop)]; };
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    const ExprId e = group.exprs[p];
    const std::vector<BoxAxis>& box =
        box_storage.emplace_back(boxes_of(boxes, e, program.exprs[static_cast<size_t>(e)]));
    for (size_t d = 0; d < box.size(); ++d) {
      const auto a = static_cast<size_t>(axes.axis_of[p][d]);
      const BoxAxis*& known = box_of[a];
      const auto differ = [&](const BoxAxis& other) {
        return !(other.origin == box[d].origin) || other.full != box[d].full;
      };
      if (known != nullptr && differ(*known)) {
        return unsupported(
            "a block owes other boxes of the members along an axis of " +
            view.program.tensors[static_cast<size_t>(view.program.exprs[p].output)].name);
      }
      known = &box[d];
      frame.axes[a] = frame_axis(box[d], range);
    }
  }
  GroupSpace space = of_view(std::move(view), std::move(axes), target);
  space.frame_ = std::move(frame);
  return space;
}

GroupSpace GroupSpace::of_view(GroupView view, GroupAxes axes, const Target& target) {
  GroupSpace space;
  space.view_ = std::move(view);
  space.axes_ = std::move(axes);
  if (holds_halves(space.view_.program)) {
    GroupView wide = space.view_;
    widen_halves(&wide, target);
    space.wide_ = std::move(wide.program);
  }
  const TensorProgram& own = space.declared();
  for (const TensorExpr& e : own.exprs) space.has_contraction_ |= e.is_contraction;
  space.reduces_behind_product_ = weft::reduces_behind_product(own, space.view_.group);
  if (space.axes_.reductions.size() == 1) {
    const TensorExpr& root = own.exprs[static_cast<size_t>(space.axes_.reductions[0])];
    space.streams_an_operand_ = reads_its_matrix_once(own, space.axes_, target);
    space.wants_register_tile_ =
        root.is_contraction ? !space.streams_an_operand_ : reads_windows(root);
  }
  return space;
}

bool GroupSpace::is_output(int position) const {
  return std::ranges::find(group().outputs, expr(position).output) != group().outputs.end();
}

bool GroupSpace::output_has_axis(int position, int axis) const {
  const std::vector<int>& own = axes_.axis_of[static_cast<size_t>(position)];
  const auto end = own.begin() + expr(position).output_rank();
  return std::find(own.begin(), end, axis) != end;
}

Decision GroupSpace::two_ways(TwoWays* out) const {
  return find_two_ways(program(), group(), axes_, out);
}

}  // namespace weft
