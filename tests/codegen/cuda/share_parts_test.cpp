#include "codegen/cuda/share_parts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 80;

/// Lines of a kernel that adds up elements of `from` from element `first` on, a line each; names
/// have numbers from `v` on.
std::string sum_part(int v, const std::string& from, const std::string& to, int64_t first,
                     const std::string& last = "") {
  std::string out = "    if (v1) {\n";
  out += fmt::format("      const s32 v{} = v0 * 4;\n", v);
  out += fmt::format("      const float v{} = 0.0f;\n", v + 1);
  for (int i = 2; i < kSteps; ++i) {
    out += fmt::format("      const float v{} = v{} + {}[v{} + {}];\n", v + i, v + i - 1, from, v,
                       first + i);
  }
  out += fmt::format("      {}[v{}] = v{};\n", to, v, v + kSteps - 1);
  return out + last + "    }\n";
}

std::string body(const std::string& parts) {
  return "  WF_SHARED(shared);\n"
         "  float* const b4 = (float*)(shared + 0);  // s\n"
         "  float* const b5 = (float*)(shared + 1024);  // t\n"
         "  {\n"
         "    const s32 v0 = (s32)wf_lane();\n"
         "    const bool v1 = v0 < 8;\n"
         "    float v2;\n" +
         parts + "  }\n";
}

const std::map<std::string, std::string> kParameters = {{"b0", "const float* __restrict__"},
                                                        {"b1", "const float* __restrict__"},
                                                        {"b2", "float*"},
                                                        {"b3", "float*"}};

SharedParts shared(const std::string& parts) { return share_parts(body(parts), "k", kParameters); }

TEST(ShareParts, CallsOneFunctionWithTheirBuffersAndDistances) {
  const SharedParts out = shared(sum_part(100, "b0", "b2", 64) + sum_part(300, "b1", "b3", 4096) +
                                 sum_part(500, "b0", "b3", 64));
  EXPECT_THAT(out.functions,
              HasSubstr("WF_PART void k_part0(s32 p0, const float* __restrict__ p1, float* p2, s32 "
                        "d0) {\n  WF_GLOBAL(p1);\n  WF_GLOBAL(p2);\n  const s32 x1 = p0 * 4;\n"));
  // The distance stands in front of what is the same in all.
  EXPECT_THAT(out.functions, HasSubstr("  const float x3 = x2 + p1[x1 + d0 + 66];\n"));
  EXPECT_THAT(out.functions, Not(HasSubstr("part1")));
  EXPECT_EQ(out.body, body("    if (v1) {\n      k_part0(v0, b0, b2, 0);\n    }\n"
                           "    if (v1) {\n      k_part0(v0, b1, b3, 4032);\n    }\n"
                           "    if (v1) {\n      k_part0(v0, b0, b3, 0);\n    }\n"));
}

TEST(ShareParts, FindsSharedMemoryItself) {
  const SharedParts out = shared(sum_part(100, "b4", "b2", 0) + sum_part(300, "b5", "b2", 0) +
                                 sum_part(500, "b4", "b3", 0));
  EXPECT_THAT(out.functions, HasSubstr("(s32 p0, float* p2, s32 d0) {\n  WF_SHARED(shared);\n  "
                                       "float* const p1 = (float*)(shared + d0 + 0);\n"));
  EXPECT_THAT(out.body, HasSubstr("k_part0(v0, b2, 1024);"));
}

TEST(ShareParts, LeavesWhatDiffers) {
  const std::string other = sum_part(300, "b1", "b3", 64);
  std::string product = other;
  product.replace(product.find(" + b1"), 2, " *");
  for (const std::string& parts :
       {sum_part(100, "b0", "b2", 64) + product,                        // another operation
        sum_part(100, "b0", "b2", 64) + sum_part(300, "b2", "b3", 64),  // another kind of buffer
        sum_part(100, "b0", "b2", 64, "      v2 = v179;\n") +           // what others read
            sum_part(300, "b1", "b3", 64, "      v2 = v379;\n"),
        sum_part(100, "b0", "b2", 64)}) {
    const SharedParts out = shared(parts);
    EXPECT_EQ(out.functions, "");
    EXPECT_EQ(out.body, body(parts));
  }
}

// Pointers that the kernel has in constant memory would take the registers of a part.
TEST(ShareParts, LeavesWhatWouldTakeManyRegistersForPointers) {
  std::map<std::string, std::string> parameters = kParameters;
  const auto with_stores = [&](int v, int stores) {
    std::string out;
    for (int b = 0; b < stores; ++b) {
      parameters[fmt::format("b{}", v + b)] = "float*";
      out += fmt::format("      b{}[v{}] = v{};\n", v + b, v, v + kSteps - 1);
    }
    return sum_part(v, "b0", "b2", 64, out);
  };
  for (const auto& [stores, calls] : {std::pair(8, true), std::pair(16, false)}) {
    const std::string parts =
        with_stores(100, stores) + with_stores(300, stores) + with_stores(500, stores);
    const SharedParts out = share_parts(body(parts), "k", parameters);
    EXPECT_EQ(!out.functions.empty(), calls) << stores;
  }
}

TEST(ShareParts, LooksIntoLoopsWhoseBlocksMeet) {
  const std::string meeting = "    wf_sync_grid(barrier);\n";
  std::string loop;
  for (const std::string& part : {sum_part(100, "b0", "b2", 64), sum_part(300, "b1", "b3", 64),
                                  sum_part(500, "b0", "b3", 64)}) {
    loop += part + meeting;
  }
  for (size_t at = 0; at < loop.size(); at = loop.find('\n', at) + 1) loop.insert(at, "  ");
  const std::string header = "    #pragma unroll 1\n    for (s32 v3 = 0; v3 < 9; v3 += 1) {\n";
  const SharedParts out = shared(header + loop + "    }\n");
  EXPECT_THAT(out.functions, Not(HasSubstr("wf_sync_grid")));
  EXPECT_THAT(out.body,
              HasSubstr(header + "      if (v1) {\n        k_part0(v0, b0, b2);\n      }\n" + "  " +
                        meeting));
}

}  // namespace
}  // namespace weft
