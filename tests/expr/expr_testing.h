#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "expr/express/express.h"
#include "interp/interpreter.h"
#include "support/hash.h"

namespace weft {

inline Graph parsed_graph(const std::string& text) {
  Result<Graph> graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? std::move(*graph) : Graph{};
}

inline TensorProgram expressed(const Graph& graph) {
  Result<TensorProgram> program = express(graph);
  EXPECT_TRUE(program.ok()) << program.error().message;
  if (!program.ok()) return {};
  const Status status = verify_tensor_program(*program);
  EXPECT_TRUE(status.ok()) << status.error().message << "\n" << print(*program);
  return std::move(*program);
}

/// "" when equal, floats to a few units in the last place of what was summed; else what differs.
inline std::string difference_near(const std::vector<HostTensor>& a,
                                   const std::vector<HostTensor>& b) {
  if (a.size() != b.size()) return "numbers of tensors differ";
  for (size_t t = 0; t < a.size(); ++t) {
    const DType type = a[t].dtype();
    const std::string where = "output " + std::to_string(t) + " ";
    if (type != b[t].dtype() || a[t].shape() != b[t].shape()) return where + "has another type";
    double largest = 0;
    for (int64_t i = 0; is_float(type) && i < a[t].size(); ++i) {
      if (std::isfinite(a[t].at_double(i))) {
        largest = std::max(largest, std::fabs(a[t].at_double(i)));
      }
    }
    const double unit = type == DType::kF64   ? 1e-13
                        : type == DType::kF32 ? 1e-6
                        : type == DType::kF16 ? 2e-3
                                              : 2e-2;
    for (int64_t i = 0; i < a[t].size(); ++i) {
      if (!is_float(type)) {
        if (a[t].at_int(i) == b[t].at_int(i)) continue;
        return where + "element " + std::to_string(i) + ": " + std::to_string(a[t].at_int(i)) +
               " and " + std::to_string(b[t].at_int(i));
      }
      const double x = a[t].at_double(i), y = b[t].at_double(i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (std::fabs(x - y) <= unit * largest) continue;
      return where + "element " + std::to_string(i) + ": " + std::to_string(x) + " and " +
             std::to_string(y);
    }
  }
  return "";
}

/// parse(print(program)) prints the same.
inline void expect_round_trip(const TensorProgram& program) {
  std::map<std::string, HostTensor> constants;
  const std::function<void(const TensorProgram&)> collect = [&](const TensorProgram& p) {
    for (const Tensor& t : p.tensors) {
      if (t.kind == Tensor::Kind::kConstant) constants[to_hex(content_hash(t.value))] = t.value;
    }
    for (const OpaqueExpr& o : p.opaques) {
      for (const auto& region : o.regions) collect(*region);
    }
  };
  collect(program);
  const std::string text = print(program);
  const Result<TensorProgram> back = parse_tensor_program(
      text, [&](std::string_view hash, const TensorType& type) -> Result<HostTensor> {
        return constants.at(std::string(hash)).reshaped(type.shape);
      });
  ASSERT_TRUE(back.ok()) << back.error().message << "\n" << text;
  EXPECT_EQ(print(*back), text);
}

/// Verifies the program and compares what it computes.
inline void expect_computes(const TensorProgram& program, const std::vector<HostTensor>& inputs,
                            const std::vector<HostTensor>& expected) {
  const Status status = verify_tensor_program(program);
  ASSERT_TRUE(status.ok()) << status.error().message << "\n" << print(program);
  const Result<std::vector<HostTensor>> got = evaluate(program, inputs);
  ASSERT_TRUE(got.ok()) << got.error().message << "\n" << print(program);
  EXPECT_EQ(difference_near(expected, *got), "") << print(program);
}

}  // namespace weft
