#include "target/library_call.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

ProductCall dense() {
  return {.operands = DType::kF16,
          .result = DType::kF16,
          .batch = 2,
          .m = 5,
          .n = 7,
          .k = 3,
          .b_transposed = true,
          .a_row = 3,
          .b_row = 3,
          .c_row = 7,
          .a_matrix = 15,
          .b_matrix = 0,
          .c_matrix = 35,
          .bias = 3,
          .clamps = true};
}

TEST(ProductCall, PrintsAndParses) {
  const std::string text =
      "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35 bias 3 clamps";
  EXPECT_EQ(print(LibraryCall(dense())), text);
  auto parsed = parse_library_call(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, LibraryCall(dense()));
  for (const char* bad : {"", "cublaslt", "mkl 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35",
                          "cublaslt 2x5x7 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35",
                          "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 t 7 35",
                          "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35 bias",
                          "cublaslt 2x5x7x3 f99 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35",
                          "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35 gelu"}) {
    EXPECT_FALSE(parse_library_call(bad).ok()) << bad;
  }
}

TEST(ProductCall, KnowsWhatItTouches) {
  const ProductCall c = dense();
  EXPECT_TRUE(verify_library_call(c, 4).ok());
  const std::vector<CallBuffer> buffers = buffers_of(c);
  ASSERT_EQ(buffers.size(), 4U);
  EXPECT_EQ(buffers[0].elements, 30);
  EXPECT_EQ(buffers[1].elements, 21);
  EXPECT_EQ(buffers[2].elements, 70);
  EXPECT_TRUE(buffers[2].written);
  EXPECT_EQ(buffers[3].elements, 7);
  EXPECT_EQ(buffers[3].position, 3);
}

TEST(ProductCall, RefusesWhatNoLibraryTakes) {
  const auto refused = [](auto change, const char* what) {
    ProductCall c = dense();
    change(c);
    const Status status = verify_library_call(c, 4);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().message;
  };
  refused([](ProductCall& c) { c.operands = DType::kI8; }, "types");
  refused([](ProductCall& c) { c.result = DType::kBF16; }, "types");
  refused([](ProductCall& c) { c.k = 0; }, "size");
  refused([](ProductCall& c) { c.bias = 4; }, "buffer");
  refused([](ProductCall& c) { c.c = 0; }, "writes");
  refused([](ProductCall& c) { c.a_row = 2; }, "a has rows that overlap");
  refused([](ProductCall& c) { c.c_matrix = 34; }, "c overlaps");
  refused([](ProductCall& c) { c.b_matrix = -1; }, "b has a negative");
  refused([](ProductCall& c) { c.a_matrix = INT64_MAX / 2; }, "a is larger than memory");
}

}  // namespace
}  // namespace weft
