#include "codegen/cpu/compile_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "codegen/cpu/flatten_object.h"
#include "tests/codegen/cpu/kernel_runner.h"

namespace weft {
namespace {

/// C = A B for one tile of rows x columns: an accumulator for each row and vector, carried over K.
KernelFunction microkernel(int32_t rows, int32_t columns, int32_t lanes, int64_t depth,
                           DType of_rows = DType::kF32) {
  KernelFunction k;
  k.name = "microkernel";
  k.buffers = {make_buffer("a", of_rows, KernelBuffer::Kind::kInput, rows * depth),
               make_buffer("b", DType::kF32, KernelBuffer::Kind::kInput, depth * columns),
               make_buffer("c", DType::kF32, KernelBuffer::Kind::kOutput, rows * columns)};
  KernelBuilder b(k);
  b.begin_phase(1);
  const auto sum = [&](Reg x, int64_t y) {
    return b.apply(ScalarOp::kAdd, {x, b.int_constant(y)}, DType::kI64);
  };
  const int32_t vectors = columns / lanes;
  const Reg zero = b.constant({DType::kF32, lanes}, float_value(DType::kF32, 0));
  std::vector<Reg> tile(static_cast<size_t>(rows * vectors), zero);
  tile = b.for_loop(
      b.int_constant(0), b.int_constant(depth), 1, tile, [&](Reg d, std::vector<Reg> acc) {
        const Reg row = b.apply(ScalarOp::kMul, {d, b.int_constant(columns)}, DType::kI64);
        for (int32_t r = 0; r < rows; ++r) {
          const Reg read = b.load(0, sum(d, r * depth), 1);
          const Reg x = b.broadcast(b.apply(ScalarOp::kConvert, {read}, DType::kF32), lanes);
          for (int32_t v = 0; v < vectors; ++v) {
            Reg& a = acc[static_cast<size_t>(r * vectors + v)];
            a = b.fma(x, b.load(1, sum(row, v * lanes), lanes), a);
          }
        }
        return acc;
      });
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t v = 0; v < vectors; ++v) {
      b.store(2, b.int_constant(r * columns + v * lanes),
              tile[static_cast<size_t>(r * vectors + v)]);
    }
  }
  b.end_phase();
  return k;
}

void expect_product(int32_t rows, int32_t columns, int bytes) {
  const Target target = host_cpu_target(1, bytes);
  if (target.vector_bytes != bytes) GTEST_SKIP() << "the machine has no vectors of " << bytes;
  constexpr int64_t kDepth = 37;
  const KernelFunction kernel = microkernel(rows, columns, target.lanes(4), kDepth);
  // Whole numbers: every order of the sums gives the same.
  std::vector<float> a(static_cast<size_t>(rows * kDepth)), c(static_cast<size_t>(rows * columns));
  std::vector<float> b(static_cast<size_t>(kDepth * columns));
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11) - 5;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  run_compiled(kernel, target, {a.data(), b.data(), c.data()});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      float want = 0;
      for (int64_t d = 0; d < kDepth; ++d) {
        want += a[static_cast<size_t>(r * kDepth + d)] * b[static_cast<size_t>(d * columns + n)];
      }
      ASSERT_EQ(c[static_cast<size_t>(r * columns + n)], want) << r << ", " << n;
    }
  }
  const auto code = kernel_code_text(kernel, target);
  ASSERT_TRUE(code.ok());
  EXPECT_THAT(*code, testing::Not(testing::HasSubstr("Spill")));
  EXPECT_THAT(*code, testing::HasSubstr("vfmadd"));
}

TEST(Microkernel, Holds8x48InRegisters) { expect_product(8, 48, 64); }
TEST(Microkernel, Holds14x32InRegisters) { expect_product(14, 32, 64); }
TEST(Microkernel, Holds6x16InRegisters) { expect_product(6, 16, 32); }

