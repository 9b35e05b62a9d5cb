#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

#include "codegen/cpu/code_features.h"
#include "tests/codegen/cpu/kernel_runner.h"

namespace weft {
namespace {

constexpr DType kAllTypes[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
                               DType::kU8,   DType::kU16, DType::kU32, DType::kU64, DType::kF16,
                               DType::kBF16, DType::kF32, DType::kF64};
constexpr int64_t kCount = 64;

void fill(std::span<std::byte> bytes, DType type, uint64_t seed) {
  std::mt19937_64 random(seed);
  with_storage(type, [&](auto s) {
    using S = decltype(s);
    using T = typename S::Value;
    for (size_t i = 0; i < bytes.size() / sizeof(typename S::Raw); ++i) {
      const auto number = static_cast<int64_t>(random() % 199) - 99;
      T value;
      if constexpr (std::is_floating_point_v<T>) {
        value = static_cast<T>(number) / 8;
      } else {
        value = static_cast<T>(number);
      }
      const typename S::Raw raw = S::store(value);
      std::memcpy(bytes.data() + i * sizeof raw, &raw, sizeof raw);
    }
  });
}

/// Buffers for a kernel's parameters; those named "indices" as given, the others filled.
std::vector<GuardedBuffer> make_buffers(const KernelFunction& kernel,
                                        const std::vector<int64_t>& indices) {
  std::vector<GuardedBuffer> buffers;
  for (const KernelBuffer& b : kernel.buffers) {
    if (b.kind == KernelBuffer::Kind::kScratch) continue;
    GuardedBuffer& buffer = buffers.emplace_back(b.dtype, b.elements);
    if (b.name == "indices") {
      std::memcpy(buffer.data(), indices.data(), indices.size() * sizeof(int64_t));
    } else {
      fill(buffer.span(), b.dtype, 17 * buffers.size());
    }
  }
  return buffers;
}

/// Runs the kernel, compiled for each of the machines, and by reference: all buffers must be the
/// same, byte for byte, with nothing touched around them.
void expect_as_reference(const KernelFunction& kernel, const std::vector<Target>& machines,
                         const std::vector<std::vector<int64_t>>& argument_sets = {{}},
                         const std::vector<int64_t>& indices = {}) {
  for (const Target& target : machines) {
    SCOPED_TRACE(std::to_string(target.vector_bytes) + " bytes");
    const auto compiled = load_compiled(kernel, target);
    ASSERT_NE(compiled, nullptr);
    for (const std::vector<int64_t>& arguments : argument_sets) {
      std::vector<GuardedBuffer> reference = make_buffers(kernel, indices);
      std::vector<std::span<std::byte>> spans;
      for (GuardedBuffer& buffer : reference) spans.push_back(buffer.span());
      const Status status = execute_kernel(kernel, spans, arguments);
      ASSERT_TRUE(status.ok()) << status.error().message;
      std::vector<GuardedBuffer> buffers = make_buffers(kernel, indices);
      std::vector<void*> pointers;
      for (GuardedBuffer& buffer : buffers) pointers.push_back(buffer.data());
      run_loaded(*compiled, kernel, pointers, arguments);
      for (size_t i = 0; i < buffers.size(); ++i) {
        EXPECT_TRUE(buffers[i].guards_intact()) << kernel.buffers[i].name;
        const size_t size = reference[i].span().size();
        EXPECT_EQ(std::memcmp(buffers[i].data(), reference[i].data(), size), 0)
            << kernel.buffers[i].name << " of\n"
            << print(kernel);
      }
    }
  }
}

/// Every way to read and write a buffer of `type`, `lanes` at a time.
KernelFunction memory_kernel(DType type, int32_t lanes) {
  KernelFunction k;
  k.name = "memory";
  k.buffers = {make_buffer("x", type, KernelBuffer::Kind::kInput, kCount),
               make_buffer("indices", DType::kI64, KernelBuffer::Kind::kInput, kCount),
               make_buffer("loaded", type, KernelBuffer::Kind::kOutput, kCount),
               make_buffer("masked", type, KernelBuffer::Kind::kOutput, kCount),
               make_buffer("gathered", type, KernelBuffer::Kind::kOutput, kCount),
               make_buffer("scattered", type, KernelBuffer::Kind::kOutput, kCount),
               make_buffer("tail", type, KernelBuffer::Kind::kOutput, 5)};
  KernelBuilder b(k);
  const auto [begin, end] = b.begin_phase(kCount);
  const Reg rest = b.argument(0);
  const ScalarValue other = is_float(type) ? float_value(type, 2.5) : int_value(type, 1);
  b.for_loop(begin, end, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
    const Reg mask = b.lane_mask(rest, lanes);
    const Reg x = b.load(0, iv, lanes);
    const Reg offsets = b.load(1, iv, lanes);
    b.store(2, iv, x);
    b.store(3, iv, b.load(0, iv, lanes, mask, other), mask);
    b.store(4, iv, b.gather(0, offsets));
    b.scatter(5, offsets, x);
    const Reg odd = b.apply(ScalarOp::kNot, {mask}, DType::kBool);
    b.scatter(5, offsets, b.gather(0, offsets, odd, other), odd);
    return std::vector<Reg>{};
  });
  // Five elements where a vector would reach beyond the buffer.
  const Reg five = b.lane_mask(b.int_constant(5), std::max(lanes, 8));
  b.store(6, b.int_constant(0),
          b.load(0, b.int_constant(kCount - 5), std::max(lanes, 8), five, other), five);
  b.end_phase();
  return k;
}

/// Gathers bytes from a table, with and without a mask.
KernelFunction look_up_kernel(DType type, int64_t table_bytes, int32_t lanes) {
  KernelFunction k;
  k.name = "look_up";
  k.buffers = {make_buffer("table", type, KernelBuffer::Kind::kInput, table_bytes),
               make_buffer("indices", DType::kI64, KernelBuffer::Kind::kInput, kCount),
               make_buffer("found", type, KernelBuffer::Kind::kOutput, kCount),
               make_buffer("some", type, KernelBuffer::Kind::kOutput, kCount)};
  KernelBuilder b(k);
  const auto [begin, end] = b.begin_phase(kCount);
  const Reg rest = b.argument(0);
  b.for_loop(begin, end, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
    const Reg offsets = b.load(1, iv, lanes);
    b.store(2, iv, b.gather(0, offsets));
    const Reg mask = b.lane_mask(rest, lanes);
    const Reg nowhere = b.broadcast(b.int_constant(int64_t{1} << 50), lanes);
    const Reg far = b.apply(ScalarOp::kSelect, {mask, offsets, nowhere}, DType::kI64);
    b.store(3, iv, b.gather(0, far, mask, int_value(type, 1)));
    return std::vector<Reg>{};
  });
  b.end_phase();
  return k;
}

