#include "target/library_call.h"

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

Matrix matrix_a(const LibraryCall& c) {
  return {c.a_transposed ? c.k : c.m, c.a_transposed ? c.m : c.k, c.a_row, c.a_matrix};
}
Matrix matrix_b(const LibraryCall& c) {
  return {c.b_transposed ? c.n : c.k, c.b_transposed ? c.k : c.n, c.b_row, c.b_matrix};
}
Matrix matrix_c(const LibraryCall& c) { return {c.m, c.n, c.c_row, c.c_matrix}; }

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

std::string print(const LibraryCall& c) {
  const auto matrix = [](const char* name, int32_t position, bool transposed, int64_t row,
                         int64_t next) {
    return fmt::format(" {} {} {} {} {}", name, position, transposed ? 't' : 'n', row, next);
  };
  std::string out = fmt::format("{} {}x{}x{}x{} {} -> {}", c.library, c.batch, c.m, c.n, c.k,
                                dtype_name(c.operands), dtype_name(c.result));
  out += matrix("a", c.a, c.a_transposed, c.a_row, c.a_matrix);
  out += matrix("b", c.b, c.b_transposed, c.b_row, c.b_matrix);
  out += matrix("c", c.c, false, c.c_row, c.c_matrix);
  if (c.bias >= 0) out += fmt::format(" bias {}", c.bias);
  if (c.clamps) out += " clamps";
  return out;
}

Result<LibraryCall> parse_library_call(std::string_view text) {
  LibraryCall c;
  std::istringstream in{std::string(text)};
  std::string sizes, operands, arrow, result, name;
  bool good = static_cast<bool>(in >> c.library >> sizes >> operands >> arrow >> result);
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
  if (!good || !from || !to) return invalid_input("'" + std::string(text) + "' is no library call");
  c.operands = *from;
  c.result = *to;
  return c;
}

Status verify_library_call(const LibraryCall& c, int64_t buffer_count) {
  const auto wrong = [](const std::string& what) { return invalid_input("library call: " + what); };
  if (std::ranges::find(kKnownLibraries, c.library) == std::end(kKnownLibraries))
    return wrong("no library '" + c.library + "' is known");
  const auto is_float = [](DType t) {
    return t == DType::kF16 || t == DType::kBF16 || t == DType::kF32;
  };
  if (!is_float(c.operands) || (c.result != c.operands && c.result != DType::kF32))
    return wrong("it has no such types");
  if (std::min({c.batch, c.m, c.n, c.k}) < 1 || std::max({c.batch, c.m, c.n, c.k}) > INT32_MAX)
    return wrong("a size is out of range");
  std::vector<int32_t> positions = {c.a, c.b, c.c};
  if (c.bias >= 0) positions.push_back(c.bias);
  for (const int32_t p : positions) {
    if (p < 0 || p >= buffer_count) return wrong("the kernel has no such buffer");
    if (p == c.c && std::ranges::count(positions, p) != 1) return wrong("it reads what it writes");
  }
  WEFT_RETURN_IF_ERROR(verify_matrix(matrix_a(c), c.batch, false, "a"));
  WEFT_RETURN_IF_ERROR(verify_matrix(matrix_b(c), c.batch, false, "b"));
  return verify_matrix(matrix_c(c), c.batch, true, "c");
}

int64_t elements_touched(const LibraryCall& c, int32_t position) {
  int64_t most = 0;
  const auto count = [&](int32_t p, const Matrix& m) {
    if (p == position) most = std::max(most, span_of(m, c.batch).value_or(0));
  };
  count(c.a, matrix_a(c));
  count(c.b, matrix_b(c));
  count(c.c, matrix_c(c));
  if (c.bias == position && position >= 0) most = std::max(most, c.n);
  return most;
}

}  // namespace weft