TEST(CompileKernel, IsTheSameEveryTimeAndOnEveryThread) {
  const KernelFunction kernel = microkernel(4, 16, 16, 20);
  const Target target = host_cpu_target(1);
  const auto first = compile_kernel(kernel, target);
  ASSERT_TRUE(first.ok());
  std::vector<std::thread> threads;
  std::vector<KernelImage> images(4);
  for (KernelImage& image : images) {
    threads.emplace_back([&] {
      auto compiled = compile_kernel(kernel, target);
      if (compiled.ok()) image = std::move(*compiled);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const KernelImage& image : images) {
    EXPECT_EQ(image.bytes, first->bytes);
    EXPECT_EQ(image.hash, first->hash);
  }
}

TEST(CompileKernel, KeepsToTheFeaturesOfTheTarget) {
  const KernelFunction kernel = microkernel(2, 16, 16, 20);
  const auto narrow = kernel_code_text(kernel, host_cpu_target(1, 16));
  ASSERT_TRUE(narrow.ok());
  EXPECT_THAT(*narrow, testing::Not(testing::HasSubstr("%ymm")));
  EXPECT_THAT(*narrow, testing::Not(testing::HasSubstr("vfmadd")));
  const auto middle = kernel_code_text(kernel, host_cpu_target(1, 32));
  ASSERT_TRUE(middle.ok());
  EXPECT_THAT(*middle, testing::Not(testing::HasSubstr("%zmm")));
}

/// Elements of 16 bits are loaded and repeated at once, then converted: converted one by one, each
/// waits for the register that its lane is put into.
TEST(CompileKernel, RepeatsHalvesBeforeItConvertsThem) {
  Target target = host_cpu_target(1, 32);
  if (std::ranges::count(target.features, "avx2") + std::ranges::count(target.features, "f16c") < 2)
    GTEST_SKIP() << "the machine has no AVX2";
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const auto text = kernel_code_text(microkernel(6, 16, 8, 20, type), target);
    ASSERT_TRUE(text.ok());
    EXPECT_THAT(*text, testing::HasSubstr("vpbroadcastw"));
    EXPECT_THAT(*text, testing::Not(testing::HasSubstr("vpinsrw")));
    EXPECT_THAT(*text, testing::Not(testing::HasSubstr("vbroadcastss")));
  }
}

TEST(CompileKernel, RefusesATargetThatIsNoCpu) {
  Target target = host_cpu_target(1);
  target.kind = Target::Kind::kGpu;
  const auto image = compile_kernel(microkernel(1, 4, 4, 2), target);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, ErrorCode::kUnsupported);
}

/// The oldest x86-64, whatever this machine is: nothing may fall back to a library's function.
TEST(CompileKernel, NeedsNoLibraryOnTheOldestMachine) {
  Target target = host_cpu_target(1, 16);
  target.features.clear();
  target.cpu = "x86-64";
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const ScalarOp op : {ScalarOp::kFloor, ScalarOp::kCeil, ScalarOp::kTrunc,
                              ScalarOp::kRoundEven, ScalarOp::kExp, ScalarOp::kSin}) {
      for (const int32_t lanes : {1, 4}) {
        KernelFunction k;
        k.name = std::string(scalar_op_name(op));
        k.buffers = {make_buffer("x", type, KernelBuffer::Kind::kInput, 32),
                     make_buffer("y", type, KernelBuffer::Kind::kOutput, 32)};
        KernelBuilder b(k);
        const auto [begin, end] = b.begin_phase(32);
        b.for_loop(begin, end, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
          const Reg x = b.load(0, iv, lanes);
          b.store(1, iv, b.apply(op, {b.fma(x, x, x)}, type));
          return std::vector<Reg>{};
        });
        b.end_phase();
        const auto image = compile_kernel(k, target);
        ASSERT_TRUE(image.ok()) << image.error().message << " " << dtype_name(type);
      }
    }
  }
}

TEST(FlattenObject, RefusesWhatIsNoObject) {
  const std::string symbols[] = {"phase0"};
  EXPECT_FALSE(cpu::flatten_object("", symbols).ok());
  EXPECT_FALSE(cpu::flatten_object("\x7f"
                                   "ELF and then nothing",
                                   symbols)
                   .ok());
}

}  // namespace
}  // namespace weft
