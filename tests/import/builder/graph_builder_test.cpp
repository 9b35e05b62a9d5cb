// Building primitives: broadcasting, folding, regions.

#include "import/builder/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "import/builder/prune_graph.h"

namespace weft::onnx {
namespace {

using ::testing::HasSubstr;

std::string text_of(GraphBuilder& b, ValueId result) {
  b.graph().add_output(result, "y");
  const Graph pruned = prune_graph(b.graph(), b.value_names());
  const Status verified = verify_graph(pruned);
  return verified.ok() ? print(pruned) : verified.error().message;
}

template <typename Body>
std::string refusal_of(Body&& body) {
  try {
    body();
  } catch (const Refusal& refusal) {
    return refusal.error().message;
  }
  return "no refusal";
}

TEST(GraphBuilder, FoldsSmallConstants) {
  GraphBuilder b;
  const ValueId sum = b.add(b.constant_ints({2, 3}), b.constant_ints({10, 20}));
  ASSERT_NE(b.constant_value(sum), nullptr);
  EXPECT_EQ(b.constant_value(sum)->at_int(1), 23);
  EXPECT_EQ(text_of(b, sum), R"(() {
  y = constant {12, 23} : i64[2]
} -> (y))");
}

TEST(GraphBuilder, KeepsASplatABroadcast) {
  GraphBuilder b;
  const ValueId x = b.input({DType::kF32, {2, 3}}, "x");
  const ValueId two = b.add(b.full(DType::kF32, {2, 3}, 1.5), b.full(DType::kF32, {2, 3}, 0.5));
  EXPECT_THAT(text_of(b, b.mul(x, two)), HasSubstr("constant 2 : f32[]"));
}

TEST(GraphBuilder, ComputesLargeConstantsOnlyOnDemand) {
  GraphBuilder b;
  const ValueId count = b.iota(DType::kI64, {1 << 20}, 0);
  const ValueId shifted = b.add(count, b.scalar_int(DType::kI64, 5));
  EXPECT_EQ(b.maker(shifted)->op, GraphOp::kElementwise);
  ASSERT_NE(b.constant_value(shifted), nullptr);
  EXPECT_EQ(b.constant_value(shifted)->at_int((1 << 20) - 1), (1 << 20) + 4);
  EXPECT_EQ(b.constant_value(b.full(DType::kF32, {int64_t{1} << 34}, 1)), nullptr);
}

TEST(GraphBuilder, WhatIsTooLargeToComputeSpendsNothing) {
  GraphBuilder b;
  // 64 MiB that can be computed, which four values of a GiB read, and each of them is asked for.
  const ValueId base = b.add(b.iota(DType::kI64, {1 << 22}, 0), b.full(DType::kI64, {1 << 22}, 5));
  for (int k = 0; k < 4; ++k) {
    const ValueId wide = b.neg(b.broadcast_to(b.neg(base), {(1 << 5) + k, 1 << 22}));
    EXPECT_EQ(b.constant_value(wide), nullptr);
  }
  EXPECT_NE(b.constant_value(base), nullptr);
  EXPECT_NE(b.constant_value(b.add(base, base)), nullptr);
}

TEST(GraphBuilder, AddsNoNodeWhereNothingChanges) {
  GraphBuilder b;
  const ValueId x = b.input({DType::kF32, {2, 3}}, "x");
  EXPECT_EQ(b.reshape(x, {2, 3}), x);
  EXPECT_EQ(b.transpose(x, {0, 1}), x);
  EXPECT_EQ(b.broadcast_to(x, {2, 3}), x);
  EXPECT_EQ(b.convert(x, DType::kF32), x);
  EXPECT_EQ(b.slice_axis(x, -1, 0, 3), x);
  EXPECT_EQ(b.reduce(Combiner::kSum, x, {}, true), x);
}

TEST(GraphBuilder, RefusesWhatDoesNotFit) {
  GraphBuilder b;
  const ValueId x = b.input({DType::kF32, {2, 3}}, "x");
  const ValueId i = b.input({DType::kI64, {2, 3}}, "i");
  const ValueId z = b.input({DType::kF32, {4}}, "z");
  EXPECT_THAT(refusal_of([&] { b.add(x, i); }), HasSubstr("f32[2,3] and i64[2,3]"));
  EXPECT_THAT(refusal_of([&] { b.add(x, z); }), HasSubstr("[2,3] and [4] do not broadcast"));
  EXPECT_THAT(refusal_of([&] { b.reshape(x, {4}); }), HasSubstr("cannot become [4]"));
  EXPECT_THAT(refusal_of([&] { b.squeeze(x, {0}); }), HasSubstr("is not 1"));
  EXPECT_THAT(refusal_of([&] { b.slice_axis(x, 1, 2, 4); }), HasSubstr("not within"));
  EXPECT_THAT(refusal_of([&] { b.reduce(Combiner::kSum, x, {0, -2}, false); }),
              HasSubstr("repeat"));
  EXPECT_THAT(refusal_of([&] { b.select(x, x, x); }), HasSubstr("cannot select"));
}

TEST(GraphBuilder, GivesARegionWhatItReads) {
  GraphBuilder b;
  const ValueId h0 = b.input({DType::kF32, {2}}, "h0");
  const ValueId xs = b.input({DType::kF32, {5, 2}}, "xs");
  const ValueId w = b.input({DType::kF32, {2}}, "w");
  const ValueId half = b.full(DType::kF32, {2}, 0.5);
  GraphBuilder body(&b);
  const ValueId h = body.input(b.type(h0));
  const ValueId x = body.input({DType::kF32, {2}});
  const ValueId next = body.add(body.mul(h, body.capture(half)), body.mul(x, body.capture(w)));
  body.result(next);
  body.result(next);
  const std::vector<ValueId> results = b.make_scan({h0}, {xs}, body, {false}, {false});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(b.type(results[1]), (TensorType{DType::kF32, {5, 2}}));
  // The constant is the region's own, w comes in from outside.
  const Node& scan = *b.maker(results[0]);
  EXPECT_EQ(scan.operands, (std::vector<ValueId>{h0, xs, w}));
  EXPECT_EQ(scan.regions[0]->inputs.size(), 3u);
}

}  // namespace
}  // namespace weft::onnx
