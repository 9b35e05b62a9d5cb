// The C interface over an artefact with machine code of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/artefact.h"
#include "tests/runtime/program_fixture.h"
#include "weft/weft_runtime.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// y = x sorted along its axis, its order, and s + s' (scatter-added) back into the state.
Program sorting(int64_t n) {
  ProgramFixture f;
  f.program.model = "sorting";
  f.program.target = "any";
  const int32_t x = f.input("x", {n}), s = f.input("state", {n});
  const int32_t y = f.output("y", {n}), order = f.output("order", {n}, DType::kI64);
  const int32_t s_out = f.output("next_state", {n});
  HostStep sort, add;
  sort.op = HostStep::Op::kSort;
  sort.operands = {x};
  sort.results = {y, order};
  add.op = HostStep::Op::kScatterElements;
  add.combines = true;
  add.operands = {s, order, y};
  add.results = {s_out};
  f.step(ProgramFixture::host(sort));
  f.step(ProgramFixture::host(add));
  return f.program;
}

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(::testing::TempDir()) / ("c_api-" + std::to_string(getpid()) + ".weft");
    model_ = weft_model_new();
  }
  void TearDown() override {
    weft_context_free(context_);
    weft_model_free(model_);
    fs::remove(path_);
  }
  void save(const std::vector<Program>& programs) const {
    std::vector<const Program*> list;
    for (const Program& program : programs) list.push_back(&program);
    ASSERT_TRUE(save_artefact(path_, list).ok());
  }
  void open(const std::vector<Program>& programs) {
    save(programs);
    weft_load_options options = {sizeof options, 2, 0};
    ASSERT_EQ(weft_model_load(model_, path_.c_str(), &options), WEFT_OK)
        << weft_model_message(model_);
    context_ = weft_context_new(model_);
    ASSERT_NE(context_, nullptr) << weft_model_message(model_);
  }
  int run(int64_t n, float* x, float* state, float* y, int64_t* order, float* next) {
    const weft_tensor inputs[] = {{WEFT_F32, 1, &n, nullptr, x}, {WEFT_F32, 1, &n, nullptr, state}};
    const weft_tensor outputs[] = {{WEFT_F32, 1, &n, nullptr, y},
                                   {WEFT_I64, 1, &n, nullptr, order},
                                   {WEFT_F32, 1, &n, nullptr, next}};
    return weft_context_run(context_, inputs, 2, outputs, 3);
  }

  fs::path path_;
  weft_model* model_ = nullptr;
  weft_context* context_ = nullptr;
};

