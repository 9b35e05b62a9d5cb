#include "assemble/lay_out_constants.h"

#include <gtest/gtest.h>

#include "assemble/constant_table.h"

namespace weft {
namespace {

TEST(LayOutConstant, WidensSixteenBits) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    HostTensor value(type, {3, 2});
    for (int64_t i = 0; i < 6; ++i) value.set_double(i, 0.25 * static_cast<double>(i) - 0.5);
    const HostTensor across = lay_out_constant(value, permuted_layout({3, 2}, {1, 0}), DType::kF32);
    ASSERT_EQ(across.dtype(), DType::kF32);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 2; ++j)
        EXPECT_EQ(across.at_double(j * 3 + i), value.at_double(i * 2 + j));
    }
    const HostTensor same = lay_out_constant(value, Layout(), DType::kF32);
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(same.at_double(i), value.at_double(i));
  }
}

TEST(ConstantTable, HoldsEachFormOnce) {
  Tensor tensor;
  tensor.type = {DType::kF16, {3, 2}};
  tensor.value = HostTensor(DType::kF16, {3, 2});
  for (int64_t i = 0; i < 6; ++i) tensor.value.set_double(i, static_cast<double>(i));
  const Layout across = permuted_layout({3, 2}, {1, 0});
  ConstantTable table;
  EXPECT_EQ(table.add(tensor, DType::kF16, Layout(), {3, 2}).number, 0U);
  EXPECT_EQ(table.add(tensor, DType::kF32, across, {3, 2}).number, 1U);
  EXPECT_EQ(table.add(tensor, DType::kF16, Layout(), {3, 2}).number, 0U);
  EXPECT_EQ(table.add(tensor, DType::kF32, across, {3, 2}).number, 1U);
  EXPECT_EQ(table.add(tensor, DType::kF32, across, {3, 2}).bytes, 24);
  const ConstantTable::Constants all = table.take({});
  ASSERT_EQ(all.values.size(), 2U);
  EXPECT_EQ(all.values[0].raw(), tensor.value.raw());
  EXPECT_EQ(all.values[1].at_double(1), 2);
  EXPECT_EQ(all.keys, std::vector<std::optional<Hash128>>(2));
}

}  // namespace
}  // namespace weft
