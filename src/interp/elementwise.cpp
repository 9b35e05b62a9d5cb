#include <cstring>

#include "graph/scalar_math.h"
#include "interp/evaluate.h"
#include "interp/strided.h"
#include "support/storage.h"

namespace weft {
namespace {

HostTensor evaluate_select(const Operands& operands, const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  with_width(byte_size(type.dtype), [&](auto word) {
    using Word = decltype(word);
    const auto* condition = operands[0].data<uint8_t>();
    const Word* then = operands[1].data<Word>();
    const Word* otherwise = operands[2].data<Word>();
    Word* to = result.mutable_data<Word>();
    for (int64_t i = 0; i < result.size(); ++i) to[i] = condition[i] != 0 ? then[i] : otherwise[i];
  });
  return result;
}

HostTensor evaluate_convert(const HostTensor& x, const TensorType& type) {
  if (x.dtype() == type.dtype) return x;
  HostTensor result(type.dtype, type.shape);
  with_storage(x.dtype(), [&](auto from) {
    using From = decltype(from);
    with_storage(type.dtype, [&](auto to) {
      using To = decltype(to);
      const auto* source = x.data<typename From::Raw>();
      auto* target = result.mutable_data<typename To::Raw>();
      for (int64_t i = 0; i < result.size(); ++i) {
        target[i] = To::store(convert_scalar<typename To::Value>(From::load(source[i])));
      }
    });
  });
  return result;
}

/// The same bytes as another type of the same width.
HostTensor evaluate_bitcast(const HostTensor& x, const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  std::memcpy(result.mutable_raw(), x.raw(), static_cast<size_t>(x.bytes()));
  return result;
}

template <typename S>
bool evaluate_unary(S, ScalarOp op, const HostTensor& x, HostTensor& result) {
  using T = typename S::Value;
  const auto* a = x.data<typename S::Raw>();
  const int64_t count = x.size();
  return with_unary<T>(op,
                       [&](auto f) {
                         auto* to = result.mutable_data<typename S::Raw>();
                         for (int64_t i = 0; i < count; ++i) to[i] = S::store(f(S::load(a[i])));
                       }) ||
         with_predicate<T>(op, [&](auto f) {
           auto* to = result.mutable_data<uint8_t>();
           for (int64_t i = 0; i < count; ++i) to[i] = f(S::load(a[i])) ? 1 : 0;
         });
}

template <typename S>
bool evaluate_binary(S, ScalarOp op, const Operands& operands, HostTensor& result) {
  using T = typename S::Value;
  const auto* a = operands[0].data<typename S::Raw>();
  const auto* b = operands[1].data<typename S::Raw>();
  const int64_t count = result.size();
  return with_binary<T>(op,
                        [&](auto f) {
                          auto* to = result.mutable_data<typename S::Raw>();
                          for (int64_t i = 0; i < count; ++i) {
                            to[i] = S::store(f(S::load(a[i]), S::load(b[i])));
                          }
                        }) ||
         with_comparison<T>(op, [&](auto f) {
           auto* to = result.mutable_data<uint8_t>();
           for (int64_t i = 0; i < count; ++i) to[i] = f(S::load(a[i]), S::load(b[i])) ? 1 : 0;
         });
}

}  // namespace

HostTensor evaluate_elementwise(ScalarOp op, const Operands& operands, const TensorType& type) {
  switch (op) {
    case ScalarOp::kSelect:
      return evaluate_select(operands, type);
    case ScalarOp::kConvert:
      return evaluate_convert(operands[0], type);
    case ScalarOp::kBitcast:
      return evaluate_bitcast(operands[0], type);
    default:
      break;
  }
  HostTensor result(type.dtype, type.shape);
  const bool known = with_storage(operands[0].dtype(), [&](auto s) {
    return operands.size() == 1 ? evaluate_unary(s, op, operands[0], result)
                                : evaluate_binary(s, op, operands, result);
  });
  WEFT_CHECK(known, std::string(scalar_op_name(op)) + " on " + print(type));
  return result;
}

HostTensor evaluate_iota(int64_t axis, const TensorType& type) {
  HostTensor result(type.dtype, type.shape);
  const auto a = static_cast<size_t>(axis);
  const int64_t inner = extent_between(type.shape, a + 1, type.shape.size());
  const int64_t extent = type.shape[a];
  with_storage(type.dtype, [&](auto s) {
    using S = decltype(s);
    auto* to = result.mutable_data<typename S::Raw>();
    for (int64_t i = 0; i < result.size(); ++i) {
      to[i] = S::store(convert_scalar<typename S::Value>(i / inner % extent));
    }
  });
  return result;
}

}  // namespace weft
