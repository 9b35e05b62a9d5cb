#include "import/hlo/linear_algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "import/builder/matrix_factors.h"
#include "import/builder/precision.h"

namespace weft::hlo {
namespace {

using onnx::widen;

/// Graph nodes for each column of a matrix at most, of those that stand for blocks of columns.
constexpr int64_t kNodesPerColumn = 8;

/// A matrix operand in its working type.
ValueId matrix_operand(InstructionContext& n, size_t i) {
  const ValueId x = n.operand(i);
  n.require(n.b.rank(x) >= 2 && is_float(n.b.dtype(x)), "takes matrices of floats");
  n.importer().spend(kNodesPerColumn * std::min(n.b.extent(x, -1), n.b.extent(x, -2)));
  return widen(n.b, x);
}

ValueId transposed(GraphBuilder& b, ValueId x) { return b.swap_axes(x, -1, -2); }

ValueId cholesky_of(GraphBuilder& b, ValueId x, bool lower) {
  return lower ? cholesky(b, x) : transposed(b, cholesky(b, transposed(b, x)));
}

/// cholesky(a), lower=true: what stands above the diagonal is not said by HLO; here 0.
void translate_cholesky(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = matrix_operand(n, 0);
  n.set_result(n.b.convert(cholesky_of(n.b, x, n.flag("lower", false)), n.b.dtype(n.operand(0))));
}

struct TriangularSolve {
  bool left = true, lower = false, unit_diagonal = false, transposed = false;
};

/// op(A) X = B, or X op(A) = B, which is transposed(op(A)) transposed(X) = transposed(B).
void solve(InstructionContext& n, const TriangularSolve& how) {
  n.expect_operands(2);
  GraphBuilder& b = n.b;
  onnx::TriangularMatrix a{matrix_operand(n, 0), how.lower, how.unit_diagonal};
  ValueId right = b.convert(n.operand(1), b.dtype(a.values));
  n.require(b.rank(right) == b.rank(a.values), "takes matrices on both sides");
  if (!how.left) right = transposed(b, right);
  if (how.transposed == how.left) {
    a.values = transposed(b, a.values);
    a.lower = !a.lower;
  }
  const ValueId x = solve_triangular(b, a, right);
  n.set_result(b.convert(how.left ? x : transposed(b, x), b.dtype(n.operand(1))));
}

void translate_triangular_solve(InstructionContext& n) {
  const std::string_view transpose = n.word("transpose_a", "NO_TRANSPOSE");
  solve(n, {n.flag("left_side", false), n.flag("lower", false), n.flag("unit_diagonal", false),
            transpose != "NO_TRANSPOSE"});
}

/// The letter that LAPACK's routine was given: {uplo = 76 : ui8} says 'L'.
char letter(InstructionContext& n, std::string_view name) {
  TextScanner config = n.attribute("backend_config");
  config.expect("{");
  while (!config.take("}")) {
    const std::string_view key = config.name("a name");
    config.expect("=");
    const int64_t value = config.integer("a number");
    if (config.take(":")) config.name("a type");
    config.take(",");
    if (key == name) return static_cast<char>(value);
  }
  refuse_invalid(fmt::format("its backend_config has no {}", name));
}

DType declared_type(InstructionContext& n, size_t element) {
  const HloShape& shape = n.shape();
  n.require(shape.kind == HloShape::Kind::kTuple && element < shape.elements.size() &&
                shape.elements[element].dtype,
            "gives a tuple of arrays");
  return *shape.elements[element].dtype;
}

/// Rows and columns of the elements of matrices.
struct Places {
  Places(GraphBuilder& b, ValueId like)
      : row(b.iota(DType::kI64, b.shape(like), b.rank(like) - 2)),
        column(b.iota(DType::kI64, b.shape(like), b.rank(like) - 1)) {}
  ValueId row, column;
};

/// LAPACK's info: the first column of each matrix, counted from 1, whose pivot is bad; 0: none is.
ValueId first_bad_pivot(GraphBuilder& b, ValueId bad) {
  const Places at(b, bad);
  const ValueId is_pivot = b.binary(ScalarOp::kEq, at.row, at.column);
  const ValueId beyond = b.scalar_int(DType::kI64, b.extent(bad, -1) + 1);
  const ValueId number = b.add(at.column, b.scalar_int(DType::kI64, 1));
  const ValueId numbers = b.select(b.binary(ScalarOp::kAnd, is_pivot, bad), number, beyond);
  const ValueId first = b.reduce(Combiner::kMin, numbers, {-2, -1}, false);
  const ValueId none = b.binary(ScalarOp::kEq, first, beyond);
  return b.select(none, b.scalar_int(DType::kI64, 0), first);
}

/// (a) -> (factor, info). The other triangle stays as it is in a.
void call_potrf(InstructionContext& n) {
  n.expect_operands(1);
  GraphBuilder& b = n.b;
  const ValueId x = matrix_operand(n, 0), zero = b.scalar(b.dtype(x), 0);
  const bool lower = letter(n, "uplo") == 'L';
  const ValueId factor = cholesky_of(b, x, lower);
  const Places at(b, x);
  const ValueId inside = b.binary(lower ? ScalarOp::kGe : ScalarOp::kLe, at.row, at.column);
  const ValueId bad = b.logical_not(b.binary(ScalarOp::kGt, factor, zero));
  n.set_results(
      {b.select(inside, factor, x), b.convert(first_bad_pivot(b, bad), declared_type(n, 1))});
}

/// (a, b) -> x
void call_trsm(InstructionContext& n) {
  solve(n, {letter(n, "side") == 'L', letter(n, "uplo") == 'L', letter(n, "diag") == 'U',
            letter(n, "trans_x") != 'N'});
}

/// (a) -> (factors, exchanged rows counted from 1, info)
void call_getrf(InstructionContext& n) {
  n.expect_operands(1);
  GraphBuilder& b = n.b;
  const ValueId x = matrix_operand(n, 0);
  const onnx::LowerUpper of = lower_upper(b, x);
  const ValueId bad = b.binary(ScalarOp::kEq, of.factors, b.scalar(b.dtype(x), 0));
  const ValueId from_one = b.add(of.exchanges, b.scalar_int(DType::kI64, 1));
  n.set_results({of.factors, b.convert(from_one, declared_type(n, 1)),
                 b.convert(first_bad_pivot(b, bad), declared_type(n, 2))});
}

/// (a) -> (factors, tau)
void call_reflectors(InstructionContext& n) {
  n.expect_operands(1);
  const onnx::Reflectors of = onnx::reflectors(n.b, matrix_operand(n, 0));
  n.set_results(
      {n.b.convert(of.factors, declared_type(n, 0)), n.b.convert(of.tau, declared_type(n, 1))});
}

/// (factors, tau) -> Q
void call_product_of_reflectors(InstructionContext& n) {
  n.expect_operands(2);
  GraphBuilder& b = n.b;
  const ValueId factors = matrix_operand(n, 0);
  const ValueId tau = b.convert(n.operand(1), b.dtype(factors));
  n.set_result(b.convert(product_of_reflectors(b, {factors, tau}), b.dtype(n.operand(0))));
}

struct KnownCall {
  std::string_view target;
  void (*translate)(InstructionContext&);
};

constexpr KnownCall kCalls[] = {
    {"Qr", call_reflectors},
    {"ProductOfElementaryHouseholderReflectors", call_product_of_reflectors},
    {"lapack_sgeqrf_ffi", call_reflectors},
    {"lapack_dgeqrf_ffi", call_reflectors},
    {"lapack_sorgqr_ffi", call_product_of_reflectors},
    {"lapack_dorgqr_ffi", call_product_of_reflectors},
    {"lapack_spotrf_ffi", call_potrf},
    {"lapack_dpotrf_ffi", call_potrf},
    {"lapack_strsm_ffi", call_trsm},
    {"lapack_dtrsm_ffi", call_trsm},
    {"lapack_sgetrf_ffi", call_getrf},
    {"lapack_dgetrf_ffi", call_getrf},
};

const Translator kRows[] = {
    {"cholesky", translate_cholesky},
    {"triangular-solve", translate_triangular_solve},
};

}  // namespace

bool translate_linear_algebra_call(InstructionContext& n, std::string_view target) {
  const auto* call = std::ranges::find(kCalls, target, &KnownCall::target);
  if (call == std::end(kCalls)) return false;
  if (n.has_complex()) refuse_unsupported(fmt::format("complex numbers in '{}'", target));
  call->translate(n);
  return true;
}

TranslatorTable linear_algebra_translators() { return kRows; }

}  // namespace weft::hlo
