#include "import/recorded/recorded_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "import/builder/finish_import.h"
#include "import/builder/refusal.h"
#include "import/onnx/bind_inputs.h"

namespace weft {

namespace {

onnx::OnnxType onnx_type(DType type) {
  switch (type) {
    case DType::kBool:
      return onnx::OnnxType::kBool;
    case DType::kI8:
      return onnx::OnnxType::kInt8;
    case DType::kI16:
      return onnx::OnnxType::kInt16;
    case DType::kI32:
      return onnx::OnnxType::kInt32;
    case DType::kI64:
      return onnx::OnnxType::kInt64;
    case DType::kU8:
      return onnx::OnnxType::kUint8;
    case DType::kU16:
      return onnx::OnnxType::kUint16;
    case DType::kU32:
      return onnx::OnnxType::kUint32;
    case DType::kU64:
      return onnx::OnnxType::kUint64;
    case DType::kF16:
      return onnx::OnnxType::kFloat16;
    case DType::kBF16:
      return onnx::OnnxType::kBfloat16;
    case DType::kF32:
      return onnx::OnnxType::kFloat;
    case DType::kF64:
      return onnx::OnnxType::kDouble;
  }
  return onnx::OnnxType::kUndefined;
}

/// The inputs as an ONNX model would declare them: dimensions bind by the same rules.
onnx::GraphDef declaration_of(const std::vector<DeclaredTensor>& inputs) {
  onnx::GraphDef def;
  for (const DeclaredTensor& input : inputs) {
    onnx::ValueDef& value = def.inputs.emplace_back();
    value.name = input.name;
    value.kind = onnx::ValueDef::Kind::kTensor;
    value.element_type = static_cast<int64_t>(onnx_type(input.dtype));
    value.has_shape = true;
    for (const auto& [extent, symbol] : *input.dims) {
      onnx::DimDef& dim = value.dims.emplace_back();
      if (extent >= 0) dim.extent = extent;
      dim.symbol = symbol;
    }
  }
  return def;
}

std::map<std::string, int64_t> dimensions_of(const std::vector<ImportedInput>& inputs) {
  std::map<std::string, int64_t> bound;
  for (const ImportedInput& input : inputs) {
    for (size_t axis = 0; axis < input.symbols.size(); ++axis) {
      if (!input.symbols[axis].empty()) bound[input.symbols[axis]] = input.type.shape[axis];
    }
  }
  return bound;
}

/// The error of a step says which one it was.
Error of_step(const Error& error, const std::string& what, const std::string& origin) {
  return {error.code,
          (origin.empty() ? what : fmt::format("{} ({})", origin, what)) + ": " + error.message};
}

}  // namespace

ValueId RecordedGraph::Replay::at(int32_t number) {
  if (const auto found = values.find(number); found != values.end()) return found->second;
  if (parent == nullptr)
    onnx::refuse_invalid("an operand is no tensor of this builder, or of a region that ended");
  return builder.capture(parent->at(number));
}

std::vector<RecordedGraph::Recorded>& RecordedGraph::steps() {
  return regions_.empty() ? steps_ : regions_.back()->steps;
}

int32_t RecordedGraph::add_input(DeclaredTensor input) {
  const size_t index = inputs_.size();
  inputs_.push_back(std::move(input));
  // Of the whole graph, also where a region is recorded.
  steps_.push_back({"input", {}, count_, [index](Replay& r) -> std::vector<ValueId> {
                      return {r.builder.graph().inputs[index]};
                    }});
  return count_++;
}

int32_t RecordedGraph::record(std::string what, int32_t results, Step step) {
  const int32_t first = count_;
  steps().push_back({std::move(what), {}, first, std::move(step)});
  count_ += results;
  return first;
}

void RecordedGraph::begin_origin(Origin origin) {
  std::string name = origin.name;
  record("origin", 0, [begun = std::move(origin)](Replay& r) -> std::vector<ValueId> {
    r.builder.start_origin(begun);
    return {};
  });
  steps().back().origin = std::move(name);
}

void RecordedGraph::begin_region() { regions_.push_back(std::make_shared<Region>()); }

int32_t RecordedGraph::add_region_input() {
  regions_.back()->inputs.push_back(count_);
  return count_++;
}

std::shared_ptr<const RecordedGraph::Region> RecordedGraph::end_region(
    std::vector<int32_t> results) {
  if (regions_.empty()) return std::make_shared<Region>();  // the graph was taken meanwhile
  std::shared_ptr<Region> region = std::move(regions_.back());
  regions_.pop_back();
  region->results = std::move(results);
  return region;
}

void RecordedGraph::replay_region(const Region& region, const std::vector<TensorType>& inputs,
                                  Replay& around, onnx::GraphBuilder& builder) {
  Replay inside{builder, around.bound, &around};
  for (size_t i = 0; i < region.inputs.size(); ++i)
    inside.values.emplace(region.inputs[i], builder.input(inputs[i]));
  run_steps(region.steps, inside);
  for (const int32_t number : region.results) builder.result(inside.at(number));
}

void RecordedGraph::run_steps(const std::vector<Recorded>& steps, Replay& replay) {
  std::string origin;
  for (const Recorded& recorded : steps) {
    if (!recorded.origin.empty()) origin = recorded.origin;
    try {
      int32_t number = recorded.first;
      for (const ValueId v : recorded.step(replay)) replay.values.emplace(number++, v);
    } catch (const onnx::Refusal& refusal) {
      throw onnx::Refusal(of_step(refusal.error(), recorded.what, origin));
    }
  }
}

void RecordedGraph::add_output(int32_t number, std::string name) {
  outputs_.push_back({number, std::move(name)});
}

bool RecordedGraph::has_open_dimensions() const {
  return std::ranges::any_of(inputs_, [](const DeclaredTensor& input) {
    return std::ranges::any_of(*input.dims, [](const auto& dim) { return dim.extent < 0; });
  });
}

ImportedModel RecordedGraph::replay(const ImportOptions& options) const {
  ImportedModel model;
  const onnx::GraphDef declaration = declaration_of(inputs_);
  model.inputs = onnx::bind_inputs(declaration, options);
  if (options.inputs_bound) options.inputs_bound(model.inputs);
  onnx::GraphBuilder builder;
  for (ImportedInput& input : model.inputs) {
    input.graph_input = static_cast<int64_t>(builder.graph().inputs.size());
    builder.name_value(builder.input(input.type, input.name), input.name);
  }
  const std::map<std::string, int64_t> bound = dimensions_of(model.inputs);
  Replay replay{builder, bound};
  run_steps(steps_, replay);
  std::set<std::string> names;
  for (const auto& [number, name] : outputs_) {
    if (!names.insert(name).second)
      onnx::refuse_invalid(fmt::format("two outputs are called '{}'", name));
    builder.graph().add_output(replay.at(number), name);
  }
  model.node_count = static_cast<int64_t>(steps_.size() - inputs_.size());
  onnx::finish_import(builder, model);
  return model;
}

Result<ImportedModel> RecordedGraph::build(const ImportOptions& options) const {
  try {
    if (outputs_.empty()) onnx::refuse_invalid("the graph has no outputs");
    return replay(options);
  } catch (const onnx::Refusal& refusal) {
    return refusal.error();
  }
}

}  // namespace weft
