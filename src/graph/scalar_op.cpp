#include "graph/scalar_op.h"

#include <array>
#include <cstring>

#include "graph/scalar_math.h"
#include "support/check.h"
#include "support/storage.h"

namespace weft {
namespace {

enum class ResultKind : uint8_t { kSame, kBoolean, kOther };

struct ScalarOpInfo {
  std::string_view name;
  int arity;
  ResultKind result;
};

constexpr ScalarOpInfo kScalarOps[] = {
#define WEFT_SCALAR_OP(id, name, arity, result) {name, arity, ResultKind::result},
#include "graph/scalar_ops.def"
#undef WEFT_SCALAR_OP
};

const ScalarOpInfo& info(ScalarOp op) {
  const auto index = static_cast<size_t>(op);
  WEFT_CHECK(index < std::size(kScalarOps), "scalar operation out of range");
  return kScalarOps[index];
}

constexpr std::array<std::string_view, 8> kCombiners = {"sum", "prod", "min",     "max",
                                                        "and", "or",   "arg_min", "arg_max"};

template <typename T>
T native(const ScalarValue& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.f);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.i != 0;
  } else {
    return static_cast<T>(value.i);
  }
}

/// Rounds to the storage type: what a store to memory and a load back would give.
template <typename S>
ScalarValue boxed(S, typename S::Value value) {
  ScalarValue result;
  result.type = S::kType;
  if constexpr (std::is_floating_point_v<typename S::Value>) {
    result.f = S::load(S::store(value));
  } else {
    result.i = static_cast<int64_t>(value);
  }
  return result;
}

ScalarValue evaluate_bitcast(const ScalarValue& x, DType to) {
  WEFT_CHECK(byte_size(x.type) == byte_size(to), "bitcast between widths");
  uint64_t bits = 0;
  with_storage(x.type, [&](auto s) {
    using S = decltype(s);
    const typename S::Raw raw = S::store(native<typename S::Value>(x));
    std::memcpy(&bits, &raw, sizeof(raw));
  });
  return with_storage(to, [&](auto s) {
    using S = decltype(s);
    typename S::Raw raw;
    std::memcpy(&raw, &bits, sizeof(raw));
    return boxed(s, S::load(raw));
  });
}

template <typename S>
ScalarValue evaluate_on(S s, ScalarOp op, std::span<const ScalarValue> x) {
  using T = typename S::Value;
  ScalarValue result;
  bool known = false;
  const T a = native<T>(x[0]);
  if (x.size() == 1) {
    known = with_unary<T>(op, [&](auto f) { result = boxed(s, f(a)); }) ||
            with_predicate<T>(op, [&](auto f) { result = int_value(DType::kBool, f(a)); });
  } else {
    const T b = native<T>(x[1]);
    known = with_binary<T>(op, [&](auto f) { result = boxed(s, f(a, b)); }) ||
            with_comparison<T>(op, [&](auto f) { result = int_value(DType::kBool, f(a, b)); });
  }
  WEFT_CHECK(known, std::string(scalar_op_name(op)) + " is not defined on " +
                        std::string(dtype_name(x[0].type)));
  return result;
}

}  // namespace

std::string_view scalar_op_name(ScalarOp op) { return info(op).name; }

std::optional<ScalarOp> parse_scalar_op(std::string_view name) {
  for (size_t i = 0; i < std::size(kScalarOps); ++i) {
    if (kScalarOps[i].name == name) return static_cast<ScalarOp>(i);
  }
  return std::nullopt;
}

int scalar_op_arity(ScalarOp op) { return info(op).arity; }

bool scalar_op_is_comparison(ScalarOp op) {
  return info(op).result == ResultKind::kBoolean && info(op).arity == 2;
}

bool scalar_op_is_predicate(ScalarOp op) { return info(op).result == ResultKind::kBoolean; }

bool scalar_op_accepts(ScalarOp op, DType type) {
  if (op == ScalarOp::kSelect || op == ScalarOp::kConvert) return true;
  if (op == ScalarOp::kBitcast) return type != DType::kBool;
  return with_storage(type, [&](auto s) {
    using T = typename decltype(s)::Value;
    const auto ignore = [](auto) {};
    return scalar_op_arity(op) == 1 ? with_unary<T>(op, ignore) || with_predicate<T>(op, ignore)
                                    : with_binary<T>(op, ignore) || with_comparison<T>(op, ignore);
  });
}

