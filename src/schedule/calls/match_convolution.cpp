#include "schedule/calls/match_convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft {
namespace {

bool is_zero(const Scalar& s) {
  return s.kind == Scalar::Kind::kConstant && s.value.f == 0 && s.value.i == 0;
}

/// The terms of a conjunction.
void flatten(const ScalarRef& s, std::vector<const Scalar*>& terms) {
  if (s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kAnd) {
    for (const ScalarRef& o : s->operands) flatten(o, terms);
  } else {
    terms.push_back(s.get());
  }
}

bool same_index(const IndexExpr& a, const IndexExpr& b) {
  AffineForm x, y;
  return as_affine(a, &x) && as_affine(b, &y) && x.terms == y.terms && x.constant == y.constant;
}

/// One way to see a contraction as a convolution: which factor is the image, where channels lie.
class Convolution {
 public:
  Convolution(const LibraryGroup& group, size_t image, bool channels_last)
      : group_(group), e_(group.contraction()), image_(image) {
    call_.channels_last = channels_last;
  }

  std::optional<MatchedConvolution> match() {
    if (!operands() || !images()) return std::nullopt;
    for (int d = 1; d < rank_; ++d) {
      if (d != channel_ && !image_axis(d)) return std::nullopt;
    }
    if (!has_window() || !features() || !channels() || !reductions_are_known() ||
        !pads_with_zeros() || !weights_are_dense() || !result_is_dense())
      return std::nullopt;
    const auto epilogue = group_.epilogue(feature_ < 0 ? -1 : group_.axis_of(feature_));
    if (!epilogue) return std::nullopt;
    const bool more = epilogue->residual != nullptr || epilogue->clamps;
    if (more && epilogue->bias == nullptr) return std::nullopt;
    call_.clamps = epilogue->clamps;
    MatchedConvolution matched{call_, x_->symbol, w_->symbol};
    if (epilogue->bias != nullptr) matched.bias = epilogue->bias->symbol;
    if (epilogue->residual != nullptr) matched.residual = epilogue->residual->symbol;
    return matched;
  }

 private:
  static constexpr int kMostAxes = 3;

  RangeOf ranges() const {
    return [this](int id) { return e_.range(id); };
  }
  /// Of an own axis of the contraction; 1 where there is none.
  int64_t extent(int own) const {
    if (own < 0) return 1;
    const Interval range = e_.range(own);
    return range.hi - range.lo + 1;
  }
  bool is_reduced(int own) const { return own >= rank_; }

  bool operands() {
    const Scalar* image = &under_widening(group_.factor(image_));
    if (image->kind == Scalar::Kind::kApply && image->op == ScalarOp::kSelect) {
      if (!is_zero(under_widening(image->operands[2]))) return false;
      flatten(image->operands[0], bounds_);
      image = &under_widening(image->operands[1]);
    }
    x_ = image;
    w_ = &under_widening(group_.factor(1 - image_));
    if (x_->kind != Scalar::Kind::kRead || !x_->operands.empty() || !is_plain_read(*w_))
      return false;
    if (x_->fill != nullptr && !is_zero(under_widening(x_->fill))) return false;
    call_.type = group_.type_of(x_->symbol);
    rank_ = static_cast<int>(group_.shape_of(x_->symbol).size());
    channel_ = call_.channels_last ? rank_ - 1 : 1;
    return group_.type_of(w_->symbol) == call_.type && group_.result_type() == call_.type &&
           rank_ == e_.output_rank() && rank_ > 2 && rank_ <= 2 + kMostAxes;
  }

  int64_t input(int d) const { return group_.shape_of(x_->symbol)[static_cast<size_t>(d)]; }
  const IndexExpr& index(int d) const { return x_->indices[static_cast<size_t>(d)]; }

  /// Images are walked one by one.
  bool images() {
    call_.images = input(0);
    if (index(0).is_const(0)) return call_.images == 1;
    if (!index(0).is_var() || is_reduced(index(0).var_id())) return false;
    image_axis_ = index(0).var_id();
    return extent(image_axis_) == call_.images;
  }

  /// Else it is a product of matrices.
  bool has_window() const {
    return std::ranges::any_of(
        call_.axes, [](const ConvolutionCall::Axis& a) { return a.window > 1 || a.stride > 1; });
  }

  /// The one axis of the result that images do not have.
  bool features() {
    for (int own = 0; own < rank_; ++own) {
      if (extent(own) == 1 || own == image_axis_ ||
          std::ranges::find(positions_, own) != positions_.end())
        continue;
      if (feature_ >= 0) return false;
      feature_ = own;
    }
    call_.features = extent(feature_);
    return true;
  }

  /// A feature reads the channels of its group.
  bool channels() {
    call_.channels = input(channel_);
    IndexExpr within(0);
    for (const int id : variables(index(channel_))) {
      if (!is_reduced(id)) continue;
      if (reduced_channel_ >= 0) return false;
      reduced_channel_ = id;
      within = IndexExpr::var(id);
    }
    const int64_t of_group = reduced_channel_ < 0 ? 1 : extent(reduced_channel_);
    if (call_.channels % of_group != 0) return false;
    call_.groups = call_.channels / of_group;
    if (call_.features % call_.groups != 0) return false;
    IndexExpr expected = within;
    if (call_.groups > 1) {
      const int64_t features_of_group = call_.features / call_.groups;
      expected = floor_div(IndexExpr::var(feature_), features_of_group) * of_group + within;
    }
    return simplify(index(channel_), ranges()) == simplify(expected, ranges());
  }