class KernelOps : public ::testing::TestWithParam<int32_t> {};

TEST_P(KernelOps, LookBytesUpInTables) {
  std::mt19937_64 random(5);
  std::vector<Target> machines = machines_for_lanes(GetParam());
  for (Target target : machines_for_lanes(GetParam())) {
    std::erase(target.features, "avx512vbmi");
    machines.push_back(std::move(target));
  }
  for (const int64_t bytes : {256, 100, 101}) {
    std::vector<int64_t> indices(kCount);
    for (int64_t& i : indices) i = static_cast<int64_t>(random()) & 255;
    for (int64_t& i : indices) i = std::min(i, bytes - 1);
    for (const DType type : {DType::kU8, DType::kI8, DType::kBool}) {
      expect_as_reference(look_up_kernel(type, bytes, GetParam()), machines,
                          {{0}, {1}, {GetParam()}}, indices);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(KernelOps, ReadAndWriteEveryType) {
  std::vector<int64_t> indices(kCount);
  std::mt19937_64 random(3);
  for (int64_t& i : indices) i = static_cast<int64_t>(random() % kCount);  // some are repeated
  for (const DType type : kAllTypes) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    expect_as_reference(memory_kernel(type, GetParam()), machines_for_lanes(GetParam()),
                        {{-3}, {0}, {1}, {GetParam() / 2 + 1}, {int64_t{1} << 40}}, indices);
    if (HasFatalFailure()) return;
  }
}

/// Numbers of `type` made narrower than they were computed, of which one reaches memory.
KernelFunction single_lane_kernel(DType type, int32_t lanes) {
  KernelFunction k;
  k.name = "single_lane";
  k.buffers = {make_buffer("x", DType::kI32, KernelBuffer::Kind::kInput, kCount),
               make_buffer("y", type, KernelBuffer::Kind::kOutput, 1)};
  KernelBuilder b(k);
  const Reg begin = b.begin_phase(1).first;
  const Reg x = b.load(0, begin, lanes);
  const Reg sum = b.apply(ScalarOp::kAdd, {x, x}, DType::kI32);
  b.store(1, begin, b.apply(ScalarOp::kConvert, {sum}, type),
          b.lane_mask(b.int_constant(1), lanes));
  b.end_phase();
  return k;
}

TEST_P(KernelOps, WriteOneLaneAndNothingBehindIt) {
  const int32_t lanes = std::max(GetParam(), 4);
  for (const DType type : kAllTypes) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    expect_as_reference(single_lane_kernel(type, lanes), machines_for_lanes(lanes));
    if (HasFatalFailure()) return;
  }
}

/// Reductions, shuffles, extracts, ramps and broadcasts of one type.
KernelFunction lanes_kernel(DType type, int32_t lanes) {
  KernelFunction k;
  k.name = "lanes";
  k.buffers = {make_buffer("x", type, KernelBuffer::Kind::kInput, kCount),
               make_buffer("y", type, KernelBuffer::Kind::kOutput, 4 * kCount)};
  KernelBuilder b(k);
  const Reg begin = b.begin_phase(1).first;
  const Reg x = b.load(0, begin, lanes);
  const Reg y =
      b.load(0, b.apply(ScalarOp::kAdd, {begin, b.int_constant(lanes)}, DType::kI64), lanes);
  int64_t next = 0;
  const auto put = [&](Reg r) {
    b.store(1, b.int_constant(next), r);
    next += b.type(r).lanes;
  };
  for (const Combiner c : {Combiner::kSum, Combiner::kProd, Combiner::kMin, Combiner::kMax,
                           Combiner::kAnd, Combiner::kOr}) {
    if (!scalar_op_accepts(*combiner_op(c), type)) continue;
    put(b.reduce_lanes(c, x));
    put(b.reduce_lanes(c, y));
  }
  put(b.extract(x, lanes - 1));
  put(b.broadcast(b.extract(y, lanes / 2), lanes));
  put(b.broadcast(b.load(0, b.int_constant(5), 1), lanes));
  std::vector<int32_t> picked;
  for (int32_t l = 0; l < lanes; ++l) picked.push_back((l * 7 + 3) % (2 * lanes));
  put(b.shuffle(x, y, picked));
  picked.resize(static_cast<size_t>(std::max(1, lanes / 2)));
  put(b.shuffle(y, x, picked));
  if (is_integer(type)) put(b.ramp(type, lanes));
  if (is_float(type)) put(b.fma(x, y, b.broadcast(b.extract(x, 0), lanes)));
  b.end_phase();
  return k;
}

TEST_P(KernelOps, MoveAndJoinLanes) {
  for (const DType type : kAllTypes) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    expect_as_reference(lanes_kernel(type, GetParam()), machines_for_lanes(GetParam()));
    if (HasFatalFailure()) return;
  }
}

