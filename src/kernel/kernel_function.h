#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/kernel_payload.h"
#include "support/dtype.h"
#include "support/hash.h"
#include "support/result.h"
#include "target/library_call.h"

namespace weft {

/// A scalar (lanes 1) or a vector of `lanes` elements. bool vectors are masks.
struct KernelType {
  DType dtype = DType::kF32;
  int32_t lanes = 1;
  friend bool operator==(const KernelType&, const KernelType&) = default;
};

/// SSA value of a KernelFunction; dense, in order of definition.
using Reg = int32_t;
inline constexpr Reg kNoReg = -1;

/// The instructions of a kernel, from kernel/ops.def, which says what each takes and gives.
enum class KernelOp : uint8_t {
#define WEFT_KERNEL_OP(id, name, operands, result, place, Payload) id,
#include "kernel/ops.def"
#undef WEFT_KERNEL_OP
};

/// Blocks of a cluster, at most (CUDA's limit with non-portable sizes).
inline constexpr int32_t kMostClusterBlocks = 16;

struct KernelInstruction;

/// A straight sequence; `yields` are the values that it hands to the instruction that owns it.
struct KernelBlock {
  std::vector<Reg> parameters;
  std::vector<KernelInstruction> body;
  std::vector<Reg> yields;
};

struct KernelInstruction {
  KernelInstruction(KernelOp op, KernelPayload payload, std::vector<Reg> operands = {})
      : op(op), payload(std::move(payload)), operands(std::move(operands)) {}

  KernelOp op;
  KernelPayload payload;  ///< the alternative that ops.def gives for `op`
  std::vector<Reg> operands;
  std::vector<Reg> results;
  std::vector<KernelBlock> regions;

  /// The payload of an instruction that holds a P: as<LoadPayload>() of a kLoad.
  template <typename P>
  const P& as() const {
    return std::get<P>(payload);
  }
  template <typename P>
  P& as() {
    return std::get<P>(payload);
  }
};

/// A pointer parameter, per-thread scratch, or shared memory of a block.
struct KernelBuffer {
  enum class Kind : uint8_t { kInput, kOutput, kWorkspace, kScratch, kShared };
  std::string name;
  DType dtype = DType::kF32;
  Kind kind = Kind::kInput;
  int64_t elements = 0;        ///< own memory: how many; others: for checks, 0 if unknown
  int64_t scratch_offset = 0;  ///< kScratch, kShared: bytes from the base of the thread's scratch
                               ///< (multiple of 64) or of the block's arena (multiple of 16)
  int32_t alignment = 4;       ///< bytes that the base pointer is known to be aligned to
};

/// Work between two barriers of the kernel: items 0..work_items-1, each thread (GPU: block) runs a
/// contiguous range of them. The body's parameters are (begin, end), both i64: block b of B has
/// [b * work_items / B, (b + 1) * work_items / B).
struct KernelPhase {
  int64_t work_items = 1;
  KernelBlock body;
};

/// One kernel: vector-level loop nests over buffers (TileProgram after lowering). Phases run in
/// order with a barrier of all threads between them. Entry point of phase p in the generated code
/// (see runtime/kernel_image.h):
///     void (void* const* buffers, const int64_t* arguments, int64_t begin, int64_t end, void*
///     scratch)
/// Behind the kernel's own buffers stands the address of a PhaseBarrier where there are inner
/// barriers.
///
/// On a GPU (`warps` > 0) registers are those of one thread of blocks of `warps` * 32, phases are
/// separated by barriers of the whole grid, and shared buffers may overlap in the block's arena.
/// Blocks [c * cluster, (c + 1) * cluster) are cluster c: on the device together, with a barrier of
/// their own, and each may read the others' arenas as long as they have not left the kernel.
struct KernelFunction {
  std::string name;
  std::vector<KernelBuffer> buffers;
  int32_t argument_count = 0;
  std::vector<KernelType> types;  ///< by Reg
  std::vector<KernelPhase> phases;
  int64_t scratch_bytes = 0;
  /// CPU: threads wait for each other inside a phase (a barrier of the grid), so that all of them
  /// must enter it, those without items too.
  bool inner_barriers = false;
  int32_t warps = 0;          ///< per block; 0: a CPU's kernel
  int64_t blocks = 1;         ///< GPU
  int32_t cluster = 1;        ///< GPU: blocks of a cluster; divides `blocks`
  int32_t blocks_per_sm = 0;  ///< GPU: that must be resident together; 0: no demand
  int64_t shared_bytes = 0;   ///< GPU: the block's arena
  /// GPU: what a device runs instead of the code, which computes the same.
  std::optional<LibraryCall> library;

  bool is_gpu() const { return warps > 0; }
  int32_t threads() const { return warps * 32; }
  const KernelType& type(Reg r) const { return types[static_cast<size_t>(r)]; }
};

/// Defined before use, types as documented above, indices in range, every output buffer that has
/// elements stored to, loop steps positive constants; a GPU's barriers and warp operations only
/// where all threads of the block or warp come (kernel/uniformity.h). The error names the
/// instruction as print() writes it.
Status verify_kernel(const KernelFunction& kernel);

/// One instruction a line, in the order of the structure; parse_kernel is its exact inverse (types
/// of registers that nothing defines excepted).
///     kernel "scale" {
///       buffer 0 "x" input f32[128] align 64
///       buffer 1 "y" output f32[128] align 64
///       phase 8 (%0, %1) {
///         %2: i64 = const 16
///         for (%3: i64 = %0 to %1 step %2) {
///           %4: f32x16 = load 0[%3]
///           %5: f32x16 = apply add %4, %4
///           store 1[%3], %5
///         }
///       }
///     }
std::string print(const KernelFunction& kernel);
/// kInvalidInput with line and column. The result is well formed as text; verify_kernel says
/// whether it means anything.
Result<KernelFunction> parse_kernel(std::string_view text);

/// Hash of everything but the names.
uint64_t kernel_hash(const KernelFunction& kernel);
/// Hash of what code is made from, the key under which compiled kernels are kept: without names
/// and, for a CPU, without how many elements buffers have and how many work items there are.
Hash128 kernel_digest(const KernelFunction& kernel);

/// Whether a barrier of the whole grid stands in the kernel, between phases or inside one.
bool has_grid_barrier(const KernelFunction& kernel);
/// What a barrier of the grid comes to: one of the block that all are, of the cluster that all
/// blocks form, or of the grid.
KernelBarrier meeting_of_grid(const KernelFunction& kernel);
/// Whether one stands inside a phase.
bool has_inner_barrier(const KernelFunction& kernel);

/// Whether a matrix instruction of the unit stands in the kernel.
bool multiplies_by(const KernelFunction& kernel, KernelUnit unit);

/// Reference execution, one thread (on a GPU all threads of a block instruction by instruction, all
/// blocks where a barrier of the grid stands inside a phase, those of a cluster), bounds-checked:
/// buffers are byte ranges as large as `elements` says, one for each of the kernel's buffers, or
/// for all but those of scratch kind, which are then made here. kInvalidInput for an access outside
/// a buffer; what was stored before it stays.
Status execute_kernel(const KernelFunction& kernel,
                      const std::vector<std::span<std::byte>>& buffers,
                      const std::vector<int64_t>& arguments);

}  // namespace weft
