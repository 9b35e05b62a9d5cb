#include "kernel/kernel_function.h"
#include "support/hash.h"

namespace weft {
namespace {

void add_number(Hasher& hasher, int64_t value) { hasher.add_value(static_cast<uint64_t>(value)); }

template <typename T>
void add_numbers(Hasher& hasher, const std::vector<T>& values) {
  add_number(hasher, static_cast<int64_t>(values.size()));
  for (const T value : values) add_number(hasher, value);
}

void add_block(Hasher& hasher, const KernelBlock& block);

void add_instruction(Hasher& hasher, const KernelInstruction& in) {
  hasher.add_value(static_cast<uint64_t>(in.op));
  for_each_word(in.payload, [&](uint64_t word) { hasher.add_value(word); });
  add_numbers(hasher, in.operands);
  add_numbers(hasher, in.results);
  add_number(hasher, static_cast<int64_t>(in.regions.size()));
  for (const KernelBlock& region : in.regions) add_block(hasher, region);
}

void add_block(Hasher& hasher, const KernelBlock& block) {
  add_numbers(hasher, block.parameters);
  add_number(hasher, static_cast<int64_t>(block.body.size()));
  for (const KernelInstruction& in : block.body) add_instruction(hasher, in);
  add_numbers(hasher, block.yields);
}

/// `sizes`: also what a CPU's generator does not see, numbers of elements and of work items.
Hasher hash_parts(const KernelFunction& kernel, bool sizes) {
  sizes = sizes || kernel.is_gpu();
  Hasher hasher;
  add_number(hasher, static_cast<int64_t>(kernel.buffers.size()));
  for (const KernelBuffer& b : kernel.buffers) {
    add_number(hasher, static_cast<int64_t>(b.dtype) | static_cast<int64_t>(b.kind) << 8 |
                           static_cast<int64_t>(b.alignment) << 16);
    if (sizes) add_number(hasher, b.elements);
    add_number(hasher, b.scratch_offset);
  }
  add_number(hasher, kernel.argument_count);
  if (sizes) add_number(hasher, kernel.scratch_bytes);
  if (kernel.is_gpu()) {
    for (const int64_t n : {int64_t{kernel.warps}, kernel.blocks, int64_t{kernel.blocks_per_sm},
                            kernel.shared_bytes}) {
      add_number(hasher, n);
    }
    if (kernel.cluster > 1) add_number(hasher, kernel.cluster);
    if (kernel.library) hasher.add_text(print(*kernel.library));
  }
  add_number(hasher, static_cast<int64_t>(kernel.types.size()));
  for (const KernelType& t : kernel.types) {
    add_number(hasher, static_cast<int64_t>(t.dtype) << 32 | t.lanes);
  }
  add_number(hasher, static_cast<int64_t>(kernel.phases.size()));
  for (const KernelPhase& phase : kernel.phases) {
    if (sizes) add_number(hasher, phase.work_items);
    add_block(hasher, phase.body);
  }
  return hasher;
}

}  // namespace

uint64_t kernel_hash(const KernelFunction& kernel) { return hash_parts(kernel, true).digest64(); }

Hash128 kernel_digest(const KernelFunction& kernel) {
  return hash_parts(kernel, false).digest128();
}

}  // namespace weft
