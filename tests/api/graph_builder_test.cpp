// Models that a program writes down, through the public interface.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "weft/graph_builder.h"

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using weft_v1::DType;
using weft_v1::Extent;
using weft_v1::GraphBuilder;
using weft_v1::Tensor;

template <typename T>
Tensor constant(GraphBuilder& b, std::vector<int64_t> shape, std::vector<T> values) {
  const auto held = std::make_shared<const std::vector<T>>(std::move(values));
  return b.constant(*weft::kDTypeOf<T>, std::move(shape), std::as_bytes(std::span(*held)), held);
}

weft::CompileOptions serial() {
  weft::CompileOptions options;
  options.threads = 1;
  return options;
}

/// The one output, of `size` floats, for inputs of float; or the message.
std::vector<float> run(const weft::Executable& model,
                       const std::vector<std::vector<float>>& inputs) {
  auto context = model.new_context();
  if (!context.ok()) ADD_FAILURE() << context.error().message;
  int64_t size = 1;
  for (const int64_t extent : model.outputs()[0].shape) size *= extent;
  std::vector<float> y(static_cast<size_t>(size));
  std::vector<weft::Input> in;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back(weft::input(inputs[i], model.inputs()[i].shape));
  const weft::Output out = weft::output(y, model.outputs()[0].shape);
  const weft::Status done = context->run(in, {&out, 1});
  if (!done.ok()) ADD_FAILURE() << done.error().message;
  return y;
}

/// relu(x w) of x f32[N,2], w f32[2,3], N open.
weft::Result<weft::Model> dense() {
  GraphBuilder b;
  const Tensor x = b.input("x", DType::kF32, {Extent::open("N"), 2});
  const Tensor w = constant<float>(b, {2, 3}, {1, 2, 3, -1, -2, -3});
  const Tensor h = b.dot_general(x, w, {.lhs_contract = {1}, .rhs_contract = {0}}, DType::kF32);
  b.output(b.elementwise("max", {h, b.scalar(DType::kF32, 0)}), "y");
  return b.finish({{"N", 2}});
}

TEST(GraphBuilder, BuildsModelsWithOpenDimensions) {
  const auto model = dense();
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->inputs().size(), 1U);
  EXPECT_EQ((*model->inputs()[0].shape)[0].extent, weft::kOpen);
  EXPECT_EQ((*model->inputs()[0].shape)[0].name, "N");
  EXPECT_EQ(model->outputs()[0].name, "y");
  EXPECT_EQ(model->outputs()[0].dtype, DType::kF32);
  EXPECT_FALSE(model->outputs()[0].shape.has_value());
  for (const int64_t n : {1, 3}) {
    weft::CompileOptions options = serial();
    options.bind["N"] = n;
    const auto compiled = weft::compile(*model, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_THAT(compiled->outputs()[0].shape, ElementsAre(n, 3));
    std::vector<float> x, expected;
    for (int64_t i = 0; i < n; ++i) {
      x.insert(x.end(), {static_cast<float>(i), 1});
      for (const float w : {1.F, 2.F, 3.F})
        expected.push_back(std::max(0.F, w * static_cast<float>(i - 1)));
    }
    EXPECT_THAT(run(*compiled, {x}), Pointwise(FloatEq(), expected));
  }
  EXPECT_THAT(weft::compile(*model, serial()).error().message, HasSubstr("N"));
}

