#include <algorithm>
#include <cmath>
#include <numbers>

#include "import/builder/fourier.h"
#include "import/builder/precision.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// Windows are constants, transforms products with constant matrices; larger ones are refused.
constexpr int64_t kMaxBasisElements = int64_t{1} << 24;

double turn(int64_t numerator, int64_t denominator) {
  return 2 * std::numbers::pi * static_cast<double>(numerator % denominator) /
         static_cast<double>(denominator);
}

/// A window as a sum of cosines of 0, 1 and 2 turns per period.
void translate_window(OpContext& n, double constant, double once, double twice) {
  int64_t size = n.int_input(0, "size");
  n.require(size >= 0 && size <= kMaxBasisElements, "size is out of range");
  int64_t period = std::max<int64_t>(1, n.bool_attr("periodic", true) ? size : size - 1);
  HostTensor window(n.dtype_attr("output_datatype", DType::kF32), {size});
  for (int64_t i = 0; i < size; ++i) {
    double angle = turn(i, period);
    window.set_double(i, constant + once * std::cos(angle) + twice * std::cos(2 * angle));
  }
  n.set_output(0, n.b.constant(std::move(window)));
}

void translate_hann_window(OpContext& n) { translate_window(n, 0.5, -0.5, 0); }
void translate_hamming_window(OpContext& n) { translate_window(n, 25.0 / 46, -21.0 / 46, 0); }
void translate_blackman_window(OpContext& n) { translate_window(n, 0.42, -0.5, 0.08); }

/// Triangles between neighbouring points that are equally spaced in mels, as columns.
void translate_mel_weight_matrix(OpContext& n) {
  int64_t bands = n.int_input(0, "num_mel_bins"), length = n.int_input(1, "dft_length");
  int64_t rate = n.int_input(2, "sample_rate");
  double lower = n.double_input(3, "lower_edge_hertz");
  double upper = n.double_input(4, "upper_edge_hertz");
  n.require(bands >= 0 && bands < (1 << 20) && length >= 0 && length < (1 << 28) && rate > 0,
            "num_mel_bins, dft_length or sample_rate is out of range");
  int64_t bins = length / 2 + 1;
  n.require(bands == 0 || bins <= kMaxBasisElements / bands, "the matrix is too large");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double step = (mel(upper) - mel(lower)) / static_cast<double>(bands + 2);
  std::vector<int64_t> points;
  for (int64_t i = 0; i < bands + 2; ++i) {
    double at = mel(lower) + static_cast<double>(i) * step;
    double hertz = 700 * (std::pow(10.0, at / 2595) - 1);
    double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    n.require(bin >= 0 && bin < static_cast<double>(bins), "an edge is out of range");
    points.push_back(static_cast<int64_t>(bin));
  }
  HostTensor matrix(n.dtype_attr("output_datatype", DType::kF32), {bins, bands});
  for (int64_t i = 0; i < matrix.size(); ++i) matrix.set_double(i, 0);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t* p = points.data() + band;
    n.require(p[0] <= p[1] && p[1] <= p[2], "the edges are not ascending");
    const auto set = [&](int64_t bin, double value) {
      matrix.set_double(bin * bands + band, value);
    };
    if (p[1] == p[0]) set(p[1], 1);
    for (int64_t j = p[0]; p[1] > p[0] && j <= p[1]; ++j) {
      set(j, static_cast<double>(j - p[0]) / static_cast<double>(p[1] - p[0]));
    }
    for (int64_t j = p[1]; j < p[2]; ++j) {
      set(j, static_cast<double>(p[2] - j) / static_cast<double>(p[2] - p[1]));
    }
  }
  n.set_output(0, n.b.constant(std::move(matrix)));
}

/// [..., 1 or 2] as its parts.
ComplexParts split_complex(OpContext& n, ValueId x) {
  GraphBuilder& b = n.b;
  n.require(b.rank(x) >= 2, "the input must have a signal axis and a last axis of 1 or 2");
  int64_t parts = b.extent(x, -1);
  n.require(parts == 1 || parts == 2, "the last axis must hold a real or a complex number");
  return {b.pick(x, -1, 0), parts == 2 ? b.pick(x, -1, 1) : kNoValue};
}

struct Transform {
  int64_t axis = 0, length = 0;
  bool inverse = false, onesided = false;
};

