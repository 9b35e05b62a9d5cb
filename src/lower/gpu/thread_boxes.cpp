#include "lower/gpu/thread_boxes.h"

#include "tile/places.h"

#include <algorithm>
#include <set>

#include "lower/core/thread_digits.h"

namespace weft::lowering {

Box make_thread_box(GpuWriter& w, const std::vector<TileVarId>& vars, const Place& place) {
  Box box;
  for (const TileVarId var : vars) {
    Box::Axis axis;
    axis.var = var;
    for (const PlacedDigit& d : placed_digits(place, var)) {
      switch (d.level) {
        case PlaceLevel::kReg:
          axis.regs *= d.extent;
          axis.digits.insert(axis.digits.begin(), {d.extent, d.divisor});
          break;
        case PlaceLevel::kVec:
          WEFT_CHECK(d.divisor == 1 && box.vec_axis < 0,
                     "vector elements that are not the innermost digit in " + w.program.name);
          axis.lanes = d.extent;
          box.vec_axis = static_cast<int>(box.axes.size());
          box.lanes = static_cast<int32_t>(d.extent);
          break;
        default:
          axis.threads.push_back({{d.level, d.stride, d.extent}, d.divisor});
          thread_var(w, axis.threads.back().first);
      }
    }
    std::sort(axis.digits.begin(), axis.digits.end(),
              [](const Box::RegDigit& a, const Box::RegDigit& b) { return a.divisor > b.divisor; });
    box.axes.push_back(std::move(axis));
  }
  for (const PlaceLevel level : {PlaceLevel::kLane, PlaceLevel::kWarp}) {
    const int64_t used = level_extent(place, level);
    WEFT_CHECK(used <= level_size(w, level),
               "a place of more threads than " + w.program.name + " has");
    // What threads are left over hold copies too, of the first ones.
    if (used < level_size(w, level)) {
      box.copies.push_back({level, used, (level_size(w, level) + used - 1) / used});
    }
  }
  std::set<TileVarId> absent;
  for (const Place::Axis& axis : place.axes) {
    if (std::find(vars.begin(), vars.end(), axis.var) == vars.end()) absent.insert(axis.var);
  }
  for (const TileVarId var : absent) {
    for (const PlacedDigit& d : placed_digits(place, var)) {
      if (d.level == PlaceLevel::kLane || d.level == PlaceLevel::kWarp) {
        box.copies.push_back({d.level, d.stride, d.extent});
      }
    }
  }
  return box;
}

}  // namespace weft::lowering
