#include <algorithm>
#include <numeric>

#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

struct Amounts {
  std::vector<int64_t> low, high;
};

Amounts read_amounts(OpContext& n, int64_t rank) {
  std::vector<int64_t> pads =
      n.opset() < 11 ? n.ints_attr("pads", {}) : n.ints_input(1, "the pads");
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (n.opset() >= 18 && n.has_input(3)) axes = n.ints_input(3, "the axes");
  n.require(pads.size() == 2 * axes.size(), "two pads per axis");
  Amounts amounts{std::vector<int64_t>(static_cast<size_t>(rank), 0), {}};
  amounts.high = amounts.low;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(GraphBuilder::normal_axis(axes[i], rank));
    amounts.low[axis] = pads[i];
    amounts.high[axis] = pads[i + axes.size()];
  }
  return amounts;
}

/// Which element of an axis of `extent` stands at position i of its endless continuation.
int64_t continued(int64_t i, int64_t extent, std::string_view mode) {
  if (mode == "edge") return std::clamp(i, int64_t{0}, extent - 1);
  const int64_t period = mode == "wrap" ? extent : std::max<int64_t>(2 * extent - 2, 1);
  const int64_t within = ((i % period) + period) % period;
  return within < extent ? within : period - within;
}

/// Continues one axis past its ends: runs of neighbours become slices, so that they stay index
/// maps.
ValueId continue_axis(OpContext& n, ValueId x, int64_t axis, int64_t low, int64_t high,
                      std::string_view mode) {
  const int64_t extent = n.b.extent(x, axis);
  n.require(extent > 0, "an empty axis has nothing to repeat");
  constexpr int64_t kMaxAmount = 1 << 24;
  n.require(low <= kMaxAmount && high <= kMaxAmount, "the pads are too large");
  constexpr size_t kMaxPieces = 1024;
  std::vector<ValueId> pieces;
  const int64_t end = extent + high;
  for (int64_t i = -low; i < end;) {
    const int64_t first = continued(i, extent, mode);
    const int64_t step = i + 1 < end ? continued(i + 1, extent, mode) - first : 1;
    int64_t count = 1;
    while (i + count < end && continued(i + count, extent, mode) == first + step * count) ++count;
    Shape extents = n.b.shape(x);
    std::vector<int64_t> start(extents.size(), 0), steps(extents.size(), 1);
    start[static_cast<size_t>(axis)] = first;
    steps[static_cast<size_t>(axis)] = step == 0 ? 1 : step;
    extents[static_cast<size_t>(axis)] = step == 0 ? 1 : count;
    ValueId piece = n.b.slice(x, start, steps, extents);
    if (step == 0) {
      extents[static_cast<size_t>(axis)] = count;
      piece = n.b.broadcast_to(piece, extents);
    }
    pieces.push_back(piece);
    if (pieces.size() > kMaxPieces) n.unsupported("pads that repeat the input so often");
    i += count;
  }
  return n.b.concat(pieces, axis);
}

void translate_pad(OpContext& n) {
  ValueId x = n.input(0);
  const int64_t rank = n.b.rank(x);
  const Amounts amounts = read_amounts(n, rank);
  const std::string mode = n.string_attr("mode", "constant");
  if (mode == "constant") {
    ValueId fill = kNoValue;
    if (n.opset() < 11) {
      fill = n.b.scalar(n.b.dtype(x), static_cast<double>(n.float_attr("value", 0.0f)));
    } else {
      fill = n.has_input(2) ? n.b.reshape(n.input(2), {}) : n.b.scalar(n.b.dtype(x), 0);
    }
    return n.set_output(0, n.b.pad(x, fill, amounts.low, amounts.high));
  }
  n.require(mode == "edge" || mode == "reflect" || mode == "wrap", "there is no such mode");
  // Negative amounts crop first: what is left is what continues.
  Amounts crop = amounts;
  for (int64_t& amount : crop.low) amount = std::min<int64_t>(amount, 0);
  for (int64_t& amount : crop.high) amount = std::min<int64_t>(amount, 0);
  x = n.b.pad(x, n.b.scalar(n.b.dtype(x), 0), crop.low, crop.high);
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t low = std::max<int64_t>(amounts.low[static_cast<size_t>(axis)], 0);
    const int64_t high = std::max<int64_t>(amounts.high[static_cast<size_t>(axis)], 0);
    if (low > 0 || high > 0) x = continue_axis(n, x, axis, low, high, mode);
  }
  n.set_output(0, x);
}

const Translator kRows[] = {{"", "Pad", 1, translate_pad}};

}  // namespace

TranslatorTable pad_translators() { return kRows; }

}  // namespace weft::onnx
