#include "rewrite/inline_constant_if.h"
#include "rewrite/narrow_regions.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/unroll_scans.h"
#include "tests/rewrite/expect_rewrite.h"

namespace weft {
namespace {

bool narrow(Graph& graph) { return narrow_regions(graph, 16); }
bool narrow_for_gpu(Graph& graph) { return narrow_regions(graph, 16, true); }

TEST(InlineConstantIf, TakesTheBranchWithWhatItCaptures) {
  expect_rewrite(inline_constant_if, R"((x: f32[2]) {
  t = constant true : bool[]
  y = if t, x, t : f32[2]
    region (a: f32[2], c: bool[]) {
      r = if c, a : f32[2]
        region (b: f32[2]) {
          n = neg b : f32[2]
        } -> (n)
        region (b: f32[2]) {
        } -> (b)
    } -> (r)
    region (a: f32[2], c: bool[]) {
    } -> (a)
} -> (y))",
                 R"((x: f32[2]) {
  t = constant true : bool[]
  n = neg x : f32[2]
} -> (y=n))");
}

TEST(InlineConstantIf, LeavesOpenConditions) {
  expect_unchanged(inline_constant_if, R"((c: bool[], x: f32[2]) {
  y = if c, x : f32[2]
    region (a: f32[2]) {
    } -> (a)
    region (a: f32[2]) {
    } -> (a)
} -> (y))");
}

TEST(NarrowRegions, WidensInsideTheLoop) {
  const char* graph = R"((h: f32[1,4], x: f32[3,1,4], w: f16[1,4,4], n: i32[4]) {
  wide = convert w : f32[1,4,4]
  u = reshape wide : f32[4,4]
  b = convert n : f32[4]
  g, ys = scan h, x, u, b, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[1,4], f32[3,1,4]
    region (a: f32[1,4], c: f32[1,4], v: f32[4,4], d: f32[4]) {
      p = dot_general a, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={1} : f32[1,4]
      e = broadcast d, dims={1} : f32[1,4]
      q = add p, c : f32[1,4]
      r = add q, e : f32[1,4]
    } -> (r, o=r)
} -> (ys))";
  expect_unchanged(narrow, graph);
  expect_rewrite(narrow_for_gpu, graph, R"((h: f32[1,4], x: f32[3,1,4], w: f16[1,4,4], n: i32[4]) {
  wide = convert w : f32[1,4,4]
  u = reshape wide : f32[4,4]
  b = convert n : f32[4]
  g, ys = scan h, x, w, b, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[1,4], f32[3,1,4]
    region (a: f32[1,4], c: f32[1,4], v9: f16[1,4,4], d: f32[4]) {
      v8 = convert v9 : f32[1,4,4]
      v = reshape v8 : f32[4,4]
      p = dot_general a, v, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={1} : f32[1,4]
      e = broadcast d, dims={1} : f32[1,4]
      q = add p, c : f32[1,4]
      r = add q, e : f32[1,4]
    } -> (r, o=r)
} -> (ys))");
}

TEST(NarrowRegions, MovesSmallConstantsInAndMergesCaptures) {
  expect_rewrite(narrow, R"((c: bool[], x: f32[8]) {
  k = constant 2 : f32[]
  b = broadcast k, dims={} : f32[8]
  y = if c, x, b, x, c : f32[8]
    region (p: f32[8], q: f32[8], r: f32[8], s: bool[]) {
      m = mul p, q : f32[8]
      n = add m, r : f32[8]
    } -> (n)
    region (p: f32[8], q: f32[8], r: f32[8], s: bool[]) {
    } -> (r)
} -> (y))",
                 R"((c: bool[], x: f32[8]) {
  k = constant 2 : f32[]
  b = broadcast k, dims={} : f32[8]
  y = if c, x : f32[8]
    region (p: f32[8]) {
      v6 = constant 2 : f32[]
      q = broadcast v6, dims={} : f32[8]
      m = mul p, q : f32[8]
      n = add m, p : f32[8]
    } -> (n)
    region (p: f32[8]) {
    } -> (r=p)
} -> (y))");
}

