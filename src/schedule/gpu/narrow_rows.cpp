#include "schedule/gpu/narrow_rows.h"

#include <algorithm>

namespace weft {

std::optional<RowsChoice> narrow_rows(const RowsChoice& choice, int64_t warps) {
  if (choice.warps <= warps || choice.parts > 1 || choice.keeps || choice.cross >= 0)
    return std::nullopt;
  RowsChoice out = choice;
  out.warps = warps;
  int64_t left = warps;
  for (auto& [axis, digits] : out.digits) {
    const bool is_row = std::ranges::find(out.row, axis) != out.row.end();
    for (Place::Digit& d : digits) {
      if (d.level != PlaceLevel::kWarp) continue;
      if (is_row && d.extent > left) return std::nullopt;
      d.extent = std::min(d.extent, left);
      left /= d.extent;
    }
    std::erase_if(digits, [](const Place::Digit& d) {
      return d.level == PlaceLevel::kWarp && d.extent == 1;
    });
  }
  return out;
}

}  // namespace weft
