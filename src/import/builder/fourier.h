#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// Complex numbers as two arrays of one type and shape.
struct ComplexParts {
  ValueId real = kNoValue, imaginary = kNoValue;  ///< imaginary kNoValue: 0
};

/// Exchanges an axis with the last one, along which transforms go.
ComplexParts exchange_with_last(GraphBuilder& b, const ComplexParts& x, int64_t axis);

struct FourierLength {
  int64_t points = 0;  ///< what x lacks of them at the end of its last axis is 0
  int64_t bins = 0;    ///< of the result, the first of as many as there are points
};

/// The discrete Fourier transform along the last axis of n points: y[k] = sum over j of
/// x[j] e^(-2 pi i j k / n), or e^(+2 pi i j k / n) for the inverse, which is divided by n. A
/// product with a constant matrix where n is small, else n is split into factors (Cooley, Tukey
/// 1965), and the shorter transforms are such products. Refuses (kUnsupported) an n with a large
/// prime factor.
ComplexParts fourier_transform(GraphBuilder& b, const ComplexParts& x, const FourierLength& length,
                               bool inverse);

/// About how many elements the constants of a transform of this length have.
int64_t fourier_constants(int64_t points);

/// The real signal of `length` whose spectrum begins with x, [..., length / 2 + 1], and mirrors
/// that: the inverse transform, divided by `length`. Bins that x lacks are 0.
ValueId real_fourier_inverse(GraphBuilder& b, const ComplexParts& x, int64_t length);

struct FourierBasis {
  ValueId real = kNoValue, imaginary = kNoValue;
};
/// e^(-2 pi i j k / points), of the inverse e^(+...), as constant matrices [rows j, columns k].
FourierBasis fourier_basis(GraphBuilder& b, DType type, const Shape& shape, int64_t points,
                           bool inverse);

}  // namespace weft::onnx
