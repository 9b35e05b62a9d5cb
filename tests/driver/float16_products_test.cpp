#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/cpu/code_features.h"
#include "driver/compiler.h"
#include "driver/session.h"

namespace weft {
namespace {

/// Two products of 16-bit floats, the weights of the first constants; `rows` of them.
std::string products(const std::string& type, int64_t rows, bool constant) {
  const std::string r = std::to_string(rows);
  const std::string w =
      constant ? "  w = iota axis=1 : i32[24,40]\n  wc = convert w : f32[24,40]\n"
                 "  k = constant 0.05 : f32[]\n  kb = broadcast k, dims={} : f32[24,40]\n"
                 "  ws = mul wc, kb : f32[24,40]\n  wr = sin ws : f32[24,40]\n"
                 "  wh = convert wr : " +
                     type + "[24,40]\n"
               : "";
  return "(x: " + type + "[" + r + ",24], v: " + type + "[40,9]" +
         (constant ? "" : ", wh: " + type + "[24,40]") + ") {\n" + w + "  a = add x, x : " + type +
         "[" + r + ",24]\n" +
         "  p = dot_general a, wh, lhs_contract={1}, rhs_contract={0} : " + type + "[" + r +
         ",40]\n  t = tanh p : " + type + "[" + r + ",40]\n" +
         "  y = dot_general t, v, lhs_contract={1}, rhs_contract={0} : " + type + "[" + r +
         ",9]\n} -> (y)";
}

TEST(Float16Products, AreWithinTheirRounding) {
  for (const std::string type : {"f16", "bf16"}) {
    const double unit = type == "f16" ? 0x1p-11 : 0x1p-8;
    for (const int64_t rows : {1, 67}) {
      for (const bool constant : {true, false}) {
        auto graph = parse_graph(products(type, rows, constant));
        ASSERT_TRUE(graph.ok()) << graph.error().message;
        std::vector<HostTensor> inputs;
        for (const ValueId v : graph->inputs) {
          HostTensor t(graph->type(v).dtype, graph->type(v).shape);
          for (int64_t i = 0; i < t.size(); ++i)
            t.set_double(i, 0.01 * static_cast<double>((i * 37) % 101) - 0.5);
          inputs.push_back(std::move(t));
        }
        HostTensor w(inputs[0].dtype(), {24, 40});
        for (int64_t i = 0; i < w.size(); ++i)
          w.set_double(i, std::sin(0.05 * static_cast<double>(i % 40)));
        if (!constant) w = inputs[2];
        CompileOptions options;
        options.verify = true;
        options.device = portable(host_cpu_target(1));  // bfloat_products_test.cpp has the others
        auto compiled = compile_graph(std::move(*graph), options);
        ASSERT_TRUE(compiled.ok()) << compiled.error().message;
        const auto& buffers = (*compiled)->program.buffers;
        const bool widened =
            std::any_of(buffers.begin(), buffers.end(), [](const ProgramBuffer& b) {
              return b.kind == ProgramBuffer::Kind::kConstant && b.dtype == DType::kF32 &&
                     b.bytes >= 24 * 40 * 4;
            });
        EXPECT_EQ(widened, constant && rows > 1) << "weights that are used often are float32";
        auto session = Session::create(std::move((*compiled)->program), 1);
        ASSERT_TRUE(session.ok());
        auto outputs = (*session)->run(inputs);
        ASSERT_TRUE(outputs.ok());
        for (int64_t r = 0; r < rows; ++r) {
          std::vector<double> t(40, 0);
          for (int64_t j = 0; j < 40; ++j) {
            for (int64_t k = 0; k < 24; ++k)
              t[static_cast<size_t>(j)] +=
                  2 * inputs[0].at_double(r * 24 + k) * w.at_double(k * 40 + j);
          }
          for (int64_t c = 0; c < 9; ++c) {
            double y = 0, size = 0;
            for (int64_t j = 0; j < 40; ++j) {
              const double term =
                  std::tanh(t[static_cast<size_t>(j)]) * inputs[1].at_double(j * 9 + c);
              y += term;
              size += std::abs(term);
            }
            EXPECT_NEAR((*outputs)[0].at_double(r * 9 + c), y, 6 * unit * (size + 1e-3))
                << type << ", " << rows << " rows, row " << r << ", column " << c;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
