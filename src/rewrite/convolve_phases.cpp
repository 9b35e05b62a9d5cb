#include "rewrite/convolve_phases.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "rewrite/graph_rebuilder.h"
#include "support/rounding.h"

namespace weft {
namespace {

/// From so many features on vectors are filled with them.
constexpr int64_t kManyFeatures = 8;
/// Phases for each feature at most.
constexpr int64_t kMostPhases = 512;

/// The taps of the phases of one axis.
struct AxisPhases {
  int64_t step = 1;
  std::vector<int64_t> tap;       ///< by phase: its first
  std::vector<int64_t> count;     ///< its taps
  std::vector<int64_t> at;        ///< where its first tap lies in the input of position 0
  int64_t first = 0, length = 1;  ///< of the window that holds those of all phases

  AxisPhases(int64_t s, int64_t low, int64_t taps) : step(s) {
    int64_t last = 0;
    for (int64_t p = 0; p < s; ++p) {
      const int64_t t = ((low - p) % s + s) % s;
      tap.push_back(t);
      count.push_back(std::max<int64_t>(0, ceil_div(taps - t, s)));
      at.push_back((p + t - low) / s);
      first = p == 0 ? at[0] : std::min(first, at.back());
      last = p == 0 ? at[0] + count[0] : std::max(last, at.back() + count.back());
    }
    length = std::max<int64_t>(1, last - first);
  }
};

class PhaseConvolver {
 public:
  explicit PhaseConvolver(Graph& graph) : rebuild_(graph) {}

  ConvolvedPhases run() {
    for (Node& node : rebuild_.take_nodes()) {
      rebuild_.forward_operands(node);
      if (node.op == GraphOp::kConvolution && has_few_features(node)) {
        const ValueId value = convolved(node);
        rebuild_.replace(node, {&value, 1});
      } else {
        rebuild_.keep(std::move(node));
      }
    }
    out_.changed = rebuild_.finish();
    return std::move(out_);
  }

 private:
  const Shape& shape(ValueId v) { return rebuild_.type(v).shape; }

  bool has_few_features(const Node& node) {
    const auto& conv = std::get<ConvolutionAttrs>(node.attrs);
    const Shape &x = shape(node.operands[0]), &w = shape(node.operands[1]);
    int64_t phases = 1;
    for (size_t s = 0; s < conv.strides.size(); ++s) {
      const int64_t step = conv.lhs_dilations[s];
      if (step == 1) continue;
      const bool plain = conv.strides[s] == 1 && conv.rhs_dilations[s] == 1 && step <= kMostPhases;
      if (!plain || x[s + 2] == 0) return false;
      phases *= step;
      if (phases > kMostPhases) return false;
    }
    const auto empty = [](int64_t n) { return n == 0; };
    return phases > 1 && w[0] < kManyFeatures && std::ranges::none_of(w, empty) &&
           is_float(rebuild_.type(node.operands[1]).dtype);
  }

  /// The phase of one axis of weights: every step-th tap, where it lies in the window of all.
  ValueId taps_of_phase(ValueId w, size_t axis, const AxisPhases& of, size_t p, int32_t origin) {
    SliceAttrs slice{std::vector<int64_t>(shape(w).size(), 0),
                     std::vector<int64_t>(shape(w).size(), 1)};
    TensorType cut = rebuild_.type(w);
    slice.start[axis] = of.count[p] > 0 ? of.tap[p] : 0;
    slice.step[axis] = of.step;
    cut.shape[axis] = of.count[p];
    PadAttrs pad{std::vector<int64_t>(cut.shape.size(), 0),
                 std::vector<int64_t>(cut.shape.size(), 0)};
    pad.low[axis] = of.at[p] - of.first;
    pad.high[axis] = of.length - pad.low[axis] - of.count[p];
    const ValueId taps = rebuild_.add(GraphOp::kSlice, std::move(slice), {w}, origin, cut);
    if (pad.low[axis] == 0 && pad.high[axis] == 0) return taps;
    fills_ = true;
    HostTensor zero(cut.dtype, {});
    zero.set_double(0, 0);
    return rebuild_.add(GraphOp::kPad, std::move(pad), {taps, rebuild_.add_constant(zero, origin)},
                        origin);
  }

