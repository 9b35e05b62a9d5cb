#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// XXH3 of bytes: content addresses of constants, cache keys, checksums of files. Not a defence
/// against forgery.
uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash64(std::string_view text, uint64_t seed = 0);

/// 128 bits, for keys where a collision would give a wrong result.
struct Hash128 {
  uint64_t high = 0, low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};
Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

/// Lower-case hexadecimal, 16 and 32 digits.
std::string to_hex(uint64_t hash);
std::string to_hex(const Hash128& hash);
/// Inverse of to_hex(uint64_t): exactly 16 digits.
std::optional<uint64_t> parse_hex64(std::string_view digits);

/// A hash of parts, as if they were one run of bytes; add_value and add_text keep the parts apart
/// ("ab","c" differs from "a","bc").
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add_bytes(std::span<const std::byte> bytes);
  void add_value(uint64_t value);
  void add_text(std::string_view text);  ///< the length, then the text
  uint64_t digest64() const;
  Hash128 digest128() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
