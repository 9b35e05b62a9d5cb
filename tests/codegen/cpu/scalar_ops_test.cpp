#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/codegen/cpu/kernel_runner.h"

namespace weft {
namespace {

constexpr DType kAllTypes[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
                               DType::kU8,   DType::kU16, DType::kU32, DType::kU64, DType::kF16,
                               DType::kBF16, DType::kF32, DType::kF64};

constexpr ScalarOp kAllOps[] = {
#define WEFT_SCALAR_OP(id, name, arity, result) ScalarOp::id,
#include "graph/scalar_ops.def"
#undef WEFT_SCALAR_OP
};

/// Values where an operation may go wrong, and ordinary ones between.
std::vector<ScalarValue> interesting_values(DType type) {
  std::vector<ScalarValue> values;
  if (is_float(type)) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const double v :
         {0.0,   -0.0,  1.0,   -1.0,   0.5,   -0.5,    2.5,
          -2.5,  3.5,   0.1,   -0.7,   7.25,  -13.0,   100.0,
          1e-3,  -1e-3, 127.5, -128.5, 300.0, 40000.0, -70000.0,
          3e9,   -3e9,  1e10,  2e19,   -2e19, 6e-5,    6e-8,
          -3e-6, 1e-40, 1e30,  -1e30,  inf,   -inf,    std::numeric_limits<double>::quiet_NaN()}) {
      values.push_back(float_value(type, v));
    }
    return values;
  }
  for (const int64_t v : {int64_t{0},
                          int64_t{1},
                          int64_t{-1},
                          int64_t{2},
                          int64_t{-2},
                          int64_t{3},
                          int64_t{5},
                          int64_t{7},
                          int64_t{-9},
                          int64_t{31},
                          int64_t{33},
                          int64_t{63},
                          int64_t{64},
                          int64_t{100},
                          int64_t{127},
                          int64_t{-128},
                          int64_t{255},
                          int64_t{32767},
                          int64_t{-32768},
                          int64_t{65535},
                          int64_t{1234567},
                          int64_t{2147483647},
                          int64_t{-2147483648},
                          int64_t{16777217},
                          int64_t{4294967295},
                          int64_t{9007199254740993},
                          std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()}) {
    values.push_back(int_value(type, v));
  }
  return values;
}

void store_value(const ScalarValue& value, std::byte* at) {
  with_storage(value.type, [&](auto s) {
    using S = decltype(s);
    using T = typename S::Value;
    const typename S::Raw raw =
        S::store(std::is_floating_point_v<T> ? static_cast<T>(value.f) : static_cast<T>(value.i));
    std::memcpy(at, &raw, sizeof(raw));
  });
}

ScalarValue load_value(DType type, const std::byte* at) {
  return with_storage(type, [&](auto s) {
    using S = decltype(s);
    typename S::Raw raw;
    std::memcpy(&raw, at, sizeof(raw));
    ScalarValue v;
    v.type = type;
    if constexpr (std::is_floating_point_v<typename S::Value>) {
      v.f = S::load(raw);
    } else {
      v.i = static_cast<int64_t>(S::load(raw));
    }
    return v;
  });
}

/// Whether an operation may differ in the last bits.
bool is_approximate(ScalarOp op) {
  switch (op) {
    case ScalarOp::kExp:
    case ScalarOp::kLog:
    case ScalarOp::kExpm1:
    case ScalarOp::kLog1p:
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
    case ScalarOp::kAtan:
    case ScalarOp::kSinh:
    case ScalarOp::kCosh:
    case ScalarOp::kTanh:
    case ScalarOp::kAsinh:
    case ScalarOp::kAcosh:
    case ScalarOp::kAtanh:
    case ScalarOp::kSigmoid:
    case ScalarOp::kErf:
    case ScalarOp::kPow:
    case ScalarOp::kAtan2:
      return true;
    default:
      return false;
  }
}

double relative_tolerance(DType type) {
  switch (type) {
    case DType::kF64:
      return 1e-14;
    case DType::kF32:
      return 4.8e-7;
    case DType::kF16:
      return 1e-3;
    default:
      return 8e-3;
  }
}

/// Half a unit of the smallest number, where relative errors mean nothing.
double absolute_tolerance(DType type) {
  switch (type) {
    case DType::kF64:
      return 1e-323;
    case DType::kF16:
      return 6e-8;
    default:
      return 3e-45;
  }
}

::testing::AssertionResult agrees(ScalarOp op, const ScalarValue& got, const ScalarValue& want) {
  bool good = false;
  if (!is_float(want.type)) {
    good = got.i == want.i;
  } else if (std::isnan(want.f) || std::isnan(got.f)) {
    good = std::isnan(want.f) && std::isnan(got.f);
  } else if (got.f == want.f) {
    good = std::signbit(got.f) == std::signbit(want.f);
  } else if (is_approximate(op)) {
    good = std::fabs(got.f - want.f) <=
           relative_tolerance(want.type) * std::fabs(want.f) + absolute_tolerance(want.type);
  }
  if (good) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "got " << got.f << " / " << got.i << ", want " << want.f << " / " << want.i;
}

/// Operands of one operation, one column each.
struct OpCase {
  ScalarOp op = ScalarOp::kAdd;
  DType from = DType::kF32, to = DType::kF32;
  std::vector<std::vector<ScalarValue>> columns;

  std::string name() const {
    return std::string(scalar_op_name(op)) + " " + std::string(dtype_name(from)) + " -> " +
           std::string(dtype_name(to));
  }
  size_t rows() const { return columns[0].size(); }
};

