#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

/// Nesting that enter() allows.
inline constexpr int kMaxByteDepth = 65;

template <typename T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Appends fields to a run of bytes; Reader takes them back in the same order.
class ByteWriter {
 public:
  static constexpr bool kReads = false;

  template <Plain T>
  void value(const T& v) {
    raw(&v, sizeof v);
  }
  void text(const std::string& s) {
    value(static_cast<uint64_t>(s.size()));
    raw(s.data(), s.size());
  }
  void bytes(const std::vector<std::byte>& b) {
    value(static_cast<uint64_t>(b.size()));
    raw(b.data(), b.size());
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& elements, const Each& each) {
    value(static_cast<uint64_t>(elements.size()));
    for (const T& element : elements) each(element);
  }
  template <typename T, typename Fields>
  void owned(const std::shared_ptr<T>& pointer, const Fields& fields) {
    fields(std::as_const(*pointer));
  }
  bool enter() { return true; }
  void leave() {}

  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void raw(const void* data, size_t size) {
    if (size == 0) return;
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }
  std::vector<std::byte> out_;
};

/// Takes any bytes: reads nothing more after the first fault, and takes memory in proportion to
/// them.
class ByteReader {
 public:
  static constexpr bool kReads = true;

  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Plain T>
  void value(T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      value(byte);
      if (byte > 1) fail();
      v = byte == 1;
    } else if (take(sizeof v)) {
      std::memcpy(&v, taken_, sizeof v);
    }
  }
  void text(std::string& s) {
    const size_t size = count();
    if (take(size)) s.assign(reinterpret_cast<const char*>(taken_), size);
  }
  void bytes(std::vector<std::byte>& b) {
    const size_t size = count();
    if (take(size)) b.assign(taken_, taken_ + size);
  }
  /// Grows with what is really there, so that a wrong count takes no memory.
  template <typename T, typename Each>
  void list(std::vector<T>& elements, const Each& each) {
    elements.clear();
    for (size_t left = count(); left > 0 && ok_; --left) each(elements.emplace_back());
  }
  template <typename T, typename Fields>
  void owned(std::shared_ptr<T>& pointer, const Fields& fields) {
    if (!ok_) return;
    pointer = std::make_shared<T>();
    fields(*pointer);
  }
  bool enter() {
    if (++depth_ > kMaxByteDepth) fail();
    return ok_;
  }
  void leave() { --depth_; }

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  size_t count() {
    uint64_t n = 0;
    value(n);
    if (n > rest_.size()) fail();  // every element takes at least a byte
    return ok_ ? static_cast<size_t>(n) : 0;
  }
  bool take(size_t size) {
    if (!ok_ || size > rest_.size()) {
      fail();
      return false;
    }
    taken_ = rest_.data();
    rest_ = rest_.subspan(size);
    return true;
  }

  std::span<const std::byte> rest_;
  const std::byte* taken_ = nullptr;
  int depth_ = 0;
  bool ok_ = true;
};

/// Each type's fields are named once, for both directions: A is ByteWriter or
/// ByteReader.
template <typename A, typename T>
using Like = std::conditional_t<A::kReads, T, const T>;

template <typename A, typename... T>
void values(A& a, T&... each) {
  (a.value(each), ...);
}

template <typename A, typename T>
void numbers(A& a, T& list) {
  a.list(list, [&](auto& number) { a.value(number); });
}

}  // namespace weft
