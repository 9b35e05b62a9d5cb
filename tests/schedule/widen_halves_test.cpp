#include "group/widen_halves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "group/collapse_axes.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Target gpu() {
  Target target;
  target.kind = Target::Kind::kGpu;
  return target;
}

/// The tensor expressions of a graph as one group, after widening.
std::string widened(const std::string& text, const Target& target = Target()) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  GroupView view = std::move(collapse_axes(program, group)->view);
  widen_halves(&view, target);
  return print(view.program);
}

TEST(WidenHalves, RoundsOnlyWhatReachesMemory) {
  EXPECT_EQ(widened(R"((a: f16[8], b: f16[8]) {
    s = add a, b : f16[8]
    c = mul s, s : f16[8]
    y = exp c : f16[8]
  } -> (s, y))"),
            R"(program {
  s: f16[8] = f16(f32(a[d0]) + f32(b[d0]))
  c: f32[8] = f32(s[d0]) * f32(s[d0])
  y: f16[8] = f16(exp(c[d0]))
}
)");
}

TEST(WidenHalves, ReducesInFloat32) {
  EXPECT_EQ(widened(R"((x: bf16[4,8]) {
    m = reduce x, axes={1}, combiner=max : bf16[4]
    b = broadcast m, dims={0} : bf16[4,8]
    d = sub x, b : bf16[4,8]
    y = reduce d, axes={1}, combiner=sum : bf16[4]
  } -> (y))"),
            R"(program {
  m: f32[4] = max[8]:f32 f32(x[d0, r0])
  d: f32[4,8] = f32(x[d0, d1]) - m[d0]
  y: bf16[4] = sum[8]:f32 d[d0, r0]
}
)");
}

TEST(WidenHalves, KeepsConversionsOfTheModelAndWhatAContractionReads) {
  const char* product = R"((x: f32[4,8], w: f16[8,4]) {
    c = convert x : f16[4,8]
    s = add c, c : f16[4,8]
    y = dot_general s, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f16[4,4]
  } -> (y))";
  EXPECT_EQ(widened(product, gpu()), R"(program {
  c: f32[4,8] = f32(f16(x[d0, d1]))
  s: f16[4,8] = f16(c[d0, d1] + c[d0, d1])
  y: f16[4,4] = contraction sum[8]:f32 f32(s[d0, r0]) * f32(w[r0, d1])
}
)");
  EXPECT_EQ(widened(product), R"(program {
  c: f32[4,8] = f32(f16(x[d0, d1]))
  s: f32[4,8] = c[d0, d1] + c[d0, d1]
  y: f16[4,4] = contraction sum[8]:f32 s[d0, r0] * f32(w[r0, d1])
}
)") << "a CPU multiplies float32";
}

/// Where the processor multiplies pairs of bfloat16, also between two products of a kernel's
/// stages.
TEST(WidenHalves, KeepsWhatACpuMultipliesInPairs) {
  const char* product = R"((x: f32[4,2]) {
    w = constant {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8} : bf16[2,8]
    c = convert x : bf16[4,2]
    y = dot_general c, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f32[4,8]
  } -> (y))";
  Target pairs;
  pairs.features = {"avx512bf16"};
  EXPECT_THAT(widened(product, pairs), HasSubstr(R"(
  c: bf16[4,2] = bf16(x[d0, d1])
  y: f32[4,8] = contraction sum[2]:f32 f32(c[d0, r0]) * f32(w[r0, d1])
)"));
  EXPECT_THAT(widened(product), HasSubstr(R"(
  c: f32[4,2] = f32(bf16(x[d0, d1]))
  y: f32[4,8] = contraction sum[2]:f32 c[d0, r0] *)"));
}

TEST(WidenHalves, ComparesWhatWasNotRounded) {
  EXPECT_EQ(widened(R"((x: f16[8]) {
    s = add x, x : f16[8]
    p = gt s, x : bool[8]
    i = convert s : i32[8]
    z = convert p : i32[8]
    y = add i, z : i32[8]
  } -> (y))"),
            R"(program {
  s: f32[8] = f32(x[d0]) + f32(x[d0])
  p: bool[8] = s[d0] > f32(x[d0])
  i: i32[8] = i32(s[d0])
  z: i32[8] = i32(p[d0])
  y: i32[8] = i[d0] + z[d0]
}
)");
}

}  // namespace
}  // namespace weft
