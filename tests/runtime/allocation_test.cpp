// run() allocates nothing: every operator new of this program is counted.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/runtime/program_fixture.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_SANITIZER_OWNS_NEW 1
#endif
#endif

#if !defined(WEFT_SANITIZER_OWNS_NEW)

namespace {
std::atomic<int64_t> allocations{0};  // the one way to see what a library allocates
}

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto align = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace weft::testing {
namespace {

TEST(Allocation, RunsNeedNone) {
  ProgramFixture f;
  const int32_t x = f.input("x", {3, 8}), state = f.input("state", {8});
  const int32_t y = f.output("y", {8}), order = f.output("order", {8}, DType::kI64);
  const int32_t next = f.output("next", {8});
  const int32_t loop = f.new_loop(), x_t = f.slice(x, loop, {8});
  const auto [h, h_next] = f.carry(loop, {8});
  const int32_t sum = f.kernel({add});
  HostStep sort;
  sort.op = HostStep::Op::kSort;
  sort.operands = {next};
  sort.results = {y, order};
  f.step(ProgramFixture::scan(loop, 3, {{h, state, next}},
                              {ProgramFixture::launch(sum, {h, x_t, h_next}, {8})}));
  f.step(ProgramFixture::host(sort));
  ThreadPool::Options pool;
  pool.threads = 2;
  ContextOptions options;
  options.pool = *ThreadPool::create(pool);
  auto context = std::move(*ExecutionContext::create(*f.create(), options));

  const std::vector<float> in_x = iota(24), in_state = iota(8);
  std::vector<float> out_y(8), out_next(8);
  std::vector<int64_t> out_order(8);
  const Shape x_shape = {3, 8}, shape = {8};
  const int64_t strides[] = {1};
  const InputRef inputs[] = {in(in_x, x_shape), {DType::kF32, shape, in_state.data(), strides}};
  const OutputRef outputs[] = {
      out(out_y, shape), {DType::kI64, shape, out_order.data()}, out(out_next, shape)};
  const int64_t before = allocations;
  bool ok = true;
  for (int repeat = 0; repeat < 10; ++repeat) ok = context->run(inputs, outputs).ok() && ok;
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(ok);
  EXPECT_EQ(out_next[7], 8 + 8 + 16 + 24);
}

}  // namespace
}  // namespace weft::testing

#endif
