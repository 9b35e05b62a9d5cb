#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/fusion_plan.h"
#include "schedule/schedule.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Why everything in a graph is no kernel of the target; empty where it is one.
std::string refused(const std::string& text, const Target& target) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  const Decision decision = can_schedule(program, group, target);
  return decision ? "" : decision.reason();
}

std::string sums(int64_t columns, const std::string& axes, const std::string& type) {
  const std::string n = std::to_string(columns);
  return "(a: f16[64,48], b: f16[48," + n +
         "]) {\n p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[64," + n +
         "]\n y = reduce p, axes={" + axes + "}, combiner=sum : f16[" + type + "]\n} -> (y)";
}

TEST(RowEpilogue, HoldsRowsOrColumnsOfTheProduct) {
  const Target h100 = *find_target("h100-sxm");
  EXPECT_EQ(refused(sums(200, "1", "64"), h100), "");
  EXPECT_EQ(refused(sums(200, "0", "200"), h100), "");
  EXPECT_THAT(refused(sums(200, "0,1", ""), h100),
              HasSubstr("reduces over other axes than the rows or the columns of p"));
  EXPECT_THAT(refused(sums(5000, "1", "64"), h100),
              HasSubstr("no tile of h100-sxm holds 5000 columns of the product at once"));
}

TEST(RowEpilogue, NeedsAGpu) {
  Target cpu;
  cpu.bandwidth = {{1 << 20, 100}};
  EXPECT_THAT(refused(sums(200, "1", "64"), cpu), HasSubstr("one reduction"));
}

/// Two reductions over different axes ask for two tiles.
TEST(RowEpilogue, HoldsOneOfThem) {
  EXPECT_THAT(refused(R"((a: f16[64,48], b: f16[48,40]) {
    p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[64,40]
    y = reduce p, axes={0}, combiner=sum : f16[40]
    z = reduce p, axes={1}, combiner=sum : f16[64]
  } -> (y, z))",
                      *find_target("h100-sxm")),
              HasSubstr("z and y reduce over different axes"));
}

/// Rows of 768 leave a tile of many rows no registers: there the operands' way through the
/// second-level cache costs more than the round trip of the result.
TEST(RowEpilogue, PaysByPrediction) {
  const Target h100 = *find_target("h100-sxm");
  const auto kernels = [&](int64_t rows, int64_t columns) {
    const std::string m = std::to_string(rows), n = std::to_string(columns);
    const TensorProgram program =
        expressed("(a: f16[" + m + ",768], b: f16[768," + n +
                  "]) {\n p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f16[" + m +
                  "," + n + "]\n m = reduce p, axes={1}, combiner=max : f16[" + m +
                  "]\n o = broadcast m, dims={0} : f16[" + m + "," + n + "]\n y = sub p, o : f16[" +
                  m + "," + n + "]\n} -> (y)");
    const auto plan = plan_fusion(program, h100, {});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan.ok() ? plan->kernels.size() : 0;
  };
  EXPECT_EQ(kernels(16384, 768), 2U);
  EXPECT_EQ(kernels(16384, 128), 1U);
  EXPECT_EQ(kernels(128, 768), 1U);
}

}  // namespace
}  // namespace weft
