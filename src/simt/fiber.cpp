#include "simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace weft::simt {
namespace {

/// At a stack's end: overwritten by what runs over it.
constexpr uint64_t kCanary = 0x5eed'c0de'57ac'4e4d;

}  // namespace

#if defined(__x86_64__)

// The registers that a call preserves. The return is a jump through a register: the processor's
// return predictor would guess the caller of another fiber.
asm(R"(
.globl weft_simt_switch_stack
.type weft_simt_switch_stack,@function
weft_simt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size weft_simt_switch_stack, .-weft_simt_switch_stack

.globl weft_simt_start_fiber
.type weft_simt_start_fiber,@function
weft_simt_start_fiber:
  movq %r15, %rdi
  jmpq *%r14
.size weft_simt_start_fiber, .-weft_simt_start_fiber
)");

/// Where a new fiber starts: its argument is in r15 and its function in r14.
extern "C" void weft_simt_start_fiber();

bool has_fibers() { return true; }

void* FiberStacks::prepare(size_t fiber, void (*entry)(void*), void* argument) {
  std::byte* bottom = begin_ + fiber * kStackBytes;
  std::memcpy(bottom, &kCanary, sizeof kCanary);
  // As after a call: the stack pointer is 8 below a multiple of 16 when the fiber starts.
  auto* slot = reinterpret_cast<void**>(bottom + kStackBytes - 64 - (fiber % 61) * 64);
  *--slot = nullptr;
  *--slot = reinterpret_cast<void*>(weft_simt_start_fiber);
  for (int registers = 0; registers < 4; ++registers) *--slot = nullptr;
  *--slot = reinterpret_cast<void*>(entry);
  *--slot = argument;
  return slot;
}

#else

extern "C" void weft_simt_switch_stack(void**, void*) {}
bool has_fibers() { return false; }
void* FiberStacks::prepare(size_t, void (*)(void*), void*) { return nullptr; }

#endif

FiberStacks::~FiberStacks() {
  if (begin_ != nullptr) ::munmap(begin_, bytes());
}

Status FiberStacks::reserve(size_t fibers) {
  if (fibers > kMaxFibers) {
    return unsupported("the emulator holds " + std::to_string(kMaxFibers) +
                       " threads at a time, not " + std::to_string(fibers));
  }
  if (fibers <= fibers_) return {};
  if (begin_ != nullptr) ::munmap(begin_, bytes());
  begin_ = nullptr;
  fibers_ = 0;
  void* memory = ::mmap(nullptr, kStackBytes * fibers, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return unsupported("no address space for the emulator's stacks");
  begin_ = static_cast<std::byte*>(memory);
  fibers_ = fibers;
  return {};
}

bool FiberStacks::intact(size_t fiber) const {
  uint64_t word = 0;
  std::memcpy(&word, begin_ + fiber * kStackBytes, sizeof word);
  return word == kCanary;
}

}  // namespace weft::simt
