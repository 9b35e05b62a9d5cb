#include "import/hlo/literal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "import/builder/refusal.h"

namespace weft::hlo {
namespace {

class LiteralReader {
 public:
  LiteralReader(TextScanner& scanner, const HloShape& shape, std::vector<HostTensor>& parts)
      : scanner_(scanner), dims_(shape.dims), type_(*shape.dtype), parts_(parts) {}

  void run() {
    const size_t rank = dims_.size();
    std::vector<int64_t> seen(rank, 0);  // elements behind us, by open brace
    size_t open = 0;
    for (;;) {
      while (open < rank) {
        scanner_.expect("{");
        seen[open++] = 0;
        if (dims_[open - 1] == 0) break;
      }
      if (open == rank && (rank == 0 || dims_[rank - 1] > 0)) read_element();
      for (;;) {
        if (open == 0) return;
        const int64_t extent = dims_[open - 1];
        if (extent > 0 && ++seen[open - 1] < extent) {
          scanner_.expect(",");
          break;
        }
        scanner_.expect("}");
        --open;
      }
    }
  }

 private:
  /// A number, or `(real, imaginary)`.
  void read_element() {
    const bool is_complex = parts_.size() == 2;
    if (is_complex) scanner_.expect("(");
    read_part(parts_[0]);
    if (is_complex) {
      scanner_.expect(",");
      read_part(parts_[1]);
      scanner_.expect(")");
    }
    ++next_;
  }

  void read_part(HostTensor& part) {
    scanner_.peek();
    const size_t begin = scanner_.offset();
    const std::string_view token = scanner_.number();
    const bool read = is_float(type_) ? read_float(part, token) : read_integer(part, token);
    if (read) return;
    scanner_.fail_at(begin, fmt::format("'{}' is no {}", token, dtype_name(type_)));
  }

  template <typename T>
  static bool parse(std::string_view token, T& value) {
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    return error == std::errc() && end == token.data() + token.size();
  }

  bool read_float(HostTensor& part, std::string_view token) {
    const bool negative = token.starts_with('-');
    if (token.substr(negative ? 1 : 0).starts_with("nan")) {  // nan(0x…) keeps no payload
      const double nan = std::numeric_limits<double>::quiet_NaN();
      part.set_double(next_, negative ? -nan : nan);
      return true;
    }
    // Rounded once: through a double only where the type is wider or has no parser of its own.
    if (type_ == DType::kF32) {
      float value = 0;
      if (!parse(token, value) && !overflows(token, value)) return false;
      part.set_double(next_, static_cast<double>(value));
      return true;
    }
    double value = 0;
    if (!parse(token, value) && !overflows(token, value)) return false;
    part.set_double(next_, value);
    return true;
  }

  /// A number beyond the type's range is infinite, one below its smallest is zero.
  template <typename T>
  static bool overflows(std::string_view token, T& value) {
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc::result_out_of_range || end != token.data() + token.size()) return false;
    const double wide = std::strtod(std::string(token).c_str(), nullptr);
    value = static_cast<T>(wide);
    return true;
  }

  bool read_integer(HostTensor& part, std::string_view token) {
    if (type_ == DType::kBool) {
      if (token != "true" && token != "false" && token != "0" && token != "1") return false;
      part.set_int(next_, token == "true" || token == "1" ? 1 : 0);
      return true;
    }
    if (type_ == DType::kU64) {
      uint64_t bits = 0;
      if (!parse(token, bits)) return false;
      part.set_int(next_, static_cast<int64_t>(bits));
      return true;
    }
    int64_t value = 0;
    if (!parse(token, value)) return false;
    part.set_int(next_, value);
    return part.at_int(next_) == value;
  }

  TextScanner& scanner_;
  const Shape& dims_;
  DType type_;
  std::vector<HostTensor>& parts_;
  int64_t next_ = 0;
};

}  // namespace

std::vector<HostTensor> parse_literal(TextScanner& scanner, const HloShape& shape) {
  if (!shape.dtype) {
    onnx::refuse_unsupported(fmt::format("the element type of {}", print(shape)));
  }
  TextScanner ahead = scanner;
  if (ahead.take("{") && ahead.take("...")) {
    onnx::refuse_unsupported(
        "its value was left out of the text; export the module with all constants "
        "(XLA_FLAGS=--xla_dump_large_constants with --xla_dump_to, or to_string of the module "
        "with HloPrintOptions.print_large_constants)");
  }
  const int64_t count = element_count(shape.dims).value_or(0);
  // An element takes at least a character: no memory for what the text cannot hold.
  if (count > static_cast<int64_t>(scanner.whole().size())) {
    scanner.fail(fmt::format("{} has more elements than are written", print(shape)));
  }
  std::vector<HostTensor> parts;  // copies of one would share its memory
  for (size_t i = 0; i < shape.leaf_count; ++i) parts.emplace_back(*shape.dtype, shape.dims);
  LiteralReader(scanner, shape, parts).run();
  return parts;
}

}  // namespace weft::hlo