TEST(NarrowRegions, ConstantCarriesBecomeCaptures) {
  expect_rewrite(narrow, R"((h: f32[2], w: f32[2], xs: f32[5,2]) {
  a, b, ys = scan h, w, xs, carry_count=2, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[2], f32[2], f32[5,2]
    region (h: f32[2], w: f32[2], x: f32[2]) {
      p = mul x, w : f32[2]
      n = add h, p : f32[2]
    } -> (n, w, y=p)
} -> (a, b))",
                 R"((h: f32[2], w: f32[2], xs: f32[5,2]) {
  a = scan h, xs, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={} : f32[2]
    region (h: f32[2], x: f32[2], w: f32[2]) {
      p = mul x, w : f32[2]
      n = add h, p : f32[2]
    } -> (n)
} -> (a, b=w))");
}

TEST(UnrollScans, CopiesTheRegionForEachTrip) {
  const std::string scan = R"((h: f32[2], xs: f32[2,2]) {
  last, ys = scan h, xs, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[2], f32[2,2]
    region (h: f32[2], x: f32[2]) {
      n = add h, x : f32[2]
    } -> (n, y=n)
} -> (last, ys))";
  expect_rewrite([](Graph& graph) { return unroll_scans(graph, 2); }, scan,
                 R"((h: f32[2], xs: f32[2,2]) {
  v4 = slice xs, start={1,0}, step={1,1} : f32[1,2]
  v5 = reshape v4 : f32[2]
  n = add h, v5 : f32[2]
  v7 = slice xs, start={0,0}, step={1,1} : f32[1,2]
  v8 = reshape v7 : f32[2]
  n_1 = add n, v8 : f32[2]
  v10 = reshape n : f32[1,2]
  v11 = reshape n_1 : f32[1,2]
  v12 = concat v10, v11, axis=0 : f32[2,2]
} -> (last=n_1, ys=v12))");
  expect_unchanged([](Graph& graph) { return unroll_scans(graph, 1); }, scan);
}

TEST(RemoveDeadNodes, KeepsWhatTheOutputsNeed) {
  expect_rewrite(remove_dead_nodes, R"((x: f32[2], unused: f32[3]) {
  a = neg x : f32[2]
  v, i = sort x, axis=0, descending=true : f32[2], i64[2]
  b = exp a : f32[2]
} -> (i))",
                 R"((x: f32[2], unused: f32[3]) {
  v, i = sort x, axis=0, descending=true : f32[2], i64[2]
} -> (i))");
}

/// What a step is given, reshaped, and stacks: the tensor that the steps walk, but where it is
/// stacked the other way round.
TEST(NarrowRegions, StacksOfSlicesAreWhatIsWalked) {
  expect_rewrite(narrow, R"((h: f32[3], x: f32[5,1,3]) {
  l, r, s = scan h, x, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={true,false} : f32[3], f32[5,3], f32[5,3]
    region (a: f32[3], b: f32[1,3]) {
      c = reshape b : f32[3]
      n = sub a, c : f32[3]
    } -> (n, p=c, q=c)
  y = sub r, s : f32[5,3]
} -> (y, l))",
                 R"((h: f32[3], x: f32[5,1,3]) {
  v6 = reshape x : f32[5,3]
  l, s = scan h, x, carry_count=1, scanned_count=1, x_reverse={true}, y_reverse={false} : f32[3], f32[5,3]
    region (a: f32[3], b: f32[1,3]) {
      c = reshape b : f32[3]
      n = sub a, c : f32[3]
    } -> (n, q=c)
  y = sub v6, s : f32[5,3]
} -> (y, l))");
}

}  // namespace
}  // namespace weft
