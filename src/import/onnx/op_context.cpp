#include <fmt/format.h>

#include "import/onnx/graph_importer.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

OpContext::OpContext(GraphImporter& importer, Scope& scope, const NodeDef& node, int64_t opset,
                     std::vector<ValueId> inputs, std::string origin)
    : b(scope.builder),
      importer_(importer),
      scope_(scope),
      node_(node),
      opset_(opset),
      origin_(std::move(origin)),
      inputs_(std::move(inputs)),
      outputs_(node.outputs.size(), kNoValue) {}

bool OpContext::has_input(int i) const {
  return i >= 0 && i < input_count() && inputs_[static_cast<size_t>(i)] != kNoValue;
}

ValueId OpContext::input(int i) const {
  if (!has_input(i)) refuse_invalid(fmt::format("input {} is missing", i));
  if (is_sequence_input(i)) refuse_invalid(fmt::format("input {} is a sequence", i));
  return inputs_[static_cast<size_t>(i)];
}

ValueId OpContext::any_input(int i) const {
  return has_input(i) ? inputs_[static_cast<size_t>(i)] : kNoValue;
}

bool OpContext::is_sequence_input(int i) const { return is_sequence(any_input(i)); }

std::vector<ValueId> OpContext::sequence_input(int i) const {
  if (!is_sequence_input(i)) refuse_invalid(fmt::format("input {} is not a sequence", i));
  return importer_.sequence(any_input(i));
}

void OpContext::set_sequence(int i, std::vector<ValueId> values) {
  set_output(i, importer_.add_sequence(std::move(values)));
}

HostTensor OpContext::constant_input(int i, std::string_view what) {
  const ValueId v = input(i);
  if (const HostTensor* known = b.constant_value(v)) return *known;
  importer_.refuse_unknown(b, v, what);
}

std::vector<int64_t> OpContext::ints_input(int i, std::string_view what) {
  if (!is_integer(b.dtype(input(i)))) refuse_invalid(fmt::format("{} must be integers", what));
  const HostTensor known = constant_input(i, what);
  std::vector<int64_t> values;
  for (int64_t k = 0; k < known.size(); ++k) values.push_back(known.at_int(k));
  return values;
}

int64_t OpContext::int_input(int i, std::string_view what) {
  const std::vector<int64_t> values = ints_input(i, what);
  if (values.size() != 1) refuse_invalid(fmt::format("{} must be one integer", what));
  return values[0];
}

double OpContext::double_input(int i, std::string_view what) {
  const HostTensor known = constant_input(i, what);
  if (known.size() != 1) refuse_invalid(fmt::format("{} must be one number", what));
  return known.at_double(0);
}

const HostTensor* OpContext::known_input(int i) {
  return has_input(i) && !is_sequence_input(i) ? b.constant_value(input(i)) : nullptr;
}

const Attribute* OpContext::find_attr(std::string_view name) const {
  for (const Attribute& attribute : node_.attributes) {
    if (attribute.name == name && attribute.ref_name.empty()) return &attribute;
  }
  return nullptr;
}

const Attribute* OpContext::typed_attr(std::string_view name, AttributeType type) const {
  const Attribute* attribute = find_attr(name);
  if (attribute != nullptr && attribute->type != type) {
    refuse_invalid(fmt::format("attribute '{}' has the wrong type", name));
  }
  return attribute;
}

const Attribute& OpContext::need_attr(std::string_view name, AttributeType type) const {
  const Attribute* attribute = typed_attr(name, type);
  if (attribute == nullptr) refuse_invalid(fmt::format("attribute '{}' is missing", name));
  return *attribute;
}

int64_t OpContext::int_attr(std::string_view name) const {
  return need_attr(name, AttributeType::kInt).i;
}

int64_t OpContext::int_attr(std::string_view name, int64_t otherwise) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kInt);
  return attribute != nullptr ? attribute->i : otherwise;
}

float OpContext::float_attr(std::string_view name) const {
  return need_attr(name, AttributeType::kFloat).f;
}

float OpContext::float_attr(std::string_view name, float otherwise) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kFloat);
  return attribute != nullptr ? attribute->f : otherwise;
}

std::string OpContext::string_attr(std::string_view name) const {
  return std::string(need_attr(name, AttributeType::kString).s);
}

std::string OpContext::string_attr(std::string_view name, std::string_view otherwise) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kString);
  return std::string(attribute != nullptr ? attribute->s : otherwise);
}

std::optional<std::vector<int64_t>> OpContext::ints_attr(std::string_view name) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kInts);
  if (attribute == nullptr) return std::nullopt;
  return attribute->ints;
}

std::vector<int64_t> OpContext::ints_attr(std::string_view name,
                                          std::vector<int64_t> otherwise) const {
  return ints_attr(name).value_or(std::move(otherwise));
}

std::optional<std::vector<float>> OpContext::floats_attr(std::string_view name) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kFloats);
  if (attribute == nullptr) return std::nullopt;
  return attribute->floats;
}

std::optional<std::vector<std::string>> OpContext::strings_attr(std::string_view name) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kStrings);
  if (attribute == nullptr) return std::nullopt;
  return std::vector<std::string>(attribute->strings.begin(), attribute->strings.end());
}

std::optional<HostTensor> OpContext::tensor_attr(std::string_view name) const {
  const Attribute* attribute = typed_attr(name, AttributeType::kTensor);
  if (attribute == nullptr || !attribute->t) return std::nullopt;
  return importer_.tensor(*attribute->t);
}

DType OpContext::dtype_attr(std::string_view name) const { return to_dtype(int_attr(name)); }

DType OpContext::dtype_attr(std::string_view name, DType otherwise) const {
  return has_attr(name) ? dtype_attr(name) : otherwise;
}

const GraphDef& OpContext::graph_attr(std::string_view name) const {
  const Attribute& attribute = need_attr(name, AttributeType::kGraph);
  if (attribute.g == nullptr) refuse_invalid(fmt::format("attribute '{}' is empty", name));
  return *attribute.g;
}

int64_t OpContext::axis_attr(std::string_view name, int64_t otherwise, int64_t rank) const {
  return GraphBuilder::normal_axis(int_attr(name, otherwise), rank, name);
}

bool OpContext::wants_output(int i) const {
  return i >= 0 && i < output_count() && !node_.outputs[static_cast<size_t>(i)].empty();
}

void OpContext::set_output(int i, ValueId v) {
  if (!is_sequence(v)) b.type(v);
  if (i < output_count()) outputs_[static_cast<size_t>(i)] = v;
}

}  // namespace weft::onnx
