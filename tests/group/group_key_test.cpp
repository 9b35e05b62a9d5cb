#include <gtest/gtest.h>

#include <set>
#include <string>

#include "group/group_key.h"
#include "group/group_space.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

/// Twice the same layer, and once one with another constant in it.
const char* const kLayers = R"((x: f32[4,6]) {
  s = constant 2.0 : f32[]
  t = constant 3.0 : f32[]
  sb = broadcast s, dims={} : f32[4,6]
  tb = broadcast t, dims={} : f32[4,6]
  a = mul x, sb : f32[4,6]
  b = exp a : f32[4,6]
  c = mul b, sb : f32[4,6]
  d = exp c : f32[4,6]
  e = mul d, tb : f32[4,6]
  f = exp e : f32[4,6]
} -> (f))";

Group named(const TensorProgram& p, const std::set<std::string>& names,
            const std::set<std::string>& outputs) {
  Group group;
  for (size_t e = 0; e < p.exprs.size(); ++e) {
    const TensorId t = p.exprs[e].output;
    const std::string& name = p.tensors[static_cast<size_t>(t)].name;
    if (names.count(name) != 0) group.exprs.push_back(static_cast<ExprId>(e));
    if (outputs.count(name) != 0) group.outputs.push_back(t);
  }
  return group;
}

TEST(GroupKey, IsThatOfEqualLayers) {
  const TensorProgram p = expressed(kLayers);
  GroupKeys keys(p);
  const GroupKey first = keys.of(named(p, {"a", "b"}, {"b"}));
  EXPECT_EQ(keys.of(named(p, {"c", "d"}, {"d"})).hash, first.hash);
  EXPECT_NE(keys.of(named(p, {"e", "f"}, {"f"})).hash, first.hash) << "another constant";
  EXPECT_NE(keys.of(named(p, {"a", "b"}, {"a", "b"})).hash, first.hash) << "another output";
  EXPECT_NE(keys.of(named(p, {"a"}, {"a"})).hash, first.hash);
}

TEST(GroupKey, PutsNamesIntoTexts) {
  const TensorProgram p = expressed(kLayers);
  GroupKeys keys(p);
  const Group group = named(p, {"c", "d"}, {"d"});
  const GroupKey key = keys.of(group);
  const Target target = *parse_target("name t\nkind cpu\n");
  const auto space = GroupSpace::of(p, group, target, {.key = &key});
  ASSERT_TRUE(space.ok());
  const PhysicalLeaves leaves(p);
  const auto again = GroupSpace::of(p, group, target, {.key = &key, .known = &leaves});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(print(again->program()), print(space->program())) << "from leaves that are known";
  EXPECT_EQ(with_names("<" + space->name_of(0) + "|" + space->name_of(1) + ">", key, p), "<c|d>");
}

}  // namespace
}  // namespace weft
