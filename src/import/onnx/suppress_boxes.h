#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::onnx {

/// A box with y1 <= y2 and x1 <= x2. In float32, as those of models are: boxes that are cut off at
/// an image's border overlap by exactly a threshold, and then roundings decide.
struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

/// Area of both over that of either, 0 where there is none.
float overlap(const Box& a, const Box& b);

/// Which boxes stay, in the order given (best first): those that overlap no earlier one that stays
/// by more than the threshold; at most so many.
std::vector<int64_t> suppress(std::span<const Box> boxes, float threshold, int64_t most);

}  // namespace weft::onnx
