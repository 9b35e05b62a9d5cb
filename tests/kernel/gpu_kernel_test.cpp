#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernel/kernel_function.h"
#include "kernel/uniformity.h"

namespace weft {
namespace {

constexpr const char* kEverything = R"(kernel "everything" {
  gpu blocks 2 warps 2 per_sm 1 shared 1024
  buffer 0 "x" input f16[1024] align 16
  buffer 1 "y" output f32[1024] align 16
  buffer 2 "s" shared f16[256] align 16 offset 512
  phase 2 (%0, %1) {
    %2: i64 = position lane
    %3: i64 = position warp
    %4: i64 = position block
    %5: bool = apply lt %2, %3
    copy_async 2[%3], 0[%2] x8
    copy_async 2[%3], 0[%2] x4 mask %5
    commit_async
    wait_async 1
    barrier block
    %6: u32, %7: u32 = load_matrix 2[%2] x2 transposed
    %8: u32, %9: u32, %10: u32, %11: u32 = load_matrix 2[%2] x4
    %12: f32 = const 0
    %13: f32, %14: f32, %15: f32, %16: f32 = matrix_multiply m16n8k16_f16 %8, %9, %10, %11, %6, %7, %12, %12, %12, %12
    %17: f32 = warp_xor %13 [16]
    %18: f32 = warp_pick %17, %3
    barrier warp
    barrier grid
    store 1[%2], %18
  }
}
)";

TEST(GpuKernelText, PrintsWhatItParses) {
  const auto kernel = parse_kernel(kEverything);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(print(*kernel), kEverything);
  const Status status = verify_kernel(*kernel);
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_TRUE(has_grid_barrier(*kernel));
}

constexpr const char* kByGroup = R"(kernel "by_group" {
  gpu blocks 1 warps 4 per_sm 0 shared 17408
  buffer 0 "a" shared f16[4096] align 16
  buffer 1 "b" shared f16[4096] align 16 offset 8192
  buffer 2 "y" output f32[1] align 16
  phase 1 (%0, %1) {
    %2: i64 = const 0
    %3: f32 = const 0
    %4: f32, %5: f32, %6: f32, %7: f32 = group_multiply m64k16_f16 columns 8 depth 64 0[%2] panels 4096, 1[%2] panels 4096 across, under_way, %3, %3, %3, %3
    %8: f32, %9: f32, %10: f32, %11: f32 = group_wait %4, %5, %6, %7
    store 2[%2], %8
  }
}
)";

TEST(GpuKernelText, WarpGroups) {
  const auto kernel = parse_kernel(kByGroup);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(print(*kernel), kByGroup);
  EXPECT_TRUE(verify_kernel(*kernel).ok()) << verify_kernel(*kernel).error().message;
  const auto refusal = [](std::string_view from, std::string_view to) {
    std::string text = kByGroup;
    text.replace(text.find(from), from.size(), to);
    const auto other = parse_kernel(text);
    EXPECT_TRUE(other.ok()) << to;
    const Status status = verify_kernel(*other);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_THAT(refusal("offset 8192", "offset 8256"), testing::HasSubstr("multiple of 1024 bytes"));
  EXPECT_THAT(refusal("panels 4096,", "panels 100,"), testing::HasSubstr("multiple of 1024 bytes"));
  EXPECT_THAT(refusal("warps 4", "warps 2"), testing::HasSubstr("whole groups of four warps"));
  EXPECT_THAT(refusal("columns 8", "columns 16"), testing::HasSubstr("8 to 256 columns"));
  EXPECT_THAT(refusal("m64k16_f16", "m64k16_bf16"), testing::HasSubstr("panels of bf16"));
  EXPECT_THAT(refusal("m64k16_f16", "m16n8k16_f16"), testing::HasSubstr("of this unit"));
}

TEST(GpuKernelText, HashSeesWhatInstructionsHold) {
  const auto hash_with = [](std::string_view from, std::string_view to) {
    std::string text = kEverything;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto kernel = parse_kernel(text);
    EXPECT_TRUE(kernel.ok()) << to;
    return kernel_hash(*kernel);
  };
  const uint64_t hash = hash_with("everything", "another");
  EXPECT_EQ(hash, hash_with("everything", "everything"));
  EXPECT_NE(hash, hash_with("position lane", "position warp"));
  EXPECT_NE(hash, hash_with("copy_async 2", "copy_async 1"));
  EXPECT_NE(hash, hash_with("0[%2] x8", "1[%2] x8"));
  EXPECT_NE(hash, hash_with("0[%2] x8", "0[%2] x4"));
  EXPECT_NE(hash, hash_with("wait_async 1", "wait_async 0"));
  EXPECT_NE(hash, hash_with("barrier block", "barrier warp"));
  EXPECT_NE(hash, hash_with(" transposed", ""));
  EXPECT_NE(hash, hash_with("2[%2] x4", "2[%2] x2"));
  EXPECT_NE(hash, hash_with("m16n8k16_f16", "m16n8k16_bf16"));
  EXPECT_NE(hash, hash_with("[16]", "[8]"));
}

std::string in_block_of_64(const std::string& body) {
  return R"(kernel "k" {
    gpu blocks 1 warps 2 per_sm 0 shared 256
    buffer 0 "x" input f32[64] align 16
    buffer 1 "y" output f32[64] align 16
    buffer 2 "s" shared f32[64] align 16
    phase 1 (%0, %1) {
      %2: i64 = position lane
      %3: i64 = position warp
      %4: i64 = const 32
      %5: i64 = apply mul %3, %4
      %6: i64 = apply add %5, %2
      %7: f32 = load 0[%6]
)" + body +
         "} }";
}

/// y of a kernel over x = 0, 1, 2, ….
Result<std::vector<float>> run(const std::string& body) {
  auto kernel = parse_kernel(in_block_of_64(body));
  if (!kernel.ok()) return kernel.take_error();
  WEFT_RETURN_IF_ERROR(verify_kernel(*kernel));
  std::vector<float> x(64), y(64, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  WEFT_RETURN_IF_ERROR(execute_kernel(
      *kernel, {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y))}, {}));
  return y;
}