TEST(GraphBuilder, ExtentsAreExpressionsOverOpenDimensions) {
  // x [N] padded by one, its halves summed: needs N odd.
  GraphBuilder b;
  const Extent n = Extent::open("N");
  const Tensor x = b.input("x", DType::kF32, {n});
  const Tensor padded = b.pad(x, b.scalar(DType::kF32, 5), {0}, {1});
  const Tensor halves = b.reshape(padded, {2, floor_div(n + 1, 2)});
  const Tensor sums = b.reduce("sum", halves, {0}, /*keep_dims=*/false);
  const Tensor times = b.convert(b.value_of(n * 2 - 1), DType::kF32);
  b.output(b.elementwise("mul", {sums, times}), "y");
  const auto model = b.finish({{"N", 1}});
  ASSERT_TRUE(model.ok()) << model.error().message;
  weft::CompileOptions options = serial();
  options.shapes["x"] = {3};
  const auto compiled = weft::compile(*model, options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_THAT(run(*compiled, {{1, 2, 3}}), ElementsAre(20, 35));
  options.shapes["x"] = {4};
  const auto even = weft::compile(*model, options);
  ASSERT_FALSE(even.ok());
  EXPECT_EQ(even.error().code, weft::ErrorCode::kInvalidInput);
  EXPECT_THAT(even.error().message, HasSubstr("reshape"));
}

TEST(GraphBuilder, MovesGathersAndConvolves) {
  GraphBuilder b;
  const Tensor x = b.input("x", DType::kF32, {1, 1, 4});
  const Tensor w = constant<float>(b, {1, 1, 2}, {1, 10});
  const Tensor c = b.convolution(x, w, {.strides = {2}}, DType::kF32);         // [1, 1, 2]
  const Tensor columns = b.transpose(b.concat({c, c}, 1), {0, 2, 1});          // [1, 2, 2]
  const Tensor picked = b.gather(columns, constant<int64_t>(b, {1}, {1}), 1);  // [1, 1, 2]
  const Tensor best = b.reduce_window("max", x, {.window = {1, 1, 2}});        // [1, 1, 3]
  const Tensor from = b.slice(best, {0, 0, 1}, {1, 1, 1}, {1, 1, 2});
  b.output(b.elementwise("add", {b.reshape(picked, {2}), b.reshape(from, {2})}), "y");
  const auto model = b.finish();
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model->outputs()[0].shape)[0].extent, 2);
  const auto compiled = weft::compile(*model, serial());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_THAT(run(*compiled, {{1, 2, 3, 4}}), ElementsAre(43 + 3, 43 + 4));
}

/// "running sum" of x f32[T,2], T open, by a loop of each kind: all make x[0] + … + x[T-1].
weft::Result<weft::Model> sums(const std::string& kind) {
  GraphBuilder b;
  const Extent length = Extent::open("T");
  const Tensor x = b.input("x", DType::kF32, {length, 2});
  const Tensor zeros = b.broadcast_to(b.scalar(DType::kF32, 0), {2});
  const Tensor none = b.scalar_int(DType::kI64, 0), one = b.scalar_int(DType::kI64, 1);
  if (kind == "while") {
    const Tensor end = b.value_of(length);
    const auto more = [&](const std::vector<Tensor>& c) {
      return std::vector{b.elementwise("lt", {c[0], end})};
    };
    const auto add = [&](const std::vector<Tensor>& c) {
      const Tensor row = b.gather(x, c[0], 0);
      return std::vector{b.elementwise("add", {c[0], one}), b.elementwise("add", {c[1], row})};
    };
    b.output(b.while_loop({none, zeros}, more, add)[1], "y");
  } else {
    const auto add = [&](const std::vector<Tensor>& c) {
      const Tensor sum = b.elementwise("add", {c[0], c[1]});
      return std::vector{sum, sum};
    };
    const std::vector<Tensor> made = b.scan({zeros}, {x}, add, kind == "reversed");
    b.output(kind == "stacked" ? made[1] : made[0], "y");
  }
  return b.finish({{"T", 3}});
}

TEST(GraphBuilder, LoopsRunAlongAnOpenAxis) {
  const std::vector<float> x = {1, 2, 30, 40, 500, 600};
  for (const std::string kind : {"while", "scan", "reversed", "stacked"}) {
    const auto model = sums(kind);
    ASSERT_TRUE(model.ok()) << kind << ": " << model.error().message;
    weft::CompileOptions options = serial();
    options.bind["T"] = 3;
    const auto executable = weft::compile(*model, options);
    ASSERT_TRUE(executable.ok()) << kind << ": " << executable.error().message;
    const std::vector<float> stacked = {1, 2, 31, 42, 531, 642}, last = {531, 642};
    EXPECT_THAT(run(*executable, {x}), Pointwise(FloatEq(), kind == "stacked" ? stacked : last))
        << kind;
  }
}

