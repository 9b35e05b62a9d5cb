#include <fmt/format.h>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

/// x: f32[3,4], row i holds 10 i, 10 i + 1, ….
const HostTensor kMatrix = floats({3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});

TEST(Gather, OfRowsIsALookup) {
  const std::string text = module_of(R"(  x = f32[3,4] parameter(0)
  i = s32[2,1] parameter(1)
  ROOT r = f32[2,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4})");
  expect_values(run(text, {kMatrix, ints({2, 1}, {2, 9})}), {20, 21, 22, 23, 20, 21, 22, 23});
  EXPECT_THAT(import_text(text), HasSubstr("gather arg0"));
}

TEST(Gather, OfColumnsPutsThemWhereTheyBelong) {
  const std::string text = module_of(R"(  x = f32[3,4] parameter(0)
  i = s32[2] parameter(1)
  ROOT r = f32[2,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1})");
  expect_values(run(text, {kMatrix, ints({2}, {3, 0})}), {3, 13, 23, 0, 10, 20});
}

TEST(Gather, OfWindowsMovesThemInside) {
  const std::string text = module_of(R"(  x = f32[3,4] parameter(0)
  i = s32[2,2] parameter(1)
  ROOT r = f32[2,2,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,2})");
  // Components lie along axis 0: points (column 1, row 0) and (column 9, row -3).
  expect_values(run(text, {kMatrix, ints({2, 2}, {1, 9, 0, -3})}), {1, 2, 11, 12, 2, 3, 12, 13});
}

TEST(Gather, RunsAlongBatchesOfTheArray) {
  const std::string text = module_of(R"(  x = f32[3,4] parameter(0)
  i = s32[3,2,1] parameter(1)
  ROOT r = f32[3,2] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1})");
  expect_values(run(text, {kMatrix, ints({3, 2, 1}, {0, 1, 2, 3, 3, 0})}), {0, 1, 12, 13, 23, 20});
}

TEST(Gather, WithoutIndicesTakesTheFirstWindow) {
  const std::string text = module_of(R"(  x = f32[3,4] parameter(0)
  i = s32[2,0] parameter(1)
  ROOT r = f32[2,1,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim=1, slice_sizes={1,2})");
  expect_values(run(text, {kMatrix, ints({2, 0}, {})}), {0, 1, 0, 1});
}

std::string scatter_rows(std::string_view body) {
  return module_of(R"(  x = f32[3,2] parameter(0)
  i = s32[4,1] parameter(1)
  u = f32[4,2] parameter(2)
  ROOT r = f32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=update)",
                   fmt::format("update {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  "
                               "ROOT c = f32[] {}\n}}",
                               body));
}

TEST(Scatter, LeavesOutWhatIsNotInside) {
  const std::vector<HostTensor> inputs = {floats({3, 2}, {1, 1, 2, 2, 3, 3}),
                                          ints({4, 1}, {2, -1, 3, 2}),
                                          floats({4, 2}, {10, 20, 7, 7, 8, 8, 1, 2})};
  expect_values(run(scatter_rows("add(a, b)"), inputs), {1, 1, 2, 2, 14, 25});
  expect_values(run(scatter_rows("maximum(b, a)"), inputs), {1, 1, 2, 2, 10, 20});
  expect_values(run(scatter_rows("multiply(a, b)"), inputs), {1, 1, 2, 2, 30, 120});
  expect_values(run(scatter_rows("copy(b)"), inputs), {1, 1, 2, 2, 1, 2});
  expect_values(run(scatter_rows("copy(a)"), inputs), {1, 1, 2, 2, 3, 3});
}

TEST(Scatter, RefusesOtherComputations) {
  EXPECT_THAT(import_error(scatter_rows("divide(a, b)"), ErrorCode::kUnsupported),
              HasSubstr("joined by a computation"));
}

TEST(Scatter, OfWindowsTakesThemWholeOrNotAtAll) {
  // Windows [2 rows, 1 column] at (row, column) (0, 3), (1, 0) and (2, 0), which does not fit.
  const std::string text = module_of(R"(  x = f32[3,4] parameter(0)
  i = s32[3,2] parameter(1)
  u = f32[3,2] parameter(2)
  ROOT r = f32[3,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add)",
                                     kAdd);
  expect_values(run(text, {kMatrix, ints({3, 2}, {0, 3, 1, 0, 2, 0}),
                           floats({3, 2}, {100, 200, 300, 400, 500, 600})}),
                {0, 1, 2, 103, 310, 11, 12, 213, 420, 21, 22, 23});
}

TEST(Scatter, IntoAWholeArrayIsAnUpdateOfIt) {
  const std::string text = module_of(R"(  x = f32[2] parameter(0)
  i = s32[0] parameter(1)
  u = f32[2] parameter(2)
  ROOT r = f32[2] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=add)",
                                     kAdd);
  expect_values(run(text, {floats({2}, {1, 2}), ints({0}, {}), floats({2}, {10, 20})}), {11, 22});
}

TEST(Gather, RefusesWhatDoesNotFit) {
  const auto error = [](std::string_view attributes) {
    return import_error(module_of(fmt::format(R"(  x = f32[3,4] parameter(0)
  i = s32[2,1] parameter(1)
  ROOT r = f32[2,4] gather(x, i), {})",
                                              attributes)));
  };
  EXPECT_THAT(error("offset_dims={1}, collapsed_slice_dims={7}, start_index_map={0}, "
                    "index_vector_dim=1, slice_sizes={1,4}"),
              HasSubstr("collapsed_slice_dims are not axes"));
  EXPECT_THAT(error("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, "
                    "index_vector_dim=1, slice_sizes={1,4}"),
              HasSubstr("one axis per component"));
  EXPECT_THAT(error("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                    "index_vector_dim=1, slice_sizes={1,5}"),
              HasSubstr("does not fit"));
  EXPECT_THAT(error("offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
                    "index_vector_dim=1, slice_sizes={1,4}"),
              HasSubstr("offset_dims do not fit"));
}

}  // namespace
}  // namespace weft::hlo
