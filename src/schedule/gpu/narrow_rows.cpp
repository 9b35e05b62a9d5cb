#include "schedule/gpu/narrow_rows.h"

#include <algorithm>

namespace weft {

namespace {

/// Elements that a thread may hold of a row that it keeps.
constexpr int64_t kMostHeld = 64;

/// Warps that a row no longer has become registers before the lanes.
void add_registers(int64_t factor, std::vector<Place::Digit>& digits) {
  const auto reg = std::ranges::find(digits, PlaceLevel::kReg, &Place::Digit::level);
  if (reg != digits.end()) {
    reg->extent *= factor;
  } else {
    digits.insert(digits.begin(), {PlaceLevel::kReg, factor});
  }
}

int64_t held(const AxisDigits& digits) {
  int64_t elements = 1;
  for (const auto& [axis, list] : digits) {
    for (const Place::Digit& d : list) {
      if (d.level == PlaceLevel::kReg || d.level == PlaceLevel::kVec) elements *= d.extent;
    }
  }
  return elements;
}

}  // namespace

std::optional<RowsChoice> rows_for_each_box(const RowsChoice& choice) {
  if (!choice.keeps) return std::nullopt;
  RowsChoice out = choice;
  out.keeps = false;
  out.blocks = out.kept_dims = out.per_sm = 0;
  return out;
}

std::optional<RowsChoice> narrow_rows(const RowsChoice& choice, int64_t warps) {
  if (choice.warps <= warps || choice.parts > 1 || choice.together > 1 || choice.cross >= 0)
    return std::nullopt;
  // Blocks of a shared launch go through boxes anyway.
  RowsChoice out = rows_for_each_box(choice).value_or(choice);
  out.warps = warps;
  int64_t left = warps;
  bool shares = false;
  for (auto& [axis, digits] : out.digits) {
    const bool is_row = std::ranges::find(out.row, axis) != out.row.end();
    int64_t lost = 1;
    for (Place::Digit& d : digits) {
      if (d.level != PlaceLevel::kWarp) continue;
      const int64_t kept = std::min(d.extent, left);
      lost *= d.extent / kept;
      d.extent = kept;
      left /= kept;
    }
    std::erase_if(digits, [](const Place::Digit& d) {
      return d.level == PlaceLevel::kWarp && d.extent == 1;
    });
    if (!is_row || !out.resident || lost == 1) continue;
    add_registers(lost, digits);
    shares = true;
  }
  if (shares && held(out.digits) > kMostHeld) return std::nullopt;
  return out;
}

}  // namespace weft