TEST(GraphBuilder, BranchesReadWhatIsAroundThem) {
  GraphBuilder b;
  const Tensor x = b.input("x", DType::kF32, {3});
  const Tensor twice = b.elementwise("add", {x, x});
  const Tensor total = b.reduce("sum", x, {0}, false);
  const Tensor positive = b.elementwise("gt", {total, b.scalar(DType::kF32, 0)});
  const auto inner = [&] {
    return b.conditional(
        b.elementwise("gt", {total, b.scalar(DType::kF32, 10)}), [&] { return std::vector{twice}; },
        [&] { return std::vector{b.elementwise("neg", {twice})}; });
  };
  const auto zeros = [&] {
    return std::vector{b.elementwise("mul", {x, b.scalar(DType::kF32, 0)})};
  };
  b.output(b.conditional(positive, inner, zeros)[0], "y");
  const auto model = b.finish();
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto executable = weft::compile(*model, serial());
  ASSERT_TRUE(executable.ok()) << executable.error().message;
  using Floats = std::vector<float>;
  EXPECT_THAT(run(*executable, {Floats{5, 6, 7}}), Pointwise(FloatEq(), Floats{10, 12, 14}));
  EXPECT_THAT(run(*executable, {Floats{1, 2, 3}}), Pointwise(FloatEq(), Floats{-2, -4, -6}));
  EXPECT_THAT(run(*executable, {Floats{1, 2, -3}}), Pointwise(FloatEq(), Floats{0, 0, 0}));
}

/// The message of a loop over x f32[4,2] that `record` records.
std::string wrong_loop(const std::function<Tensor(GraphBuilder&, Tensor x)>& record) {
  GraphBuilder b;
  const Tensor x = b.input("x", DType::kF32, {4, 2});
  b.output(record(b, x), "y");
  const auto model = b.finish();
  EXPECT_FALSE(model.ok());
  return model.ok() ? "" : model.error().message;
}

TEST(GraphBuilder, RegionsThatDoNotFitAreRefused) {
  using List = std::vector<Tensor>;
  EXPECT_THAT(wrong_loop([](GraphBuilder& b, Tensor x) {
                return b.scan({x}, {x}, [](const List& c) { return List{c[1]}; })[0];
              }),
              HasSubstr("scan: its body makes a carry of another type: number 0"));
  EXPECT_THAT(wrong_loop([](GraphBuilder& b, Tensor x) {
                return b.scan({x}, {}, [](const List& c) { return c; })[0];
              }),
              HasSubstr("it has nothing to run along"));
  EXPECT_THAT(wrong_loop([](GraphBuilder& b, Tensor x) {
                const auto both = [](const List& c) { return List{c[0], c[0]}; };
                return b.while_loop({x}, both, [](const List& c) { return c; })[0];
              }),
              HasSubstr("its condition does not make one result"));
  EXPECT_THAT(wrong_loop([](GraphBuilder& b, Tensor x) {
                return b.conditional(
                    x, [&] { return List{x}; },
                    [&] { return List{b.reduce("sum", x, {0}, false)}; })[0];
              }),
              HasSubstr("its branches make results of different types"));
  EXPECT_THAT(wrong_loop([](GraphBuilder& b, Tensor x) {
                Tensor inside;
                b.scan({}, {x}, [&](const List& c) { return List{inside = c[0]}; });
                return inside;
              }),
              HasSubstr("no tensor of this builder, or of a region that ended"));
}