  /// Of weights [f, k, c, …] those of the axis' phases, [f, k * step, c, …].
  ValueId weights_of(ValueId w, size_t axis, const AxisPhases& phases, int32_t origin) {
    std::vector<ValueId> parts;
    for (size_t p = 0; p < phases.tap.size(); ++p) {
      ValueId part = taps_of_phase(w, axis, phases, p, origin);
      TensorType apart = rebuild_.type(part);
      apart.shape.insert(apart.shape.begin() + 2, 1);
      parts.push_back(rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {part}, origin, apart));
    }
    const ValueId all = rebuild_.add(GraphOp::kConcat, ConcatAttrs{2}, parts, origin);
    TensorType joined = rebuild_.type(all);
    joined.shape[1] *= joined.shape[2];
    joined.shape.erase(joined.shape.begin() + 2);
    return rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {all}, origin, joined);
  }

  ValueId convolved(const Node& node) {
    const Shape result = shape(node.results[0]);
    const DType type = rebuild_.type(node.results[0]).dtype;
    ConvolutionAttrs conv = std::get<ConvolutionAttrs>(node.attrs);
    const size_t spatial = conv.strides.size();
    const ValueId x = node.operands[0];
    ValueId w = node.operands[1];
    fills_ = false;
    TensorType with_phases = rebuild_.type(w);
    with_phases.shape.insert(with_phases.shape.begin() + 1, 1);
    w = rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {w}, node.origin, with_phases);
    std::vector<int64_t> steps, order = {0, 1};
    Shape apart = {result[0], result[1]}, turned = {result[0], result[1]};
    for (size_t s = 0; s < spatial; ++s) {
      steps.push_back(conv.lhs_dilations[s]);
      apart.push_back(steps[s]);
    }
    for (size_t s = 0; s < spatial; ++s) {
      const int64_t positions = ceil_div(result[s + 2], steps[s]);
      order.push_back(static_cast<int64_t>(2 + spatial + s));
      order.push_back(static_cast<int64_t>(2 + s));
      apart.push_back(positions);
      turned.push_back(positions * steps[s]);
      if (steps[s] == 1) continue;
      const AxisPhases phases(steps[s], conv.low[s], shape(w)[s + 3]);
      w = weights_of(w, s + 3, phases, node.origin);
      conv.low[s] = -phases.first;
      conv.high[s] = positions - shape(x)[s + 2] - conv.low[s] + phases.length - 1;
      conv.lhs_dilations[s] = 1;
    }
    TensorType features = rebuild_.type(w);
    features.shape[0] *= features.shape[1];
    features.shape.erase(features.shape.begin() + 1);
    w = rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {w}, node.origin, features);
    const ValueId z =
        rebuild_.add(GraphOp::kConvolution, conv, {x, w}, node.origin, TensorType{type, {}});
    if (fills_)
      out_.filled.push_back(rebuild_.graph().values[static_cast<size_t>(node.results[0])].name);
    return joined(z, node, {type, apart}, std::move(order), {type, turned});
  }

  /// The phases of the axes, which features hold, between their positions; without what is behind
  /// the last one.
  ValueId joined(ValueId z, const Node& node, const TensorType& apart, std::vector<int64_t> order,
                 const TensorType& turned) {
    const TensorType result = rebuild_.type(node.results[0]);
    ValueId y = rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {z}, node.origin, apart);
    y = rebuild_.add(GraphOp::kTranspose, TransposeAttrs{std::move(order)}, {y}, node.origin);
    y = rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {y}, node.origin, turned);
    if (turned.shape == result.shape) return y;
    const size_t rank = result.shape.size();
    return rebuild_.add(GraphOp::kSlice,
                        SliceAttrs{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 1)},
                        {y}, node.origin, result);
  }

  GraphRebuilder rebuild_;
  ConvolvedPhases out_;
  bool fills_ = false;  ///< whether zeros stand in the weights at hand
};

}  // namespace

ConvolvedPhases convolve_phases(Graph& graph) {
  ConvolvedPhases out = PhaseConvolver(graph).run();
  out.changed |= rewrite_regions(graph, [&](Graph& region) {
    ConvolvedPhases inside = convolve_phases(region);
    out.filled.insert(out.filled.end(), inside.filled.begin(), inside.filled.end());
    return inside.changed;
  });
  return out;
}

}  // namespace weft
