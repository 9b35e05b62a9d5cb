#include "schedule/gpu/choose_two_ways.h"

#include <algorithm>
#include <ranges>

#include "fmt/format.h"
#include "group/strides.h"
#include "group/two_ways.h"
#include "schedule/gpu/check_choice.h"
#include "support/check.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Registers of a block for elements of its rows: of the largest one's threads, addresses left out.
constexpr int64_t kElementRegisters = int64_t{48} << 10;
/// Values of a row that live at once, beside what is carried.
constexpr int64_t kRowValues = 4;
constexpr int64_t kMostWarps = 32;
/// Warps of a block whose rows need no common memory.
constexpr int64_t kFreeWarps = 8;
/// Elements of a thread before a row is given more warps.
constexpr int64_t kEnoughHeld = 8;
/// Rows that a block goes through at least: what it leaves of them is little beside what it reads.
constexpr int64_t kFewestRows = 8;
/// Threads of an SM that leave each of them 64 registers.
constexpr int64_t kRoomyThreads = 1024;

/// The widest element that lies along an axis in what the group reads from memory; 0: none does.
int64_t bytes_along(const GroupSpace& space, int axis) {
  int64_t bytes = 0;
  for (int p = 0; p < space.size(); ++p) {
    visit(space.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || space.axes().producer(s.symbol) >= 0) return;
      if (stride_along(space.program(), space.axes(), p, s, axis) == 1) {
        bytes = std::max(bytes, byte_size(s.type));
      }
    });
  }
  return bytes;
}

/// Rows on threads: as many of them as leave each enough of the row, several rows beside each other
/// where those are short.
TwoWaysChoice lay_out(const GroupSpace& space, const TwoWays& ways) {
  const auto extent = [&](int a) { return space.axes().axes[static_cast<size_t>(a)].extent; };
  TwoWaysChoice out;
  out.along = ways.along;
  std::ranges::sort(out.along, {}, [&](int a) { return std::pair(bytes_along(space, a) > 0, a); });
  int64_t elements = 1;
  for (const int a : out.along) elements *= extent(a);
  int64_t row_warps = 1;
  while (row_warps < kMostWarps && elements > row_warps * 32 * kEnoughHeld) row_warps *= 2;
  ThreadTile tile(row_warps > 1 ? row_warps : kFreeWarps);
  for (const int a : std::views::reverse(out.along)) {
    const int64_t bytes = std::max<int64_t>(bytes_along(space, a), 1);
    const int64_t vec = a == out.along.back() ? access_elements(extent(a), bytes, false) : 1;
    out.digits[a] = tile.add(extent(a), vec, 32, row_warps, 0);
  }
  out.digits[ways.across] = tile.add(extent(ways.across), 1, 32, kFreeWarps, 1);
  for (const auto& [a, list] : out.digits) {
    for (const Place::Digit& d : list) out.warps *= d.level == PlaceLevel::kWarp ? d.extent : 1;
  }
  return out;
}

/// Gives blocks their rows, with `most_per_sm` of them on an SM at most.
TwoWaysChoice hand_out_rows(TwoWaysChoice out, int64_t rows, int64_t beside, int64_t most_per_sm,
                            const Target& target) {
  const int64_t room = std::min<int64_t>(kRoomyThreads, target.threads_per_sm) / (out.warps * 32);
  const int64_t held = std::clamp<int64_t>(std::min(room, most_per_sm), 1, target.blocks_per_sm);
  const int64_t most =
      std::min(target.sm_count * held, std::max<int64_t>(rows / std::max(kFewestRows, beside), 1));
  out.chunk = round_up(ceil_div(rows, most), beside);
  out.blocks = ceil_div(rows, out.chunk);
  out.per_sm = ceil_div(out.blocks, target.sm_count);
  return out;
}

}  // namespace

Decision reduces_two_ways(const GroupSpace& space, const Target& target) {
  if (!target.is_gpu() || !target.grid_barriers) {
    return Decision::forbid(target.name + " reduces rows one way in a kernel");
  }
  TwoWays ways;
  Decision found = space.two_ways(&ways);
  if (!found) return found;
  const int64_t carried = std::ranges::count(ways.part, TwoWays::Part::kAcross);
  const int64_t most = kElementRegisters / (carried + kRowValues);
  int64_t elements = 1;
  for (const int a : ways.along) {
    elements *= std::min(space.axes().axes[static_cast<size_t>(a)].extent, most + 1);
    if (elements > most) {
      return Decision::forbid(
          fmt::format("rows of more than {} elements do not stay in registers", most));
    }
  }
  return found;
}

std::vector<TwoWaysChoice> two_way_layouts(const GroupSpace& space, const Target& target) {
  TwoWays ways;
  const Decision found = space.two_ways(&ways);
  WEFT_CHECK(found, found.reason());
  TwoWaysChoice on_threads = lay_out(space, ways);
  const int64_t rows = space.axes().axes[static_cast<size_t>(ways.across)].extent;
  const int64_t beside = digits_extent(on_threads.digits[ways.across]);
  std::erase_if(on_threads.digits, [](const auto& of_axis) { return of_axis.second.empty(); });
  std::vector<TwoWaysChoice> out;
  for (const int64_t most_per_sm : {4, 2, 1}) {
    TwoWaysChoice next = hand_out_rows(on_threads, rows, beside, most_per_sm, target);
    if (out.empty() || next != out.back()) out.push_back(std::move(next));
  }
  return out;
}

}  // namespace weft
