// Machine code in executable memory.

#include "runtime/kernel_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "runtime/execution_context.h"
#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

#if defined(__x86_64__)

/// Phase 0 stores `end - begin` in the i64 buffers[0]; phase 1 a constant of the image.
KernelImage count_items() {
  const uint8_t code[] = {
      0x48, 0x8b, 0x07,                          // mov rax, [rdi]
      0x48, 0x29, 0xd1,                          // sub rcx, rdx
      0x48, 0x89, 0x08,                          // mov [rax], rcx
      0xc3,                                      // ret
      0x90, 0x90, 0x90, 0x90, 0x90, 0x90,        // nop
      0x48, 0x8b, 0x07,                          // 16: mov rax, [rdi]
      0x48, 0x8b, 0x0d, 6,    0,    0,    0,     // mov rcx, [rip + 6]
      0x48, 0x89, 0x08,                          // mov [rax], rcx
      0xc3,                                      // ret
      0x90, 0x90,                                // nop
      0x15, 0xcd, 0x5b, 0x07, 0,    0,    0, 0,  // 32: 123456789
  };
  KernelImage image;
  image.name = "count_items";
  image.bytes.resize(sizeof code);
  std::memcpy(image.bytes.data(), code, sizeof code);
  image.phase_entries = {0, 16};
  return image;
}

TEST(LoadedKernels, RunFromTheirBytes) {
  const KernelImage image = count_items();
  for (const auto& [phase, expected] :
       {std::pair{0, int64_t{9}}, std::pair{1, int64_t{123456789}}}) {
    ProgramFixture f;
    const int32_t y = f.output("y", {}, DType::kI64);
    const int32_t kernel = f.kernel({nullptr, nullptr});
    f.program.kernels[static_cast<size_t>(kernel)] = image;
    f.step(ProgramFixture::launch(kernel, {y}, {phase == 0 ? 9 : 0, phase == 0 ? 0 : 1}));
    const auto executable = Executable::create(f.program);
    ASSERT_TRUE(executable.ok()) << executable.error().message;
    auto context = std::move(*ExecutionContext::create(*executable));
    int64_t result = -1;
    ASSERT_TRUE(context->run({}, {{OutputRef{DType::kI64, {}, &result}}}).ok());
    EXPECT_EQ(result, expected);
  }
}

TEST(LoadedKernels, AreNotWritableAndAligned) {
  const KernelImage image = count_items();
  const KernelImage* images[] = {&image, &image, &image};
  const auto loaded = LoadedKernels::load(images);
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ((*loaded)->image_count(), 3u);
  std::ifstream maps("/proc/self/maps");
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ((*loaded)->phase_count(i), 2u);
    const auto address = reinterpret_cast<uintptr_t>((*loaded)->entry(i, 0));
    EXPECT_EQ(address % kKernelImageAlignment, 0u);
    maps.clear();
    maps.seekg(0);
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
      // begin-end rights …
      char* rest = nullptr;
      const uintptr_t begin = std::strtoul(line.c_str(), &rest, 16);
      if (*rest != '-') continue;
      const uintptr_t end = std::strtoul(rest + 1, &rest, 16);
      if (address < begin || address >= end) continue;
      found = true;
      EXPECT_EQ(std::string_view(rest).substr(0, 5), " r-xp");
    }
    EXPECT_TRUE(found);
  }
}

#endif

TEST(LoadedKernels, EntriesOutsideTheImageAreRefused) {
  KernelImage image;
  image.name = "short";
  image.bytes.resize(16);
  image.phase_entries = {0, 16};
  const KernelImage* images[] = {&image};
  const auto loaded = LoadedKernels::load(images);
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message, HasSubstr("kernel 'short': an entry point at 16"));
}

TEST(LoadedKernels, NoneIsFine) { EXPECT_EQ((*LoadedKernels::load({}))->image_count(), 0u); }

}  // namespace
}  // namespace weft::testing
