#include "import/builder/fourier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace weft::onnx {
namespace {

/// Transforms up to this length are one product; longer ones are split where they have factors,
constexpr int64_t kMaxUnsplit = 64;
/// and so are their factors beyond this one. Measured for 128 to 48,000 points on a Zen 3.
constexpr int64_t kMaxFactor = 48;
/// What a length without factors may have as a matrix.
constexpr int64_t kMaxPrime = 4096;
/// The turns between the factors are constants of this many elements.
constexpr int64_t kMaxPoints = int64_t{1} << 20;

void require_length(int64_t points) {
  if (points < 1) refuse_invalid("a Fourier transform of no points");
  if (points > kMaxPoints) {
    refuse_unsupported(fmt::format("a Fourier transform of {} points (up to {} are supported)",
                                   points, kMaxPoints));
  }
}

/// e^(2 pi i numerator / denominator), whole quarters of a turn exactly.
std::complex<double> turn(int64_t numerator, int64_t denominator) {
  numerator %= denominator;
  if (4 * numerator % denominator == 0) {
    constexpr std::complex<double> kQuarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    return kQuarters[4 * numerator / denominator];
  }
  return std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(numerator) /
                             static_cast<double>(denominator));
}

/// Scales row j of the matrices by scale(j).
template <typename Scale>
FourierBasis scaled_basis(GraphBuilder& b, DType type, const Shape& shape, int64_t points,
                          bool inverse, const Scale& scale) {
  HostTensor real(type, shape), imaginary(type, shape);
  for (int64_t j = 0; j < shape[0]; ++j) {
    for (int64_t k = 0; k < shape[1]; ++k) {
      const std::complex<double> turned = scale(j) * turn(j * k, points);
      real.set_double(j * shape[1] + k, turned.real());
      imaginary.set_double(j * shape[1] + k, inverse ? turned.imag() : -turned.imag());
    }
  }
  return {b.constant(std::move(real)), b.constant(std::move(imaginary))};
}

/// Contracts this axis of x with the matrix's rows; its columns become the last axis.
ValueId product(GraphBuilder& b, ValueId x, int64_t axis, ValueId matrix) {
  DotAttrs attrs;
  attrs.lhs_contract = {GraphBuilder::normal_axis(axis, b.rank(x))};
  attrs.rhs_contract = {0};
  return b.dot_general(x, matrix, attrs, b.dtype(x));
}

template <typename Change>
ComplexParts map_parts(const ComplexParts& x, const Change& change) {
  return {change(x.real), x.imaginary == kNoValue ? kNoValue : change(x.imaginary)};
}

/// x times complex constants, by some kind of multiplication of real arrays.
template <typename Multiply>
ComplexParts times(GraphBuilder& b, const ComplexParts& x, const FourierBasis& by,
                   const Multiply& multiply) {
  ComplexParts y{multiply(x.real, by.real), multiply(x.real, by.imaginary)};
  if (x.imaginary == kNoValue) return y;
  y.real = b.sub(y.real, multiply(x.imaginary, by.imaginary));
  y.imaginary = b.add(y.imaginary, multiply(x.imaginary, by.real));
  return y;
}

ComplexParts times_each(GraphBuilder& b, const ComplexParts& x, const FourierBasis& by) {
  return times(b, x, by, [&](ValueId v, ValueId factor) { return b.mul(v, factor); });
}

/// Transforms one axis of x, which becomes the last one; each value is multiplied by `factor`.
ComplexParts transform_axis(GraphBuilder& b, const ComplexParts& x, int64_t axis,
                            const FourierLength& length, bool inverse, double factor) {
  const Shape matrix{b.extent(x.real, axis), length.bins};
  const FourierBasis by = scaled_basis(b, b.dtype(x.real), matrix, length.points, inverse,
                                       [&](int64_t) { return factor; });
  return times(b, x, by, [&](ValueId v, ValueId m) { return product(b, v, axis, m); });
}

/// The factor of n nearest to its root from below; 1 for a prime.
int64_t middle_factor(int64_t n) {
  auto factor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % factor != 0) --factor;
  return factor;
}

bool is_one_product(int64_t points, int64_t most = kMaxUnsplit) {
  return points <= most || (points <= kMaxPrime && middle_factor(points) == 1);
}

