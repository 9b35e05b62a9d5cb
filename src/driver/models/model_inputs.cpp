#include "driver/models/model_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <random>

namespace weft {

namespace {

/// Integers from `range`, where nothing is known 0 or 1.
HostTensor random_tensor(const TensorType& type, const std::optional<Interval>& range,
                         std::mt19937_64& random) {
  HostTensor t(type.dtype, type.shape);
  std::normal_distribution<float> normal;
  const Interval r = type.dtype == DType::kBool ? Interval{0, 1} : range.value_or(Interval{0, 1});
  const uint64_t span = static_cast<uint64_t>(r.hi) - static_cast<uint64_t>(r.lo) + 1;
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_float(type.dtype)) {
      t.set_double(i, normal(random));
    } else {
      const uint64_t offset = span == 0 ? random() : random() % span;
      t.set_int(i, static_cast<int64_t>(static_cast<uint64_t>(r.lo) + offset));
    }
  }
  return t;
}

/// One input of a program: the value given for it, which must have its type, else a random one.
Result<HostTensor> input_value(const std::string& name, const TensorType& type,
                               const std::optional<Interval>& range, const GivenInputs& given,
                               std::mt19937_64& random) {
  const auto found = given.values.find(name);
  if (found == given.values.end()) return random_tensor(type, range, random);
  const TensorType has{found->second.dtype(), found->second.shape()};
  if (has == type) return found->second;
  return invalid_input("input " + name + " is " + print(has) + ", the model wants " + print(type));
}

/// Names that the model does not have are mistakes, not to be passed over.
Status check_names(const GivenInputs& given, const std::vector<std::string>& inputs) {
  for (const auto& [name, value] : given.values) {
    if (std::ranges::find(inputs, name) != inputs.end()) continue;
    return invalid_input(fmt::format("the model has no input '{}'; its inputs are: {}", name,
                                     fmt::join(inputs, ", ")));
  }
  return {};
}

}  // namespace

std::vector<ProgramIo> graph_inputs(const Graph& graph) {
  std::vector<ProgramIo> out;
  for (const ValueId v : graph.inputs) {
    const auto& value = graph.values[static_cast<size_t>(v)];
    out.push_back({value.name, value.type.dtype, value.type.shape});
  }
  return out;
}

Result<std::vector<HostTensor>> program_inputs(const std::vector<ImportedInput>& inputs,
                                               const std::vector<ProgramIo>& program,
                                               const GivenInputs& given) {
  std::mt19937_64 random(given.seed + 1);
  std::vector<const ImportedInput*> imported(program.size());
  std::vector<std::string> names;  // of all that may be given
  for (const ImportedInput& input : inputs) {
    names.push_back(input.name);
    if (input.graph_input >= 0) imported[static_cast<size_t>(input.graph_input)] = &input;
  }
  std::vector<HostTensor> out;
  for (size_t i = 0; i < imported.size(); ++i) {
    const ProgramIo& io = program[i];
    const std::string& name = imported[i] != nullptr ? imported[i]->name : io.name;
    const auto range = imported[i] != nullptr ? imported[i]->range : std::nullopt;
    if (imported[i] == nullptr) names.push_back(name);
    WEFT_ASSIGN_OR_RETURN(HostTensor tensor,
                          input_value(name, {io.dtype, io.shape}, range, given, random));
    out.push_back(std::move(tensor));
  }
  WEFT_RETURN_IF_ERROR(check_names(given, names));
  return out;
}

Result<std::vector<HostTensor>> artefact_inputs(const std::vector<ProgramIo>& program,
                                                const GivenInputs& given) {
  std::mt19937_64 random(given.seed + 1);
  std::vector<std::string> names;
  std::vector<HostTensor> out;
  for (const ProgramIo& io : program) {
    names.push_back(io.name);
    std::optional<Interval> range;
    if (io.lowest <= io.highest) range = Interval{io.lowest, io.highest};
    WEFT_ASSIGN_OR_RETURN(HostTensor tensor,
                          input_value(io.name, {io.dtype, io.shape}, range, given, random));
    out.push_back(std::move(tensor));
  }
  WEFT_RETURN_IF_ERROR(check_names(given, names));
  return out;
}

}  // namespace weft
