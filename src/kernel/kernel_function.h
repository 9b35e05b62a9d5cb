#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/scalar_op.h"
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

/// Instructions of a kernel. Operands in order; every offset counts elements of the buffer's dtype
/// and is an i64.
enum class KernelOp : uint8_t {
  kConst,      ///< `value` in every lane
  kArgument,   ///< launch argument number `index`, i64
  kApply,      ///< `scalar_op` lane by lane; operands of one lane count (conditions are bool of the
               ///< same lane count)
  kFma,        ///< a * b + c, rounded once
  kBroadcast,  ///< scalar -> every lane
  kRamp,       ///< 0, 1, 2, … in the integer type
  kLaneMask,   ///< n: i64 -> bool vector, lane < n
  kReduceLanes,  ///< vector -> scalar by `combiner`, pairwise (halves first): a fixed order
  kExtract,      ///< vector, lane `index` -> scalar
  kShuffle,      ///< a, b (same type) -> lanes picked by `lanes_picked` from a's then b's
  kLoad,      ///< buffer[offset + 0..lanes-1]; with a mask operand, masked-off lanes yield `value`
  kGather,    ///< buffer[offsets lane by lane] (offsets i64 vector); with a mask as for kLoad
  kStore,     ///< offset, value [, mask] -> buffer
  kScatter,   ///< offsets (vector), value [, mask] -> buffer
  kPrefetch,  ///< offset: the line there is wanted soon, to be written if `index` is 1; any offset
              ///< will do
  // Of a GPU's kernels only.
  kPosition,     ///< i64: the thread's lane, warp or block, by `index` (KernelPosition)
  kWarpXor,      ///< scalar of the lane whose number differs in the bits of `index`; all lanes take
                 ///< part
  kWarpPick,     ///< scalar, lane: i64 -> the scalar of that lane; all lanes take part
  kBarrier,      ///< of the scope `index` (KernelBarrier): everything before it happens before what
                 ///< follows
  kLoadCluster,  ///< rank: i64, offset: as kLoad, from the shared buffer of block `rank` of the
                 ///< cluster
  kCopyAsync,    ///< offset in shared buffer `buffer`, offset in buffer `index` [, mask: bool]:
               ///< copies `count` elements (4, 8 or 16 bytes) behind the thread's back; zeros where
               ///< masked off
  kCommitAsync,     ///< closes the group of the copies since the last one
  kWaitAsync,       ///< until all groups of this thread but the newest `index` have arrived
  kLoadMatrix,      ///< offset of this lane's row of 16 bytes in shared buffer `buffer`: `index`
                    ///< (1, 2, 4) matrices of 8 rows as u32 fragments, `transposed` (16-bit
                    ///< elements) or not (PTX ldmatrix)
  kMatrixMultiply,  ///< a (4 u32), b (2 u32), c (4 f32) -> 4 f32 by unit `index` (KernelUnit)
  kFor,  ///< begin, end, step, [carry inits]; region 0 (iv, carries) yields next carries; results:
         ///< last carries
  kIf,   ///< condition (scalar bool); region 0 / region 1 yield the results (region 1 may be empty
         ///< without results)
};

enum class KernelPosition : uint8_t { kLane, kWarp, kBlock };
/// Blocks of a cluster, at most.
inline constexpr int32_t kMostClusterBlocks = 16;

enum class KernelBarrier : uint8_t { kWarp, kBlock, kCluster, kGrid };
/// mma.sync of PTX, rows x columns x depth: A row by row, B column by column, float32 accumulation.
enum class KernelUnit : uint8_t { kM16N8K16F16, kM16N8K16BF16, kM16N8K8TF32 };

struct KernelInstruction;

/// A straight sequence; `yields` are the values that it hands to the instruction that owns it.
struct KernelBlock {
  std::vector<Reg> parameters;
  std::vector<KernelInstruction> body;
  std::vector<Reg> yields;
};

struct KernelInstruction {
  KernelOp op = KernelOp::kConst;
  std::vector<Reg> operands;
  std::vector<Reg> results;
  ScalarOp scalar_op = ScalarOp::kAdd;
  Combiner combiner = Combiner::kSum;
  ScalarValue value;
  int32_t index = 0;    ///< kArgument, kExtract, kPrefetch and those of a GPU that name it
  int32_t count = 0;    ///< kCopyAsync: elements
  int32_t buffer = -1;  ///< kLoad, kGather, kStore, kScatter, kPrefetch and those of a GPU
  std::vector<int32_t> lanes_picked;
  /// kApply of kExp: the argument is known to be <= 0 or -inf or NaN, and 1e-6 relative is enough
  /// (a max-subtracted exponent).
  bool exponent_nonpositive = false;
  bool transposed = false;  ///< kLoadMatrix
  bool non_temporal =
      false;  ///< kStore of a full vector that is not read again soon, at a multiple
              ///< of its lanes; as any other where the buffer is not aligned to 64
  std::vector<KernelBlock> regions;
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
