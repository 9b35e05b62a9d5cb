#include "target/convolution_call.h"

#include <gtest/gtest.h>

#include "target/library_call.h"

namespace weft {
namespace {

const char* const kText =
    "cudnn f16 last 2 images 8 -> 6 groups 2 input 9x11 window 3x5 stride 2x1 dilation 1x2 padding "
    "1x4 x 0 w 1 y 4 bias 2 residual 3 clamps";

ConvolutionCall grouped() {
  ConvolutionCall c;
  c.type = DType::kF16;
  c.channels_last = true;
  c.images = 2;
  c.channels = 8;
  c.features = 6;
  c.groups = 2;
  c.axes = {{.input = 9, .window = 3, .stride = 2, .padding = 1},
            {.input = 11, .window = 5, .dilation = 2, .padding = 4}};
  c.y = 4;
  c.bias = 2;
  c.residual = 3;
  c.clamps = true;
  return c;
}

TEST(ConvolutionCall, PrintsAndParses) {
  EXPECT_EQ(print(LibraryCall(grouped())), kText);
  auto parsed = parse_library_call(kText);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, LibraryCall(grouped()));
  const std::string text = kText;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(text.find(from), from.size(), to);
  };
  for (const std::string& bad :
       {with("f16", "f99"), with("last", "middle"), with("9x11", "9x11x"), with("9x11", "9"),
        with("3x5", "3x5x1"), with("9x11", "9,11"), with("clamps", "gelu"), with("bias 2", "bias"),
        with("residual 3 clamps", "clamps residual 3"), with("y 4", ""), with("-> 6", "6"),
        with("2x1", "1x1x1x1")}) {
    EXPECT_FALSE(parse_library_call(bad).ok()) << bad;
  }
}

TEST(ConvolutionCall, KnowsWhatItTouches) {
  const ConvolutionCall c = grouped();
  EXPECT_EQ(output_extent(c.axes[0]), 5);
  EXPECT_EQ(output_extent(c.axes[1]), 11);
  ASSERT_TRUE(verify_library_call(c, 5).ok());
  const std::vector<CallBuffer> buffers = buffers_of(c);
  ASSERT_EQ(buffers.size(), 5U);
  EXPECT_EQ(buffers[0].elements, 2 * 8 * 9 * 11);
  EXPECT_EQ(buffers[1].elements, 6 * 4 * 3 * 5);
  EXPECT_EQ(buffers[2].elements, 2 * 6 * 5 * 11);
  EXPECT_TRUE(buffers[2].written);
  EXPECT_EQ(buffers[3].elements, 6);
  EXPECT_EQ(buffers[4].elements, buffers[2].elements);
}

TEST(ConvolutionCall, RefusesWhatNoLibraryTakes) {
  const auto refused = [](auto change, const char* what) {
    ConvolutionCall c = grouped();
    change(c);
    const Status status = verify_library_call(c, 5);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().message;
  };
  refused([](ConvolutionCall& c) { c.type = DType::kF64; }, "types");
  refused([](ConvolutionCall& c) { c.bias = -1; }, "without a bias");
  refused([](ConvolutionCall& c) { c.axes.clear(); }, "axes");
  refused([](ConvolutionCall& c) { c.axes[0].stride = 0; }, "size");
  refused([](ConvolutionCall& c) { c.axes[0].padding = -1; }, "size");
  refused([](ConvolutionCall& c) { c.axes[0].padding = int64_t{1} << 31; }, "size");
  refused([](ConvolutionCall& c) { c.groups = 4; }, "groups");
  refused([](ConvolutionCall& c) { c.axes[0].window = 20; }, "fits nowhere");
  refused([](ConvolutionCall& c) { c.images = INT32_MAX; }, "size");
  refused([](ConvolutionCall& c) { c.residual = 5; }, "buffer");
  refused([](ConvolutionCall& c) { c.residual = c.y; }, "writes");
}

}  // namespace
}  // namespace weft
