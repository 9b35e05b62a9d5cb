#include "codegen/cuda/approximations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/emit_cuda.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The text of a kernel that makes %6 of a loaded float %5, and stores %8 of what `rest` makes.
std::string text_of(const std::string& function, const std::string& rest,
                    const std::string& stored = "f16") {
  auto kernel = parse_kernel(R"(kernel "k" {
    gpu blocks 1 warps 1 per_sm 0 shared 0
    buffer 0 "x" input f32[64] align 16
    buffer 1 "y" output )" + stored +
                             R"([64] align 16
    phase 1 (%0, %1) {
      %2: i64 = position lane
      %3: f32 = const 2
      %4: bool = apply lt %0, %2
      %5: f32 = load 0[%2]
      %6: f32 = apply )" + function +
                             " %5\n" + rest + R"(
      store 1[%2], %8
    } })");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return emit_cuda(*kernel).text;
}

TEST(Approximations, OfWhatIsRoundedTo16Bits) {
  for (const char* function : {"exp", "sigmoid"}) {
    const auto fast = HasSubstr(std::string("wf_") + function + "_fast(");
    EXPECT_THAT(text_of(function, "%7: f32 = apply mul %5, %6 %8: f16 = apply convert %7"), fast);
    EXPECT_THAT(
        text_of(function, "%7: f32 = apply select %4, %6, %3 %8: bf16 = apply convert %7", "bf16"),
        fast);
    // A difference may be much smaller than its operands.
    EXPECT_THAT(text_of(function, "%7: f32 = apply sub %6, %3 %8: f16 = apply convert %7"),
                Not(fast));
    // float32 is made of it, too.
    EXPECT_THAT(text_of(function, "%7: f32 = apply mul %6, %3 %8: f32 = apply neg %7", "f32"),
                Not(fast));
  }
  EXPECT_THAT(text_of("tanh", "%7: f32 = apply mul %5, %6 %8: f16 = apply convert %7"),
              Not(HasSubstr("_fast(")));
}

}  // namespace
}  // namespace weft