TEST(GpuKernelExecution, ExchangesBetweenLanes) {
  const auto y = run(R"(
      %8: f32 = warp_xor %7 [1]
      store 1[%6], %8
)");
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_EQ((*y)[0], 1);
  EXPECT_EQ((*y)[33], 32);
}

TEST(GpuKernelExecution, SharesMemoryInABlock) {
  const auto y = run(R"(
      store 2[%6], %7
      barrier block
      %8: i64 = const 63
      %9: i64 = apply sub %8, %6
      %10: f32 = load 2[%9]
      store 1[%6], %10
)");
  ASSERT_TRUE(y.ok()) << y.error().message;
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ((*y)[i], static_cast<float>(63 - i));
}

TEST(GpuKernelExecution, RunsLoopsAndBranchesByThread) {
  const auto y = run(R"(
      %8: i64 = const 0
      %9: i64 = const 1
      %10: f32 = const 0
      %14: f32 = for (%11: i64 = %8 to %2 step %9, %12: f32 = %10) {
        %13: f32 = apply add %12, %7
        yield %13
      }
      %15: bool = apply lt %2, %9
      if %15 {
        store 1[%6], %7
      } else {
        store 1[%6], %14
      }
)");
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_EQ((*y)[32], 32);
  EXPECT_EQ((*y)[5], 25);
  EXPECT_EQ((*y)[35], 105);
}

TEST(GpuKernelVerifier, RefusesWhatNotAllThreadsReach) {
  const auto barrier = run(R"(
      %8: bool = apply lt %2, %3
      if %8 { barrier block }
      store 1[%6], %7
)");
  ASSERT_FALSE(barrier.ok());
  EXPECT_THAT(barrier.error().message, testing::HasSubstr("not all threads come"));
  // A warp's threads agree on the warp's number.
  const auto warp = run(R"(
      %8: i64 = const 1
      %9: bool = apply lt %3, %8
      %10: f32 = if %9 {
        %11: f32 = warp_xor %7 [2]
        yield %11
      } else { yield %7 }
      store 1[%6], %10
)");
  ASSERT_TRUE(warp.ok()) << warp.error().message;
  EXPECT_EQ((*warp)[0], 2);
  EXPECT_EQ((*warp)[40], 40);
}

TEST(GpuKernelVerifier, RefusesGpuInstructionsOnACpu) {
  const auto kernel = parse_kernel(R"(kernel "k" {
    buffer 0 "y" output f32[1] align 4
    phase 1 (%0, %1) { %2: i64 = position lane } })");
  ASSERT_TRUE(kernel.ok());
  EXPECT_FALSE(verify_kernel(*kernel).ok());
}

/// A CPU's threads wait for each other where the loops around have the same bounds in all.
TEST(KernelVerifier, RefusesBarriersThatNotAllThreadsReach) {
  const auto verified = [](const std::string& end) {
    const auto kernel = parse_kernel(R"(kernel "k" {
      arguments 1
      buffer 0 "y" output f32[8] align 4
      phase 8 (%0, %1) {
        %2: i64 = const 0
        %3: i64 = const 1
        %4: i64 = argument 0
        %5: f32 = const 0.5
        for (%6: i64 = %2 to )" + end +
                                     R"( step %3) {
          barrier grid
          for (%7: i64 = %0 to %1 step %3) { store 0[%7], %5 }
        }
      } })");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_TRUE(kernel->inner_barriers);
    return verify_kernel(*kernel);
  };
  EXPECT_TRUE(verified("%4").ok());
  const Status own = verified("%1");
  ASSERT_FALSE(own.ok());
  EXPECT_THAT(own.error().message, testing::HasSubstr("not all threads come"));
}

