#include <fmt/format.h>

#include "import/builder/fourier.h"
#include "import/builder/is_everywhere.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

using onnx::ComplexParts;

/// Elements of constants for which a module's instructions pay as for one more.
constexpr int64_t kElementsPerNode = 512;

/// Over all axes but the last, which the transforms between real and complex numbers halve.
ComplexParts transform_outer(GraphBuilder& b, ComplexParts x, const std::vector<int64_t>& lengths,
                             bool inverse) {
  const auto axes = static_cast<int64_t>(lengths.size());
  for (int64_t i = 0; i + 1 < axes; ++i) {
    const int64_t n = lengths[static_cast<size_t>(i)];
    const int64_t axis = b.rank(x.real) - axes + i;
    x = fourier_transform(b, exchange_with_last(b, x, axis), {n, n}, inverse);
    x = exchange_with_last(b, x, axis);
  }
  return x;
}

ComplexParts operand_parts(InstructionContext& n) {
  const bool takes_real = n.word("fft_type") == "RFFT";
  n.require(
      takes_real != n.operand_shape(0).is_complex,
      fmt::format("{} takes {} numbers", n.word("fft_type"), takes_real ? "real" : "complex"));
  if (takes_real) return {n.operand(0)};
  n.read_parts({0});
  ComplexParts x{n.operand(0)};
  n.read_parts({1});
  x.imaginary = n.operand(0);
  // Real numbers that were converted.
  if (is_everywhere(n.b, x.imaginary, 0)) x.imaginary = kNoValue;
  return x;
}

/// fft(x), fft_type=FFT | IFFT | RFFT | IRFFT, fft_length={lengths of the last axes}.
void translate_fft(InstructionContext& n) {
  n.expect_operands(1);
  GraphBuilder& b = n.b;
  const std::vector<int64_t> lengths = n.ints("fft_length");
  const std::string_view type = n.word("fft_type");
  ComplexParts x = operand_parts(n);
  const auto axes = static_cast<int64_t>(lengths.size());
  n.require(axes >= 1 && axes <= b.rank(x.real), "fft_length: one length per transformed axis");
  const bool inverse = type == "IFFT" || type == "IRFFT";
  const bool halved = type == "IRFFT";  // of its input, the last axis
  n.require(inverse || type == "FFT" || type == "RFFT",
            fmt::format("there is no fft_type '{}'", type));
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    const int64_t expected = halved && i + 1 == axes ? length / 2 + 1 : length;
    n.require(length >= 1 && b.extent(x.real, i - axes) == expected,
              "fft_length does not fit the operand");
    n.importer().spend(onnx::fourier_constants(length) / kElementsPerNode);
  }
  const int64_t last = lengths.back();
  if (type == "IRFFT") {
    return n.set_result(real_fourier_inverse(b, transform_outer(b, x, lengths, true), last));
  }
  x = fourier_transform(b, x, {last, type == "RFFT" ? last / 2 + 1 : last}, inverse);
  x = transform_outer(b, x, lengths, inverse);
  n.set_results({x.real, x.imaginary});
}

const Translator kRows[] = {
    {"fft", translate_fft},
};

}  // namespace

TranslatorTable fourier_translators() { return kRows; }

}  // namespace weft::hlo
