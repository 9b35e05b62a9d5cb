#include "target/product_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

namespace weft {
namespace {

struct Matrix {
  int64_t rows, columns;  ///< as stored
  int64_t row, matrix;    ///< elements between
};

Matrix matrix_a(const ProductCall& c) {
  return {c.a_transposed ? c.k : c.m, c.a_transposed ? c.m : c.k, c.a_row, c.a_matrix};
}
Matrix matrix_b(const ProductCall& c) {
  return {c.b_transposed ? c.n : c.k, c.b_transposed ? c.k : c.n, c.b_row, c.b_matrix};
}
Matrix matrix_c(const ProductCall& c) { return {c.m, c.n, c.c_row, c.c_matrix}; }

/// Elements from the first to behind the last; nullopt when that does not fit.
std::optional<int64_t> span_of(const Matrix& m, int64_t batch) {
  int64_t rows = 0, matrices = 0, all = 0;
  if (__builtin_mul_overflow(m.rows - 1, m.row, &rows) ||
      __builtin_mul_overflow(batch - 1, m.matrix, &matrices) ||
      __builtin_add_overflow(rows, matrices, &all) ||
      __builtin_add_overflow(all, m.columns, &all) ||
      all > std::numeric_limits<int64_t>::max() / 8) {
    return std::nullopt;
  }
  return all;
}

Status verify_matrix(const Matrix& m, int64_t batch, bool written, const char* name) {
  const auto wrong = [&](const char* what) {
    return invalid_input(fmt::format("library call: the matrix {} {}", name, what));
  };
  if (m.row < m.columns) return wrong("has rows that overlap");
  if (m.matrix < 0) return wrong("has a negative distance to the next");
  const auto one = span_of(m, 1);
  if (!one || !span_of(m, batch)) return wrong("is larger than memory");
  if (written && batch > 1 && m.matrix < *one) return wrong("overlaps the next one");
  return {};
}

}  // namespace

std::string print(const ProductCall& c) {
  const auto matrix = [](const char* name, int32_t position, bool transposed, int64_t row,
                         int64_t next) {
    return fmt::format(" {} {} {} {} {}", name, position, transposed ? 't' : 'n', row, next);
  };
  std::string out = fmt::format("{}x{}x{}x{} {} -> {}", c.batch, c.m, c.n, c.k,
                                dtype_name(c.operands), dtype_name(c.result));
  out += matrix("a", c.a, c.a_transposed, c.a_row, c.a_matrix);
  out += matrix("b", c.b, c.b_transposed, c.b_row, c.b_matrix);
  out += matrix("c", c.c, false, c.c_row, c.c_matrix);
  if (c.bias >= 0) out += fmt::format(" bias {}", c.bias);
  if (c.clamps) out += " clamps";
  return out;
}

Result<ProductCall> parse_product_call(std::string_view text) {
  ProductCall c;
  std::istringstream in{std::string(text)};
  std::string sizes, operands, arrow, result, name;
  bool good = static_cast<bool>(in >> sizes >> operands >> arrow >> result);
  std::replace(sizes.begin(), sizes.end(), 'x', ' ');
  std::istringstream numbers(sizes);
  good = good && numbers >> c.batch >> c.m >> c.n >> c.k && arrow == "->";
  const auto from = parse_dtype(operands), to = parse_dtype(result);
  const auto matrix = [&](const char* expected, int32_t& position, bool* transposed, int64_t& row,
                          int64_t& next) {
    std::string kind;
    good = good && in >> name >> position >> kind >> row >> next && name == expected &&
           (kind == "n" || (kind == "t" && transposed != nullptr));
    if (transposed != nullptr) *transposed = kind == "t";
  };
  matrix("a", c.a, &c.a_transposed, c.a_row, c.a_matrix);
  matrix("b", c.b, &c.b_transposed, c.b_row, c.b_matrix);
  matrix("c", c.c, nullptr, c.c_row, c.c_matrix);
  while (good && in >> name) {
    if (name == "bias" && c.bias < 0) {
      good = in >> c.bias && c.bias >= 0;
    } else {
      good = name == "clamps" && !c.clamps;
      c.clamps = true;
    }
  }
  if (!good || !from || !to) return invalid_input("'" + std::string(text) + "' is no product");
  c.operands = *from;
  c.result = *to;
  return c;
}

Status verify_product_call(const ProductCall& c) {
  const auto wrong = [](const std::string& what) { return invalid_input("library call: " + what); };
  const auto is_float = [](DType t) {
    return t == DType::kF16 || t == DType::kBF16 || t == DType::kF32;
  };
  if (!is_float(c.operands) || (c.result != c.operands && c.result != DType::kF32))
    return wrong("it has no such types");
  if (std::min({c.batch, c.m, c.n, c.k}) < 1 || std::max({c.batch, c.m, c.n, c.k}) > INT32_MAX)
    return wrong("a size is out of range");
  WEFT_RETURN_IF_ERROR(verify_matrix(matrix_a(c), c.batch, false, "a"));
  WEFT_RETURN_IF_ERROR(verify_matrix(matrix_b(c), c.batch, false, "b"));
  return verify_matrix(matrix_c(c), c.batch, true, "c");
}

std::vector<CallBuffer> buffers_of(const ProductCall& c) {
  const auto matrix = [&](int32_t position, DType type, const Matrix& m, bool written) {
    return CallBuffer{position, type, span_of(m, c.batch).value_or(0), written};
  };
  std::vector<CallBuffer> buffers = {matrix(c.a, c.operands, matrix_a(c), false),
                                     matrix(c.b, c.operands, matrix_b(c), false),
                                     matrix(c.c, c.result, matrix_c(c), true)};
  if (c.bias >= 0) buffers.push_back({c.bias, c.result, c.n, false});
  return buffers;
}

}  // namespace weft
