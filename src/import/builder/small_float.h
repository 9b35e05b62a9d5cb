#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// A float of 4 or 8 bits, as the Open Compute Project's formats and their relatives have them:
/// sign, exponent, mantissa from the highest bit on. A value lies as these bits in a uint8, a float
/// of 4 bits in the lower half.
struct SmallFloat {
  /// What codes at the end of the range mean.
  enum class Specials : uint8_t {
    kNone,          ///< all are numbers
    kInfinity,      ///< IEEE's: the highest exponent is infinity, or NaN where a mantissa follows
    kNan,           ///< no infinity, the highest magnitude is NaN
    kNegativeZero,  ///< no infinity, no -0: its code is NaN
    kPowers,        ///< powers of two without sign, 255 is NaN
  };
  int exponent_bits = 0, mantissa_bits = 0, bias = 0;
  Specials specials = Specials::kNone;
};

inline constexpr SmallFloat kFloat4E2M1{2, 1, 1, SmallFloat::Specials::kNone};
inline constexpr SmallFloat kFloat8E4M3Fn{4, 3, 7, SmallFloat::Specials::kNan};
inline constexpr SmallFloat kFloat8E4M3FnUz{4, 3, 8, SmallFloat::Specials::kNegativeZero};
inline constexpr SmallFloat kFloat8E5M2{5, 2, 15, SmallFloat::Specials::kInfinity};
inline constexpr SmallFloat kFloat8E5M2FnUz{5, 2, 16, SmallFloat::Specials::kNegativeZero};
inline constexpr SmallFloat kFloat8E8M0{8, 0, 127, SmallFloat::Specials::kPowers};

/// Where a number beyond the range goes, and how one between two powers of two is rounded (other
/// formats round to the nearest, ties to even).
struct SmallFloatRounding {
  enum class Power : uint8_t { kUp, kDown, kNearest };  ///< nearest: ties go up
  bool saturates = true;  ///< to the largest number; else to infinity or, without one, NaN
  Power power = Power::kUp;
};

/// The float32 that the uint8 codes `v` mean. Exact.
ValueId decode_small_float(GraphBuilder& b, ValueId v, const SmallFloat& format);

/// The codes of the float32 `v`.
ValueId encode_small_float(GraphBuilder& b, ValueId v, const SmallFloat& format,
                           SmallFloatRounding rounding);

}  // namespace weft::onnx
