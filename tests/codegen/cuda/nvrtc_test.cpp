// The run-time compiler, where it is installed.

#include "codegen/cuda/nvrtc.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/cuda/compile_cubins.h"
#include "support/cache_folder.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr const char* kScale = R"(#include "weft_cuda.h"
WF_KERNEL(scale, 128, 1)(const float* __restrict__ x, float* __restrict__ y, s64 n) {
  const s64 i = (s64)wf_block_x() * 128 + wf_thread();
  if (i < n) {
    y[i] = x[i] * 2.0f;
  }
}
WF_EXPORT(scale)
)";

TEST(Nvrtc, MissingLibraryListsWhatWasLookedFor) {
  const Result<Nvrtc> nvrtc = Nvrtc::load("/no/such/libnvrtc.so");
  ASSERT_FALSE(nvrtc.ok());
  EXPECT_EQ(nvrtc.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(nvrtc.error().message, HasSubstr("looked for /no/such/libnvrtc.so"));
}

TEST(Nvrtc, ResourcesFromTheLog) {
  const auto kernels = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
      "ptxas info    : Function properties for b\n"
      "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 31 registers, used 1 barriers, 1024 bytes smem, 424 bytes cmem[0]\n"
      "ptxas info    : Function properties for part\n"
      "    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
      "ptxas info    : Used 7 registers");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0], (CudaKernelResources{"a", 7, 0, 0, 0, 0}));
  EXPECT_EQ(kernels[1], (CudaKernelResources{"b", 31, 16, 12, 16, 1024}));
}

TEST(Nvrtc, BinariesSurviveTheirBytes) {
  CudaBinary binary;
  binary.cubin = {std::byte{1}, std::byte{0}, std::byte{7}};
  binary.kernels = {{"a", 7, 1, 2, 3, 4}, {"b", 8, 0, 0, 0, 0}};
  const std::string bytes = encode_cuda_binary(binary);
  const std::optional<CudaBinary> again = decode_cuda_binary(bytes);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->cubin, binary.cubin);
  EXPECT_EQ(again->kernels, binary.kernels);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_cuda_binary(std::string_view(bytes).substr(0, size)).has_value()) << size;
    std::string damaged = bytes;
    damaged[size] = static_cast<char>(damaged[size] ^ 4);
    EXPECT_FALSE(decode_cuda_binary(damaged).has_value()) << size;
  }
}

class NvrtcCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    nvrtc_ = Nvrtc::load();
    if (!nvrtc_->ok()) GTEST_SKIP() << nvrtc_->error().message;
  }
  const Nvrtc& nvrtc() const { return **nvrtc_; }

 private:
  std::optional<Result<Nvrtc>> nvrtc_;
};

TEST_F(NvrtcCompiler, CompilesForEachArchitecture) {
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    const Result<CudaBinary> binary = nvrtc().compile(kScale, "scale.cu", {arch});
    ASSERT_TRUE(binary.ok()) << binary.error().message;
    EXPECT_GT(binary->cubin.size(), 256u);
    ASSERT_EQ(binary->kernels.size(), 1u);
    EXPECT_EQ(binary->kernels[0].name, "scale");
    EXPECT_GT(binary->kernels[0].registers, 0);
    EXPECT_EQ(binary->kernels[0].spill_store_bytes, 0);
  }
}

/// Bytes of a kernel's instructions in a cubin.
size_t code_bytes(std::span<const std::byte> cubin, const std::string& kernel) {
  const auto at = [&]<class T>(size_t offset, T value) {
    std::memcpy(&value, cubin.data() + offset, sizeof value);
    return value;
  };
  const auto header = at(0, Elf64_Ehdr{});
  const auto section = [&](size_t i) {
    return at(header.e_shoff + i * sizeof(Elf64_Shdr), Elf64_Shdr{});
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const auto* name = reinterpret_cast<const char*>(cubin.data()) + names.sh_offset + s.sh_name;
    if (".text." + kernel == name) return s.sh_size;
  }
  return 0;
}

TEST_F(NvrtcCompiler, WideLoadsFromAnywhereAreOneInstruction) {
  // Of the pointer's alignment nothing is known; a load byte by byte takes 16 instructions.
  constexpr const char* kText = R"(#include "weft_cuda.h"
WF_KERNEL(wide, 32, 1)(float* x, float* y, s64 n) {
  WF_SHARED(shared);
  const vec<float, 4> own = wf_load<4>(x + n * wf_thread());
  const vec<float, 4> other = wf_load<4>(wf_cluster_map((float*)shared + n, 1u));
  vec<float, 4> sum;
  for (int i = 0; i < 4; ++i) {
    sum[i] = own[i] + other[i];
  }
  wf_store(y + n, sum);
}
WF_EXPORT(wide)
)";
  constexpr size_t kInstruction = 16;
  const Result<CudaBinary> binary = nvrtc().compile(kText, "wide.cu", {"sm_90"});
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  const size_t bytes = code_bytes(binary->cubin, "wide");
  EXPECT_GT(bytes, 10 * kInstruction);
  EXPECT_LT(bytes, 56 * kInstruction);
}

TEST_F(NvrtcCompiler, RefusedTextNamesItsLine) {
  const Result<CudaBinary> binary =
      nvrtc().compile("#include \"weft_cuda.h\"\nint x = ;\n", "wrong.cu", {});
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.error().code, ErrorCode::kInternal);
  EXPECT_THAT(binary.error().message, HasSubstr("wrong.cu(2)"));
}

