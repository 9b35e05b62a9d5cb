#include "expr/layout.h"
#include "tests/schedule/expressed.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

struct Sums {
  int rows = 0, vectors = 0, lanes = 0;
};

/// How the sums of a product's tile lie in the registers of a CPU of `vector_bytes`.
Sums sums_of(int64_t rows, int64_t depth, int64_t columns, const Target& target) {
  const std::string m = std::to_string(rows), k = std::to_string(depth),
                    n = std::to_string(columns);
  TensorProgram program =
      expressed("(x: f32[" + m + "," + k + "], w: f32[" + k + "," + n + "]) {\n  y = dot_general " +
                "x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[" + m +
                "," + n + "]\n} -> (y)");
  for (Tensor& t : program.tensors) {
    if (t.name == "w") t.kind = Tensor::Kind::kConstant;
  }
  const auto kernel = schedule_leaf(program, whole_group(program), target, "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const std::string text = print(kernel->program);
  const size_t carry = text.find("carry acc");
  const std::string place = text.substr(carry, text.find('{', carry) - carry);
  Sums out{1, 1, 1};
  const size_t row = place.find("=REG_"), lanes = place.find("VEC_");
  const size_t comma = place.find(',', row);
  if (row != std::string::npos && row < lanes && comma < lanes)
    out.rows = std::stoi(place.substr(row + 5));
  const size_t vectors = place.find("=REG_", comma == std::string::npos ? 0 : comma);
  if (vectors != std::string::npos && vectors < lanes)
    out.vectors = std::stoi(place.substr(vectors + 5));
  if (lanes != std::string::npos) out.lanes = std::stoi(place.substr(lanes + 4));
  return out;
}

/// With 16 registers a panel's vectors and an element of a row have to find one beside the sums:
/// 3 x 4 sums leave four, of which compilers spill sums.
TEST(RegisterTiles, LeaveRegistersForWhatTheyMultiply) {
  const Target target = *find_target("x86-64-v3");
  ASSERT_EQ(target.vector_registers, 16);
  for (const int64_t rows : {56, 128, 196, 384}) {
    for (const int64_t columns : {64, 768, 1536}) {
      const Sums sums = sums_of(rows, 768, columns, target);
      const int taken = sums.rows * sums.vectors + sums.vectors + 1;
      EXPECT_LE(taken, target.vector_registers) << rows << " x " << columns;
      // Two FMAs a cycle, of a latency of four, wait for fewer sums.
      EXPECT_GE(sums.rows * sums.vectors, 8) << rows << " x " << columns;
      EXPECT_GE(sums.rows, 4) << "a panel beyond the first cache is read too often";
    }
  }
}

/// Pixels of 32 channels: what a max-pool of a swish takes of them, and of plain values. Vectors of
/// one pixel come together where functions take the time.
TEST(RegisterTiles, FunctionsTakeWholePixels) {
  const Target target = *find_target("x86-64-v3");
  const auto pool = [&](const char* value) {
    TensorProgram program = *parse_tensor_program(
        "program {\n  input x: f32[40,80,32]\n  y: f32[20,40,32] = max[2, 2]:f32 " +
        std::string(value) + "\n  output y as y\n}");
    const auto kernel = schedule_leaf(program, whole_group(program), target, "k");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    const std::string text = print(kernel->program);
    const size_t place = text.find("@[", text.find("carry acc"));
    return text.substr(place, text.find(']', place) + 1 - place);
  };
  EXPECT_EQ(pool("x[d0 * 2 + r0, d1 * 2 + r1, d2] * sigmoid(x[d0 * 2 + r0, d1 * 2 + r1, d2])"),
            "@[a2=REG_4-VEC_8]");
  EXPECT_EQ(pool("x[d0 * 2 + r0, d1 * 2 + r1, d2]"), "@[a1=REG_10, a2=VEC_8]");
}

/// The program of two products of one input in one kernel.
std::string two_products(const char* target) {
  TensorProgram program = expressed(R"((x: f32[60,512], w: f32[512,1376], v: f32[512,1376]) {
  g = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[60,1376]
  u = dot_general x, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={0} : f32[60,1376]
  y = mul g, u : f32[60,1376]
} -> (y))");
  for (Tensor& t : program.tensors) {
    if (t.name == "w" || t.name == "v") t.kind = Tensor::Kind::kConstant;
  }
  const auto kernel = schedule_leaf(program, whole_group(program), *find_target(target), "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return print(kernel->program);
}

/// Of two products in one kernel both panels are loaded ahead, and elements of all rows wait for
/// the second: with 16 registers six rows of each spill, with 32 eleven.
TEST(RegisterTiles, OfSeveralProductsLeaveMore) {
  const std::string narrow = two_products("x86-64-v3"), wide = two_products("x86-64-v4");
  EXPECT_NE(narrow.find("=REG_5"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("acc_2n"), std::string::npos) << narrow;
  EXPECT_EQ(wide.find("=REG_11"), std::string::npos) << wide;
  EXPECT_NE(wide.find("acc_2n"), std::string::npos) << wide;
}

/// 24 columns fill three vectors of eight lanes, and two of sixteen to three quarters: a processor
/// that begins twice as many of the former takes these, others have nothing to gain.
TEST(RegisterTiles, MayBeOfHalfVectorsWhereTheseFillTheColumns) {
  Target target = *find_target("x86-64-v4");
  EXPECT_EQ(sums_of(96, 432, 24, target).lanes, 16);
  target.cpu = "znver4";
  const Sums few = sums_of(96, 432, 24, target);
  EXPECT_EQ(few.lanes, 8);
  EXPECT_EQ(few.vectors, 3);
  EXPECT_EQ(few.rows, 8);
  EXPECT_EQ(sums_of(96, 432, 48, target).lanes, 16);
  EXPECT_EQ(sums_of(1, 432, 24, target).lanes, 16) << "a row alone waits for its panel";
}

/// What the first cache holds is read as often as it is multiplied.
TEST(RegisterTiles, ShallowProductsMayHaveFewRows) {
  const Target target = *find_target("x86-64-v3");
  const Sums few = sums_of(2, 16, 64, target);
  EXPECT_EQ(few.rows, 2);
  EXPECT_EQ(few.vectors, 4);
}

/// An Intel server's core: 2 MB of second cache, behind which 8 bytes of a cycle come.
Target slow_last_cache() {
  Target target = *find_target("x86-64-v4");
  target.threads = 1;
  target.l1_bytes = 48 << 10;
  target.l2_bytes = 2 << 20;
  target.l3_bytes = 32 << 20;
  target.peak_gflops = 192;
  target.bandwidth = {{1 << 20, 84}, {2 << 20, 60}, {16 << 20, 24}, {64 << 20, 20}};
  return target;
}

/// Fourteen rows are two tiles of seven: a rest of two rows multiplies a panel from the second
/// cache twice and waits for it. A panel that this cache does not hold is made narrower.
TEST(RegisterTiles, PanelsThatTilesReadAgainStayInTheSecondCache) {
  const Target target = slow_last_cache();
  const Sums deep = sums_of(14, 9216, 1024, target), shallow = sums_of(12, 256, 1024, target);
  EXPECT_EQ(deep.rows, 7);
  EXPECT_EQ(deep.vectors, 2) << "three vectors of 9216 steps are 1.8 MB";
  EXPECT_EQ(shallow.rows * shallow.vectors, 24);
}

/// A panel that one tile of rows goes through once comes from memory however wide it is.
TEST(RegisterTiles, PanelsThatAreReadOnceMayBeWide) {
  EXPECT_EQ(sums_of(1, 25088, 4096, slow_last_cache()).vectors, 4);
}

/// Of sixteen pictures and their pixels the rows of a tile are pixels: those of other pictures lie
/// pages apart.
TEST(RegisterTiles, RowsLieCloseTogether) {
  TensorProgram program = expressed(
      "(x: f32[16,32,1,36], w: f32[64,32,1,5]) {\n  y = convolution x, w, strides={1,1}, "
      "low={0,0}, high={0,0}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=1 : "
      "f32[16,64,1,32]\n} -> (y)");
  for (Tensor& t : program.tensors) {
    if (t.name == "w") t.kind = Tensor::Kind::kConstant;
    if (t.name == "x") t.layout = permuted_layout(t.type.shape, {0, 2, 3, 1});
  }
  const auto kernel = schedule_leaf(program, whole_group(program), *find_target("x86-64-v4"), "k");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const std::string text = print(kernel->program);
  EXPECT_EQ(text.find("in 16 step"), std::string::npos) << text;
  EXPECT_NE(text.find("in 32 step"), std::string::npos) << text;
}

/// Whether a product of values copies the columns of its right operand, rows of which lie
/// `columns` elements apart.
bool stages(int64_t depth, int64_t columns, const char* target) {
  const std::string k = std::to_string(depth), n = std::to_string(columns);
  TensorProgram program =
      expressed("(p: f32[12,384," + k + "], v: f32[12," + k + "," + n +
                "]) {\n  y = dot_general p, v, lhs_batch={0}, rhs_batch={0}, lhs_contract={2}, "
                "rhs_contract={1} : f32[12,384," +
                n + "]\n} -> (y)");
  const auto kernel = schedule_leaf(program, whole_group(program), *find_target(target), "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return print(kernel->program).find("panel[") != std::string::npos;
}

/// Lines 256 bytes apart find 16 of the first cache's 64 sets: a panel of 192 of them would come
/// from behind it with each tile of rows.
TEST(RegisterTiles, PanelsInFewSetsOfTheFirstCacheAreCopied) {
  EXPECT_TRUE(stages(192, 64, "x86-64-v3"));
  EXPECT_TRUE(stages(1024, 49, "x86-64-v3")) << "a line for each of 64 sets and 8 ways, at most";
  EXPECT_FALSE(stages(48, 64, "x86-64-v3"));
  EXPECT_FALSE(stages(192, 80, "x86-64-v3")) << "these find all sets";
  EXPECT_FALSE(stages(192, 64, "x86-64-v4")) << "a tile of wide vectors does not wait for them";
}

}  // namespace
}  // namespace weft
