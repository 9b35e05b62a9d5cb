#include "support/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/check.h"
#include "support/hash.h"

namespace weft {
namespace {

TEST(HostTensor, ElementsConvertInBothDirections) {
  HostTensor x(DType::kI8, {3});
  x.set_double(0, -3.9);
  x.set_int(1, 127);
  x.set_double(2, std::nan(""));
  EXPECT_EQ(x.at_int(0), -3);
  EXPECT_EQ(x.at_double(1), 127);
  EXPECT_EQ(x.at_int(2), 0);
  HostTensor y(DType::kU64, {1});
  y.set_int(0, -1);
  EXPECT_EQ(y.at_double(0), 0x1p64);
  HostTensor z(DType::kF16, {1});
  z.set_double(0, 0.1);
  EXPECT_EQ(z.at_double(0), 0.0999755859375);
  EXPECT_EQ(z.at_int(0), 0);
  HostTensor w(DType::kF64, {1});
  w.set_double(0, 1e300);
  EXPECT_EQ(w.at_int(0), std::numeric_limits<int64_t>::max());
}

TEST(HostTensor, StorageIsAlignedAndShared) {
  HostTensor x(DType::kF32, {2, 3});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % 64, 0U);
  const HostTensor y = x.reshaped({6});
  EXPECT_EQ(y.raw(), x.raw());
  x.set_double(4, 2.5);
  EXPECT_EQ(y.at_double(4), 2.5);
  EXPECT_THROW((void)x.reshaped({5}), InternalError);
  EXPECT_NE(HostTensor(DType::kF32, {0}).raw(), nullptr);
}

TEST(HostTensor, ViewsNeedNoAlignment) {
  const auto owner = std::make_shared<std::vector<std::byte>>(13);
  const double value = -1.25;
  std::memcpy(owner->data() + 3, &value, 8);
  const HostTensor x(DType::kF64, {1}, owner, {owner->data() + 3, 8});
  EXPECT_EQ(x.at_double(0), -1.25);
  EXPECT_THROW(HostTensor(DType::kF64, {2}, owner, {owner->data() + 3, 8}), InternalError);
}

TEST(Hash, PartsAreKeptApart) {
  const auto digest = [](std::string_view a, std::string_view b) {
    Hasher hasher;
    hasher.add_text(a);
    hasher.add_text(b);
    return hasher.digest128();
  };
  EXPECT_EQ(digest("ab", "c"), digest("ab", "c"));
  EXPECT_NE(digest("ab", "c"), digest("a", "bc"));
}

TEST(Hash, HexReadsBack) {
  const uint64_t hash = hash64("weft");
  EXPECT_EQ(to_hex(hash).size(), 16U);
  EXPECT_EQ(parse_hex64(to_hex(hash)), hash);
  EXPECT_EQ(to_hex(Hash128{0x1, 0xabc}), "00000000000000010000000000000abc");
  EXPECT_EQ(parse_hex64("00000000000000G0"), std::nullopt);
  EXPECT_EQ(parse_hex64("00"), std::nullopt);
}

}  // namespace
}  // namespace weft