TEST_F(NvrtcCompiler, UnknownArchitectureIsAMissingDevice) {
  const Result<CudaBinary> binary = nvrtc().compile(kScale, "scale.cu", {"sm_35"});
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(binary.error().message, HasSubstr("does not compile for sm_35; it knows"));
}

TEST_F(NvrtcCompiler, HelperProcessesAndCacheChangeNothing) {
  std::string half = kScale;
  half.replace(half.find("2.0f"), 4, "0.5f");
  const std::vector<CudaText> texts = {{"a.cu", kScale}, {"b.cu", half}, {"c.cu", kScale}};
  const Result<CompiledCubins> here = compile_cubins(texts, nvrtc(), {}, 1);
  ASSERT_TRUE(here.ok()) << here.error().message;
  const std::string folder = (std::filesystem::path(::testing::TempDir()) /
                              ("weft-cubins-" + std::to_string(getpid())) / "new")
                                 .string();
  std::filesystem::remove_all(folder);
  CacheFolder::Options options;
  options.directory = folder;
  options.warn = [](const std::string& message) { ADD_FAILURE() << message; };
  CacheFolder entries(options);
  const CubinCache cache(entries);
  const Result<CompiledCubins> cold = compile_cubins(texts, nvrtc(), {}, 2, &cache);
  const Result<CompiledCubins> warm = compile_cubins(texts, nvrtc(), {}, 2, &cache);
  ASSERT_TRUE(cold.ok() && warm.ok());
  EXPECT_EQ(cold->from_cache, 0);
  EXPECT_EQ(warm->from_cache, 2);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(here->binaries[i].cubin, cold->binaries[i].cubin);
    EXPECT_EQ(here->binaries[i].cubin, warm->binaries[i].cubin);
    EXPECT_EQ(here->binaries[i].kernels, warm->binaries[i].kernels);
  }
  EXPECT_NE(here->binaries[0].cubin, here->binaries[1].cubin);
  // A damaged file is as good as none.
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ofstream(file.path()) << "weftcub1";
  }
  const Result<CompiledCubins> damaged = compile_cubins(texts, nvrtc(), {}, 1, &cache);
  ASSERT_TRUE(damaged.ok());
  EXPECT_EQ(damaged->from_cache, 0);
  EXPECT_EQ(damaged->binaries[0].cubin, here->binaries[0].cubin);
  std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
}

TEST_F(NvrtcCompiler, IsStoppedInTheMiddleOfACompilation) {
  // Copies of a loop that NVRTC unrolls: far more than it compiles before the flag is set.
  std::string body;
  for (int i = 0; i < 2000; ++i)
    body += "#pragma unroll\nfor (int j = 0; j < 64; ++j) x[j] = sinf(x[j]);\n";
  const std::vector<CudaText> texts = {
      {"long.cu", "extern \"C\" __global__ void f(float* x) {" + body + "}"}};
  std::atomic<bool> cancel{false};
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancel = true;
  });
  const Result<CompiledCubins> compiled = compile_cubins(texts, nvrtc(), {}, 1, nullptr, &cancel);
  canceller.join();
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().code, ErrorCode::kInterrupted);
}

/// NVRTC 13.0 does not survive this text, which says nothing wrong, unless it optimises little.
constexpr const char* kShortLoop = R"(#include "weft_cuda.h"
WF_KERNEL(short_loop, 256, 1)(const float* __restrict__ x, float* __restrict__ y) {
  const s32 block = (s32)wf_block_x() - 3;
  if (block >= 0 && block < 52) {
    const s32 half = block % 26 % 2, row = block % 26 / 2 * 13;
    const s32 begin = half * 8;
    const s32 end = begin + 8 < 13 ? begin + 8 : 13;
    const s32 count = end - begin < 0 ? 0 : end - begin;
    const s32 whole = begin + count - (s32)((u32)count % 8u);
    #pragma unroll 1
    for (s32 j = begin; j < whole; j += 8) {
      const s32 lane = (s32)wf_lane();
      const s32 column = (s32)((u32)lane % 16u);
      float v;
      if (column < 13) {
        v = x[column + row];
      } else {
        v = 0.0f;
      }
      if (column == 0) {
        y[lane / 16 + block / 26 * 169 + row + j] = v;
      }
    }
  }
}
WF_EXPORT(short_loop)
)";

TEST_F(NvrtcCompiler, ItsFaultsAreNotThisProcesss) {
  const std::vector<CudaText> texts = {{"a.cu", kShortLoop}, {"b.cu", kScale}};
  for (const int processes : {1, 2}) {
    const Result<CompiledCubins> compiled = compile_cubins(texts, nvrtc(), {"sm_80"}, processes);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    EXPECT_EQ(compiled->binaries[0].kernels.at(0).name, "short_loop");
    EXPECT_EQ(compiled->binaries[1].kernels.at(0).name, "scale");
  }
}

TEST_F(NvrtcCompiler, TheFirstErrorInOrderIsReported) {
  const std::vector<CudaText> texts = {
      {"a.cu", kScale}, {"b.cu", "nonsense"}, {"c.cu", "other nonsense"}};
  const Result<CompiledCubins> compiled = compile_cubins(texts, nvrtc(), {}, 2);
  ASSERT_FALSE(compiled.ok());
  EXPECT_THAT(compiled.error().message, HasSubstr("'b.cu'"));
}

}  // namespace
}  // namespace weft
