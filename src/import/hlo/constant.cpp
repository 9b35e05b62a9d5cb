#include <fmt/format.h>

#include "import/hlo/literal.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// The arrays of a constant, whose tuples are as deep as its shape.
void read_constant(InstructionContext& n, TextScanner& scanner, const HloShape& shape,
                   Leaves& leaves) {
  if (shape.kind == HloShape::Kind::kToken) refuse_unsupported("a constant token");
  if (shape.kind == HloShape::Kind::kArray) {
    for (HostTensor& part : parse_literal(scanner, shape)) {
      leaves.push_back(n.b.constant(std::move(part)));
    }
    return;
  }
  scanner.expect("(");
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    if (i > 0) scanner.expect(",");
    read_constant(n, scanner, shape.elements[i], leaves);
  }
  scanner.expect(")");
}

void translate_constant(InstructionContext& n) {
  if (n.frame().lanes != nullptr && !n.dims().empty()) {
    refuse_unsupported("an array in a computation that is applied element by element");
  }
  TextScanner scanner(n.importer().module().text, n.instruction().literal);
  Leaves leaves;
  read_constant(n, scanner, n.shape(), leaves);
  scanner.expect_end();
  n.set_results(std::move(leaves));
}

void translate_iota(InstructionContext& n) {
  n.expect_operands(0);
  n.set_result(n.b.iota(n.dtype(), n.dims(), n.integer("iota_dimension", 0)));
}

void translate_tuple(InstructionContext& n) {
  Leaves leaves;
  for (size_t i = 0; i < n.operand_count(); ++i) {
    const Leaves& part = n.leaves(i);
    leaves.insert(leaves.end(), part.begin(), part.end());
  }
  n.set_results(std::move(leaves));
}

void translate_get_tuple_element(InstructionContext& n) {
  n.expect_operands(1);
  const HloShape& tuple = n.operand_shape(0);
  const int64_t index = n.integer("index");
  n.require(tuple.kind == HloShape::Kind::kTuple && index >= 0 &&
                index < static_cast<int64_t>(tuple.elements.size()),
            fmt::format("{} has no element {}", print(tuple), index));
  const HloShape& element = tuple.elements[static_cast<size_t>(index)];
  const auto first = n.leaves(0).begin() + static_cast<int64_t>(element.first_leaf);
  n.set_results(Leaves(first, first + static_cast<int64_t>(element.leaf_count)));
}

void translate_dimension_size(InstructionContext& n) {
  n.expect_operands(1);
  const std::vector<int64_t> axes = n.ints("dimensions");
  n.require(axes.size() == 1, "dimensions: one axis");
  n.set_result(n.b.scalar_int(n.dtype(), n.b.extent(n.operand(0), axes[0])));
}

/// The array itself where the size is its whole extent; the result of TensorFlow's top-k.
void translate_set_dimension_size(InstructionContext& n) {
  n.expect_operands(2);
  const std::vector<int64_t> axes = n.ints("dimensions");
  n.require(axes.size() == 1, "dimensions: one axis");
  const int64_t extent = n.b.extent(n.operand(0), axes[0]);
  const HostTensor* size = n.b.constant_value(n.operand(1));
  if (size == nullptr) refuse_unsupported("a dimension that only the run decides");
  n.require(size->size() == 1, "the size is one number");
  if (size->at_int(0) != extent) refuse_unsupported("a dimension that is filled in part");
  n.set_results(n.leaves(0));
}

const Translator kRows[] = {
    {"constant", translate_constant, true},
    {"iota", translate_iota},
    {"tuple", translate_tuple, true},
    {"get-tuple-element", translate_get_tuple_element, true},
    {"get-dimension-size", translate_dimension_size},
    {"set-dimension-size", translate_set_dimension_size},
};

}  // namespace

TranslatorTable constant_translators() { return kRows; }

}  // namespace weft::hlo
