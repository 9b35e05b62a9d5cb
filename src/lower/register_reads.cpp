#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

/// Takes what the thread's own digits add to a coordinate out of the terms: the element is then the
/// same in every thread.
void Lowering::remove_threads(const Box::Axis& axis,
                              std::vector<std::pair<int, int64_t>>* terms) const {
  std::map<int, int64_t> sum;
  for (const auto& [id, c] : *terms) sum[id] += c;
  for (const auto& [digit, step] : axis.threads) sum[thread_vars_.at(digit)] -= step;
  terms->clear();
  for (const auto& [id, c] : sum) {
    if (c != 0) terms->emplace_back(id, c);
  }
}

/// Which register of its owner holds one element of an axis, and which lanes those owners are.
void Lowering::locate(const Box::Axis& axis, const PointOffset& at, int64_t lane,
                      const std::string& name, RegisterSource* out) {
  int64_t element = at.constant + lane * at.lane_coefficient;
  std::vector<std::pair<int, int64_t>> terms = at.terms;
  remove_threads(axis, &terms);
  const auto digit_of = [&](const IndexExpr& e, int64_t divisor, int64_t extent) {
    return simplify(weft::mod(floor_div(e, divisor), extent),
                    [this](int id) { return range_of_var(id); });
  };
  if (!terms.empty()) {
    // Another thread's: its register has to be one number for all that ask.
    IndexExpr e = element;
    for (const auto& [id, c] : at.terms) e = e + IndexExpr::var(id) * c;
    element = 0;
    const auto add_register_digit = [&](int64_t divisor, int64_t extent) {
      const IndexExpr number = digit_of(e, divisor, extent);
      WEFT_CHECK(number.is_const(),
                 "a register of " + name + " is selected by a runtime index in " + program_.name);
      element += number.constant() * divisor;
    };
    for (const Box::RegDigit& digit : axis.digits) add_register_digit(digit.divisor, digit.extent);
    if (axis.lanes > 1) add_register_digit(1, axis.lanes);
    for (const auto& [digit, step] : axis.threads) {
      const IndexExpr number = digit_of(e, step, digit.extent);
      if (number == IndexExpr::var(thread_vars_.at(digit))) continue;
      WEFT_CHECK(digit.level == PlaceLevel::kLane,
                 "a register of " + name + " is on another warp in " + program_.name);
      out->moves = true;
      out->lane_shift =
          out->lane_shift + (number - IndexExpr::var(thread_vars_.at(digit))) * digit.stride;
    }
  }
  int64_t copy = 0;
  for (const Box::RegDigit& digit : axis.digits) {
    copy = copy * digit.extent + element / digit.divisor % digit.extent;
  }
  WEFT_CHECK(axis.start(copy) == element - element % axis.lanes && copy >= 0 && copy < axis.regs,
             "a read of " + name + " leaves its box in " + program_.name);
  out->number = out->number * axis.regs + copy;
  if (axis.lanes > 1) out->lane = element % axis.lanes;
}

/// Rule 1a: the element in the reader's own register, or by a shuffle from another lane's.
Reg Lowering::read_register(const Scalar& read, const RegisterTile& tile, const Point& point) {
  auto it = prepared_coordinates_.find(&read);
  if (it == prepared_coordinates_.end()) {
    std::vector<PreparedIndex> coordinates;
    for (size_t a = 0; a < read.indices.size(); ++a) {
      coordinates.push_back(prepare(bind(read.indices[a]) - tile.base[a]));
    }
    it = prepared_coordinates_.emplace(&read, std::move(coordinates)).first;
  }
  const std::string& name = program_.symbols[static_cast<size_t>(read.symbol)].name;
  std::vector<PointOffset> offsets(tile.box.axes.size());
  bool lane_by_lane = false;
  for (size_t a = 0; a < read.indices.size(); ++a) {
    const auto at = affine_at_point(it->second[a], point);
    WEFT_CHECK(at && (tile.axis[a] >= 0 || at->terms.empty()),
               "a register of " + name + " is selected by a runtime index in " + program_.name);
    if (tile.axis[a] < 0) continue;
    const Box::Axis& axis = tile.box.axes[static_cast<size_t>(tile.axis[a])];
    const bool as_made =
        at->lane_coefficient == 1 && axis.lanes == box_.lanes && at->constant % axis.lanes == 0;
    lane_by_lane |= at->lane_coefficient != 0 && !as_made;
    offsets[static_cast<size_t>(tile.axis[a])] = *at;
  }
  const bool as_vector = !lane_by_lane && tile.box.vec_axis >= 0 &&
                         offsets[static_cast<size_t>(tile.box.vec_axis)].lane_coefficient != 0;
  if (!lane_by_lane) return read_lane(tile, offsets, 0, as_vector, name);
  std::vector<Reg> lanes;
  for (int32_t l = 0; l < box_.lanes; ++l) {
    lanes.push_back(read_lane(tile, offsets, l, false, name));
  }
  return join_lanes(std::move(lanes));
}

/// What lane `lane` of the reader's vector reads, or its whole vector.
Reg Lowering::read_lane(const RegisterTile& tile, const std::vector<PointOffset>& offsets,
                        int64_t lane, bool as_vector, const std::string& name) {
  RegisterSource source;
  for (size_t k = 0; k < tile.box.axes.size(); ++k) {
    locate(tile.box.axes[k], offsets[k], lane, name, &source);
  }
  Reg r = tile.regs[static_cast<size_t>(source.number)];
  WEFT_CHECK(r != kNoReg,
             "an element of " + name + " is read before it is made in " + program_.name);
  if (!as_vector && builder_.type(r).lanes > 1) {
    r = builder_.extract(r, static_cast<int32_t>(source.lane));
  }
  if (!source.moves) return r;
  const Reg from = builder_.apply(
      ScalarOp::kAdd,
      {thread_number(PlaceLevel::kLane),
       emit_index(simplify(source.lane_shift, [this](int id) { return range_of_var(id); }))},
      DType::kI64);
  if (builder_.type(r).lanes == 1) return builder_.warp_pick(r, from);
  std::vector<Reg> parts;
  for (int32_t l = 0; l < builder_.type(r).lanes; ++l) {
    parts.push_back(builder_.warp_pick(builder_.extract(r, l), from));
  }
  return join_lanes(std::move(parts));
}

}  // namespace weft::lowering
