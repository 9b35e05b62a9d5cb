#include "support/hash.h"

#include <xxhash.h>

#include <new>

#include "support/check.h"

namespace weft {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

Hash128 from_xxh(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash64(std::string_view text, uint64_t seed) { return hash64(bytes_of(text), seed); }

Hash128 hash128(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 hash128(std::string_view text) { return hash128(bytes_of(text)); }

std::string to_hex(uint64_t hash) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
  return text;
}

std::string to_hex(const Hash128& hash) { return to_hex(hash.high) + to_hex(hash.low); }

std::optional<uint64_t> parse_hex64(std::string_view digits) {
  if (digits.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return value;
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    WEFT_CHECK(xxh != nullptr, "out of memory");
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add_bytes(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::add_value(uint64_t value) {
  add_bytes(std::as_bytes(std::span<const uint64_t>(&value, 1)));
}

void Hasher::add_text(std::string_view text) {
  add_value(text.size());
  add_bytes(bytes_of(text));
}

uint64_t Hasher::digest64() const { return digest128().low; }

Hash128 Hasher::digest128() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

}  // namespace weft