ScalarValue float_value(DType type, double value) {
  WEFT_CHECK(is_float(type), "float_value of " + std::string(dtype_name(type)));
  return with_storage(
      type, [&](auto s) { return boxed(s, static_cast<typename decltype(s)::Value>(value)); });
}

ScalarValue int_value(DType type, int64_t value) {
  WEFT_CHECK(!is_float(type), "int_value of " + std::string(dtype_name(type)));
  return with_storage(
      type, [&](auto s) { return boxed(s, static_cast<typename decltype(s)::Value>(value)); });
}

bool is_plain_zero(const ScalarValue& value) {
  return is_float(value.type) ? value.f == 0 && !std::signbit(value.f) : value.i == 0;
}

ScalarValue convert_value(const ScalarValue& value, DType to) {
  return with_storage(value.type, [&](auto from) {
    using From = typename decltype(from)::Value;
    return with_storage(to, [&](auto s) {
      return boxed(s, convert_scalar<typename decltype(s)::Value>(native<From>(value)));
    });
  });
}

ScalarValue evaluate_scalar(ScalarOp op, std::span<const ScalarValue> operands, DType result_type) {
  WEFT_CHECK(static_cast<int>(operands.size()) == scalar_op_arity(op),
             "operands of " + std::string(scalar_op_name(op)));
  switch (op) {
    case ScalarOp::kSelect:
      return operands[0].i != 0 ? operands[1] : operands[2];
    case ScalarOp::kConvert:
      return convert_value(operands[0], result_type);
    case ScalarOp::kBitcast:
      return evaluate_bitcast(operands[0], result_type);
    default:
      return with_storage(operands[0].type, [&](auto s) { return evaluate_on(s, op, operands); });
  }
}

std::string_view combiner_name(Combiner c) {
  const auto index = static_cast<size_t>(c);
  WEFT_CHECK(index < kCombiners.size(), "combiner out of range");
  return kCombiners[index];
}

std::optional<Combiner> parse_combiner(std::string_view name) {
  for (size_t i = 0; i < kCombiners.size(); ++i) {
    if (kCombiners[i] == name) return static_cast<Combiner>(i);
  }
  return std::nullopt;
}

bool combiner_is_arg(Combiner c) { return c == Combiner::kArgMin || c == Combiner::kArgMax; }

std::optional<ScalarOp> combiner_op(Combiner c) {
  switch (c) {
    case Combiner::kSum:
      return ScalarOp::kAdd;
    case Combiner::kProd:
      return ScalarOp::kMul;
    case Combiner::kMin:
      return ScalarOp::kMin;
    case Combiner::kMax:
      return ScalarOp::kMax;
    case Combiner::kAnd:
      return ScalarOp::kAnd;
    case Combiner::kOr:
      return ScalarOp::kOr;
    default:
      return std::nullopt;
  }
}

ScalarValue combiner_identity(Combiner c, DType type) {
  return with_storage(type, [&](auto s) {
    using T = typename decltype(s)::Value;
    using Limits = std::numeric_limits<T>;
    switch (c) {
      case Combiner::kSum:
      case Combiner::kOr:
        return boxed(s, T{0});
      case Combiner::kProd:
        return boxed(s, T{1});
      case Combiner::kMin:
        return boxed(s, Limits::has_infinity ? Limits::infinity() : Limits::max());
      case Combiner::kMax:
        return boxed(s, Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
      case Combiner::kAnd:
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          return boxed(s, static_cast<T>(~T{0}));
        } else {
          return boxed(s, T{1});
        }
      default:
        throw_internal_error(__FILE__, __LINE__, "combiner_identity", "an arg form has none");
    }
  });
}

ScalarValue combine(Combiner c, const ScalarValue& a, const ScalarValue& b) {
  const std::optional<ScalarOp> op = combiner_op(c);
  WEFT_CHECK(op.has_value(), "an arg form does not combine single values");
  const ScalarValue operands[] = {a, b};
  return evaluate_scalar(*op, operands, a.type);
}

}  // namespace weft
