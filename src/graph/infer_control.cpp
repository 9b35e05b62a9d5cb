#include <algorithm>

#include "graph/type_inference.h"

namespace weft {
namespace {

std::vector<TensorType> output_types(const Graph& region) {
  std::vector<TensorType> types;
  for (ValueId v : region.outputs) types.push_back(region.type(v));
  return types;
}

std::string print_all(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + print(type);
  return "(" + text + ")";
}

}  // namespace

Status TypeInference::expect_region(size_t index, const std::vector<TensorType>& inputs) const {
  if (index >= regions.size() || regions[index] == nullptr) {
    return fail("region " + std::to_string(index) + " is missing");
  }
  std::vector<TensorType> actual;
  for (ValueId v : regions[index]->inputs) actual.push_back(regions[index]->type(v));
  if (actual == inputs) return {};
  return fail("region " + std::to_string(index) + " takes " + print_all(actual) + ", not " +
              print_all(inputs));
}

TypeInference::Types TypeInference::if_() const {
  if (operands.empty() || operand(0) != TensorType{DType::kBool, {}}) {
    return fail("the condition must be bool[]");
  }
  if (regions.size() != 2) return fail("takes two regions");
  const std::vector<TensorType> captures(operands.begin() + 1, operands.end());
  WEFT_RETURN_IF_ERROR(expect_region(0, captures));
  WEFT_RETURN_IF_ERROR(expect_region(1, captures));
  std::vector<TensorType> results = output_types(*regions[0]);
  const std::vector<TensorType> other = output_types(*regions[1]);
  if (results != other) {
    return fail("the branches give " + print_all(results) + " and " + print_all(other));
  }
  return results;
}

TypeInference::Types TypeInference::while_() const {
  const int64_t carries = std::get<WhileAttrs>(attrs).carry_count;
  if (carries < 1 || carries > static_cast<int64_t>(operands.size())) {
    return fail("carry_count " + std::to_string(carries) + " is out of range");
  }
  if (regions.size() != 2) return fail("takes two regions");
  WEFT_RETURN_IF_ERROR(expect_region(0, operands));
  WEFT_RETURN_IF_ERROR(expect_region(1, operands));
  if (output_types(*regions[0]) != std::vector<TensorType>{{DType::kBool, {}}}) {
    return fail("the condition region must give bool[]");
  }
  std::vector<TensorType> results(operands.begin(), operands.begin() + carries);
  const std::vector<TensorType> body = output_types(*regions[1]);
  if (body != results) {
    return fail("the body gives " + print_all(body) + ", not " + print_all(results));
  }
  return results;
}

TypeInference::Types TypeInference::scan() const {
  const auto& scan = std::get<ScanAttrs>(attrs);
  const auto count = static_cast<int64_t>(operands.size());
  if (scan.carry_count < 0 || scan.scanned_count < 1 || scan.carry_count > count ||
      scan.scanned_count > count - scan.carry_count) {
    return fail("carry_count and scanned_count do not fit the operands");
  }
  if (regions.size() != 1) return fail("takes one region");
  const auto first_scanned = static_cast<size_t>(scan.carry_count);
  const size_t first_capture = first_scanned + static_cast<size_t>(scan.scanned_count);
  std::vector<TensorType> inputs = operands;
  int64_t trips = 0;
  for (size_t i = first_scanned; i < first_capture; ++i) {
    if (rank(i) == 0) return fail("a scanned operand has no leading axis");
    if (i == first_scanned) trips = shape(i)[0];
    if (shape(i)[0] != trips) return fail("the scanned operands' leading extents differ");
    inputs[i].shape.erase(inputs[i].shape.begin());
  }
  WEFT_RETURN_IF_ERROR(expect_region(0, inputs));
  std::vector<TensorType> results = output_types(*regions[0]);
  if (results.size() < first_scanned ||
      !std::equal(results.begin(), results.begin() + scan.carry_count, operands.begin())) {
    return fail("the region's first outputs must have the carries' types");
  }
  for (size_t i = first_scanned; i < results.size(); ++i) {
    results[i].shape.insert(results[i].shape.begin(), trips);
  }
  if (scan.x_reverse.size() != static_cast<size_t>(scan.scanned_count) ||
      scan.y_reverse.size() != results.size() - first_scanned) {
    return fail("x_reverse and y_reverse need one entry per scanned operand and stacked result");
  }
  return results;
}

}  // namespace weft
