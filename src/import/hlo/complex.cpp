#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

struct Number {
  ValueId real = kNoValue, imaginary = kNoValue;
};

Number read_number(InstructionContext& n, size_t i) {
  if (!n.operand_shape(i).is_complex) refuse_invalid(fmt::format("operand {} is not complex", i));
  n.read_parts({0});
  Number z{n.operand(i)};
  n.read_parts({1});
  z.imaginary = n.operand(i);
  return z;
}

/// Arithmetic on complex numbers, by their parts.
class Arithmetic {
 public:
  explicit Arithmetic(GraphBuilder& b) : b_(b) {}

  ValueId unary(ScalarOp op, ValueId x) { return b_.unary(op, x); }

  Number times(const Number& x, const Number& y) {
    return {b_.sub(b_.mul(x.real, y.real), b_.mul(x.imaginary, y.imaginary)),
            b_.add(b_.mul(x.real, y.imaginary), b_.mul(x.imaginary, y.real))};
  }

  ValueId larger_part(const Number& z) {
    return b_.max(unary(ScalarOp::kAbs, z.real), unary(ScalarOp::kAbs, z.imaginary));
  }

  ValueId is_zero(ValueId x) { return b_.binary(ScalarOp::kEq, x, 0.0); }

  /// The divisor's larger part becomes 1, so that its square neither overflows nor vanishes.
  Number divided(const Number& x, const Number& y) {
    const ValueId size = larger_part(y);
    const Number unit{b_.div(y.real, size), b_.div(y.imaginary, size)};
    const ValueId square =
        b_.add(b_.mul(unit.real, unit.real), b_.mul(unit.imaginary, unit.imaginary));
    const Number z = times(x, {unit.real, b_.neg(unit.imaginary)});
    return {b_.div(b_.div(z.real, square), size), b_.div(b_.div(z.imaginary, square), size)};
  }

  /// sqrt(re^2 + im^2) without the squares' overflow.
  ValueId magnitude(const Number& z) {
    const ValueId large = larger_part(z);
    const ValueId small = b_.min(unary(ScalarOp::kAbs, z.real), unary(ScalarOp::kAbs, z.imaginary));
    const ValueId ratio = b_.div(small, large);
    const ValueId root = b_.sqrt(b_.add(b_.mul(ratio, ratio), 1.0));
    const ValueId infinite =
        b_.binary(ScalarOp::kEq, large, std::numeric_limits<double>::infinity());
    return b_.select(b_.binary(ScalarOp::kOr, is_zero(large), infinite), large,
                     b_.mul(large, root));
  }

  Number exponential(const Number& z) {
    const ValueId size = b_.exp(z.real);
    const ValueId rise = b_.mul(size, unary(ScalarOp::kSin, z.imaginary));
    // Real numbers stay so where the size is infinite.
    return {b_.mul(size, unary(ScalarOp::kCos, z.imaginary)),
            b_.select(is_zero(z.imaginary), z.imaginary, rise)};
  }

  Number exponential_minus_one(const Number& z) {
    const ValueId half = unary(ScalarOp::kSin, b_.mul(z.imaginary, 0.5));
    const ValueId grown =
        b_.mul(unary(ScalarOp::kExpm1, z.real), unary(ScalarOp::kCos, z.imaginary));
    return {b_.sub(grown, b_.mul(b_.mul(half, half), 2.0)), exponential(z).imaginary};
  }

  ValueId angle(const Number& z) { return b_.binary(ScalarOp::kAtan2, z.imaginary, z.real); }

  Number logarithm(const Number& z) { return {b_.log(magnitude(z)), angle(z)}; }

  /// log(1 + z): near 0 the square of the magnitude is 1 + what log1p takes.
  Number logarithm_plus_one(const Number& z) {
    const ValueId beyond =
        b_.add(b_.mul(z.real, b_.add(z.real, 2.0)), b_.mul(z.imaginary, z.imaginary));
    return {b_.mul(unary(ScalarOp::kLog1p, beyond), 0.5),
            angle({b_.add(z.real, 1.0), z.imaginary})};
  }

  /// The root with a real part that is not negative.
  Number root(const Number& z) {
    const ValueId sum = b_.add(magnitude(z), unary(ScalarOp::kAbs, z.real));
    const ValueId near = b_.sqrt(b_.mul(sum, 0.5));
    const ValueId far =
        b_.select(is_zero(near), z.imaginary, b_.div(z.imaginary, b_.mul(near, 2.0)));
    const ValueId positive = b_.binary(ScalarOp::kGe, z.real, 0.0);
    const ValueId below = b_.binary(ScalarOp::kLt, z.imaginary, 0.0);
    return {b_.select(positive, near, unary(ScalarOp::kAbs, far)),
            b_.select(positive, far, b_.select(below, b_.neg(near), near))};
  }

