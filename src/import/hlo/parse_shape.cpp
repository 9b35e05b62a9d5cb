#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "import/builder/refusal.h"
#include "import/hlo/parse_module.h"

namespace weft::hlo {
namespace {

constexpr int kMaxTupleDepth = 32;

struct ElementType {
  std::string_view name;
  std::optional<DType> dtype;
  bool is_complex = false;
};

constexpr ElementType kElementTypes[] = {
    {"pred", DType::kBool},      {"s8", DType::kI8},           {"s16", DType::kI16},
    {"s32", DType::kI32},        {"s64", DType::kI64},         {"u8", DType::kU8},
    {"u16", DType::kU16},        {"u32", DType::kU32},         {"u64", DType::kU64},
    {"f16", DType::kF16},        {"bf16", DType::kBF16},       {"f32", DType::kF32},
    {"f64", DType::kF64},        {"s1", std::nullopt},         {"s2", std::nullopt},
    {"s4", std::nullopt},        {"u1", std::nullopt},         {"u2", std::nullopt},
    {"u4", std::nullopt},        {"f4e2m1fn", std::nullopt},   {"f8e3m4", std::nullopt},
    {"c64", DType::kF32, true},  {"f8e4m3", std::nullopt},     {"f8e4m3b11fnuz", std::nullopt},
    {"c128", DType::kF64, true}, {"f8e4m3fn", std::nullopt},   {"f8e4m3fnuz", std::nullopt},
    {"f8e5m2", std::nullopt},    {"f8e5m2fnuz", std::nullopt}, {"f8e8m0fnu", std::nullopt},
    {"opaque", std::nullopt},
};

const ElementType* find_element_type(std::string_view name) {
  const auto* found = std::ranges::find(kElementTypes, name, &ElementType::name);
  return found != std::end(kElementTypes) ? found : nullptr;
}

/// `{1,0:T(8,128)}`: the order of the axes, then what only the device cares for.
void parse_layout(TextScanner& scanner, HloShape& shape) {
  const size_t begin = scanner.offset();
  scanner.expect("{");
  while (scanner.peek() >= '0' && scanner.peek() <= '9') {
    shape.minor_to_major.push_back(scanner.integer("an axis"));
    if (!scanner.take(",")) break;
  }
  if (scanner.take(":")) {
    while (scanner.peek() != '}' && scanner.peek() != '\0') {
      if (scanner.peek() == '(') {
        scanner.enclosed();
      } else {
        scanner.number();
      }
    }
  }
  scanner.expect("}");
  if (shape.minor_to_major.empty()) return;
  std::vector<int64_t> sorted = shape.minor_to_major;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != shape.dims.size() || sorted[i] != static_cast<int64_t>(i)) {
      scanner.fail_at(begin, fmt::format("the layout does not order the axes of {}", print(shape)));
    }
  }
}

HloShape parse_array(TextScanner& scanner) {
  HloShape shape;
  const size_t begin = scanner.offset();
  shape.element = scanner.name("a type");
  if (shape.element == "token") {
    shape.kind = HloShape::Kind::kToken;
    shape.leaf_count = 0;
  }
  const ElementType* type = find_element_type(shape.element);
  if (type == nullptr && shape.kind == HloShape::Kind::kArray) {
    scanner.fail_at(begin, fmt::format("there is no element type '{}'", shape.element));
  }
  if (type != nullptr) {
    shape.dtype = type->dtype;
    shape.is_complex = type->is_complex;
    shape.leaf_count = type->is_complex ? 2 : 1;
  }
  scanner.expect("[");
  while (!scanner.take("]")) {
    if (!shape.dims.empty()) scanner.expect(",");
    const bool bounded = scanner.take("<=");
    if (bounded || scanner.peek() == '?') {
      onnx::refuse_unsupported(fmt::format("{}: a dimension that only the run decides",
                                           describe_position(scanner.whole(), scanner.offset())));
    }
    shape.dims.push_back(scanner.integer("an extent"));
  }
  if (!checked_byte_size(shape.dtype.value_or(DType::kF64), shape.dims)) {
    scanner.fail_at(begin, fmt::format("{} is impossible", print(shape)));
  }
  if (scanner.continues_with('{')) parse_layout(scanner, shape);
  return shape;
}

HloShape parse_nested(TextScanner& scanner, int depth) {
  if (scanner.peek() != '(') return parse_array(scanner);
  if (depth > kMaxTupleDepth) scanner.fail("tuples are nested too deeply");
  scanner.expect("(");
  HloShape tuple;
  tuple.kind = HloShape::Kind::kTuple;
  tuple.leaf_count = 0;
  while (!scanner.take(")")) {
    if (!tuple.elements.empty()) scanner.expect(",");
    tuple.elements.push_back(parse_nested(scanner, depth + 1));
    tuple.elements.back().first_leaf = tuple.leaf_count;
    tuple.leaf_count += tuple.elements.back().leaf_count;
  }
  return tuple;
}

}  // namespace

HloShape parse_shape(TextScanner& scanner) { return parse_nested(scanner, 0); }

std::string print(const HloShape& shape) {
  if (shape.kind != HloShape::Kind::kTuple) {
    return fmt::format("{}[{}]", shape.element, fmt::join(shape.dims, ","));
  }
  std::string text;
  for (const HloShape& element : shape.elements) {
    text += (text.empty() ? "" : ", ") + print(element);
  }
  return "(" + text + ")";
}

}  // namespace weft::hlo
