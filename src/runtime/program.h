#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/kernel_image.h"
#include "support/dtype.h"
#include "support/tensor.h"

namespace weft {

/// What the runtime executes: launches and host operations over numbered buffers. Plain data,
/// serialised in artefacts.
///
/// Every thread of a run walks the same steps with a pointer table of its own (slices and carries
/// of loops move in it); a step marked `barrier_before` waits until all threads have finished what
/// stands before it. Conditions are read, and initial values of carries copied, after such a wait
/// without being marked. The arena starts at a multiple of 64.
struct ProgramBuffer {
  enum class Kind : uint8_t {
    kInput,     ///< number `index`, given by the caller
    kOutput,    ///< number `index`, given by the caller
    kConstant,  ///< number `index` of Program::constants
    kArena,     ///< `offset` bytes into the arena
    kSlice,  ///< of buffer `base`: iteration t of loop `loop` starts at t * stride bytes (from the
             ///< end if `reverse`)
    kCarry,  ///< of loop `loop`: `base` at even iterations, `other` at odd ones; after the loop,
             ///< the one last written
    kCarryNext,  ///< the other of the pair
    /// Of loop `loop`, whose iterations stack what they hand on: at iteration 0 `base`, later what
    /// the one before has written, at (t - 1) * stride bytes of `other` (from the end if
    /// `reverse`).
    kStackedCarry,
  };
  std::string name;
  Kind kind = Kind::kArena;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t bytes = 0;
  int32_t index = 0;
  int64_t offset = 0;
  int32_t base = -1, other = -1, loop = -1;
  int64_t stride = 0;
  bool reverse = false;
};

/// A kernel on buffers; items of each phase are shared out to the threads in contiguous ranges, of
/// which those that are done early take over pieces (runtime/work_shares.h).
struct LaunchStep {
  int32_t kernel = -1;  ///< into Program::kernels
  std::vector<int32_t> buffers;
  std::vector<int64_t> arguments;
  std::vector<int64_t> work_items;  ///< per phase
  int64_t scratch_bytes = 0;        ///< per thread
  bool serial = false;              ///< too small to share: thread 0 alone
  bool inner_barriers = false;      ///< threads wait for each other inside a phase
  int32_t pieces = 1;               ///< of a thread's share, which others may take over
};

/// An operation that has no kernel: the runtime's own code.
struct HostStep {
  enum class Op : uint8_t { kCopy, kSort, kTopK, kScatterElements, kScatterNd, kCumulative };
  Op op = Op::kCopy;
  bool serial = true;  ///< too small to share: thread 0 alone
  std::vector<int32_t> operands, results;
  int64_t axis = 0;
  int64_t k = 0;
  bool descending = false;  ///< sort; top_k: largest
  bool exclusive = false, reverse = false;
  bool combines = false;
  uint8_t combiner = 0;  ///< graph/scalar_op.h's Combiner: 0 sum, 1 prod, 2 min, 3 max, 4 and, 5 or
};

struct ProgramStep;

struct IfStep {
  int32_t condition = -1;
  std::vector<ProgramStep> then_steps, else_steps;
};

/// `trips` iterations (scan), or, when `condition` is a buffer, while it holds: `condition_steps`
/// run before each test. Slices need a scan. An iteration starts when all threads have finished the
/// one before it, whatever its first step says.
struct LoopStep {
  int32_t loop = -1;  ///< id that slices and carries name
  int64_t trips = 0;
  int32_t condition = -1;
  std::vector<ProgramStep> condition_steps, body;
  /// (carry buffer, initial value, result): the initial value is copied in before the first
  /// iteration, the last one out after it. A stacked carry begins in place and has no initial one.
  struct Carry {
    int32_t carry = -1, initial = -1, result = -1;
  };
  std::vector<Carry> carries;
};

struct ProgramStep {
  enum class Kind : uint8_t { kLaunch, kHost, kIf, kLoop };
  Kind kind = Kind::kLaunch;
  bool barrier_before = true;
  std::string name;
  LaunchStep launch;
  HostStep host;
  std::shared_ptr<IfStep> if_step;
  std::shared_ptr<LoopStep> loop_step;
};

struct ProgramIo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  /// Bytes that the code needs the base pointer aligned to, a power of two up to 64; 0: the
  /// element's size. A run copies what the caller did not align.
  int32_t alignment = 0;
  /// Of an integer input: values from `lowest` to `highest` are safe whatever the others are (an
  /// index into an axis). For callers that make inputs up; a run does not check it. None known when
  /// lowest > highest.
  int64_t lowest = 0, highest = -1;
  /// Of the last input: the seed of random numbers, a u64, which a run draws where the caller does
  /// not give the tensor.
  bool drawn = false;
};

/// All but a seed that a run draws.
inline std::span<const ProgramIo> without_drawn(std::span<const ProgramIo> inputs) {
  return inputs.first(inputs.size() - (!inputs.empty() && inputs.back().drawn ? 1 : 0));
}

struct Program {
  std::string model;   ///< for messages
  std::string target;  ///< name, and the CPU features that the code needs
  std::vector<std::string> required_features;
  /// Of a GPU whose code the kernels are: "sm_90"; empty for a CPU's.
  std::string arch;
  std::vector<ProgramIo> inputs, outputs;
  std::vector<ProgramBuffer> buffers;
  std::vector<KernelImage> kernels;
  std::vector<HostTensor>
      constants;  ///< packed as their readers want them; may be views of mapped files
  std::vector<ProgramStep> steps;
  int32_t loop_count = 0;
  int64_t arena_bytes = 0;
  /// One thread ends a run before a sleeping one is awake: others take part where they watch.
  bool brief = false;
  /// What the plan was, as text and as JSON, for people who ask an artefact; empty if not known.
  std::string explanation, explanation_json;

  /// The inputs that a caller has to give.
  std::span<const ProgramIo> given_inputs() const { return without_drawn(inputs); }
};

}  // namespace weft
