#include "lower/core/register_reads.h"

#include <map>

#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/thread_digits.h"

namespace weft::lowering {

namespace {

/// Where a reader finds an element of a register tile: a register, a lane of its vector, and how
/// far away the lane of the warp is that holds it.
struct RegisterSource {
  int64_t number = 0;
  int64_t lane = 0;
  bool moves = false;
  IndexExpr lane_shift = 0;
};

/// Takes what the thread's own digits add to a coordinate out of the terms: the element is then the
/// same in every thread.
void remove_threads(const KernelWriter& w, const Box::Axis& axis,
                    std::vector<std::pair<int, int64_t>>* terms) {
  std::map<int, int64_t> sum;
  for (const auto& [id, c] : *terms) sum[id] += c;
  for (const auto& [digit, step] : axis.threads) sum[w.vars.digits.at(digit)] -= step;
  terms->clear();
  for (const auto& [id, c] : sum) {
    if (c != 0) terms->emplace_back(id, c);
  }
}

/// Which register of its owner holds one element of an axis, and which lanes those owners are.
void locate(KernelWriter& w, const Box::Axis& axis, const PointOffset& at, int64_t lane,
            const std::string& name, RegisterSource* out) {
  int64_t element = at.constant + lane * at.lane_coefficient;
  std::vector<std::pair<int, int64_t>> terms = at.terms;
  remove_threads(w, axis, &terms);
  const auto digit_of = [&](const IndexExpr& e, int64_t divisor, int64_t extent) {
    return simplify(weft::mod(floor_div(e, divisor), extent),
                    [&](int id) { return range_of_var(w, id); });
  };
  if (!terms.empty()) {
    // Another thread's: its register has to be one number for all that ask.
    IndexExpr e = element;
    for (const auto& [id, c] : at.terms) e = e + IndexExpr::var(id) * c;
    element = 0;
    const auto add_register_digit = [&](int64_t divisor, int64_t extent) {
      const IndexExpr number = digit_of(e, divisor, extent);
      WEFT_CHECK(number.is_const(),
                 "a register of " + name + " is selected by a runtime index in " + w.program.name);
      element += number.constant() * divisor;
    };
    for (const Box::RegDigit& digit : axis.digits) add_register_digit(digit.divisor, digit.extent);
    if (axis.lanes > 1) add_register_digit(1, axis.lanes);
    for (const auto& [digit, step] : axis.threads) {
      const IndexExpr number = digit_of(e, step, digit.extent);
      if (number == IndexExpr::var(w.vars.digits.at(digit))) continue;
      WEFT_CHECK(digit.level == PlaceLevel::kLane,
                 "a register of " + name + " is on another warp in " + w.program.name);
      out->moves = true;
      out->lane_shift =
          out->lane_shift + (number - IndexExpr::var(w.vars.digits.at(digit))) * digit.stride;
    }
  }
  int64_t copy = 0;
  for (const Box::RegDigit& digit : axis.digits) {
    copy = copy * digit.extent + element / digit.divisor % digit.extent;
  }
  WEFT_CHECK(axis.start(copy) == element - element % axis.lanes && copy >= 0 && copy < axis.regs,
             "a read of " + name + " leaves its box in " + w.program.name);
  out->number = out->number * axis.regs + copy;
  if (axis.lanes > 1) out->lane = element % axis.lanes;
}

/// What lane `lane` of the reader's vector reads, or its whole vector.
Reg read_lane(KernelWriter& w, const RegisterTile& tile, const std::vector<PointOffset>& offsets,
              int64_t lane, bool as_vector, const std::string& name) {
  RegisterSource source;
  for (size_t k = 0; k < tile.box.axes.size(); ++k) {
    locate(w, tile.box.axes[k], offsets[k], lane, name, &source);
  }
  Reg r = tile.regs[static_cast<size_t>(source.number)];
  WEFT_CHECK(r != kNoReg,
             "an element of " + name + " is read before it is made in " + w.program.name);
  if (!as_vector && w.builder.type(r).lanes > 1) {
    r = w.builder.extract(r, static_cast<int32_t>(source.lane));
  }
  if (!source.moves) return r;
  const Reg from = w.builder.apply(
      ScalarOp::kAdd,
      {thread_number(w, PlaceLevel::kLane),
       emit_index(w, simplify(source.lane_shift, [&](int id) { return range_of_var(w, id); }))},
      DType::kI64);
  if (w.builder.type(r).lanes == 1) return w.builder.warp_pick(r, from);
  std::vector<Reg> parts;
  for (int32_t l = 0; l < w.builder.type(r).lanes; ++l) {
    parts.push_back(w.builder.warp_pick(w.builder.extract(r, l), from));
  }
  return join_lanes(w, std::move(parts));
}

}  // namespace

Reg read_register(KernelWriter& w, const Scalar& read, const RegisterTile& tile,
                  const Point& point) {
  auto it = w.at_hand.prepared_coordinates.find(&read);
  if (it == w.at_hand.prepared_coordinates.end()) {
    std::vector<PreparedIndex> coordinates;
    for (size_t a = 0; a < read.indices.size(); ++a) {
      coordinates.push_back(prepare(w, bind(w, read.indices[a]) - tile.base[a]));
    }
    it = w.at_hand.prepared_coordinates.emplace(&read, std::move(coordinates)).first;
  }
  const std::string& name = w.program.symbols[static_cast<size_t>(read.symbol)].name;
  std::vector<PointOffset> offsets(tile.box.axes.size());
  bool lane_by_lane = false;
  for (size_t a = 0; a < read.indices.size(); ++a) {
    const auto at = affine_at_point(w, it->second[a], point);
    WEFT_CHECK(at && (tile.axis[a] >= 0 || at->terms.empty()),
               "a register of " + name + " is selected by a runtime index in " + w.program.name);
    if (tile.axis[a] < 0) continue;
    const Box::Axis& axis = tile.box.axes[static_cast<size_t>(tile.axis[a])];
    const bool as_made = at->lane_coefficient == 1 && axis.lanes == w.at_hand.box.lanes &&
                         at->constant % axis.lanes == 0;
    lane_by_lane |= at->lane_coefficient != 0 && !as_made;
    offsets[static_cast<size_t>(tile.axis[a])] = *at;
  }
  const bool as_vector = !lane_by_lane && tile.box.vec_axis >= 0 &&
                         offsets[static_cast<size_t>(tile.box.vec_axis)].lane_coefficient != 0;
  if (!lane_by_lane) return read_lane(w, tile, offsets, 0, as_vector, name);
  std::vector<Reg> lanes;
  for (int32_t l = 0; l < w.at_hand.box.lanes; ++l) {
    lanes.push_back(read_lane(w, tile, offsets, l, false, name));
  }
  return join_lanes(w, std::move(lanes));
}

}  // namespace weft::lowering
