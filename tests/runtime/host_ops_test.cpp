// Host operations: order, ties, NaN, indices outside, every element type.

#include "runtime/host_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/tensor.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

HostTensor tensor(DType dtype, Shape shape, const std::vector<double>& values) {
  HostTensor result(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) result.set_double(static_cast<int64_t>(i), values[i]);
  return result;
}

std::vector<double> values_of(const HostTensor& x) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.size(); ++i) values.push_back(x.at_double(i));
  return values;
}

HostOperand operand(HostTensor& x) { return {x.dtype(), &x.shape(), x.mutable_raw()}; }

/// Verifies, then runs `step`; the error's message otherwise.
std::string run(const HostStep& step, std::vector<HostTensor> in,
                const std::vector<HostTensor*>& out) {
  std::vector<HostOperand> operands, results;
  for (HostTensor& x : in) operands.push_back(operand(x));
  for (HostTensor* x : out) results.push_back(operand(*x));
  const Status status = verify_host_step(step, operands, results);
  if (!status.ok()) return status.error().message;
  std::vector<int64_t> scratch(static_cast<size_t>(host_step_scratch_bytes(step, operands)) / 8);
  run_host_step(step, operands, results, reinterpret_cast<std::byte*>(scratch.data()));
  return "";
}

HostStep step_of(HostStep::Op op, int64_t axis = 0) {
  HostStep step;
  step.op = op;
  step.axis = axis;
  return step;
}

TEST(HostOps, SortIsStableAndNanIsLargest) {
  for (const bool descending : {false, true}) {
    HostStep step = step_of(HostStep::Op::kSort);
    step.descending = descending;
    HostTensor values(DType::kF32, {8}), indices(DType::kI64, {8});
    const HostTensor x = tensor(DType::kF32, {8}, {3, kNan, -kInf, 3, -0.0, 0.0, kInf, kNan});
    ASSERT_EQ(run(step, {x}, {&values, &indices}), "");
    if (descending) {
      EXPECT_THAT(values_of(indices), ElementsAre(1, 7, 6, 0, 3, 4, 5, 2));
    } else {
      EXPECT_THAT(values_of(indices), ElementsAre(2, 4, 5, 0, 3, 6, 1, 7));
    }
    for (int64_t i = 0; i < 8; ++i) {
      const double expected = x.at_double(indices.at_int(i));
      EXPECT_TRUE(values.at_double(i) == expected || std::isnan(expected));
    }
  }
}

TEST(HostOps, SortAlongAnInnerAxisOfEveryType) {
  for (int type = 0; type <= static_cast<int>(DType::kF64); ++type) {
    const auto dtype = static_cast<DType>(type);
    HostTensor values(dtype, {2, 3, 2}), indices(DType::kI64, {2, 3, 2});
    const HostTensor x = tensor(dtype, {2, 3, 2}, {1, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0});
    ASSERT_EQ(run(step_of(HostStep::Op::kSort, 1), {x}, {&values, &indices}), "");
    EXPECT_THAT(values_of(values), ElementsAre(0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1))
        << dtype_name(dtype);
    EXPECT_THAT(values_of(indices), ElementsAre(1, 0, 0, 1, 2, 2, 0, 2, 1, 0, 2, 1));
  }
}

TEST(HostOps, SortComparesLargeIntegersExactly) {
  HostTensor values(DType::kU64, {3}), indices(DType::kI64, {3});
  HostTensor x(DType::kU64, {3});
  x.mutable_data<uint64_t>()[0] = ~uint64_t{0};
  x.mutable_data<uint64_t>()[1] = uint64_t{1} << 63;
  x.mutable_data<uint64_t>()[2] = ~uint64_t{0} - 1;
  ASSERT_EQ(run(step_of(HostStep::Op::kSort), {x}, {&values, &indices}), "");
  EXPECT_THAT(values_of(indices), ElementsAre(1, 2, 0));
}

TEST(HostOps, TopKTakesTiesFromTheLowerIndex) {
  HostStep step = step_of(HostStep::Op::kTopK, 1);
  step.k = 3;
  step.descending = true;
  HostTensor values(DType::kF16, {2, 3}), indices(DType::kI64, {2, 3});
  const HostTensor x = tensor(DType::kF16, {2, 5}, {1, 5, 5, 2, 5, -1, kNan, -3, -1, -2});
  ASSERT_EQ(run(step, {x}, {&values, &indices}), "");
  EXPECT_THAT(values_of(indices), ElementsAre(1, 2, 4, 1, 0, 3));
  step.descending = false;
  ASSERT_EQ(run(step, {x}, {&values, &indices}), "");
  EXPECT_THAT(values_of(indices), ElementsAre(0, 3, 1, 2, 4, 0));
  step.k = 6;
  EXPECT_THAT(run(step, {x}, {&values, &indices}), HasSubstr("k is 6 of 5"));
}

