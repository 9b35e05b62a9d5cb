#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "import/onnx/graph_importer.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

ValueId constant_floats(OpContext& n, const std::vector<float>& values, Shape shape) {
  const std::vector<double> wide(values.begin(), values.end());
  return n.b.constant_floats(DType::kF32, wide, std::move(shape));
}

/// Output 0 is of the type of the attribute "value".
void note_narrow_value(OpContext& n) {
  if (const auto type = narrow_type_of(element_type(n.find_attr("value")->t->message)))
    n.importer().set_narrow_output(0, *type);
}

void translate_constant(OpContext& n) {
  if (const auto tensor = n.tensor_attr("value")) {
    n.set_output(0, n.b.constant(*tensor));
    note_narrow_value(n);
  } else if (n.has_attr("value_float")) {
    n.set_output(0, constant_floats(n, {n.float_attr("value_float")}, {}));
  } else if (n.has_attr("value_int")) {
    n.set_output(0, n.b.scalar_int(DType::kI64, n.int_attr("value_int")));
  } else if (const auto floats = n.floats_attr("value_floats")) {
    n.set_output(0, constant_floats(n, *floats, {static_cast<int64_t>(floats->size())}));
  } else if (const auto ints = n.ints_attr("value_ints")) {
    n.set_output(0, n.b.constant_ints(*ints));
  } else if (const Attribute* sparse = n.find_attr("sparse_value")) {
    n.set_output(0, n.b.constant(read_sparse_tensor(sparse->sparse_tensor, n.importer().source())));
  } else if (n.has_attr("value_string") || n.has_attr("value_strings")) {
    n.unsupported("element type string");
  } else {
    n.invalid("a constant without a value");
  }
}

void translate_constant_of_shape(OpContext& n) {
  const Shape shape = n.ints_input(0, "the shape");
  ValueId fill = kNoValue;
  if (const auto value = n.tensor_attr("value")) {
    n.require(value->size() == 1, "the value must be one element");
    fill = n.b.constant(value->reshaped({}));
    note_narrow_value(n);
  } else {
    fill = n.b.scalar(DType::kF32, 0);
  }
  n.set_output(0, n.b.broadcast_to(fill, shape));
}

constexpr int64_t kMaxRange = int64_t{1} << 40;

/// Number of elements from start on by delta before limit.
int64_t range_count(OpContext& n, const HostTensor& start, const HostTensor& limit,
                    const HostTensor& delta) {
  if (is_float(start.dtype())) {
    const double distance = limit.at_double(0) - start.at_double(0);
    const double steps = std::ceil(distance / delta.at_double(0));
    n.require(steps <= static_cast<double>(kMaxRange), "the range is too long or not a number");
    return static_cast<int64_t>(std::max(0.0, steps));
  }
  int64_t distance = 0;
  const int64_t step = delta.at_int(0);
  n.require(step != 0, "delta must not be 0");
  n.require(!__builtin_sub_overflow(limit.at_int(0), start.at_int(0), &distance) &&
                std::abs(distance) <= kMaxRange,
            "the range is too long");
  if (distance == 0 || (distance > 0) != (step > 0)) return 0;
  return distance / step + (distance % step != 0 ? 1 : 0);
}

/// start, start + delta, … as start + delta * iota.
void translate_range(OpContext& n) {
  const HostTensor start = n.constant_input(0, "start");
  const HostTensor limit = n.constant_input(1, "limit");
  const HostTensor delta = n.constant_input(2, "delta");
  const DType type = start.dtype();
  n.require(start.size() == 1 && limit.size() == 1 && delta.size() == 1 && limit.dtype() == type &&
                delta.dtype() == type,
            "start, limit and delta must be scalars of one type");
  const int64_t count = range_count(n, start, limit, delta);
  const ValueId first = n.b.constant(start.reshaped({}));
  const ValueId by = n.b.constant(delta.reshaped({}));
  n.set_output(0, n.b.add(n.b.mul(n.b.iota(type, {count}, 0), by), first));
}

void translate_eye_like(OpContext& n) {
  const ValueId x = n.input(0);
  n.require(n.b.rank(x) == 2, "the input must have two axes");
  const DType type = n.dtype_attr("dtype", n.b.dtype(x));
  const int64_t k = n.int_attr("k", 0);
  const Shape shape = n.b.shape(x);
  const ValueId row = n.b.iota(DType::kI64, shape, 0);
  const ValueId column = n.b.iota(DType::kI64, shape, 1);
  const ValueId shifted = n.b.add(row, n.b.scalar_int(DType::kI64, k));
  n.set_output(0, n.b.convert(n.b.binary(ScalarOp::kEq, shifted, column), type));
}

/// Sizes of the input from axis `start` to axis `end`, both clamped.
void translate_shape(OpContext& n) {
  const Shape shape = n.b.shape(n.input(0));
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamped = [&](int64_t axis) {
    return std::clamp(axis < 0 ? axis + rank : axis, int64_t{0}, rank);
  };
  const int64_t start = clamped(n.int_attr("start", 0));
  const int64_t end = clamped(n.int_attr("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t axis = start; axis < end; ++axis) sizes.push_back(shape[static_cast<size_t>(axis)]);
  n.set_output(0, n.b.constant_ints(sizes));
}

void translate_size(OpContext& n) {
  n.set_output(0, n.b.scalar_int(DType::kI64, n.b.size(n.input(0))));
}

/// Optionals only as the tensors that they are, or absent.
void translate_optional_has_element(OpContext& n) {
  n.set_output(0, n.b.scalar_int(DType::kBool, n.has_input(0) ? 1 : 0));
}

const Translator kConstantRows[] = {
    {"", "Constant", 1, translate_constant},
    {"", "ConstantOfShape", 1, translate_constant_of_shape},
    {"", "EyeLike", 1, translate_eye_like},
    {"", "OptionalHasElement", 15, translate_optional_has_element},
    {"", "Range", 1, translate_range},
};

const Translator kShapeRows[] = {
    {"", "Shape", 1, translate_shape},
    {"", "Size", 1, translate_size},
};

}  // namespace

TranslatorTable constant_translators() { return kConstantRows; }
TranslatorTable shape_translators() { return kShapeRows; }

}  // namespace weft::onnx
