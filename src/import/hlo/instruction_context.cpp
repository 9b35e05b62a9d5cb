#include <fmt/format.h>

#include <algorithm>

#include "import/hlo/translator.h"

namespace weft::hlo {

InstructionContext::InstructionContext(ModuleImporter& importer, const Frame& frame,
                                       const HloComputation& computation,
                                       const HloInstruction& instruction,
                                       const std::vector<std::optional<Leaves>>& values)
    : b(frame.builder),
      importer_(importer),
      frame_(frame),
      computation_(computation),
      instruction_(instruction),
      values_(values) {}

Frame InstructionContext::called_frame(GraphBuilder& builder, const Shape* lanes) const {
  return {builder, fmt::format("{}{}/", frame_.prefix, instruction_.name), frame_.depth + 1, lanes};
}

void InstructionContext::expect_operands(size_t count) const {
  if (operand_count() != count) {
    refuse_invalid(fmt::format("takes {} operands, not {}", count, operand_count()));
  }
}

const Leaves& InstructionContext::leaves(size_t i) const {
  if (i >= operand_count()) refuse_invalid(fmt::format("has no operand {}", i));
  const auto& held = values_[static_cast<size_t>(instruction_.operands[i])];
  if (!held) throw DependsOnRefused{};
  return *held;
}

bool InstructionContext::has_complex() const {
  bool found = shape().is_complex;
  for (size_t i = 0; i < operand_count(); ++i) found = found || operand_shape(i).is_complex;
  return found;
}

std::optional<size_t> InstructionContext::part(size_t i) const {
  if (parts_.empty()) return std::nullopt;
  return parts_[std::min(i, parts_.size() - 1)];
}

ValueId InstructionContext::leaf(size_t i) const {
  const Leaves& held = leaves(i);
  const bool in_parts = part(i) && operand_shape(i).is_complex;
  if (!in_parts && held.size() != 1) refuse_invalid(fmt::format("operand {} is not one array", i));
  return held[in_parts ? *part(i) : 0];
}

ValueId InstructionContext::operand(size_t i) { return importer_.whole(leaf(i)); }

std::vector<ValueId> InstructionContext::operands(size_t begin, size_t end) {
  std::vector<ValueId> values;
  for (size_t i = begin; i < end; ++i) values.push_back(operand(i));
  return values;
}

const HloShape& InstructionContext::operand_shape(size_t i) const {
  if (i >= operand_count()) refuse_invalid(fmt::format("has no operand {}", i));
  return computation_.instructions[static_cast<size_t>(instruction_.operands[i])].shape;
}

DType InstructionContext::dtype() const {
  if (shape().kind != HloShape::Kind::kArray) refuse_invalid("its result is no array");
  if (!shape().dtype) {
    refuse_unsupported(fmt::format("the element type of {}", print(shape())));
  }
  return *shape().dtype;
}

std::optional<TextScanner> InstructionContext::find(std::string_view name) const {
  const auto found = std::ranges::find(instruction_.attributes, name, &HloAttribute::name);
  if (found == instruction_.attributes.end()) return std::nullopt;
  return TextScanner(importer_.module().text, found->value);
}

TextScanner InstructionContext::attribute(std::string_view name) const {
  if (auto value = find(name)) return *value;
  refuse_invalid(fmt::format("has no attribute '{}'", name));
}

std::vector<int64_t> InstructionContext::ints_or_none(std::string_view name) const {
  const auto value = find(name);
  return value ? parse_ints(*value) : std::vector<int64_t>();
}

int64_t InstructionContext::integer(std::string_view name) const {
  const std::vector<int64_t> values = ints(name);
  if (values.size() != 1) refuse_invalid(fmt::format("{} is not one number", name));
  return values[0];
}

int64_t InstructionContext::integer(std::string_view name, int64_t otherwise) const {
  return find(name) ? integer(name) : otherwise;
}

std::string_view InstructionContext::word(std::string_view name) const {
  TextScanner value = attribute(name);
  const std::string_view text = value.peek() == '"' ? value.quoted() : value.name("a word");
  value.expect_end();
  return text;
}

std::string_view InstructionContext::word(std::string_view name, std::string_view otherwise) const {
  return find(name) ? word(name) : otherwise;
}

double InstructionContext::number(std::string_view name) const {
  return parse_number(attribute(name));
}

bool InstructionContext::flag(std::string_view name, bool otherwise) const {
  return word(name, otherwise ? "true" : "false") == "true";
}

const HloComputation& InstructionContext::computation(std::string_view name) const {
  const std::vector<std::string_view> names = parse_names(attribute(name));
  if (names.size() != 1) refuse_invalid(fmt::format("{} is not one computation", name));
  return importer_.find(names[0], instruction_);
}

}  // namespace weft::hlo
