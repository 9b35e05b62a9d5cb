#include "driver/models/quantize_file.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "driver/models/load_or_compile.h"
#include "import/onnx/import_onnx.h"
#include "import/onnx/tensor_proto.h"
#include "quantize/model_text.h"
#include "support/folder_of.h"

namespace weft {

namespace {

using Values = std::map<std::string, HostTensor>;

/// What is in memory lives as long as its owner.
MappedFile in_memory(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {owner, std::as_bytes(std::span(owner->data(), owner->size()))};
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

class QuantizeFile {
 public:
  QuantizeFile(const QuantizeRequest& request, MappedFile file, std::string folder)
      : request_(request), file_(std::move(file)), source_{file_.owner, std::move(folder)} {}

  Result<QuantizedFile> run();

 private:
  Result<Values> observed(std::string_view model, const std::set<std::string>& names,
                          const GivenInputs& inputs) const;
  Result<std::map<std::string, onnx::ValueRange>> ranges(
      const std::vector<onnx::QuantizedLayer>& layers) const;

  const QuantizeRequest& request_;
  MappedFile file_;
  onnx::TensorSource source_;
};

/// Values of a model that it makes on the way, or is given, by name.
Result<Values> QuantizeFile::observed(std::string_view model, const std::set<std::string>& names,
                                      const GivenInputs& inputs) const {
  CompileOptions options = request_.model.options;
  options.import.known_inputs = inputs.values;
  WEFT_ASSIGN_OR_RETURN(const OnnxSignature signature, onnx_signature(file_));
  std::set<std::string> further = names;
  for (const auto* list : {&signature.inputs, &signature.outputs}) {
    for (const auto& tensor : *list) further.erase(tensor.name);
  }
  const ModelSource source(
      in_memory(onnx::with_outputs(model, {further.begin(), further.end()}, source_)));
  WEFT_ASSIGN_OR_RETURN(CompiledModel compiled, load_or_compile(source, options));
  const std::vector<ProgramIo> program = compiled.program.inputs;
  std::vector<std::string> outputs;
  for (const ProgramIo& io : compiled.program.outputs) outputs.push_back(io.name);
  WEFT_ASSIGN_OR_RETURN(const auto session,
                        Session::create(std::move(compiled.program), options.threads));
  WEFT_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                        program_inputs(compiled.inputs, program, inputs));
  WEFT_ASSIGN_OR_RETURN(std::vector<HostTensor> made, session->run(values));
  Values out;
  for (size_t i = 0; i < program.size(); ++i) out.emplace(program[i].name, values[i]);
  for (size_t i = 0; i < made.size(); ++i) out.insert_or_assign(outputs[i], std::move(made[i]));
  return out;
}

/// Of all that the layers read and make in float32, over all calibration inputs.
Result<std::map<std::string, onnx::ValueRange>> QuantizeFile::ranges(
    const std::vector<onnx::QuantizedLayer>& layers) const {
  std::set<std::string> names;
  for (const onnx::QuantizedLayer& l : layers) {
    if (l.bits == 8) names.insert({l.input, l.output});
  }
  std::map<std::string, onnx::ValueRange> out;
  for (const Values& inputs : request_.calibration) {
    WEFT_ASSIGN_OR_RETURN(const Values values,
                          observed(text_of(file_), names, {inputs, request_.model.inputs.seed}));
    for (const std::string& name : names) {
      const auto found = values.find(name);
      if (found == values.end() || found->second.dtype() != DType::kF32) continue;
      onnx::ValueRange& range = out[name];
      const auto* v = found->second.data<float>();
      for (int64_t i = 0; i < found->second.size(); ++i) {
        if (!std::isfinite(v[i])) continue;
        range = {std::min(range.low, v[i]), std::max(range.high, v[i])};
      }
    }
  }
  return out;
}

double relative_error(const HostTensor& value, const HostTensor& exact) {
  double errors = 0, size = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    const double e = exact.at_double(i), d = value.at_double(i) - e;
    if (!std::isfinite(e) || !std::isfinite(d)) continue;
    errors += d * d;
    size += e * e;
  }
  return size > 0 ? std::sqrt(errors / size) : std::sqrt(errors);
}

Result<QuantizedFile> QuantizeFile::run() {
  onnx::QuantizeOptions options{request_.bits, request_.exclude, {}};
  WEFT_ASSIGN_OR_RETURN(onnx::QuantizedModel model,
                        onnx::quantize_model(file_, source_.folder, options));
  if (!request_.calibration.empty()) {
    WEFT_ASSIGN_OR_RETURN(options.ranges, ranges(model.layers));
    WEFT_ASSIGN_OR_RETURN(model, onnx::quantize_model(file_, source_.folder, options));
  }
  std::set<std::string> outputs;
  for (const onnx::QuantizedLayer& l : model.layers) outputs.insert(l.output);
  GivenInputs inputs = request_.model.inputs;
  if (!request_.calibration.empty()) inputs.values = request_.calibration.front();
  WEFT_ASSIGN_OR_RETURN(const Values exact, observed(text_of(file_), outputs, inputs));
  WEFT_ASSIGN_OR_RETURN(const Values rounded, observed(model.bytes, outputs, inputs));
  QuantizedFile out{std::move(model.bytes), {}};
  for (onnx::QuantizedLayer& l : model.layers) {
    const auto here = rounded.find(l.output), there = exact.find(l.output);
    const bool both = here != rounded.end() && there != exact.end() &&
                      here->second.shape() == there->second.shape();
    const double error = both ? relative_error(here->second, there->second) : NAN;
    out.layers.push_back({std::move(l), error});
  }
  return out;
}

}  // namespace

Result<QuantizedFile> quantize_file(const QuantizeRequest& request) {
  WEFT_ASSIGN_OR_RETURN(MappedFile file, map_file(request.model.model));
  return QuantizeFile(request, std::move(file), folder_of(request.model.model)).run();
}

}  // namespace weft
