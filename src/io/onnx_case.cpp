#include "io/onnx_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "import/onnx/import_onnx.h"
#include "io/tensor_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// input_0.pb, input_1.pb, … as far as they go.
Result<std::vector<TensorFile>> load_numbered(const fs::path& folder, std::string_view kind) {
  std::vector<TensorFile> tensors;
  for (int i = 0;; ++i) {
    const fs::path file = folder / fmt::format("{}_{}.pb", kind, i);
    std::error_code failed;
    if (!fs::exists(file, failed)) return tensors;
    WEFT_ASSIGN_OR_RETURN(TensorFile tensor, load_pb(file.string()));
    tensors.push_back(std::move(tensor));
  }
}

Result<std::vector<fs::path>> data_sets(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename().string().starts_with("test_data_set_")) {
      found.push_back(entry.path());
    }
  }
  if (failed) return invalid_input("'" + folder + "': " + failed.message());
  if (found.empty()) return invalid_input("'" + folder + "' holds no test_data_set_*");
  std::sort(found.begin(), found.end());
  return found;
}

Status check_data_set(const std::string& model_path, const fs::path& folder,
                      const ModelRunner& runner, Tolerance tolerance) {
  // First the model: files for what is not a tensor cannot be read at all.
  WEFT_ASSIGN_OR_RETURN(const OnnxSignature signature, onnx_signature(model_path));
  WEFT_ASSIGN_OR_RETURN(const std::vector<TensorFile> inputs, load_numbered(folder, "input"));
  WEFT_ASSIGN_OR_RETURN(const std::vector<TensorFile> expected, load_numbered(folder, "output"));
  if (inputs.size() > signature.inputs.size()) {
    return invalid_input(
        fmt::format("{} inputs for a model that takes {}", inputs.size(), signature.inputs.size()));
  }
  ImportOptions options;
  for (size_t i = 0; i < inputs.size(); ++i)
    options.known_inputs[signature.inputs[i].name] = inputs[i].value;
  WEFT_ASSIGN_OR_RETURN(const ImportedModel model, import_onnx(model_path, options));
  std::vector<HostTensor> arguments;
  for (const ImportedInput& input : model.inputs) {
    if (input.graph_input < 0) continue;
    const auto found = options.known_inputs.find(input.name);
    if (found == options.known_inputs.end()) {
      return invalid_input("there is no value for input '" + input.name + "'");
    }
    arguments.push_back(found->second);
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<HostTensor> actual, runner(model, arguments));
  if (actual.size() < expected.size()) {
    return Error{ErrorCode::kComparison,
                 fmt::format("{} outputs instead of {}", actual.size(), expected.size())};
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const Status same = compare_tensors(actual[i], expected[i].value, tolerance);
    if (!same.ok()) {
      return Error{same.error().code, fmt::format("output '{}': {}", model.graph.output_names[i],
                                                  same.error().message)};
    }
  }
  return {};
}

/// Row-major element `i` by its index along each axis.
std::vector<int64_t> position_of(int64_t i, const Shape& shape) {
  std::vector<int64_t> position(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return position;
}

}  // namespace

Status compare_tensors(const HostTensor& actual, const HostTensor& expected, Tolerance tolerance) {
  const TensorType type{actual.dtype(), actual.shape()};
  const TensorType wanted{expected.dtype(), expected.shape()};
  if (type != wanted) {
    return Error{ErrorCode::kComparison,
                 fmt::format("{} instead of {}", print(type), print(wanted))};
  }
  if (expected.dtype() == DType::kBF16) tolerance.relative = std::max(tolerance.relative, 0x1p-6);
  double worst = 0;
  int64_t worst_at = -1, wrong = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (is_integer(expected.dtype()) && actual.at_int(i) == expected.at_int(i)) continue;
    const double a = actual.at_double(i), e = expected.at_double(i);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double excess = std::abs(a - e) / (tolerance.absolute + tolerance.relative * std::abs(e));
    if (excess <= 1) continue;
    ++wrong;
    if (worst_at < 0 || !(excess <= worst)) {
      worst = excess;
      worst_at = i;
    }
  }
  if (wrong == 0) return {};
  return Error{ErrorCode::kComparison,
               fmt::format("{} of {} elements differ, most at [{}]: {} instead of {}", wrong,
                           expected.size(), fmt::join(position_of(worst_at, expected.shape()), ","),
                           actual.at_double(worst_at), expected.at_double(worst_at))};
}

CaseResult check_case(const std::string& folder, const ModelRunner& runner, Tolerance tolerance) {
  CaseResult result{fs::path(folder).filename().string(), CaseStatus::kPassed, {}};
  const auto refuse = [&](const Error& error) {
    const bool skips = error.code == ErrorCode::kUnsupported;
    result.status = skips ? CaseStatus::kSkipped : CaseStatus::kFailed;
    result.reason = error.message;
    return result;
  };
  const auto sets = data_sets(folder);
  if (!sets.ok()) return refuse(sets.error());
  const std::string model_path = (fs::path(folder) / "model.onnx").string();
  for (const fs::path& set : *sets) {
    const Status status = check_data_set(model_path, set, runner, tolerance);
    if (!status.ok()) return refuse(status.error());
  }
  return result;
}

std::vector<CaseResult> check_node_cases(const std::vector<std::string>& folders,
                                         const ModelRunner& runner, Tolerance tolerance) {
  std::vector<CaseResult> results;
  for (const std::string& folder : folders) {
    results.push_back(check_case(folder, runner, tolerance));
  }
  return results;
}

Result<std::vector<std::string>> find_cases(const std::string& root) {
  std::vector<std::string> cases;
  std::error_code failed;
  if (fs::exists(fs::path(root) / "model.onnx", failed)) return std::vector<std::string>{root};
  for (const fs::directory_entry& entry : fs::directory_iterator(root, failed)) {
    if (fs::exists(entry.path() / "model.onnx", failed)) cases.push_back(entry.path().string());
  }
  if (failed) return invalid_input("'" + root + "': " + failed.message());
  std::sort(cases.begin(), cases.end());
  return cases;
}

}  // namespace weft
