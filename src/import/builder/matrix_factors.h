#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

// Factors of matrices and solutions by them, for each matrix of [..., M, N]. Up to 32 columns are
// scanned, a column a step, as by the textbook (Golub and Van Loan, Matrix Computations); more are
// split in halves, so that most of the work is products:
//
//     L11                    L11 = cholesky(A11), L21 = A21 / transposed(L11)
//     L21  L22               L22 = cholesky(A22 - L21 transposed(L21))
//
// All throw Refusal where shapes do not fit. float32 and float64.

/// Lower L with A = L transposed(L); 0 above its diagonal. Reads the lower triangle of A [..., N,
/// N]. From the first column on where A is not positive definite, NaN.
ValueId cholesky(GraphBuilder& b, ValueId a);

struct TriangularMatrix {
  ValueId values = kNoValue;  ///< [..., N, N], of which one triangle is read
  bool lower = true;
  bool unit_diagonal = false;  ///< 1 whatever the values' diagonal says
};
/// X [..., N, K] with A X = B.
ValueId solve_triangular(GraphBuilder& b, const TriangularMatrix& a, ValueId right);

/// P A = L U of A [..., M, N] by partial pivoting. A column without a pivot is left as it is.
struct LowerUpper {
  ValueId factors = kNoValue;    ///< [..., M, N]: U, and below its diagonal L, whose own is 1
  ValueId exchanges = kNoValue;  ///< i64 [..., min(M, N)]: the row that step k exchanged with row k
};
LowerUpper lower_upper(GraphBuilder& b, ValueId a);

/// A = Q R of A [..., M, N] with Q = H0 H1 … H(K-1), K = min(M, N), and reflectors Hk = I - tau[k]
/// v transposed(v), where v is 0 above row k and 1 there.
struct Reflectors {
  ValueId factors = kNoValue;  ///< [..., M, N]: R, and below its diagonal the rest of each v
  ValueId tau = kNoValue;      ///< [..., K]
};
Reflectors reflectors(GraphBuilder& b, ValueId a);

/// The first N columns of Q, of reflectors in [..., M, N].
ValueId product_of_reflectors(GraphBuilder& b, const Reflectors& of);

}  // namespace weft::onnx
