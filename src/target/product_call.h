#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"
#include "target/call_buffer.h"

namespace weft {

/// What cuBLASLt is asked for: of each of `batch` pairs of matrices C = A * B, then bias and clamp
/// as asked for.
///
///     A: m x k, rows `a_row` elements apart, or stored as k x m where `a_transposed`
///     B: k x n, rows `b_row` elements apart, or stored as n x k where `b_transposed`
///     C: m x n, rows `c_row` elements apart; bias: n
///
/// Products are summed up in float32. `a`, `b`, `c` and `bias` are positions among the kernel's
/// buffers.
struct ProductCall {
  DType operands = DType::kF32, result = DType::kF32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  int64_t a_row = 1, b_row = 1, c_row = 1;
  int64_t a_matrix = 0, b_matrix = 0, c_matrix = 0;  ///< elements from one of the batch to the next
  int32_t a = 0, b = 1, c = 2;
  int32_t bias = -1;    ///< none when negative
  bool clamps = false;  ///< max(0, …) at last
  friend bool operator==(const ProductCall&, const ProductCall&) = default;
};

/// `1x128x768x3072 f16 -> f16 a 0 n 3072 0 b 1 t 3072 0 c 2 n 768 0 bias 3 clamps`: batch, m, n, k;
/// of each matrix its buffer, whether it is transposed, and the elements between rows and between
/// matrices.
std::string print(const ProductCall& call);
/// kInvalidInput for a text that print() does not write.
Result<ProductCall> parse_product_call(std::string_view text);

/// Positive sizes, rows that do not overlap, sizes in bytes that fit, types that there are.
/// kInvalidInput says which.
Status verify_product_call(const ProductCall& call);

/// Requires: the call is verified.
std::vector<CallBuffer> buffers_of(const ProductCall& call);

}  // namespace weft