/// Entries, negative ones among them, at places whose upper bits are to be ignored.
constexpr const char* kLookUp = R"(kernel "k" {{
  buffer 0 "x" input i32[64] align 4
  buffer 1 "floats" output f32[64] align 4
  buffer 2 "integers" output i32[64] align 4
  phase 1 (%0, %1) {{
    %2: i32{0} = load 0[%0]
    %3: f32{0} = look_up %2 [{1}]
    store 1[%0], %3
    %4: i32{0} = look_up %2 [{1}]
    store 2[%0], %4
  }}
}}
)";

TEST_P(KernelOps, LookEntriesUpByFourBits) {
  const std::string lanes = GetParam() == 1 ? "" : fmt::format("x{}", GetParam());
  const std::string text = fmt::format(
      kLookUp, lanes,
      "-1056964608, 1073741824, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, -2147483648, 2147483647");
  const auto kernel = parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(print(*kernel), text);
  const Status status = verify_kernel(*kernel);
  ASSERT_TRUE(status.ok()) << status.error().message;
  expect_as_reference(*kernel, machines_for_lanes(GetParam()));
}

/// Products of random numbers of two types, and of those at the ends, which saturate where sums of
/// two are 16 bits.
KernelFunction dot_kernel(int32_t lanes, DType left_type, DType type) {
  const bool words = left_type == DType::kI16;
  const int32_t elements = (words ? 2 : 4) * lanes;
  KernelFunction k;
  k.name = "dot";
  k.buffers = {make_buffer("sums", DType::kI32, KernelBuffer::Kind::kInput, lanes),
               make_buffer("a", left_type, KernelBuffer::Kind::kInput, elements),
               make_buffer("b", type, KernelBuffer::Kind::kInput, elements),
               make_buffer("out", DType::kI32, KernelBuffer::Kind::kOutput, 6 * lanes)};
  KernelBuilder b(k);
  b.begin_phase(1);
  const Reg zero = b.int_constant(0);
  const Reg a = b.load(1, zero, elements);
  const auto equal = [&](DType of, int64_t value) {
    return b.constant({of, elements}, int_value(of, value));
  };
  int64_t next = 0;
  for (const Reg right : {b.load(2, zero, elements), equal(type, -128), equal(type, 127)}) {
    for (const Reg left : {a, equal(left_type, words ? -32768 : 255)}) {
      b.store(3, b.int_constant(next), b.dot(b.load(0, zero, lanes), left, right));
      next += lanes;
    }
  }
  b.end_phase();
  return k;
}