  Number one(ValueId like) { return {b_.full_like(like, 1), b_.full_like(like, 0)}; }

  /// e^(w log z), where 0 to any power but 0 is 0.
  Number power(const Number& z, const Number& w) {
    const Number p = exponential(times(w, logarithm(z)));
    const ValueId zero = is_zero(larger_part(z)), trivial = is_zero(larger_part(w));
    const ValueId at_zero = b_.select(trivial, b_.full_like(p.real, 1), b_.full_like(p.real, 0));
    return {b_.select(zero, at_zero, p.real),
            b_.select(zero, b_.full_like(p.real, 0), p.imaginary)};
  }

  Number hyperbolic_tangent(const Number& z) {
    const ValueId t = unary(ScalarOp::kTanh, z.real);
    const ValueId s = unary(ScalarOp::kSin, z.imaginary), c = unary(ScalarOp::kCos, z.imaginary);
    const ValueId ts = b_.mul(t, s);
    const ValueId square = b_.add(b_.mul(c, c), b_.mul(ts, ts));
    const ValueId rest = b_.sub(b_.full_like(t, 1), b_.mul(t, t));
    return {b_.div(t, square), b_.div(b_.mul(b_.mul(s, c), rest), square)};
  }

  Number sine(const Number& z) {
    return {b_.mul(unary(ScalarOp::kSin, z.real), unary(ScalarOp::kCosh, z.imaginary)),
            b_.mul(unary(ScalarOp::kCos, z.real), unary(ScalarOp::kSinh, z.imaginary))};
  }

  Number cosine(const Number& z) {
    return {b_.mul(unary(ScalarOp::kCos, z.real), unary(ScalarOp::kCosh, z.imaginary)),
            b_.neg(b_.mul(unary(ScalarOp::kSin, z.real), unary(ScalarOp::kSinh, z.imaginary)))};
  }

  Number logistic(const Number& z) {
    const Number fall = exponential({b_.neg(z.real), b_.neg(z.imaginary)});
    return divided(one(z.real), {b_.add(fall.real, 1.0), fall.imaginary});
  }

  /// z / |z|, of 0 itself.
  Number sign(const Number& z) {
    const ValueId size = magnitude(z);
    const ValueId zero = is_zero(size);
    return {b_.select(zero, z.real, b_.div(z.real, size)),
            b_.select(zero, z.imaginary, b_.div(z.imaginary, size))};
  }

  Number reciprocal_root(const Number& z) { return divided(one(z.real), root(z)); }
  Number tangent(const Number& z) { return divided(sine(z), cosine(z)); }

 private:
  GraphBuilder& b_;
};

/// Instructions that hand on arrays as they are: a complex one is two of them.
void as_arrays(InstructionContext& n, const Translator& real) { real.translate(n); }

/// Real numbers are not read as both parts of a complex one.
void require_complex_operands(InstructionContext& n) {
  for (size_t i = 0; i < n.operand_count(); ++i) {
    const HloShape& shape = n.operand_shape(i);
    const bool is_real = shape.dtype && is_float(*shape.dtype) && !shape.is_complex;
    n.require(!is_real, fmt::format("operand {} is not complex", i));
  }
}

/// Instructions that do to both parts what they do to a real array.
void part_by_part(InstructionContext& n, const Translator& real) {
  require_complex_operands(n);
  Leaves parts;
  for (const size_t part : {size_t{0}, size_t{1}}) {
    n.read_parts({part});
    real.translate(n);
    n.require(n.results().size() == 1, "its result is not one array");
    parts.push_back(n.results()[0]);
  }
  n.set_results(std::move(parts));
}

/// Instructions of which both parts would be the same.
void real_part(InstructionContext& n, const Translator& real) {
  n.read_parts({0});
  real.translate(n);
}

/// Products of the parts, by an instruction that multiplies its first two operands and adds.
void translate_bilinear(InstructionContext& n, const Translator& real) {
  require_complex_operands(n);
  const auto product = [&](size_t left, size_t right) {
    n.read_parts({left, right});
    real.translate(n);
    return n.results().at(0);
  };
  const ValueId from_real = n.b.sub(product(0, 0), product(1, 1));
  n.set_results({from_real, n.b.add(product(0, 1), product(1, 0))});
}

template <Number (Arithmetic::*kFunction)(const Number&)>
void translate_function(InstructionContext& n, const Translator&) {
  n.expect_operands(1);
  const Number z = (Arithmetic(n.b).*kFunction)(read_number(n, 0));
  n.set_results({z.real, z.imaginary});
}

template <Number (Arithmetic::*kFunction)(const Number&, const Number&)>
void translate_function_of_two(InstructionContext& n, const Translator&) {
  n.expect_operands(2);
  const Number x = read_number(n, 0), y = read_number(n, 1);
  const Number z = (Arithmetic(n.b).*kFunction)(x, y);
  n.set_results({z.real, z.imaginary});
}

