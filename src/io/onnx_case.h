#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/builder/imported_model.h"
#include "support/result.h"
#include "support/tensor.h"

namespace weft {

/// Runs an imported model on the inputs that its graph still has, in graph order; gives its
/// outputs.
using ModelRunner = std::function<Result<std::vector<HostTensor>>(
    const ImportedModel& model, const std::vector<HostTensor>& inputs)>;

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// Whether |actual - expected| <= absolute + relative * |expected| for every element (two NaNs and
/// equal infinities agree, types and shapes are equal; bfloat16 gets at least two units in the last
/// place); kComparison says which element is the worst.
Status compare_tensors(const HostTensor& actual, const HostTensor& expected, Tolerance tolerance);

enum class CaseStatus : uint8_t { kPassed, kFailed, kSkipped };

struct CaseResult {
  std::string name;
  CaseStatus status = CaseStatus::kPassed;
  std::string reason;  ///< of a failure, or of a skipped case: what is not supported
};

/// One ONNX backend test: DIR/model.onnx and, in DIR/test_data_set_*, input_*.pb and output_*.pb in
/// the order of the model's inputs and outputs. The model is imported with the inputs known, run
/// and compared for each data set.
CaseResult check_case(const std::string& folder, const ModelRunner& runner,
                      Tolerance tolerance = {});

/// Several, in the order given.
std::vector<CaseResult> check_node_cases(const std::vector<std::string>& folders,
                                         const ModelRunner& runner, Tolerance tolerance = {});

/// The folders below `root` that hold a model.onnx, by name.
Result<std::vector<std::string>> find_cases(const std::string& root);

}  // namespace weft