TEST_P(KernelOps, MultiplyBytesWithAndWithoutAnInstructionForIt) {
  std::vector<Target> machines = machines_for_lanes(GetParam());
  const size_t own = machines.size();
  for (size_t m = 0; m < own; ++m) machines.push_back(portable(machines[m]));
  expect_as_reference(dot_kernel(GetParam(), DType::kU8, DType::kI8), machines);
}

TEST_P(KernelOps, MultiplyPairsOfWords) {
  std::vector<Target> machines = machines_for_lanes(GetParam());
  const size_t own = machines.size();
  for (size_t m = 0; m < own; ++m) machines.push_back(portable(machines[m]));
  expect_as_reference(dot_kernel(GetParam(), DType::kI16, DType::kI16), machines);
}

/// What a quantisation does: numbers at halves, beyond all bounds and none, rounded to even, moved
/// by a constant and narrowed to `type`.
KernelFunction quantising_kernel(DType type, int32_t lanes) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 16> kNumbers = {
      0.5,     -0.5, 1.5,  -1.5,  2.5,  254.5,   255.5,   -128.5,
      -0x1p31, 1e30, kInf, -kInf, -0.0, 32766.5, 65534.5, std::numeric_limits<double>::quiet_NaN()};
  KernelFunction k;
  k.name = "quantising";
  constexpr std::array<double, 5> kZeros = {0, -0.0, 3, -128, 65535};
  k.buffers = {make_buffer("y", type, KernelBuffer::Kind::kOutput,
                           std::ssize(kNumbers) * std::ssize(kZeros) * lanes)};
  KernelBuilder b(k);
  b.begin_phase(1);
  const auto number = [&](double value) {
    return b.constant({DType::kF32, lanes}, float_value(DType::kF32, value));
  };
  int64_t next = 0;
  for (const double x : kNumbers) {
    for (const double zero : kZeros) {
      const Reg rounded = b.apply(ScalarOp::kRoundEven, {number(x)}, DType::kF32);
      const Reg moved = b.apply(ScalarOp::kAdd, {rounded, number(zero)}, DType::kF32);
      b.store(0, b.int_constant(next), b.apply(ScalarOp::kConvert, {moved}, type));
      next += lanes;
    }
  }
  b.end_phase();
  return k;
}

