#include "graph/graph_text.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "support/storage.h"

namespace weft {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <typename T>
std::string to_shortest(T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return {buffer, end.ptr};
}

template <typename T>
bool read_all(std::string_view text, T& value, int base) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>) {
    result = std::from_chars(begin, end, value);
  } else {
    result = std::from_chars(begin, end, value, base);
  }
  return result.ec == std::errc() && result.ptr == end;
}

template <typename Bits>
std::string print_bits(Bits bits) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), bits, 16);
  return "0x" + std::string(buffer, end.ptr);
}

/// The quiet NaN that `nan` stands for.
template <typename S>
typename S::Raw quiet_nan() {
  return S::store(std::numeric_limits<typename S::Value>::quiet_NaN());
}

template <typename S>
std::string print_nan(const typename S::Raw& raw) {
  const typename S::Raw quiet = quiet_nan<S>();
  return with_width(sizeof(raw), [&](auto bits) -> std::string {
    auto quiet_bits = bits;
    std::memcpy(&bits, &raw, sizeof(bits));
    std::memcpy(&quiet_bits, &quiet, sizeof(bits));
    return bits == quiet_bits ? "nan" : print_bits(bits);
  });
}

template <typename S>
std::string print_raw(const typename S::Raw& raw) {
  using T = typename S::Value;
  if constexpr (std::is_same_v<T, bool>) {
    return raw != 0 ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(S::load(raw)) ? print_nan<S>(raw) : to_shortest(S::load(raw));
  } else {
    return to_shortest(raw);
  }
}

template <typename S>
bool parse_raw(std::string_view text, typename S::Raw& raw) {
  using T = typename S::Value;
  if constexpr (std::is_same_v<T, bool>) {
    raw = text == "true";
    return raw || text == "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    if (text == "nan") {
      raw = quiet_nan<S>();
      return true;
    }
    if (text.starts_with("0x")) {
      return with_width(sizeof(raw), [&](auto bits) {
        if (!read_all(text.substr(2), bits, 16)) return false;
        std::memcpy(&raw, &bits, sizeof(bits));
        return true;
      });
    }
    T value{};
    if (!read_all(text, value, 10)) return false;
    raw = S::store(value);
    return true;
  } else {
    return read_all(text, raw, 10);
  }
}

}  // namespace

bool is_bare_name(std::string_view name) {
  if (name.empty() || !is_letter(name[0])) return false;
  for (char c : name) {
    if (!is_letter(c) && !is_digit(c) && c != '.' && c != '/') return false;
  }
  return true;
}

std::string print_name(std::string_view name) {
  if (is_bare_name(name)) return std::string(name);
  std::string text = "\"";
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      text += "\\x";
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string print_element(const HostTensor& tensor, int64_t i) {
  return with_storage(tensor.dtype(), [&](auto s) {
    using S = decltype(s);
    typename S::Raw raw;
    std::memcpy(&raw, tensor.raw() + i * static_cast<int64_t>(sizeof(raw)), sizeof(raw));
    return print_raw<S>(raw);
  });
}

bool parse_element(std::string_view text, HostTensor& tensor, int64_t i) {
  return with_storage(tensor.dtype(), [&](auto s) {
    using S = decltype(s);
    typename S::Raw raw{};
    if (!parse_raw<S>(text, raw)) return false;
    std::memcpy(tensor.mutable_raw() + i * static_cast<int64_t>(sizeof(raw)), &raw, sizeof(raw));
    return true;
  });
}

}  // namespace weft