/// Every pair (or triple) of values, filled up to whole vectors of 16.
OpCase make_case(ScalarOp op, DType from, DType to) {
  OpCase c;
  c.op = op;
  c.from = from;
  c.to = to;
  const std::vector<ScalarValue> values = interesting_values(from);
  const int arity = scalar_op_arity(op);
  c.columns.resize(static_cast<size_t>(arity));
  if (arity == 1) {
    c.columns[0] = values;
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < values.size(); ++j) {
        if (arity == 3) c.columns[0].push_back(int_value(DType::kBool, (i * 5 + j * 3) % 7 < 3));
        c.columns[static_cast<size_t>(arity) - 2].push_back(values[i]);
        c.columns[static_cast<size_t>(arity) - 1].push_back(values[j]);
      }
    }
  }
  for (auto& column : c.columns) {
    while (column.size() % 16 != 0) column.push_back(column[column.size() / 2]);
  }
  return c;
}

/// One kernel with a phase and buffers of its own for each case, `lanes` elements at a time.
KernelFunction kernel_of(const std::vector<OpCase>& cases, int32_t lanes) {
  KernelFunction k;
  k.name = "scalar_ops";
  KernelBuilder b(k);
  for (const OpCase& c : cases) {
    const auto rows = static_cast<int64_t>(c.rows());
    const auto first = static_cast<int32_t>(k.buffers.size());
    for (const auto& column : c.columns) {
      k.buffers.push_back(make_buffer("x", column[0].type, KernelBuffer::Kind::kInput, rows));
    }
    const auto out = static_cast<int32_t>(k.buffers.size());
    k.buffers.push_back(make_buffer("y", c.to, KernelBuffer::Kind::kOutput, rows));
    const auto [begin, end] = b.begin_phase(rows);
    b.for_loop(begin, end, lanes, {}, [&](Reg iv, const std::vector<Reg>&) {
      std::vector<Reg> operands;
      for (int32_t x = first; x < out; ++x) operands.push_back(b.load(x, iv, lanes));
      b.store(out, iv, b.apply(c.op, operands, c.to));
      return std::vector<Reg>{};
    });
    b.end_phase();
  }
  return k;
}

void compare(const OpCase& c, const GuardedBuffer& out) {
  SCOPED_TRACE(c.name());
  EXPECT_TRUE(out.guards_intact());
  int failures = 0;
  for (size_t i = 0; i < c.rows() && failures < 5; ++i) {
    std::vector<ScalarValue> operands;
    for (const auto& column : c.columns) operands.push_back(column[i]);
    const ScalarValue want = evaluate_scalar(c.op, operands, c.to);
    const ScalarValue got = load_value(c.to, out.data() + i * static_cast<size_t>(byte_size(c.to)));
    const auto verdict = agrees(c.op, got, want);
    EXPECT_TRUE(verdict) << "of " << operands[0].f << " / " << operands[0].i << " and "
                         << operands.back().f << " / " << operands.back().i;
    failures += verdict ? 0 : 1;
  }
}

void run_cases(const std::vector<OpCase>& cases, int32_t lanes) {
  const KernelFunction kernel = kernel_of(cases, lanes);
  for (const Target& target : machines_for_lanes(lanes)) {
    SCOPED_TRACE(std::to_string(lanes) + " lanes on " + std::to_string(target.vector_bytes) +
                 " bytes");
    std::vector<GuardedBuffer> buffers;
    std::vector<void*> pointers;
    for (const KernelBuffer& b : kernel.buffers) buffers.emplace_back(b.dtype, b.elements);
    for (GuardedBuffer& buffer : buffers) pointers.push_back(buffer.data());
    size_t next = 0;
    std::vector<size_t> outputs;
    for (const OpCase& c : cases) {
      for (const auto& column : c.columns) {
        const auto size = static_cast<size_t>(byte_size(column[0].type));
        std::byte* at = buffers[next++].data();
        for (size_t i = 0; i < column.size(); ++i) store_value(column[i], at + i * size);
      }
      outputs.push_back(next++);
    }
    run_compiled(kernel, target, pointers);
    if (::testing::Test::HasFatalFailure()) return;
    for (size_t i = 0; i < cases.size(); ++i) compare(cases[i], buffers[outputs[i]]);
  }
}

class ScalarOps : public ::testing::TestWithParam<int32_t> {};

TEST_P(ScalarOps, AgreeWithTheirReferenceOnEveryType) {
  for (const DType from : kAllTypes) {
    std::vector<OpCase> cases;
    for (const ScalarOp op : kAllOps) {
      if (op == ScalarOp::kConvert || op == ScalarOp::kBitcast) continue;
      if (!scalar_op_accepts(op, from)) continue;
      cases.push_back(make_case(op, from, scalar_op_is_predicate(op) ? DType::kBool : from));
    }
    run_cases(cases, GetParam());
  }
}

TEST_P(ScalarOps, ConvertBetweenAllTypes) {
  std::vector<OpCase> cases;
  for (const DType from : kAllTypes) {
    for (const DType to : kAllTypes) cases.push_back(make_case(ScalarOp::kConvert, from, to));
  }
  run_cases(cases, GetParam());
}

TEST_P(ScalarOps, BitcastKeepsTheBits) {
  std::vector<OpCase> cases;
  for (const DType from : kAllTypes) {
    for (const DType to : kAllTypes) {
      if (from == DType::kBool || to == DType::kBool || byte_size(from) != byte_size(to)) continue;
      cases.push_back(make_case(ScalarOp::kBitcast, from, to));
    }
  }
  run_cases(cases, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Lanes, ScalarOps, ::testing::Values(1, 4, 8, 16));

}  // namespace
}  // namespace weft
