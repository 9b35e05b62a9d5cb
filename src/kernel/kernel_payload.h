#pragma once

#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "graph/scalar_op.h"

namespace weft {

/// What of a thread's place in a GPU's launch.
enum class KernelPosition : uint8_t { kLane, kWarp, kBlock };
/// Whose threads a barrier waits for.
enum class KernelBarrier : uint8_t { kWarp, kBlock, kCluster, kGrid };
/// mma.sync of PTX, rows x columns x depth: A row by row, B column by column, float32 accumulation.
enum class KernelUnit : uint8_t {
  kM16N8K16F16,
  kM16N8K16BF16,
  kM16N8K8TF32,
  kM64K16F16,  ///< of warp groups alone
  kM64K16BF16
};

// What instructions hold besides operands, results and regions; kernel/ops.def says which holds
// which. Members named `buffer` are positions in KernelFunction::buffers. `fields` lists the
// members for comparing and hashing.

struct NoPayload {
  static auto fields() { return std::tuple<>(); }
};

struct ConstPayload {
  ScalarValue value;
  auto fields() const { return std::tie(value); }
};

struct ArgumentPayload {
  int32_t number = 0;  ///< below KernelFunction::argument_count
  auto fields() const { return std::tie(number); }
};

struct ApplyPayload {
  ScalarOp op = ScalarOp::kAdd;
  /// Of kExp: the argument is known to be <= 0 or -inf or NaN, and 1e-6 relative is enough (a
  /// max-subtracted exponent).
  bool exponent_nonpositive = false;
  auto fields() const { return std::tie(op, exponent_nonpositive); }
};

struct ReduceLanesPayload {
  Combiner combiner = Combiner::kSum;
  auto fields() const { return std::tie(combiner); }
};

struct ExtractPayload {
  int32_t lane = 0;
  auto fields() const { return std::tie(lane); }
};

struct ShufflePayload {
  std::vector<int32_t> lanes;  ///< by lane of the result: below twice the lanes of an operand
  auto fields() const { return std::tie(lanes); }
};

inline constexpr size_t kLookUpEntries = 16;
struct LookUpPayload {
  std::vector<int32_t> entries;  ///< 16, the bits of a type of 32
  auto fields() const { return std::tie(entries); }
};

struct LoadPayload {
  int32_t buffer = 0;
  ScalarValue filler;  ///< of masked-off lanes; of the buffer's type where there is a mask
  auto fields() const { return std::tie(buffer, filler); }
};

struct StorePayload {
  int32_t buffer = 0;
  /// kStore of a full vector that is not read again soon, at a multiple of its lanes; as any other
  /// where the buffer is not aligned to 64 bytes.
  bool non_temporal = false;
  auto fields() const { return std::tie(buffer, non_temporal); }
};

struct PrefetchPayload {
  int32_t buffer = 0;
  bool for_write = false;
  auto fields() const { return std::tie(buffer, for_write); }
};

struct PositionPayload {
  KernelPosition position = KernelPosition::kLane;
  auto fields() const { return std::tie(position); }
};

struct WarpXorPayload {
  int32_t lane_bits = 1;  ///< 1 to 31
  auto fields() const { return std::tie(lane_bits); }
};

struct BarrierPayload {
  KernelBarrier scope = KernelBarrier::kBlock;
  auto fields() const { return std::tie(scope); }
};

struct LoadClusterPayload {
  int32_t buffer = 0;  ///< shared
  ScalarValue filler;  ///< as of a load
  auto fields() const { return std::tie(buffer, filler); }
};

struct CopyAsyncPayload {
  int32_t to = 0;        ///< shared buffer
  int32_t from = 0;      ///< buffer in global memory
  int32_t elements = 1;  ///< of 4, 8 or 16 bytes together
  auto fields() const { return std::tie(to, from, elements); }
};

struct WaitAsyncPayload {
  int32_t groups_left = 0;  ///< that may still be under way
  auto fields() const { return std::tie(groups_left); }
};

struct LoadMatrixPayload {
  int32_t buffer = 0;       ///< shared
  int32_t matrices = 1;     ///< 1, 2 or 4 of 8 rows
  bool transposed = false;  ///< of 16-bit elements
  auto fields() const { return std::tie(buffer, matrices, transposed); }
};

struct MatrixMultiplyPayload {
  KernelUnit unit = KernelUnit::kM16N8K16F16;
  auto fields() const { return std::tie(unit); }
};

/// An operand lies in panels: rows of 64 elements (128 bytes), whose chunk c of 16 bytes stands in
/// the place of chunk c ^ (row % 8). A row runs along the depth, or across it. The panel that holds
/// the next 64 elements of all rows lies `panel` elements behind.
struct GroupMultiplyPayload {
  KernelUnit unit = KernelUnit::kM64K16F16;
  int32_t left = 0, right = 0;  ///< shared
  int32_t columns = 8;
  int32_t depth = 16;
  int32_t left_panel = 0, right_panel = 0;
  bool left_across = false, right_across = false;
  /// What it reads and makes is under way until the next one is, or a group_wait; else it waits.
  bool under_way = false;
  auto fields() const {
    return std::tie(unit, left, right, columns, depth, left_panel, right_panel, left_across,
                    right_across, under_way);
  }
};

inline constexpr int64_t kPanelRow = 64;  ///< elements of a row of a panel
/// Where element `at` of row `row` lies, in elements behind the first panel.
constexpr int64_t element_of_panels(int64_t row, int64_t at, int64_t panel) {
  constexpr int64_t kChunk = 8;
  return at / kPanelRow * panel + row * kPanelRow +
         ((at % kPanelRow / kChunk) ^ (row % kChunk)) * kChunk + at % kChunk;
}

using KernelPayload =
    std::variant<NoPayload, ConstPayload, ArgumentPayload, ApplyPayload, ReduceLanesPayload,
                 ExtractPayload, ShufflePayload, LookUpPayload, LoadPayload, StorePayload,
                 PrefetchPayload, PositionPayload, WarpXorPayload, BarrierPayload,
                 LoadClusterPayload, CopyAsyncPayload, WaitAsyncPayload, LoadMatrixPayload,
                 MatrixMultiplyPayload, GroupMultiplyPayload>;

/// Whether both are one alternative of equal fields. In numbers -0.0 and 0.0 differ, and a NaN is
/// equal to itself.
bool same_payload(const KernelPayload& a, const KernelPayload& b);

/// Calls visit(uint64_t) for the words of every field in order; payloads of one alternative are the
/// same if and only if their words are. What hashes of instructions are made from.
template <typename Visit>
void for_each_word(const KernelPayload& payload, Visit&& visit) {
  const auto add = [&](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, ScalarValue>) {
      visit(static_cast<uint64_t>(field.type));
      visit(std::bit_cast<uint64_t>(field.f));
      visit(static_cast<uint64_t>(field.i));
    } else if constexpr (std::is_same_v<Field, std::vector<int32_t>>) {
      visit(field.size());
      for (const int32_t number : field) visit(static_cast<uint64_t>(number));
    } else {
      visit(static_cast<uint64_t>(field));
    }
  };
  std::visit(
      [&](const auto& held) {
        std::apply([&](const auto&... field) { (add(field), ...); }, held.fields());
      },
      payload);
}

}  // namespace weft
