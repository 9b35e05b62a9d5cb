// AStitch's dominant operations: a reduction, an expensive operation whose result is broadcast and
// an output that only local operations join are one group, a reduction dominates it, and its
// mapping goes on to all others. Here a leaf has one layout, which its reductions decide.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/schedule/expressed.h"
#include "tile/text/template_form.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// By the rank of what statements make, the forms that they have.
std::map<size_t, std::set<std::string>> forms_of(const ScheduledKernel& kernel) {
  std::map<size_t, std::set<std::string>> out;
  for (const TemplateForm& form : template_forms(kernel.program, kernel.scopes))
    out[form.dimensions.size()].insert(print(form));
  return out;
}

ScheduledKernel scheduled(const std::string& graph) {
  const TensorProgram program = expressed(graph);
  auto kernel = schedule_group(program, whole_group(program), *find_target("a100-40gb"), "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return kernel.ok() ? std::move(*kernel) : ScheduledKernel{};
}

/// s reduces, t is expensive and broadcast, t and y are outputs: candidates all. Rows lie as s
/// wants them, each on a warp, wherever they are made; what has no row lies on the warps of the
/// rows.
TEST(DominantOperations, AReductionMapsWhatLocalOperationsJoin) {
  const auto forms = forms_of(scheduled(R"((x: f32[64,512]) {
  a = exp x : f32[64,512]
  s = reduce a, axes={1}, combiner=sum : f32[64]
  t = tanh s : f32[64]
  tb = broadcast t, dims={0} : f32[64,512]
  u = add x, x : f32[64,512]
  y = mul u, tb : f32[64,512]
} -> (y, t))"));
  ASSERT_EQ(forms.size(), 2U);
  ASSERT_EQ(forms.at(2).size(), 1U) << "one mapping of all that has rows";
  ASSERT_EQ(forms.at(1).size(), 1U);
  const std::string& rows = *forms.at(2).begin();
  EXPECT_THAT(rows, HasSubstr("CTA_32")) << "a row is shared by lanes";
  EXPECT_EQ(rows.substr(0, rows.find(',')) + "]", *forms.at(1).begin());
}

/// Without a reduction the output dominates: nothing asks for rows.
TEST(DominantOperations, AnOutputMapsWhatHasNoReduction) {
  const auto forms = forms_of(scheduled(R"((x: f32[64,512]) {
  a = exp x : f32[64,512]
  u = add x, x : f32[64,512]
  y = mul u, a : f32[64,512]
} -> (y))"));
  ASSERT_EQ(forms.size(), 1U);
  EXPECT_EQ(forms.at(1).size(), 1U);
}

/// Reductions that dominate along other axes share no mapping: no leaf holds them.
TEST(DominantOperations, OtherAxesAreAnotherGroup) {
  const TensorProgram program = expressed(R"((x: f32[64,512]) {
  a = exp x : f32[64,512]
  s = reduce a, axes={1}, combiner=sum : f32[64]
  sb = broadcast s, dims={0} : f32[64,512]
  y = div a, sb : f32[64,512]
  c = reduce y, axes={0}, combiner=max : f32[512]
  cb = broadcast c, dims={1} : f32[64,512]
  z = sub y, cb : f32[64,512]
} -> (z))");
  const Decision leaf = is_leaf(program, whole_group(program), *find_target("a100-40gb"));
  ASSERT_FALSE(leaf);
  EXPECT_THAT(leaf.reason(), HasSubstr("reduces other axes than the rest of the group"));
}

}  // namespace
}  // namespace weft
