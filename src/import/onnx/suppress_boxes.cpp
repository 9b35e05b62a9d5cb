#include "import/onnx/suppress_boxes.h"

#include <algorithm>
#include <cmath>

namespace weft::onnx {
namespace {

/// Strips along x as wide as boxes are on average: who overlaps a box lies in one of its strips.
/// Models move the boxes of each class to a place of their own, and then few are ever compared.
class Strips {
 public:
  explicit Strips(std::span<const Box> boxes) {
    float least = INFINITY, largest = -INFINITY, widths = 0;
    for (const Box& b : boxes) {
      least = std::min(least, b.x1);
      largest = std::max(largest, b.x2);
      widths += b.x2 - b.x1;
    }
    const float width = widths / static_cast<float>(boxes.size());
    const float count = (largest - least) / width;
    // One strip where there are infinities, or boxes without a width.
    if (!std::isfinite(count) || !(width > 0)) return;
    from_ = least;
    strips_.resize(static_cast<size_t>(std::clamp(count, 1.0F, kMostStrips)));
    per_unit_ = static_cast<float>(strips_.size()) / (largest - least);
  }

  bool has_overlapping(const Box& box, float threshold) const {
    for (size_t s = strip_of(box.x1), last = strip_of(box.x2); s <= last; ++s) {
      for (const Box& other : strips_[s]) {
        if (overlap(box, other) > threshold) return true;
      }
    }
    return false;
  }
  void add(const Box& box) {
    for (size_t s = strip_of(box.x1), last = strip_of(box.x2); s <= last; ++s)
      strips_[s].push_back(box);
  }

 private:
  static constexpr float kMostStrips = 4096;

  /// Grows with x, so that what two boxes have in common lies in a strip of both.
  size_t strip_of(float x) const {
    if (strips_.size() == 1) return 0;
    const float strip = (x - from_) * per_unit_;
    return strip > 0 ? std::min(static_cast<size_t>(strip), strips_.size() - 1) : 0;
  }

  float from_ = 0, per_unit_ = 0;
  std::vector<std::vector<Box>> strips_ = std::vector<std::vector<Box>>(1);
};

}  // namespace

float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0;
  const float both = height * width, either = a.area() + b.area() - both;
  return either <= 0 ? 0 : both / either;
}

std::vector<int64_t> suppress(std::span<const Box> boxes, float threshold, int64_t most) {
  std::vector<int64_t> kept;
  // Below 0 also boxes that are apart overlap by more: the first alone stays.
  if (threshold < 0 && !boxes.empty()) boxes = boxes.first(1);
  if (boxes.empty()) return kept;
  Strips strips(boxes);
  for (size_t i = 0; i < boxes.size() && static_cast<int64_t>(kept.size()) < most; ++i) {
    if (strips.has_overlapping(boxes[i], threshold)) continue;
    kept.push_back(static_cast<int64_t>(i));
    strips.add(boxes[i]);
  }
  return kept;
}

}  // namespace weft::onnx