TEST(GraphBuilder, ErrorsNameTheOperation) {
  const auto message = [](auto build) {
    GraphBuilder b;
    const Tensor x = b.input("x", DType::kF32, {3});
    b.begin_origin("layer0/act", "relu");
    b.output(build(b, x), "y");
    const auto model = b.finish();
    return model.ok() ? std::string() : model.error().message;
  };
  EXPECT_THAT(message([](auto& b, Tensor x) { return b.elementwise("gelu", {x}); }),
              HasSubstr("layer0/act (gelu)"));
  EXPECT_THAT(message([](auto& b, Tensor x) { return b.elementwise("add", {x}); }),
              HasSubstr("operands"));
  EXPECT_THAT(message([](auto& b, Tensor x) { return b.reshape(x, {2, 2}); }),
              HasSubstr("reshape"));
  EXPECT_THAT(message([](auto& b, Tensor x) { return b.reshape(x, {Extent::open("M")}); }),
              HasSubstr("dimension that no input has"));
  EXPECT_THAT(message([](auto& b, Tensor) { return b.convert(Tensor{77}, DType::kF64); }),
              HasSubstr("no tensor of this builder"));
  EXPECT_THAT(message([](auto& b, Tensor x) { return b.reduce("mean", x, {0}, false); }),
              HasSubstr("no combiner 'mean'"));
  EXPECT_THAT(message([](auto& b, Tensor) { return b.input("z", DType::kF32, {-2}); }),
              HasSubstr("input"));
  EXPECT_EQ(message([](auto&, Tensor x) { return x; }), "");
  EXPECT_THAT(GraphBuilder().finish().error().message, HasSubstr("no outputs"));
}

/// The spectrum of each column of x, and x again out of its half; what has another length is told.
TEST(GraphBuilder, TransformsAndTheirInverses) {
  const auto again = [](int64_t length, DType type) {
    GraphBuilder b;
    const Tensor x = b.input("x", type, {4, Extent::open("N")});
    const auto [real, imaginary] = b.fourier(x, std::nullopt, 0, false, 3);
    const auto [back, nothing] = b.fourier(real, imaginary, -1);
    const Tensor signal = b.real_fourier_inverse(real, imaginary, 0, length);
    b.output(b.concat({real, imaginary, signal}, 0), "y");
    b.output(b.elementwise("sub", {back, nothing}), "z");
    return b.finish({{"N", 2}});
  };
  GraphBuilder b;
  const Tensor x = b.input("x", DType::kF32, {4, 2});
  const auto [real, imaginary] = b.fourier(x, std::nullopt, 0, false, 3);
  const Tensor signal = b.real_fourier_inverse(real, imaginary, 0, 4);
  b.output(b.concat({real, imaginary, signal}, 0), "y");
  const auto compiled = weft::compile(*b.finish(), serial());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_THAT(run(*compiled, {{1, 0, 2, 1, 3, 0, 4, 0}}),
              Pointwise(FloatNear(1e-5), {10, 1, -2, 0, -2, -1, 0, 0, 2, -1, 0, 0,  //
                                          1,  0, 2,  1, 3,  0,  4, 0}));
  EXPECT_TRUE(again(4, DType::kF32).ok());
  EXPECT_THAT(again(6, DType::kF32).error().message, HasSubstr("n / 2 + 1"));
  EXPECT_THAT(again(4, DType::kF16).error().message, HasSubstr("float32 or float64"));
}

TEST(GraphBuilder, GraphsAreCachedByWhatTheyAre) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / ("weft-graph-" + std::to_string(getpid()));
  weft::CompileOptions options = serial();
  options.bind["N"] = 2;
  options.cache_dir = folder.string();
  int passes = 0;
  options.progress = [&](const weft::CompileProgress&) { ++passes; };
  for (int time = 0; time < 2; ++time) {
    passes = 0;
    const auto model = dense();
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto compiled = weft::compile(*model, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_EQ(passes == 0, time == 1);
    EXPECT_THAT(run(*compiled, {{1, 0, 0, 1}}), ElementsAre(1, 2, 3, 0, 0, 0));
  }
  fs::remove_all(folder);
}

}  // namespace