/// With n = p q, j = j1 q + j2 and k = k1 + p k2: p-point transforms over j1, a turn of j2 k1 / n,
/// q-point transforms over j2.
ComplexParts split_transform(GraphBuilder& b, ComplexParts x, bool inverse, double factor) {
  const int64_t n = b.extent(x.real, -1);
  if (is_one_product(n, kMaxFactor)) return transform_axis(b, x, -1, {n, n}, inverse, factor);
  const int64_t p = middle_factor(n), q = n / p;
  if (p == 1) {
    refuse_unsupported(fmt::format("a Fourier transform whose length has the factor {}", n));
  }
  const Shape whole = b.shape(x.real);
  Shape apart(whole.begin(), whole.end() - 1);
  apart.insert(apart.end(), {p, q});
  x = map_parts(x, [&](ValueId v) { return b.reshape(v, apart); });
  x = transform_axis(b, x, -2, {p, p}, inverse, 1);  // [..., j2, k1]
  const FourierBasis turns = fourier_basis(b, b.dtype(x.real), {q, p}, n, inverse);
  x = times_each(b, x, turns);
  x = map_parts(x, [&](ValueId v) { return b.swap_axes(v, -1, -2); });
  x = split_transform(b, x, inverse, factor);  // [..., k1, k2]
  return map_parts(x, [&](ValueId v) { return b.reshape(b.swap_axes(v, -1, -2), whole); });
}

ValueId pad_end(GraphBuilder& b, ValueId x, int64_t extent) {
  std::vector<int64_t> low(b.shape(x).size(), 0), high = low;
  high.back() = extent - b.extent(x, -1);
  return b.pad(x, b.scalar(b.dtype(x), 0), low, high);
}

/// Bins above the half mirror those below it, the imaginary parts negated.
ComplexParts mirrored(GraphBuilder& b, const ComplexParts& half, int64_t length) {
  const auto mirror = [&](ValueId v, bool negated) {
    const ValueId image = b.reverse(b.slice_axis(v, -1, 1, (length + 1) / 2), -1);
    return b.concat({v, negated ? b.neg(image) : image}, -1);
  };
  return {mirror(half.real, false),
          half.imaginary == kNoValue ? kNoValue : mirror(half.imaginary, true)};
}

/// (x + conj y) / 2 and (x - conj y) / 2.
struct Halves {
  ComplexParts even, odd;
};
Halves halves_of(GraphBuilder& b, const ComplexParts& x, const ComplexParts& y) {
  const auto half = [&](ValueId v) { return b.mul(v, 0.5); };
  return {{half(b.add(x.real, y.real)), half(b.sub(x.imaginary, y.imaginary))},
          {half(b.sub(x.real, y.real)), half(b.add(x.imaginary, y.imaginary))}};
}

/// e^(-2 pi i k / n) for k = 0, 1, … up to half of n, of the inverse e^(+…).
FourierBasis turns_to_half(GraphBuilder& b, DType type, int64_t n, int64_t bins, bool inverse) {
  const FourierBasis by = fourier_basis(b, type, {2, bins}, n, inverse);
  return {b.pick(by.real, 0, 1), b.pick(by.imaginary, 0, 1)};
}

/// Of n real numbers, n even, the first n / 2 + 1 bins: the even places and the odd ones are the
/// parts of n / 2 complex numbers z. With Z their transform, Z[k] + conj Z[n/2 - k] is twice that
/// of the even places, Z[k] - conj Z[n/2 - k] is 2i times that of the odd ones.
ComplexParts real_transform(GraphBuilder& b, ValueId x) {
  const int64_t n = b.extent(x, -1), half = n / 2;
  Shape pairs = b.shape(x);
  pairs.back() = half;
  pairs.push_back(2);
  const ValueId apart = b.reshape(x, pairs);
  ComplexParts z = split_transform(b, {b.pick(apart, -1, 0), b.pick(apart, -1, 1)}, false, 1);
  z = map_parts(z, [&](ValueId v) { return b.concat({v, b.slice_axis(v, -1, 0, 1)}, -1); });
  const Halves parts = halves_of(b, z, map_parts(z, [&](ValueId v) { return b.reverse(v, -1); }));
  const ComplexParts odd{parts.odd.imaginary, b.neg(parts.odd.real)};
  const ComplexParts turned = times_each(b, odd, turns_to_half(b, b.dtype(x), n, half + 1, false));
  return {b.add(parts.even.real, turned.real), b.add(parts.even.imaginary, turned.imaginary)};
}

