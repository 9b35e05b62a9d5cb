#include <algorithm>

#include "import/onnx/convolution.h"

namespace weft::onnx {
namespace {

/// Flat position in the padded image of tap t of block l, as constants [taps * blocks].
std::vector<int64_t> block_positions(const Windows& w, const Shape& padded, int64_t taps,
                                     int64_t blocks) {
  std::vector<int64_t> positions;
  positions.reserve(static_cast<size_t>(taps * blocks));
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t l = 0; l < blocks; ++l) {
      int64_t tap = t, block = l, stride = 1, position = 0;
      for (size_t i = w.rank(); i-- > 0;) {
        int64_t at = block % w.out[i] * w.strides[i] + tap % w.kernel[i] * w.dilations[i];
        position += at * stride;
        stride *= padded[i];
        block /= w.out[i];
        tap /= w.kernel[i];
      }
      positions.push_back(position);
    }
  }
  return positions;
}

}  // namespace

/// The sum of overlapping blocks at their places: a scatter with constant positions into the padded
/// image, whose padding is then cut.
void translate_col2im(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  n.require(b.rank(x) == 3, "the input must be [N, channels * block, blocks]");
  Shape image = n.ints_input(1, "image_shape"), kernel = n.ints_input(2, "block_shape");
  for (int64_t extent : image) {
    n.require(extent > 0 && extent < (int64_t{1} << 31), "image_shape is out of range");
  }
  Windows w = read_windows(n, image, kernel);
  auto taps = element_count(w.kernel), blocks = element_count(w.out);
  Shape padded;
  for (size_t i = 0; i < w.rank(); ++i) padded.push_back(w.extent[i] + w.low[i] + w.high[i]);
  auto pixels = element_count(padded);
  n.require(taps && blocks && pixels && b.extent(x, 2) == *blocks && b.extent(x, 1) % *taps == 0,
            "block_shape, strides, pads and dilations do not fit the input");
  table_size({*taps, *blocks}, "Col2Im, whose positions are a table");
  int64_t batch = b.extent(x, 0), channels = b.extent(x, 1) / *taps;
  Shape updates = {batch * channels, *taps * *blocks};
  ValueId places = b.constant_ints(block_positions(w, padded, *taps, *blocks));
  DType type = b.dtype(x);
  ScatterAttrs attrs{1, true, Combiner::kSum};
  ValueId flat = b.scatter_elements(b.full(type, {updates[0], *pixels}, 0),
                                    b.broadcast_to(places, updates), b.reshape(x, updates), attrs);
  Shape shape = {batch, channels};
  shape.insert(shape.end(), padded.begin(), padded.end());
  std::vector<int64_t> low = {0, 0}, high = {0, 0};
  for (size_t i = 0; i < w.rank(); ++i) {
    low.push_back(-w.low[i]);
    high.push_back(-w.high[i]);
  }
  n.set_output(0, b.pad(b.reshape(flat, shape), b.scalar(type, 0), low, high));
}

}  // namespace weft::onnx
