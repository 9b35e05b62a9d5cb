#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/dtype.h"
#include "support/result.h"

namespace weft {

/// What a kernel asks of a vendor's library instead of running code of its own: of each of `batch`
/// pairs of matrices C = A * B, then bias and clamp as asked for. The kernel's own code computes
/// the same: emulators and checks run that.
///
///     A: m x k, rows `a_row` elements apart, or stored as k x m where `a_transposed`
///     B: k x n, rows `b_row` elements apart, or stored as n x k where `b_transposed`
///     C: m x n, rows `c_row` elements apart; bias: n
///
/// Products are summed up in float32. `a`, `b`, `c` and `bias` are positions among the kernel's
/// buffers.
struct LibraryCall {
  std::string library;  ///< as targets name it: "cublaslt"
  DType operands = DType::kF32, result = DType::kF32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool a_transposed = false, b_transposed = false;
  int64_t a_row = 1, b_row = 1, c_row = 1;
  int64_t a_matrix = 0, b_matrix = 0, c_matrix = 0;  ///< elements from one of the batch to the next
  int32_t a = 0, b = 1, c = 2;
  int32_t bias = -1;    ///< none when negative
  bool clamps = false;  ///< max(0, …) at last
  friend bool operator==(const LibraryCall&, const LibraryCall&) = default;
};

/// `cublaslt 1x128x768x3072 f16 -> f16 a 0 n 3072 0 b 1 t 3072 0 c 2 n 768 0 bias 3 clamps`: batch,
/// m, n, k; of each matrix its buffer, whether it is transposed, and the elements between rows and
/// between matrices.
std::string print(const LibraryCall& call);
/// kInvalidInput for a text that print() does not write.
Result<LibraryCall> parse_library_call(std::string_view text);

/// Positive sizes, rows that do not overlap, sizes in bytes that fit, positions below
/// `buffer_count`, a library and types that there are. kInvalidInput says which.
Status verify_library_call(const LibraryCall& call, int64_t buffer_count);

/// Elements from the first to behind the last that the call touches of a, b, c or bias, by
/// position; 0 for others.
int64_t elements_touched(const LibraryCall& call, int32_t position);

/// Libraries that a target may name, ascending.
inline constexpr std::string_view kKnownLibraries[] = {"cublaslt"};

}  // namespace weft