TEST(Uniformity, FollowsCarriesAndConditions) {
  const auto kernel = parse_kernel(in_block_of_64(R"(
      %8: i64 = const 1
      %9: i64 = const 4
      %14: i64 = for (%10: i64 = %8 to %9 step %8, %11: i64 = %8) {
        %12: i64 = apply add %11, %3
        yield %12
      }
      store 1[%6], %7
)"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto uniformity = derive_uniformity(*kernel);
  EXPECT_EQ(uniformity[10], Uniformity::kBlock);
  EXPECT_EQ(uniformity[11], Uniformity::kWarp);
  EXPECT_EQ(uniformity[14], Uniformity::kWarp);
  EXPECT_EQ(uniformity[6], Uniformity::kThread);
}

/// One warp multiplies 16x16 by 16x8 through shared memory, ldmatrix and mma.
TEST(GpuKernelExecution, MultipliesFragments) {
  const auto kernel = parse_kernel(R"(kernel "k" {
    gpu blocks 1 warps 1 per_sm 0 shared 1024
    buffer 0 "a" input f16[256] align 16
    buffer 1 "b" input f16[128] align 16
    buffer 2 "c" output f32[128] align 16
    buffer 3 "sa" shared f16[256] align 16
    buffer 4 "sb" shared f16[128] align 16 offset 512
    phase 1 (%0, %1) {
      %2: i64 = position lane
      %3: i64 = const 8
      %4: i64 = apply mul %2, %3
      copy_async 3[%4], 0[%4] x8
      %5: i64 = const 4
      %6: i64 = apply mul %2, %5
      copy_async 4[%6], 1[%6] x4
      commit_async
      wait_async 0
      barrier block
      %7: i64 = const 16
      %8: i64 = apply rem %2, %7
      %9: i64 = apply div %2, %7
      %10: i64 = apply mul %8, %7
      %11: i64 = apply mul %9, %3
      %12: i64 = apply add %10, %11
      %13: u32, %14: u32, %15: u32, %16: u32 = load_matrix 3[%12] x4
      %17: i64 = apply mul %8, %3
      %18: u32, %19: u32 = load_matrix 4[%17] x2 transposed
      %20: f32 = const 0
      %21: f32, %22: f32, %23: f32, %24: f32 = matrix_multiply m16n8k16_f16 %13, %14, %15, %16, %18, %19, %20, %20, %20, %20
      %25: i64 = apply div %2, %5
      %26: i64 = apply rem %2, %5
      %27: i64 = apply mul %25, %3
      %28: i64 = const 2
      %29: i64 = apply mul %26, %28
      %30: i64 = apply add %27, %29
      %31: i64 = const 1
      %32: i64 = apply add %30, %31
      %33: i64 = const 64
      %34: i64 = apply add %30, %33
      %35: i64 = apply add %34, %31
      store 2[%30], %21
      store 2[%32], %22
      store 2[%34], %23
      store 2[%35], %24
    } })");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  ASSERT_TRUE(verify_kernel(*kernel).ok()) << verify_kernel(*kernel).error().message;
  // Small integers as f16: 0..7 exactly.
  const uint16_t halves[8] = {0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
  std::vector<uint16_t> a(256), b(128);
  std::vector<float> c(128, -1);
  const auto va = [](int64_t i, int64_t k) { return (i * 3 + k) % 8; };
  const auto vb = [](int64_t k, int64_t j) { return (k * 5 + j) % 8; };
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t k = 0; k < 16; ++k) a[static_cast<size_t>(i * 16 + k)] = halves[va(i, k)];
  }
  for (int64_t k = 0; k < 16; ++k) {
    for (int64_t j = 0; j < 8; ++j) b[static_cast<size_t>(k * 8 + j)] = halves[vb(k, j)];
  }
  const Status status =
      execute_kernel(*kernel,
                     {std::as_writable_bytes(std::span(a)), std::as_writable_bytes(std::span(b)),
                      std::as_writable_bytes(std::span(c))},
                     {});
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < 16; ++k) sum += va(i, k) * vb(k, j);
      EXPECT_EQ(c[static_cast<size_t>(i * 8 + j)], static_cast<float>(sum)) << i << " " << j;
    }
  }
}

