#include "target/library_call.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

LibraryCall dense() {
  return {.library = "cublaslt",
          .operands = DType::kF16,
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

TEST(LibraryCall, PrintsAndParses) {
  const std::string text =
      "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35 bias 3 clamps";
  EXPECT_EQ(print(dense()), text);
  auto parsed = parse_library_call(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, dense());
  for (const char* bad :
       {"", "cublaslt", "cublaslt 2x5x7 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35",
        "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 t 7 35",
        "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35 bias",
        "cublaslt 2x5x7x3 f99 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35",
        "cublaslt 2x5x7x3 f16 -> f16 a 0 n 3 15 b 1 t 3 0 c 2 n 7 35 gelu"}) {
    EXPECT_FALSE(parse_library_call(bad).ok()) << bad;
  }
}

TEST(LibraryCall, KnowsWhatItTouches) {
  const LibraryCall c = dense();
  EXPECT_TRUE(verify_library_call(c, 4).ok());
  EXPECT_EQ(elements_touched(c, 0), 30);
  EXPECT_EQ(elements_touched(c, 1), 21);
  EXPECT_EQ(elements_touched(c, 2), 70);
  EXPECT_EQ(elements_touched(c, 3), 7);
  EXPECT_EQ(elements_touched(c, 4), 0);
}

TEST(LibraryCall, RefusesWhatNoLibraryTakes) {
  const auto refused = [](auto change, const char* what) {
    LibraryCall c = dense();
    change(c);
    const Status status = verify_library_call(c, 4);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().message;
  };
  refused([](LibraryCall& c) { c.library = "mkl"; }, "mkl");
  refused([](LibraryCall& c) { c.operands = DType::kI8; }, "types");
  refused([](LibraryCall& c) { c.result = DType::kBF16; }, "types");
  refused([](LibraryCall& c) { c.k = 0; }, "size");
  refused([](LibraryCall& c) { c.bias = 4; }, "buffer");
  refused([](LibraryCall& c) { c.c = 0; }, "writes");
  refused([](LibraryCall& c) { c.a_row = 2; }, "a has rows that overlap");
  refused([](LibraryCall& c) { c.c_matrix = 34; }, "c overlaps");
  refused([](LibraryCall& c) { c.b_matrix = -1; }, "b has a negative");
  refused([](LibraryCall& c) { c.a_matrix = INT64_MAX / 2; }, "a is larger than memory");
}

}  // namespace
}  // namespace weft