TEST_F(CApi, LoadsDescribesAndRuns) {
  open({sorting(4)});
  EXPECT_EQ(weft_runtime_version(), WEFT_RUNTIME_VERSION);
  ASSERT_EQ(weft_model_input_count(model_), 2u);
  ASSERT_EQ(weft_model_output_count(model_), 3u);
  weft_tensor_info info = {};
  ASSERT_EQ(weft_model_output(model_, 1, &info), WEFT_OK);
  EXPECT_STREQ(info.name, "order");
  EXPECT_EQ(info.dtype, WEFT_I64);
  ASSERT_EQ(info.rank, 1u);
  EXPECT_EQ(info.shape[0], 4);
  EXPECT_EQ(weft_model_input(model_, 2, &info), WEFT_INVALID_INPUT);

  float x[] = {3, -1, 7, 2}, state[] = {100, 200, 300, 400}, y[4];
  int64_t order[4];
  ASSERT_EQ(run(4, x, state, y, order, state), WEFT_OK) << weft_context_message(context_);
  EXPECT_THAT(y, ElementsAre(-1, 2, 3, 7));
  EXPECT_THAT(order, ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(state, ElementsAre(103, 199, 307, 402));
  EXPECT_STREQ(weft_context_message(context_), "");
}

TEST_F(CApi, DispatchesOnTheShapes) {
  open({sorting(4), sorting(2)});
  float x[] = {3, -1, 7}, state[] = {10, 20, 30}, y[3];
  int64_t order[3];
  ASSERT_EQ(run(2, x, state, y, order, state), WEFT_OK) << weft_context_message(context_);
  EXPECT_EQ(y[0], -1);
  EXPECT_EQ(y[1], 3);
  EXPECT_EQ(run(3, x, state, y, order, state), WEFT_INVALID_INPUT);
  EXPECT_THAT(weft_context_message(context_), HasSubstr("x[4], state[4]; or x[2], state[2]"));
}

TEST_F(CApi, DrawsTheSeedThatNobodyGives) {
  ProgramFixture f;
  f.program.model = "drawing";
  f.program.target = "any";
  const int32_t x = f.input("x", {}), seed = f.input("seed", {}, DType::kU64);
  f.program.inputs.back().drawn = true;
  f.step(ProgramFixture::copy(x, f.output("y", {})));
  f.step(ProgramFixture::copy(seed, f.output("drawn", {}, DType::kU64)));
  Program two = f.program;  // for another shape, so that the shapes choose
  two.inputs[0].shape = two.outputs[0].shape = {2};
  for (ProgramBuffer& b : two.buffers) {
    if (b.dtype != DType::kF32) continue;
    b.shape = {2};
    b.bytes = 8;
  }
  open({f.program, two});
  ASSERT_EQ(weft_model_input_count(model_), 1u);
  weft_tensor_info info = {};
  EXPECT_EQ(weft_model_input(model_, 1, &info), WEFT_INVALID_INPUT);
  float in = 3, out = 0;
  const auto draw = [&](bool given, uint64_t value) {
    const weft_tensor inputs[] = {{WEFT_F32, 0, nullptr, nullptr, &in},
                                  {WEFT_U64, 0, nullptr, nullptr, &value}};
    uint64_t drawn = 0;
    const weft_tensor outputs[] = {{WEFT_F32, 0, nullptr, nullptr, &out},
                                   {WEFT_U64, 0, nullptr, nullptr, &drawn}};
    EXPECT_EQ(weft_context_run(context_, inputs, given ? 2 : 1, outputs, 2), WEFT_OK)
        << weft_context_message(context_);
    return drawn;
  };
  weft_set_seed(4);
  const uint64_t first = draw(false, 0), second = draw(false, 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(true, 11), 11u);
  weft_set_seed(4);
  EXPECT_EQ(draw(false, 0), first);
  weft_set_seed(5);
  EXPECT_NE(draw(false, 0), second);
  EXPECT_EQ(out, 3);
  EXPECT_EQ(weft_context_run(context_, nullptr, 0, nullptr, 0), WEFT_INVALID_INPUT);
}

TEST_F(CApi, MistakesHaveMessages) {
  EXPECT_EQ(weft_context_new(model_), nullptr);
  EXPECT_STREQ(weft_model_message(model_), "no model is loaded");
  EXPECT_EQ(weft_model_load(model_, "/no/such/file", nullptr), WEFT_INVALID_INPUT);
  EXPECT_THAT(weft_model_message(model_), HasSubstr("No such file"));
  EXPECT_EQ(weft_model_load(model_, nullptr, nullptr), WEFT_INVALID_INPUT);
  open({sorting(4)});
  EXPECT_STREQ(weft_model_message(model_), "");
  float x[4] = {}, y[4];
  int64_t order[4];
  EXPECT_EQ(run(5, x, x, y, order, x), WEFT_INVALID_INPUT);
  EXPECT_STREQ(weft_context_message(context_), "input 'x': expected f32[4], got f32[5]");
  const weft_tensor strange = {200, 0, nullptr, nullptr, x};
  const weft_tensor tensors[] = {strange, strange, strange};
  EXPECT_EQ(weft_context_run(context_, tensors, 2, tensors, 3), WEFT_INVALID_INPUT);
  EXPECT_THAT(weft_context_message(context_), HasSubstr("an unknown type"));
  EXPECT_EQ(weft_context_run(context_, nullptr, 2, tensors, 3), WEFT_INVALID_INPUT);
  EXPECT_EQ(weft_context_run(nullptr, tensors, 2, tensors, 3), WEFT_INVALID_INPUT);
  EXPECT_EQ(weft_model_load(nullptr, "x", nullptr), WEFT_INVALID_INPUT);
  weft_context_cancel(nullptr);
}

TEST_F(CApi, MissingFeaturesHaveTheirCode) {
  Program program = sorting(4);
  program.required_features = {"feature-of-the-future"};
  save({program});
  EXPECT_EQ(weft_model_load(model_, path_.c_str(), nullptr), WEFT_MISSING_DEVICE);
  EXPECT_THAT(weft_model_message(model_), HasSubstr("feature-of-the-future"));
}

TEST_F(CApi, CancelStopsTheNextRunOnly) {
  open({sorting(4)});
  float x[] = {3, -1, 7, 2}, state[] = {1, 2, 3, 4}, y[4];
  int64_t order[4];
  weft_context_cancel(context_);
  EXPECT_EQ(run(4, x, state, y, order, state), WEFT_INTERRUPTED);
  EXPECT_EQ(run(4, x, state, y, order, state), WEFT_OK);
}

TEST_F(CApi, ContextsOutliveTheirModel) {
  open({sorting(4)});
  weft_model_free(model_);
  model_ = nullptr;
  float x[] = {3, -1, 7, 2}, state[] = {1, 2, 3, 4}, y[4];
  int64_t order[4];
  ASSERT_EQ(run(4, x, state, y, order, state), WEFT_OK);
  EXPECT_EQ(y[3], 7);
}

}  // namespace
}  // namespace weft::testing
