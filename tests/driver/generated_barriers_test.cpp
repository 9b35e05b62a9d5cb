// What orders the threads of generated kernels, taken away one by one: the emulator reports each
// loss, so none of it is redundant and no kernel lacks any.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "codegen/cuda/emit_cuda.h"
#include "driver/compiler.h"
#include "lower/lower.h"
#include "simt/launch.h"
#include "tests/graph_texts.h"
#include "tests/tile/program_cases.h"

namespace weft {
namespace {

/// A kernel's text on made-up values; nullopt without a compiler for it.
std::optional<simt::Report> launch(const KernelFunction& kernel, const CudaKernel& code,
                                   const std::string& text) {
  const auto module = simt::Module::compile(text, code.name + ".cu");
  if (!module.ok() && module.error().code == ErrorCode::kMissingDevice) return std::nullopt;
  EXPECT_TRUE(module.ok()) << module.error().message << text;
  if (!module.ok()) return std::nullopt;
  std::vector<HostTensor> memory;
  std::vector<simt::Buffer> buffers;
  std::vector<simt::Argument> arguments;
  for (const KernelBuffer& b : kernel.buffers) {
    if (b.kind == KernelBuffer::Kind::kShared) continue;
    memory.push_back(
        tile_test::random_tensor(b.dtype, {b.elements}, static_cast<uint32_t>(memory.size() + 1)));
    simt::Buffer buffer;
    buffer.name = b.name;
    buffer.data = memory.back().mutable_raw();
    buffer.bytes = static_cast<size_t>(b.elements * byte_size(b.dtype));
    buffer.use = b.kind == KernelBuffer::Kind::kInput    ? simt::Buffer::Use::kRead
                 : b.kind == KernelBuffer::Kind::kOutput ? simt::Buffer::Use::kWrite
                                                         : simt::Buffer::Use::kScratch;
    arguments.emplace_back(buffer.data);
    buffers.push_back(std::move(buffer));
  }
  uint32_t barrier = 0;
  if (code.grid_barrier) {
    buffers.push_back({"barrier", reinterpret_cast<std::byte*>(&barrier), sizeof barrier,
                       simt::Buffer::Use::kReadWrite});
    arguments.emplace_back(&barrier);
  }
  simt::LaunchShape shape;
  shape.grid = {static_cast<uint32_t>(code.blocks), 1, 1};
  shape.threads = static_cast<uint32_t>(code.threads);
  shape.cluster = static_cast<uint32_t>(code.cluster);
  shape.cooperative = code.grid_barrier;
  shape.shared_bytes = static_cast<size_t>(code.shared_bytes);
  simt::Emulator emulator;
  const auto report = emulator.launch(**module, code.name, shape, buffers, arguments);
  EXPECT_TRUE(report.ok()) << report.error().message;
  if (!report.ok()) return std::nullopt;
  return *report;
}

struct Losses {
  int total = 0;
  std::vector<std::string> unreported;
};

/// Takes each statement that orders threads or waits for copies out of the text.
void take_away(const KernelFunction& kernel, Losses* losses) {
  static const std::regex kOrdering(
      R"re(wf_sync_(block|grid|warp|cluster)\(\w*\);|wf_cp_wait<\d+>\(\);|wf_cp_commit\(\);|wf_fence\(\);)re");
  const CudaKernel code = emit_cuda(kernel);
  const auto original = launch(kernel, code, code.text);
  ASSERT_TRUE(original.has_value());
  EXPECT_TRUE(original->clean()) << simt::print(*original) << code.text;
  for (auto at = std::sregex_iterator(code.text.begin(), code.text.end(), kOrdering);
       at != std::sregex_iterator(); ++at) {
    std::string text = code.text;
    text.replace(static_cast<size_t>(at->position()), static_cast<size_t>(at->length()), "");
    const auto report = launch(kernel, code, text);
    ASSERT_TRUE(report.has_value());
    if (report->clean()) {
      // A branch that these sizes do not reach says nothing.
      std::string wrong = code.text;
      wrong.replace(static_cast<size_t>(at->position()), static_cast<size_t>(at->length()),
                    "if (wf_thread() == 0) { wf_sync_block(); }");
      const auto reached = launch(kernel, code, wrong);
      ASSERT_TRUE(reached.has_value());
      if (reached->clean()) continue;
    }
    ++losses->total;
    if (!report->clean()) continue;
    const auto line = std::count(code.text.begin(), code.text.begin() + at->position(), '\n') + 1;
    losses->unreported.push_back(code.name + ":" + std::to_string(line) + ": " + at->str());
  }
}

/// Whether there is a compiler that the emulator can build texts with.
bool available() {
  const auto probe = simt::Module::compile(
      "#include \"weft_cuda.h\"\nWF_KERNEL(k, 32, 1)(s32* x) { x[0] = 0; }\nWF_EXPORT(k)\n",
      "k.cu");
  return probe.ok() || probe.error().code != ErrorCode::kMissingDevice;
}

class GeneratedBarriers : public testing::Test {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
};

TEST_F(GeneratedBarriers, OfTheGpuPrograms) {
  Losses losses;
  for (const tile_test::ProgramCase& test : tile_test::program_cases()) {
    // At their small sizes not every barrier of these two orders anything.
    if (test.name == "attention_rows_gpu" || test.name == "feed_forward_gpu") continue;
    if (!test.name.ends_with("_gpu")) continue;
    const auto kernel = lower_to_kernel(tile_test::small_program(test), *find_target("h100-sxm"));
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    take_away(*kernel, &losses);
  }
  EXPECT_GE(losses.total, 20);
  EXPECT_THAT(losses.unreported, testing::IsEmpty());
}

/// The kernels that the planner makes of a graph.
void take_away_from_graph(const std::string& text, const Target& target, Losses* losses,
                          CompileOptions options = {}) {
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  options.device = target;
  auto compiled = compile_graph(*graph, options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  for (const KernelFunction* kernel : functions_of(**compiled)) take_away(*kernel, losses);
}

/// Kernels of one launch whose blocks keep what they have: no barrier of the grid orders that, and
/// each that is left orders something else.
TEST_F(GeneratedBarriers, OfWhatBlocksKeep) {
  Losses losses;
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,grid";
  take_away_from_graph(
      "(x: f32[33,49], w: f32[33,5], v: f32[5,33]) {\n"
      " p = reduce x, axes={1}, combiner=sum : f32[33]\n m = reshape p : f32[1,33]\n"
      " a = dot_general m, w, lhs_contract={1}, rhs_contract={0} : f32[1,5]\n"
      " b = tanh a : f32[1,5]\n"
      " d = dot_general b, v, lhs_contract={1}, rhs_contract={0} : f32[1,33]\n"
      " e = reshape d : f32[33]\n g = broadcast e, dims={0} : f32[33,49]\n"
      " y = mul x, g : f32[33,49]\n} -> (y)",
      *find_target("a100-40gb"), &losses, options);
  EXPECT_GE(losses.total, 3);
  EXPECT_THAT(losses.unreported, testing::IsEmpty());
}

/// Kernels on the blocks of one cluster: each barrier of it orders something.
TEST_F(GeneratedBarriers, OfOneCluster) {
  Losses losses;
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,cluster";
  take_away_from_graph(
      "(a: f32[37,33], w: f32[33,24], v: f32[24,33]) {\n"
      " p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[37,24]\n"
      " e = tanh p : f32[37,24]\n"
      " q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[37,33]\n} -> (q)",
      *find_target("h100-sxm"), &losses, options);
  EXPECT_GE(losses.total, 3);
  EXPECT_THAT(losses.unreported, testing::IsEmpty());
}

/// Weights that blocks copy before they wait for each other: without the loop's wait they are read
/// before they are there, and copied over what the nest in front still reads without its barrier.
TEST_F(GeneratedBarriers, OfLoadsAhead) {
  Losses losses;
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,grid";
  take_away_from_graph(
      "(x: f32[37,72], w: f32[72,40], v: f32[40,56], z: f32[56,24]) {\n"
      " p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[37,40]\n"
      " h = tanh p : f32[37,40]\n"
      " r = dot_general h, v, lhs_contract={1}, rhs_contract={0} : f32[37,56]\n"
      " u = tanh r : f32[37,56]\n"
      " y = dot_general u, z, lhs_contract={1}, rhs_contract={0} : f32[37,24]\n} -> (y)",
      *find_target("a100-40gb"), &losses, options);
  EXPECT_GE(losses.total, 8);
  EXPECT_THAT(losses.unreported, testing::IsEmpty());
}

/// A loop between kernels in one launch: those of its steps, and those around it.
TEST_F(GeneratedBarriers, OfALoopAmongKernels) {
  Losses losses;
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,grid,recur";
  take_away_from_graph(
      R"((h0: f32[3,33], xs: f32[4,3,33], w: f32[33,33], v: f32[33,33]) {
  p = dot_general xs, v, lhs_contract={2}, rhs_contract={0} : f32[4,3,33]
  last, all = scan h0, p, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={true} : f32[3,33], f32[4,3]
    region (h: f32[3,33], x: f32[3,33], w: f32[33,33]) {
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[3,33]
      a = add p, x : f32[3,33]
      n = tanh a : f32[3,33]
      m = reduce n, axes={1}, combiner=max : f32[3]
    } -> (n, m)
  s = reduce all, axes={0}, combiner=sum : f32[3]
  t = dot_general last, v, lhs_contract={1}, rhs_contract={0} : f32[3,33]
} -> (t, s))",
      *find_target("a100-40gb"), &losses, options);
  EXPECT_GE(losses.total, 4);
  EXPECT_THAT(losses.unreported, testing::IsEmpty());
}

TEST_F(GeneratedBarriers, OfEveryTemplate) {
  const Target h100 = *find_target("h100-sxm");
  Losses losses;
  for (const auto& [rows, n] : {std::pair{9, 32}, {3, 1000}, {2, 9001}, {1, 70000}}) {
    take_away_from_graph(softmax(rows, n), h100, &losses);
  }
  Target clustered = h100;
  clustered.grid_barriers = false;
  const int before = losses.total;
  for (const auto& [rows, n] : {std::pair{2, 9001}, {1, 20011}}) {
    take_away_from_graph(softmax(rows, n), clustered, &losses);
  }
  EXPECT_GE(losses.total,
            before + 6);  // a barrier of the cluster for each reduction and at the end
  take_away_from_graph(
      "(x: f32[300,70]) {\n s = reduce x, axes={0}, combiner=sum : f32[70]\n"
      " y = exp s : f32[70]\n} -> (y)",
      h100, &losses);
  // Weights that a block of several rows keeps in shared memory.
  Target few = h100;
  few.sm_count = 1;
  take_away_from_graph(
      "(x: f32[403,272], w: f32[272]) {\n m = reduce x, axes={1}, combiner=max : f32[403]\n"
      " mb = broadcast m, dims={0} : f32[403,272]\n d = sub x, mb : f32[403,272]\n"
      " wb = broadcast w, dims={1} : f32[403,272]\n y = mul d, wb : f32[403,272]\n} -> (y)",
      few, &losses);
  // Weights that the blocks of a cluster load together.
  const int without = losses.total;
  few.sm_count = 16;
  few.cluster_barrier_us = 0;
  take_away_from_graph(
      "(x: f32[403,272], w: f32[272]) {\n m = reduce x, axes={1}, combiner=max : f32[403]\n"
      " mb = broadcast m, dims={0} : f32[403,272]\n d = sub x, mb : f32[403,272]\n"
      " wb = broadcast w, dims={1} : f32[403,272]\n y = mul d, wb : f32[403,272]\n} -> (y)",
      few, &losses);
  EXPECT_GE(losses.total, without + 2);
  // Rows and columns.
  few.sm_count = 4;
  take_away_from_graph(
      "(x: f32[67,130]) {\n t = tanh x : f32[67,130]\n"
      " r = reduce t, axes={1}, combiner=sum : f32[67]\n"
      " q = reduce t, axes={0}, combiner=sum : f32[130]\n} -> (r, q)",
      few, &losses);
  for (const char* type : {"f32", "f16"}) {
    take_away_from_graph(product(70, 72, 200, type), h100, &losses);
    take_away_from_graph(product(37, 45, 121, type), h100, &losses);
  }
  EXPECT_GE(losses.total, 15);
  EXPECT_THAT(losses.unreported, testing::IsEmpty());
}

}  // namespace
}  // namespace weft