  /// stride * position + dilation * tap - padding
  bool image_axis(int d) {
    AffineForm form;
    if (!as_affine(index(d), &form) || form.constant > 0) return false;
    ConvolutionCall::Axis axis;
    axis.input = input(d);
    axis.padding = -form.constant;
    int position = -1, tap = -1;
    for (const auto& [id, coefficient] : form.terms) {
      if (coefficient < 1) return false;
      if (!is_reduced(id) && position < 0) {
        position = id;
        axis.stride = coefficient;
      } else if (is_reduced(id) && tap < 0 && std::ranges::find(taps_, id) == taps_.end()) {
        tap = id;
        axis.window = extent(id);
        axis.dilation = coefficient;
      } else {
        return false;
      }
    }
    // One position: any stride beyond the end.
    if (position < 0) axis.stride = std::max<int64_t>(1, axis.input + 2 * axis.padding);
    positions_.push_back(position);
    taps_.push_back(tap);
    call_.axes.push_back(axis);
    dimension_.push_back(d);
    return output_extent(axis) == extent(position);
  }

  bool reductions_are_known() const {
    if (std::ranges::find(taps_, reduced_channel_) != taps_.end() && reduced_channel_ >= 0)
      return false;
    for (int id = rank_; id < e_.axis_count(); ++id) {
      const bool is_tap = std::ranges::find(taps_, id) != taps_.end();
      if (extent(id) > 1 && id != reduced_channel_ && !is_tap) return false;
    }
    return true;
  }

  /// What lies outside the image, and nothing else, is zero.
  bool pads_with_zeros() const {
    std::vector<bool> low(dimension_.size(), x_->fill != nullptr), high = low;
    for (const Scalar* bound : bounds_) {
      if (bound->kind != Scalar::Kind::kApply || bound->operands.size() != 2) return false;
      const Scalar& left = *bound->operands[0];
      const Scalar& right = *bound->operands[1];
      if (left.kind != Scalar::Kind::kIndex || right.kind != Scalar::Kind::kConstant) return false;
      size_t axis = 0;
      while (axis < dimension_.size() && !same_index(left.index, index(dimension_[axis]))) ++axis;
      if (axis == dimension_.size()) return false;
      if (bound->op == ScalarOp::kGe && right.value.i == 0) {
        low[axis] = true;
      } else if (bound->op == ScalarOp::kLt && right.value.i == call_.axes[axis].input) {
        high[axis] = true;
      } else {
        return false;
      }
    }
    for (size_t axis = 0; axis < dimension_.size(); ++axis) {
      const Interval reached = range_of(index(dimension_[axis]), ranges());
      if ((reached.lo < 0 && !low[axis]) || (reached.hi >= call_.axes[axis].input && !high[axis]))
        return false;
    }
    return true;
  }

  bool weights_are_dense() const {
    std::vector<int> order = taps_;  // outermost first
    order.insert(call_.channels_last ? order.end() : order.begin(), reduced_channel_);
    order.insert(order.begin(), feature_);
    for (int own = 0; own < rank_; ++own) {
      if (own != feature_ && extent(own) > 1 && group_.stride(*w_, group_.axis_of(own)) != 0)
        return false;
    }
    return is_dense(order, [&](int axis) { return group_.stride(*w_, axis); });
  }

  bool result_is_dense() const {
    std::vector<int> order = positions_;  // outermost first
    order.insert(call_.channels_last ? order.end() : order.begin(), feature_);
    order.insert(order.begin(), image_axis_);
    return is_dense(order, [&](int axis) { return group_.result_stride(axis); });
  }

  template <typename StrideOf>
  bool is_dense(const std::vector<int>& order, const StrideOf& stride_of) const {
    int64_t dense = 1;
    for (size_t i = order.size(); i-- > 0;) {
      if (extent(order[i]) == 1) continue;
      if (stride_of(group_.axis_of(order[i])) != dense) return false;
      dense *= extent(order[i]);
    }
    return true;
  }

  const LibraryGroup& group_;
  const TensorExpr& e_;
  size_t image_;
  ConvolutionCall call_;
  const Scalar* x_ = nullptr;
  const Scalar* w_ = nullptr;
  std::vector<const Scalar*> bounds_;
  int rank_ = 0;
  int channel_ = 1;  ///< dimension of x that has the channels
  // Own axes of the contraction; negative where the extent is 1.
  int image_axis_ = -1, feature_ = -1, reduced_channel_ = -1;
  std::vector<int> positions_, taps_;  ///< by axis of an image
  std::vector<int> dimension_;         ///< of x, by axis of an image
};

}  // namespace

std::optional<MatchedConvolution> match_convolution(const LibraryGroup& group) {
  if (!group.is_contraction()) return std::nullopt;
  for (const size_t image : {size_t{0}, size_t{1}}) {
    for (const bool channels_last : {true, false}) {
      if (auto matched = Convolution(group, image, channels_last).match()) return matched;
    }
  }
  return std::nullopt;
}

}  // namespace weft