TEST(HostOps, ScatterElementsClampsIndices) {
  const HostTensor data = tensor(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor indices = tensor(DType::kI64, {2, 2}, {-1, 3, 0, -4});
  const HostTensor updates = tensor(DType::kF32, {2, 2}, {10, 20, 30, 40});
  HostTensor y(DType::kF32, {2, 3});
  ASSERT_EQ(run(step_of(HostStep::Op::kScatterElements, 1), {data, indices, updates}, {&y}), "");
  EXPECT_THAT(values_of(y), ElementsAre(10, 2, 20, 40, 5, 6));
}

TEST(HostOps, ScatterElementsCombines) {
  const HostTensor data = tensor(DType::kI32, {4}, {1, 2, 3, 4});
  const HostTensor indices = tensor(DType::kI32, {3}, {1, 1, 2});
  const HostTensor updates = tensor(DType::kI32, {3}, {10, 5, -7});
  HostTensor y(DType::kI32, {4});
  HostStep step = step_of(HostStep::Op::kScatterElements);
  const auto result = [&](bool combines, uint8_t combiner) {
    step.combines = combines;
    step.combiner = combiner;
    EXPECT_EQ(run(step, {data, indices, updates}, {&y}), "");
    return values_of(y);
  };
  EXPECT_THAT(result(false, 0), ElementsAre(1, 5, -7, 4)) << "the last update wins";
  EXPECT_THAT(result(true, 0), ElementsAre(1, 17, -4, 4));
  EXPECT_THAT(result(true, 1), ElementsAre(1, 100, -21, 4));
  EXPECT_THAT(result(true, 2), ElementsAre(1, 2, -7, 4));
  EXPECT_THAT(result(true, 3), ElementsAre(1, 10, 3, 4));
}

TEST(HostOps, CombiningKeepsNan) {
  const HostTensor data = tensor(DType::kF32, {2}, {kNan, 4});
  const HostTensor indices = tensor(DType::kI64, {2}, {0, 1});
  const HostTensor updates = tensor(DType::kF32, {2}, {1, kNan});
  HostTensor y(DType::kF32, {2});
  HostStep step = step_of(HostStep::Op::kScatterElements);
  step.combines = true;
  for (const uint8_t combiner : {2, 3}) {
    step.combiner = combiner;
    ASSERT_EQ(run(step, {data, indices, updates}, {&y}), "");
    EXPECT_TRUE(std::isnan(y.at_double(0)) && std::isnan(y.at_double(1)));
  }
}

TEST(HostOps, ScatterNdWritesSlices) {
  const HostTensor data = tensor(DType::kI16, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor indices = tensor(DType::kI64, {3, 2}, {1, 0, 0, -1, 2, 0});
  const HostTensor updates = tensor(DType::kI16, {3, 2}, {10, 20, 30, 40, 50, 60});
  HostTensor y(DType::kI16, {2, 2, 2});
  ASSERT_EQ(run(step_of(HostStep::Op::kScatterNd), {data, indices, updates}, {&y}), "");
  EXPECT_THAT(values_of(y), ElementsAre(30, 40, 3, 4, 50, 60, 7, 8));
}

TEST(HostOps, ScatterNdOfWholeTensorAndOfElements) {
  const HostTensor data = tensor(DType::kF64, {2, 2}, {1, 2, 3, 4});
  HostTensor y(DType::kF64, {2, 2});
  ASSERT_EQ(
      run(step_of(HostStep::Op::kScatterNd),
          {data, HostTensor(DType::kI64, {1, 0}), tensor(DType::kF64, {1, 2, 2}, {5, 6, 7, 8})},
          {&y}),
      "");
  EXPECT_THAT(values_of(y), ElementsAre(5, 6, 7, 8));
  ASSERT_EQ(run(step_of(HostStep::Op::kScatterNd),
                {data, tensor(DType::kI64, {1, 2}, {1, 0}), tensor(DType::kF64, {1}, {9})}, {&y}),
            "");
  EXPECT_THAT(values_of(y), ElementsAre(1, 2, 9, 4));
}

TEST(HostOps, CumulativeInBothDirections) {
  const HostTensor x = tensor(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor y(DType::kF32, {2, 3});
  HostStep step = step_of(HostStep::Op::kCumulative, 1);
  const auto result = [&](bool exclusive, bool reverse, uint8_t combiner) {
    step.exclusive = exclusive;
    step.reverse = reverse;
    step.combiner = combiner;
    EXPECT_EQ(run(step, {x}, {&y}), "");
    return values_of(y);
  };
  EXPECT_THAT(result(false, false, 0), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(result(true, false, 0), ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(result(false, true, 0), ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(result(true, true, 1), ElementsAre(6, 3, 1, 30, 6, 1));
  EXPECT_THAT(result(true, false, 3), ElementsAre(-kInf, 1, 2, -kInf, 4, 5));
}

TEST(HostOps, CumulativeIntegersWrap) {
  const HostTensor x = tensor(DType::kI8, {3}, {100, 100, -1});
  HostTensor y(DType::kI8, {3});
  ASSERT_EQ(run(step_of(HostStep::Op::kCumulative), {x}, {&y}), "");
  EXPECT_THAT(values_of(y), ElementsAre(100, -56, -57));
  const HostTensor wide = tensor(DType::kI64, {2}, {0x1p62, 0x1p62});
  HostTensor z(DType::kI64, {2});
  ASSERT_EQ(run(step_of(HostStep::Op::kCumulative), {wide}, {&z}), "");
  EXPECT_EQ(z.at_int(1), std::numeric_limits<int64_t>::min());
}

/// Many elements of few values, so that lines have ties.
HostTensor random_tensor(DType dtype, Shape shape, int64_t values, uint64_t seed) {
  HostTensor x(dtype, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const auto value = static_cast<int64_t>((seed >> 33) % static_cast<uint64_t>(values));
    x.set_double(i, static_cast<double>(value));
  }
  return x;
}

struct Typed {
  DType dtype;
  Shape shape;
};

/// The raw results of a step in `threads` parts, one after another.
std::vector<std::vector<std::byte>> in_parts(const HostStep& step, std::vector<HostTensor> in,
                                             const std::vector<Typed>& types, int threads) {
  std::vector<HostOperand> operands, results;
  for (HostTensor& x : in) operands.push_back(operand(x));
  std::vector<HostTensor> out;
  for (const Typed& type : types) out.emplace_back(type.dtype, type.shape);
  for (HostTensor& x : out) results.push_back(operand(x));
  const Status status = verify_host_step(step, operands, results);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  std::vector<int64_t> scratch(static_cast<size_t>(host_step_scratch_bytes(step, operands)) / 8);
  for (int phase = 0; phase < host_step_phases(step); ++phase) {
    for (int t = threads; t-- > 0;) {
      run_host_phase(step, phase, operands, results, {t, threads},
                     reinterpret_cast<std::byte*>(scratch.data()));
    }
  }
  std::vector<std::vector<std::byte>> raw;
  for (const HostTensor& x : out) {
    raw.emplace_back(x.raw(), x.raw() + x.size() * byte_size(x.dtype()));
  }
  return raw;
}

void expect_same_in_parts(const HostStep& step, const std::vector<HostTensor>& in,
                          const std::vector<Typed>& out) {
  const auto whole = in_parts(step, in, out, 1);
  for (const int threads : {2, 3, 7}) {
    EXPECT_TRUE(in_parts(step, in, out, threads) == whole)
        << threads << " threads, operation " << static_cast<int>(step.op) << ", axis " << step.axis
        << ", " << dtype_name(in[0].dtype());
  }
}

TEST(HostOps, PartsMakeWhatOneThreadMakes) {
  using Op = HostStep::Op;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8, DType::kF64, DType::kI64}) {
    const HostTensor x = random_tensor(dtype, {3, 50, 37}, 100, 5);
    for (const int64_t axis : {0, 1, 2}) {
      const Typed same{dtype, x.shape()}, order{DType::kI64, x.shape()};
      expect_same_in_parts(step_of(Op::kSort, axis), {x}, {same, order});
      expect_same_in_parts(step_of(Op::kCumulative, axis), {x}, {same});
      for (const bool combines : {false, true}) {
        HostStep step = step_of(Op::kScatterElements, axis);
        step.combines = combines;
        const Shape updates{2, 45, 30};
        expect_same_in_parts(
            step,
            {x, random_tensor(DType::kI32, updates, 60, 7), random_tensor(dtype, updates, 50, 8)},
            {same});
        step.op = Op::kScatterNd;
        Shape rows{40};
        rows.insert(rows.end(), x.shape().begin() + axis + 1, x.shape().end());
        expect_same_in_parts(step,
                             {x, random_tensor(DType::kI64, {40, axis + 1}, 60, 9),
                              random_tensor(dtype, rows, 50, 10)},
                             {same});
      }
    }
  }
}

TEST(HostOps, SortsOfLongLinesAreStable) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kU8, DType::kF64, DType::kI32}) {
    for (const int64_t line : {5, 127, 128, 1000}) {
      for (const bool descending : {false, true}) {
        const HostTensor x = random_tensor(dtype, {line}, 90, static_cast<uint64_t>(line));
        std::vector<int64_t> expected(static_cast<size_t>(line));
        std::iota(expected.begin(), expected.end(), 0);
        std::ranges::sort(expected, {}, [&](int64_t i) {
          return std::pair(descending ? -x.at_double(i) : x.at_double(i), i);
        });
        for (const int64_t k : {line, line / 2, std::min<int64_t>(line, 40), int64_t{3}}) {
          HostStep step = step_of(HostStep::Op::kTopK);
          step.k = k;
          step.descending = descending;
          HostTensor values(dtype, {k}), indices(DType::kI64, {k});
          ASSERT_EQ(run(step, {x}, {&values, &indices}), "");
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(indices.at_int(i), expected[static_cast<size_t>(i)])
                << dtype_name(dtype) << " " << line << " " << k << " " << i;
            ASSERT_EQ(values.at_double(i), x.at_double(indices.at_int(i)));
          }
        }
      }
    }
  }
}