/// The way back: x is n / 2 + 1 bins.
ValueId real_inverse(GraphBuilder& b, const ComplexParts& x, int64_t n) {
  const int64_t half = n / 2;
  // What the first bin and the last have of imaginary parts is of no real signal.
  const ValueId inner = b.slice_axis(x.imaginary, -1, 1, half);
  std::vector<int64_t> around(b.shape(inner).size(), 0);
  around.back() = 1;
  const ComplexParts y{x.real, b.pad(inner, b.scalar(b.dtype(inner), 0), around, around)};
  const Halves parts = halves_of(b, y, map_parts(y, [&](ValueId v) { return b.reverse(v, -1); }));
  const ComplexParts odd =
      times_each(b, parts.odd, turns_to_half(b, b.dtype(x.real), n, half + 1, true));
  const ComplexParts z{b.sub(parts.even.real, odd.imaginary),
                       b.add(parts.even.imaginary, odd.real)};
  const ComplexParts pairs =
      split_transform(b, map_parts(z, [&](ValueId v) { return b.slice_axis(v, -1, 0, half); }),
                      true, 1.0 / static_cast<double>(half));
  Shape whole = b.shape(pairs.real);
  whole.back() = n;
  return b.reshape(
      b.concat({b.unsqueeze(pairs.real, {-1}), b.unsqueeze(pairs.imaginary, {-1})}, -1), whole);
}

}  // namespace

ComplexParts exchange_with_last(GraphBuilder& b, const ComplexParts& x, int64_t axis) {
  return map_parts(x, [&](ValueId v) { return b.swap_axes(v, axis, -1); });
}

FourierBasis fourier_basis(GraphBuilder& b, DType type, const Shape& shape, int64_t points,
                           bool inverse) {
  return scaled_basis(b, type, shape, points, inverse, [](int64_t) { return 1.0; });
}

int64_t fourier_constants(int64_t points) {
  require_length(points);
  return is_one_product(points) ? points * points : 2 * points;
}

ComplexParts fourier_transform(GraphBuilder& b, const ComplexParts& x, const FourierLength& length,
                               bool inverse) {
  require_length(length.points);
  const double factor = inverse ? 1.0 / static_cast<double>(length.points) : 1.0;
  if (is_one_product(length.points)) return transform_axis(b, x, -1, length, inverse, factor);
  const ComplexParts padded = map_parts(x, [&](ValueId v) { return pad_end(b, v, length.points); });
  const bool halved = !inverse && x.imaginary == kNoValue && length.points % 2 == 0 &&
                      length.bins <= length.points / 2 + 1;
  const ComplexParts y =
      halved ? real_transform(b, padded.real) : split_transform(b, padded, inverse, factor);
  return map_parts(y, [&](ValueId v) { return b.slice_axis(v, -1, 0, length.bins); });
}

ValueId real_fourier_inverse(GraphBuilder& b, const ComplexParts& x, int64_t length) {
  require_length(length);
  const int64_t rows = std::min(length / 2 + 1, b.extent(x.real, -1));
  const ComplexParts half = map_parts(x, [&](ValueId v) { return b.slice_axis(v, -1, 0, rows); });
  if (!is_one_product(length)) {
    const ComplexParts padded =
        map_parts(half, [&](ValueId v) { return pad_end(b, v, length / 2 + 1); });
    if (length % 2 == 0 && x.imaginary != kNoValue) return real_inverse(b, padded, length);
    return fourier_transform(b, mirrored(b, padded, length), {length, length}, true).real;
  }
  // Every bin but the first (and, for an even length, the last) stands for its mirror image, too.
  const auto scale = [&](int64_t k) {
    const bool alone = k == 0 || 2 * k == length;
    return (alone ? 1.0 : 2.0) / static_cast<double>(length);
  };
  const FourierBasis by = scaled_basis(b, b.dtype(x.real), {rows, length}, length, true, scale);
  const ValueId y = product(b, half.real, -1, by.real);
  if (x.imaginary == kNoValue) return y;
  return b.sub(y, product(b, half.imaginary, -1, by.imaginary));
}

}  // namespace weft::onnx