void translate_abs(InstructionContext& n, const Translator&) {
  n.expect_operands(1);
  n.set_result(Arithmetic(n.b).magnitude(read_number(n, 0)));
}

template <size_t kPart>
void translate_part(InstructionContext& n, const Translator&) {
  n.expect_operands(1);
  n.read_parts({kPart});
  n.set_result(n.operand(0));
}

/// To complex numbers from real ones, or from those of another precision.
void translate_convert(InstructionContext& n, const Translator& real) {
  n.require(n.operand_count() == 1 && n.shape().is_complex, "its result is not complex");
  if (n.operand_shape(0).is_complex) return part_by_part(n, real);
  real.translate(n);
  const ValueId x = n.results()[0];
  n.set_results({x, n.b.full_like(x, 0)});
}

void translate_iota(InstructionContext& n, const Translator& real) {
  real.translate(n);
  const ValueId x = n.results()[0];
  n.set_results({x, n.b.full_like(x, 0)});
}

void translate_compare(InstructionContext& n, const Translator& real) {
  const std::string_view direction = n.word("direction");
  n.require(direction == "EQ" || direction == "NE", "complex numbers have no order");
  n.read_parts({0});
  real.translate(n);
  const ValueId first = n.results()[0];
  n.read_parts({1});
  real.translate(n);
  const ScalarOp joined = direction == "EQ" ? ScalarOp::kAnd : ScalarOp::kOr;
  n.set_result(n.b.binary(joined, first, n.results()[0]));
}

struct Row {
  std::string_view opcode;
  void (*translate)(InstructionContext&, const Translator& real);
};

constexpr Row kRows[] = {
    {"tuple", as_arrays},
    {"get-tuple-element", as_arrays},
    {"constant", as_arrays},
    {"copy", as_arrays},
    {"domain", as_arrays},
    {"opt-barrier", as_arrays},
    {"optimization-barrier", as_arrays},
    {"add-dependency", as_arrays},
    {"after-all", as_arrays},
    {"call", as_arrays},
    {"fusion", as_arrays},
    {"conditional", as_arrays},
    {"while", as_arrays},
    {"custom-call", as_arrays},
    {"fft", as_arrays},
    {"get-dimension-size", real_part},
    {"set-dimension-size", part_by_part},
    {"broadcast", part_by_part},
    {"reshape", part_by_part},
    {"transpose", part_by_part},
    {"bitcast", part_by_part},
    {"slice", part_by_part},
    {"reverse", part_by_part},
    {"pad", part_by_part},
    {"concatenate", part_by_part},
    {"dynamic-slice", part_by_part},
    {"dynamic-update-slice", part_by_part},
    {"gather", part_by_part},
    {"scatter", part_by_part},
    {"reduce", part_by_part},
    {"reduce-window", part_by_part},
    {"negate", part_by_part},
    {"add", part_by_part},
    {"subtract", part_by_part},
    {"select", part_by_part},
    {"dot", translate_bilinear},
    {"convolution", translate_bilinear},
    {"real", translate_part<0>},
    {"imag", translate_part<1>},
    {"complex", as_arrays},
    {"convert", translate_convert},
    {"iota", translate_iota},
    {"compare", translate_compare},
    {"abs", translate_abs},
    {"multiply", translate_function_of_two<&Arithmetic::times>},
    {"divide", translate_function_of_two<&Arithmetic::divided>},
    {"power", translate_function_of_two<&Arithmetic::power>},
    {"exponential", translate_function<&Arithmetic::exponential>},
    {"exponential-minus-one", translate_function<&Arithmetic::exponential_minus_one>},
    {"log", translate_function<&Arithmetic::logarithm>},
    {"log-plus-one", translate_function<&Arithmetic::logarithm_plus_one>},
    {"sqrt", translate_function<&Arithmetic::root>},
    {"rsqrt", translate_function<&Arithmetic::reciprocal_root>},
    {"tanh", translate_function<&Arithmetic::hyperbolic_tangent>},
    {"sine", translate_function<&Arithmetic::sine>},
    {"cosine", translate_function<&Arithmetic::cosine>},
    {"tan", translate_function<&Arithmetic::tangent>},
    {"logistic", translate_function<&Arithmetic::logistic>},
    {"sign", translate_function<&Arithmetic::sign>},
};

}  // namespace

void translate_complex(InstructionContext& n, const Translator& real) {
  const auto* row = std::ranges::find(kRows, n.opcode(), &Row::opcode);
  if (row == std::end(kRows)) {
    refuse_unsupported(fmt::format("complex numbers in '{}'", n.opcode()));
  }
  row->translate(n, real);
}

}  // namespace weft::hlo