/// Two clusters of two blocks: each thread of a block reads what the same thread of the other block
/// left.
std::string swaps_in_cluster(const std::string& barrier, const std::string& rank = "%5") {
  return R"(kernel "k" {
  gpu blocks 4 warps 1 per_sm 0 shared 256 cluster 2
  buffer 0 "x" input f32[128] align 16
  buffer 1 "y" output f32[128] align 16
  buffer 2 "s" shared f32[32] align 16
  phase 4 (%0, %1) {
    %2: i64 = const 2
    %3: i64 = const 1
    %4: i64 = apply rem %0, %2
    %5: i64 = apply sub %3, %4
    %6: i64 = position lane
    %7: i64 = const 32
    %8: i64 = apply mul %0, %7
    %9: i64 = apply add %8, %6
    %10: f32 = load 0[%9]
    store 2[%6], %10
)" + barrier +
         R"(    %20: bool = apply lt %6, %7
    %21: f32 = load_cluster 2[%6] of )" +
         rank + R"( mask %20 else 0
    store 1[%9], %21
    barrier cluster
  }
}
)";
}

TEST(GpuKernelExecution, ReadsFromOtherBlocksOfACluster) {
  const std::string text = swaps_in_cluster("    barrier cluster\n");
  const auto kernel = parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(print(*kernel), text);
  ASSERT_TRUE(verify_kernel(*kernel).ok()) << verify_kernel(*kernel).error().message;
  std::vector<float> x(128), y(128, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const std::vector<std::span<std::byte>> memory{std::as_writable_bytes(std::span(x)),
                                                 std::as_writable_bytes(std::span(y))};
  const Status status = execute_kernel(*kernel, memory, {});
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], static_cast<float>(i ^ 32)) << i;
  const auto beyond = parse_kernel(swaps_in_cluster("    barrier cluster\n", "%7"));
  ASSERT_TRUE(beyond.ok()) << beyond.error().message;
  const Status refused = execute_kernel(*beyond, memory, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("block 32 of a cluster of 2"));
}

TEST(GpuKernelVerifier, RefusesWhatNotAllBlocksOfAClusterReach) {
  const auto verify = [](const std::string& text) {
    const auto kernel = parse_kernel(text);
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return verify_kernel(*kernel);
  };
  // Blocks of one cluster agree on the number by two, and not on what is left of it.
  EXPECT_TRUE(verify(swaps_in_cluster("    %11: i64 = apply div %0, %2\n"
                                      "    %12: bool = apply lt %11, %3\n"
                                      "    if %12 { barrier cluster }\n"))
                  .ok());
  const Status own = verify(swaps_in_cluster(
      "    %12: bool = apply lt %4, %3\n    if %12 { barrier block }\n    if %12 { barrier cluster "
      "}\n"));
  ASSERT_FALSE(own.ok());
  EXPECT_THAT(own.error().message, testing::HasSubstr("not all threads come"));
  // What a block has in its own memory is its own.
  EXPECT_FALSE(verify(swaps_in_cluster("    %11: i64 = const 0\n    %12: f32 = load 2[%11]\n"
                                       "    %13: f32 = const 0\n"
                                       "    %14: bool = apply lt %12, %13\n"
                                       "    if %14 { barrier cluster }\n"))
                   .ok());
  std::string odd = swaps_in_cluster("    barrier cluster\n");
  odd.replace(odd.find("cluster 2"), 9, "cluster 3");
  EXPECT_FALSE(verify(odd).ok());
  odd.replace(odd.find("cluster 3"), 9, "cluster 1");
  EXPECT_FALSE(verify(odd).ok());
}

TEST(GpuKernel, SaysWhichLibraryCallDoesTheSame) {
  const std::string text = R"(kernel "k" {
  gpu blocks 1 warps 1 per_sm 0 shared 0
  library "cublaslt 1x4x8x2 f32 -> f32 a 0 n 2 0 b 1 n 8 0 c 2 n 8 0"
  buffer 0 "a" input f32[8] align 4
  buffer 1 "b" input f32[16] align 4
  buffer 2 "c" output f32[32] align 4
  phase 1 (%0, %1) {
    %2: i64 = const 0
    %3: f32 = load 0[%2]
    store 2[%2], %3
  }
}
)";
  auto kernel = parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(print(*kernel), text);
  EXPECT_TRUE(verify_kernel(*kernel).ok());
  KernelFunction other = *kernel;
  other.library.reset();
  EXPECT_NE(kernel_digest(other), kernel_digest(*kernel));

  other = *kernel;
  other.buffers[1].elements = 15;
  EXPECT_FALSE(verify_kernel(other).ok());
  other = *kernel;
  std::get<ProductCall>(*other.library).result = DType::kF16;
  EXPECT_FALSE(verify_kernel(other).ok());
  EXPECT_FALSE(parse_kernel("kernel \"k\" {\n  library \"cublaslt\"\n}\n").ok());
}

}  // namespace
}  // namespace weft