TEST_P(KernelOps, QuantiseToEveryNarrowType) {
  for (const DType type : {DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kI32}) {
    SCOPED_TRACE(std::string(dtype_name(type)));
    expect_as_reference(quantising_kernel(type, GetParam()), machines_for_lanes(GetParam()));
    if (HasFatalFailure()) return;
  }
}

/// Products of pairs of bfloat16, whose rounding depends on the order of the additions.
KernelFunction bfloat_dot_kernel(int32_t lanes) {
  KernelFunction k;
  k.name = "bfloat_dot";
  k.buffers = {make_buffer("sums", DType::kF32, KernelBuffer::Kind::kInput, lanes),
               make_buffer("a", DType::kBF16, KernelBuffer::Kind::kInput, 2 * lanes),
               make_buffer("b", DType::kBF16, KernelBuffer::Kind::kInput, 2 * lanes),
               make_buffer("out", DType::kF32, KernelBuffer::Kind::kOutput, 2 * lanes)};
  KernelBuilder b(k);
  b.begin_phase(1);
  const Reg zero = b.int_constant(0);
  const auto bits = [&](int32_t buffer) {
    return b.apply(ScalarOp::kBitcast, {b.load(buffer, zero, 2 * lanes)}, DType::kU16);
  };
  const Reg scale = b.constant({DType::kF32, lanes}, float_value(DType::kF32, 1.0 / 3));
  const Reg sums = b.apply(ScalarOp::kMul, {b.load(0, zero, lanes), scale}, DType::kF32);
  const Reg once = b.dot(sums, bits(1), bits(2));
  b.store(3, zero, once);
  b.store(3, b.int_constant(lanes), b.dot(once, bits(2), bits(1)));
  b.end_phase();
  return k;
}

TEST_P(KernelOps, MultiplyBFloat16WithAndWithoutAnInstructionForIt) {
  std::vector<Target> machines = machines_for_lanes(GetParam());
  const size_t own = machines.size();
  for (size_t m = 0; m < own; ++m) machines.push_back(portable(machines[m]));
  expect_as_reference(bfloat_dot_kernel(GetParam()), machines);
}

INSTANTIATE_TEST_SUITE_P(Lanes, KernelOps, ::testing::Values(1, 4, 8, 16));

