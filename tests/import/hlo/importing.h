#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "import/hlo/import_hlo.h"
#include "interp/interpreter.h"

namespace weft::hlo {

/// The printed graph, or the error's message.
inline std::string import_text(std::string_view text) {
  const auto imported = import_hlo(text);
  if (!imported.ok()) return "error: " + imported.error().message;
  const Status verified = verify_graph(imported->graph);
  if (!verified.ok()) return "not verified: " + verified.error().message;
  return print(imported->graph) + "\n";
}

inline std::string import_error(std::string_view text, ErrorCode code = ErrorCode::kInvalidInput) {
  const auto imported = import_hlo(text);
  if (imported.ok()) return "no error";
  EXPECT_EQ(imported.error().code, code) << imported.error().message;
  return imported.error().message;
}

inline HostTensor tensor_of(DType type, Shape shape, const std::vector<double>& values) {
  HostTensor tensor(type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (is_float(type)) {
      tensor.set_double(at, values[i]);
    } else {
      tensor.set_int(at, static_cast<int64_t>(values[i]));
    }
  }
  return tensor;
}
inline HostTensor floats(Shape shape, const std::vector<double>& values) {
  return tensor_of(DType::kF32, std::move(shape), values);
}
inline HostTensor ints(Shape shape, const std::vector<double>& values) {
  return tensor_of(DType::kI32, std::move(shape), values);
}

/// `body` as the entry computation, behind `before`.
inline std::string module_of(std::string_view body, std::string_view before = {}) {
  return "HloModule m\n" + std::string(before) + "\nENTRY main {\n" + std::string(body) + "\n}\n";
}

/// Imports, interprets, and gives the elements of each output.
inline std::vector<std::vector<double>> run_all(std::string_view text,
                                                const std::vector<HostTensor>& inputs) {
  const auto imported = import_hlo(text);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  if (!imported.ok()) return {};
  const Status verified = verify_graph(imported->graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  const auto outputs = interpret(imported->graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  if (!outputs.ok()) return {};
  std::vector<std::vector<double>> values;
  for (const HostTensor& output : *outputs) {
    values.emplace_back();
    for (int64_t i = 0; i < output.size(); ++i) values.back().push_back(output.at_double(i));
  }
  return values;
}

/// The elements of the only output.
inline std::vector<double> run(std::string_view text, const std::vector<HostTensor>& inputs) {
  const auto values = run_all(text, inputs);
  EXPECT_EQ(values.size(), 1U);
  return values.empty() ? std::vector<double>() : values[0];
}

/// Equal up to float32 rounding; NaN equals NaN.
inline void expect_values(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size()) << testing::PrintToString(actual);
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i] || (std::isnan(expected[i]) && std::isnan(actual[i]))) continue;
    EXPECT_NEAR(actual[i], expected[i], 1e-6 * (1 + std::abs(expected[i])))
        << "element " << i << " of " << testing::PrintToString(actual);
  }
}

/// Computations that many modules call.
inline constexpr std::string_view kAdd = R"(add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
)";
inline constexpr std::string_view kMax = R"(max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
)";

}  // namespace weft::hlo
