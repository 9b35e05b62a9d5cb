#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "tests/graph_texts.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// A product that is reduced, and why it is no kernel of the target; empty where it is one.
struct EpilogueCase {
  const char* name;
  std::string graph;
  const char* target;
  const char* reason;
};

void PrintTo(const EpilogueCase& row, std::ostream* out) { *out << row.name; }

std::string sums(int64_t columns, const char* axes, const std::string& type) {
  return product(64, columns, 48, "f16",
                 fmt::format("  y = reduce p, axes={{{}}}, combiner=sum : f16[{}]\n", axes, type));
}

class RowEpilogues : public ::testing::TestWithParam<EpilogueCase> {};

TEST_P(RowEpilogues, AreKernelsOrSayWhyNot) {
  const EpilogueCase& row = GetParam();
  const TensorProgram program = expressed(row.graph);
  const Target target = std::string(row.target) == "cpu" ? two_cores() : *find_target(row.target);
  const Decision decision = is_leaf(program, whole_group(program), target);
  EXPECT_EQ(static_cast<bool>(decision), std::string(row.reason).empty()) << decision.reason();
  if (!decision) EXPECT_THAT(decision.reason(), HasSubstr(row.reason));
}

const EpilogueCase kCases[] = {
    {"HoldRows", sums(200, "1", "64"), "h100-sxm", ""},
    {"HoldColumns", sums(200, "0", "200"), "h100-sxm", ""},
    {"NotBoth", sums(200, "0,1", ""), "h100-sxm",
     "reduces over other axes than the rows or the columns of p"},
    {"LongRowsInParts", sums(5000, "1", "64"), "h100-sxm", ""},
    {"NotLongRowsThatAreReadAgain",
     product(64, 5000, 48, "f16",
             "  m = reduce p, axes={1}, combiner=max : f16[64]\n"
             "  b = broadcast m, dims={0} : f16[64,5000]\n"
             "  y = sub p, b : f16[64,5000]\n",
             "y"),
     "h100-sxm", "no tile of h100-sxm holds 5000 columns of the product at once"},
    {"NeedAGpu", sums(200, "1", "64"), "cpu", "one reduction"},
    // Two reductions over different axes ask for two tiles.
    {"HoldOneOfTwo",
     product(64, 40, 48, "f16",
             "  y = reduce p, axes={0}, combiner=sum : f16[40]\n"
             "  z = reduce p, axes={1}, combiner=sum : f16[64]\n",
             "y, z"),
     "h100-sxm", "z and y reduce over different axes"},
};

INSTANTIATE_TEST_SUITE_P(Product, RowEpilogues, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace weft