TEST(HostOps, EmptyTensors) {
  HostTensor values(DType::kF32, {0, 3}), indices(DType::kI64, {0, 3});
  EXPECT_EQ(
      run(step_of(HostStep::Op::kSort), {HostTensor(DType::kF32, {0, 3})}, {&values, &indices}),
      "");
  HostTensor y = tensor(DType::kF32, {2}, {1, 2});
  EXPECT_EQ(run(step_of(HostStep::Op::kScatterElements),
                {tensor(DType::kF32, {2}, {3, 4}), HostTensor(DType::kI64, {0}),
                 HostTensor(DType::kF32, {0})},
                {&y}),
            "");
  EXPECT_THAT(values_of(y), ElementsAre(3, 4));
}

TEST(HostOps, MismatchesAreRefused) {
  HostTensor y(DType::kF32, {4}), i(DType::kI64, {4});
  const HostTensor x(DType::kF32, {4}), half(DType::kF16, {4}), longer(DType::kF32, {5});
  const HostTensor index(DType::kI64, {4}), index2(DType::kI64, {4, 2}), bad(DType::kF32, {4});
  using Op = HostStep::Op;
  EXPECT_THAT(run(step_of(Op::kSort, 1), {x}, {&y, &i}), HasSubstr("axis 1 of rank 1"));
  EXPECT_THAT(run(step_of(Op::kSort, -1), {x}, {&y, &i}), HasSubstr("axis -1"));
  EXPECT_THAT(run(step_of(Op::kSort), {x}, {&y}), HasSubstr("wrong number"));
  EXPECT_THAT(run(step_of(Op::kSort), {half}, {&y, &i}), HasSubstr("values"));
  EXPECT_THAT(run(step_of(Op::kCopy), {longer}, {&y}), HasSubstr("size"));
  EXPECT_THAT(run(step_of(Op::kScatterElements), {x, index, longer}, {&y}), HasSubstr("shapes"));
  EXPECT_THAT(run(step_of(Op::kScatterElements), {x, bad, x}, {&y}), HasSubstr("integers"));
  EXPECT_THAT(run(step_of(Op::kScatterNd), {x, index2, x}, {&y}), HasSubstr("rank of the data"));
  EXPECT_THAT(run(step_of(static_cast<Op>(9)), {x}, {&y}), HasSubstr("unknown"));
  HostStep combined = step_of(Op::kCumulative);
  combined.combiner = 6;
  EXPECT_THAT(run(combined, {x}, {&y}), HasSubstr("combiner"));
}

}  // namespace
}  // namespace weft
