#include "schedule/gpu/window_factor.h"

#include <algorithm>
#include <numeric>
#include <ranges>

namespace weft {

namespace {

/// How indices of a factor follow the row and the tap.
class Sliding {
 public:
  Sliding(const std::vector<int>& own, int row, int tap) : own_(own), row_(row), tap_(tap) {}

  void add(const ScalarRef& s) {
    visit(s, [this](const Scalar& n) {
      if (n.kind == Scalar::Kind::kIndex) add(n.index);
      for (const IndexExpr& e : n.indices) add(e);
      if (n.kind == Scalar::Kind::kRead && (!n.operands.empty() || n.fill)) slides_ = false;
    });
  }

  /// Whether all of them follow `stride * row + dilation * tap`, and some does.
  bool slides() const { return slides_ && stride_ > 0; }
  int64_t stride() const { return stride_; }
  int64_t dilation() const { return dilation_; }

 private:
  void add(const IndexExpr& e) {
    int64_t of_row = 0, of_tap = 0;
    AffineForm form;
    if (!as_affine(e, &form)) {
      for (const int v : variables(e)) slides_ &= axis(v) != row_ && axis(v) != tap_;
      return;
    }
    for (const auto& [v, coefficient] : form.terms) {
      if (axis(v) == row_) of_row += coefficient;
      if (axis(v) == tap_) of_tap += coefficient;
    }
    if (of_row == 0 && of_tap == 0) return;
    if (of_row <= 0 || of_tap <= 0) {
      slides_ = false;
      return;
    }
    const int64_t unit = std::gcd(of_row, of_tap);
    if (stride_ == 0) {
      stride_ = of_row / unit;
      dilation_ = of_tap / unit;
    }
    slides_ &= stride_ == of_row / unit && dilation_ == of_tap / unit;
  }
  int axis(int v) const {
    return v < static_cast<int>(own_.size()) ? own_[static_cast<size_t>(v)] : -1;
  }

  const std::vector<int>& own_;
  int row_, tap_;
  bool slides_ = true;
  int64_t stride_ = 0, dilation_ = 0;
};

}  // namespace

std::optional<WindowFactor> window_along(const GroupSpace& space, int row,
                                         const std::vector<int>& inner) {
  const GroupAxes& axes = space.axes();
  const int root = axes.reductions[0];
  const std::vector<int>& own = axes.axis_of[static_cast<size_t>(root)];
  const ScalarRef& body = space.expr(root).body;
  if (row < 0 || axes.axes[static_cast<size_t>(row)].open) return std::nullopt;
  for (const int tap : std::views::reverse(inner)) {
    const GroupAxes::Axis& taps = axes.axes[static_cast<size_t>(tap)];
    if (taps.open) continue;
    WindowFactor out;
    out.moved = body;
    if (body->kind == Scalar::Kind::kApply && body->op == ScalarOp::kMul) {
      for (const size_t side : {size_t{0}, size_t{1}}) {
        if (runs_along(space, body->operands[side], row)) continue;
        out.other = body->operands[side];
        out.moved = body->operands[1 - side];
      }
    }
    Sliding sliding(own, row, tap);
    sliding.add(out.moved);
    // One of both is a step of the window's elements.
    if (!sliding.slides() || (sliding.stride() > 1 && sliding.dilation() > 1)) continue;
    out.tap = tap;
    out.taps = taps.extent;
    out.stride = sliding.stride();
    out.dilation = sliding.dilation();
    return out;
  }
  return std::nullopt;
}

bool runs_along(const GroupSpace& space, const ScalarRef& factor, int axis) {
  const GroupAxes& axes = space.axes();
  const std::vector<int>& own = axes.axis_of[static_cast<size_t>(axes.reductions[0])];
  const auto uses = [&](const IndexExpr& e) {
    return std::ranges::any_of(variables(e), [&](int v) {
      return v < static_cast<int>(own.size()) && own[static_cast<size_t>(v)] == axis;
    });
  };
  bool found = false;
  visit(factor, [&](const Scalar& n) {
    found |=
        (n.kind == Scalar::Kind::kIndex && uses(n.index)) || std::ranges::any_of(n.indices, uses);
  });
  return found;
}

}  // namespace weft