Transform read_transform(OpContext& n, ValueId x) {
  GraphBuilder& b = n.b;
  Transform t;
  t.inverse = n.bool_attr("inverse", false);
  t.onesided = n.bool_attr("onesided", false);
  int64_t axis = n.opset() >= 20 ? -2 : 1;
  if (n.opset() < 20) axis = n.int_attr("axis", axis);
  if (n.opset() >= 20 && n.has_input(2)) axis = n.int_input(2, "axis");
  t.axis = GraphBuilder::normal_axis(axis, b.rank(x));
  n.require(t.axis < b.rank(x) - 1, "axis must not be the last one");
  int64_t extent = b.extent(x, t.axis);
  t.length = t.inverse && t.onesided ? 2 * (extent - 1) : extent;
  if (n.has_input(1)) t.length = n.int_input(1, "dft_length");
  n.require(t.length > 0 && t.length < (int64_t{1} << 31), "dft_length is out of range");
  return t;
}

void translate_dft(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId input = widen(b, n.input(0));
  Transform t = read_transform(n, input);
  ComplexParts x = split_complex(n, input);
  bool to_real = t.inverse && t.onesided;
  int64_t used = std::min(b.extent(x.real, t.axis), to_real ? t.length / 2 + 1 : t.length);
  x.real = b.slice_axis(x.real, t.axis, 0, used);
  if (x.imaginary != kNoValue) x.imaginary = b.slice_axis(x.imaginary, t.axis, 0, used);
  x = exchange_with_last(b, x, t.axis);
  std::vector<ValueId> parts;
  if (to_real) {
    parts.push_back(real_fourier_inverse(b, x, t.length));
  } else {
    const int64_t bins = t.onesided ? t.length / 2 + 1 : t.length;
    const ComplexParts y = fourier_transform(b, x, {t.length, bins}, t.inverse);
    parts = {y.real, y.imaginary};
  }
  for (ValueId& part : parts) part = b.unsqueeze(b.swap_axes(part, t.axis, -1), {-1});
  n.set_output(0, b.convert(b.concat(parts, -1), b.dtype(n.input(0))));
}

/// A strided convolution whose filters are the windowed cosines and sines: its positions are the
/// frames, its channels the bins.
void translate_stft(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId signal = widen(b, n.input(0));
  if (b.rank(signal) == 2) signal = b.unsqueeze(signal, {2});
  n.require(b.rank(signal) == 3 && (b.extent(signal, 2) == 1 || b.extent(signal, 2) == 2),
            "signal must be [batch, length, 1 or 2]");
  int64_t step = n.int_input(1, "frame_step"), length = b.extent(signal, 1);
  if (n.has_input(2)) length = b.size(n.input(2));
  if (n.has_input(3)) length = n.int_input(3, "frame_length");
  n.require(length > 0 && length <= b.extent(signal, 1) && step > 0 && step < (int64_t{1} << 31),
            "frame_step or frame_length is out of range");
  int64_t bins = n.bool_attr("onesided", true) ? length / 2 + 1 : length;
  if (bins > kMaxBasisElements / length) n.unsupported("frames of more than 4096 points");
  DType type = b.dtype(signal);
  // Filters [bins, length]: the matrices are symmetric in j and k.
  auto [real, imaginary] = fourier_basis(b, type, {bins, length}, length, false);
  if (n.has_input(2)) {
    n.require(b.shape(n.input(2)) == Shape{length}, "window must have frame_length values");
    ValueId window = b.convert(n.input(2), type);
    real = b.mul(real, window);
    imaginary = b.mul(imaginary, window);
  }
  const auto filters = [&](ValueId v) { return b.unsqueeze(v, {1}); };
  ValueId weights = b.concat({filters(real), filters(imaginary)}, 0);
  if (b.extent(signal, 2) == 2) {
    ValueId of_imaginary = b.concat({filters(b.neg(imaginary)), filters(real)}, 0);
    weights = b.concat({weights, of_imaginary}, 1);
  }
  ConvolutionAttrs attrs{{step}, {0}, {0}, {1}, {1}, 1};
  ValueId y = b.convolution(b.swap_axes(signal, 1, 2), weights, attrs, type);
  y = b.reshape(y, {b.extent(signal, 0), 2, bins, b.extent(y, 2)});
  n.set_output(0, b.convert(b.transpose(y, {0, 3, 2, 1}), b.dtype(n.input(0))));
}

const Translator kRows[] = {
    {"", "BlackmanWindow", 17, translate_blackman_window},
    {"", "DFT", 17, translate_dft},
    {"", "HammingWindow", 17, translate_hamming_window},
    {"", "HannWindow", 17, translate_hann_window},
    {"", "MelWeightMatrix", 17, translate_mel_weight_matrix},
    {"", "STFT", 17, translate_stft},
};

}  // namespace

TranslatorTable signal_translators() { return kRows; }

}  // namespace weft::onnx