TEST(KernelControl, LoopsCarryAndBranchesJoin) {
  const auto kernel = parse_kernel(R"(kernel "control" {
    arguments 2
    scratch 512
    buffer 0 "x" input f32[64] align 4
    buffer 1 "y" output f32[64] align 4
    buffer 2 "z" output i64[4] align 8
    buffer 3 "t" scratch f32[64] align 64 offset 64
    phase 16 (%0, %1) {
      %2: i64 = const 1
      %3: i64 = const 4
      %4: i64 = argument 1
      %5: f32x4 = const 0.5
      for (%6: i64 = %0 to %1 step %2) {
        %7: i64 = apply mul %6, %3
        %8: f32x4 = load 0[%7]
        %9: bool = apply lt %6, %4
        %10: f32x4 = if %9 {
          %11: f32x4 = apply mul %8, %5
          store 3[%7], %8
          yield %11
        } else {
          store 3[%7], %5
          yield %8
        }
        store 1[%7], %10
      }
    }
    phase 1 (%20, %21) {
      %22: i64 = argument 0
      %23: i64 = const 0
      %24: i64 = const 3
      %25: i64, %26: i64 = for (%27: i64 = %23 to %22 step %24, %28: i64 = %22, %29: i64 = %24) {
        %30: i64 = apply add %28, %27
        yield %29, %30
      }
      store 2[%20], %25
      %31: i64 = const 1
      store 2[%31], %26
      %32: f32 = load 3[%31]
      store 1[%31], %32
      %33: bool = apply lt %23, %22
      store 2[%24], %22 mask %33
      %34: f32 = load 0[%22] mask %33 else 9
      store 1[%23], %34
    }
  })");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  expect_as_reference(*kernel, machine_widths(), {{10, 5}, {0, 16}, {-4, 0}, {1, 1}});
}

TEST(KernelFma, RoundsOnceOnEveryMachine) {
  // (1 + e)(1 - e) - 1 = -e^2, which two roundings lose; and ties that a double rounding decides
  // wrongly.
  KernelFunction k;
  k.name = "fma";
  k.buffers = {make_buffer("x", DType::kF32, KernelBuffer::Kind::kInput, 32),
               make_buffer("y", DType::kF32, KernelBuffer::Kind::kInput, 32),
               make_buffer("z", DType::kF32, KernelBuffer::Kind::kInput, 32),
               make_buffer("r", DType::kF32, KernelBuffer::Kind::kOutput, 32)};
  KernelBuilder b(k);
  const auto [begin, end] = b.begin_phase(32);
  b.for_loop(begin, end, 8, {}, [&](Reg iv, const std::vector<Reg>&) {
    b.store(3, iv, b.fma(b.load(0, iv, 8), b.load(1, iv, 8), b.load(2, iv, 8)));
    return std::vector<Reg>{};
  });
  b.end_phase();
  std::vector<float> x(32), y(32), z(32), r(32);
  std::mt19937 random(5);
  for (size_t i = 0; i < 32; ++i) {
    const float e = std::ldexp(1.0f, -13 - static_cast<int>(i % 8));
    x[i] = 1 + e;
    y[i] = 1 - e;
    z[i] = -1;
    if (i >= 16) {
      x[i] = 1 + std::ldexp(static_cast<float>(random() % 4096), -12);
      y[i] = 1 + std::ldexp(static_cast<float>(random() % 4096) + 0.5f, -12);
      z[i] = std::ldexp(i % 2 == 0 ? 1.0f : -1.0f, -60);
    }
  }
  for (const Target& target : machine_widths()) {
    run_compiled(k, target, {x.data(), y.data(), z.data(), r.data()});
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], std::fma(x[i], y[i], z[i])) << i;
  }
}

TEST(KernelStores, NonTemporalOnesArriveToo) {
  KernelFunction k;
  k.name = "stream";
  k.buffers = {make_buffer("x", DType::kF32, KernelBuffer::Kind::kInput, 64),
               make_buffer("y", DType::kF32, KernelBuffer::Kind::kOutput, 64)};
  KernelBuilder b(k);
  const auto [begin, end] = b.begin_phase(64);
  b.for_loop(begin, end, 16, {}, [&](Reg iv, const std::vector<Reg>&) {
    b.store(1, iv, b.load(0, iv, 16), kNoReg, /*non_temporal=*/true);
    return std::vector<Reg>{};
  });
  b.end_phase();
  expect_as_reference(k, machine_widths());
  const auto code = kernel_code_text(k, host_cpu_target(1));
  ASSERT_TRUE(code.ok());
  EXPECT_THAT(*code, testing::HasSubstr("movntp"));
}

}  // namespace
}  // namespace weft
