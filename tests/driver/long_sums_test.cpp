#include <gtest/gtest.h>

#include <cmath>

#include "driver/compiler.h"
#include "driver/session.h"

// Sums of many positive terms, beside sums in float64. A register that took one after another would
// be off by 1e-5 of them and more.

namespace weft {
namespace {

HostTensor positive(const Shape& shape) {
  HostTensor x(DType::kF32, shape);
  uint64_t state = 1;
  for (int64_t i = 0; i < x.size(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    x.set_double(i, 0.25 + static_cast<double>(state >> 40) / static_cast<double>(1 << 24));
  }
  return x;
}

HostTensor run(const std::string& text, const std::vector<HostTensor>& inputs) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok());
  CompileOptions options;
  options.threads = 1;
  auto compiled = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  auto session = Session::create(std::move((*compiled)->program), 1);
  EXPECT_TRUE(session.ok());
  auto outputs = (*session)->run(inputs);
  EXPECT_TRUE(outputs.ok());
  return (*outputs)[0];
}

TEST(LongSums, OfColumnsRoundAsShortOnesDo) {
  constexpr int64_t kRows = 1 << 16, kColumns = 20;
  const HostTensor x = positive({kRows, kColumns});
  const HostTensor y = run(R"((x: f32[65536,20]) {
  y = reduce x, axes={0}, combiner=sum : f32[20]
} -> (y))",
                           {x});
  for (int64_t c = 0; c < kColumns; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < kRows; ++r) sum += x.at_double(r * kColumns + c);
    EXPECT_NEAR(y.at_double(c) / sum, 1, 1e-6) << c;
  }
}

TEST(LongSums, OfProductsRoundAsShortOnesDo) {
  constexpr int64_t kRows = 9, kSteps = 30000, kColumns = 33;
  const HostTensor a = positive({kRows, kSteps}), b = positive({kSteps, kColumns});
  const HostTensor y = run(R"((a: f32[9,30000], b: f32[30000,33]) {
  y = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[9,33]
} -> (y))",
                           {a, b});
  for (int64_t i = 0; i < y.size(); ++i) {
    double sum = 0;
    for (int64_t k = 0; k < kSteps; ++k)
      sum += a.at_double(i / kColumns * kSteps + k) * b.at_double(k * kColumns + i % kColumns);
    EXPECT_NEAR(y.at_double(i) / sum, 1, 1e-6) << i;
  }
}

}  // namespace
}  // namespace weft
