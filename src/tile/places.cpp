#include "tile/places.h"

#include <algorithm>
#include <bit>

namespace weft {

TileVarId axis_of(const TileProgram& program, const IndexExpr& e) {
  std::set<TileVarId> vars;
  add_box_variables(program, e, &vars);
  for (const int id : variables(e)) {
    if (id >= kRuntimeIndexBase) return -2;
  }
  if (vars.empty()) return -1;
  AffineForm form;
  if (vars.size() > 1 || !as_affine(e, &form) || form.coefficient(*vars.begin()) != 1) return -2;
  return *vars.begin();
}

int64_t level_extent(const Place& place, PlaceLevel level) {
  int64_t product = 1;
  for (const Place::Axis& axis : place.axes) {
    for (const Place::Digit& digit : axis.digits) {
      if (digit.level == level) product *= digit.extent;
    }
  }
  return product;
}

std::vector<PlacedDigit> placed_digits(const Place& place, TileVarId var) {
  int64_t strides[4] = {1, 1, 1, 1};
  std::vector<PlacedDigit> out;
  for (size_t a = place.axes.size(); a-- > 0;) {
    const Place::Axis& axis = place.axes[a];
    int64_t divisor = 1;
    for (size_t d = axis.digits.size(); d-- > 0;) {
      const Place::Digit& digit = axis.digits[d];
      int64_t& stride = strides[static_cast<size_t>(digit.level)];
      if (axis.var == var && digit.extent > 1) {
        PlacedDigit* last = out.empty() ? nullptr : &out.back();
        if (last != nullptr && last->level == digit.level &&
            last->divisor * last->extent == divisor && last->stride * last->extent == stride) {
          last->extent *= digit.extent;
        } else {
          out.push_back({digit.level, digit.extent, divisor, stride});
        }
      }
      divisor *= digit.extent;
      stride *= digit.extent;
    }
  }
  return out;
}

namespace {

constexpr PlaceLevel kWarp = PlaceLevel::kWarp, kLane = PlaceLevel::kLane, kReg = PlaceLevel::kReg,
                     kVec = PlaceLevel::kVec;

const Scalar* as_read(const ScalarRef& s) {
  const Scalar* at = s.get();
  while (at->kind == Scalar::Kind::kApply && at->op == ScalarOp::kConvert) {
    at = at->operands[0].get();
  }
  return at->kind == Scalar::Kind::kRead ? at : nullptr;
}

/// Product of the digits of one level on an axis of a place.
int64_t digits_of(const Place& place, TileVarId var, PlaceLevel level) {
  int64_t product = 1;
  for (const Place::Axis& axis : place.axes) {
    if (axis.var != var) continue;
    for (const Place::Digit& digit : axis.digits) {
      if (digit.level == level) product *= digit.extent;
    }
  }
  return product;
}

/// Warps for up to `parts` parts, so that none are left over: a divisor of `warps`.
int64_t even_share(int64_t warps, int64_t parts) {
  int64_t share = std::clamp<int64_t>(parts, 1, warps);
  while (warps % share != 0) --share;
  return share;
}

/// How warps share 16 x 8 tiles: as the statement's place says, else rows first.
void share_tiles(const TileProgram& program, const Place& place, UnitProduct* out) {
  const auto extent = [&](TileVarId var) { return program.vars[static_cast<size_t>(var)].extent; };
  const auto tiles = [](int64_t n, int64_t of) { return std::max<int64_t>((n + of - 1) / of, 1); };
  out->lane_k = byte_size(out->a->type) == 2 ? 2 : 1;
  out->halves_k = tiles(extent(out->k), 4 * out->lane_k);
  if (!place.empty()) {
    out->warps_m = digits_of(place, out->m, PlaceLevel::kWarp);
    out->warps_n = digits_of(place, out->n, PlaceLevel::kWarp);
    out->tiles_m = tiles(digits_of(place, out->m, PlaceLevel::kReg), 2);
    out->tiles_n = digits_of(place, out->n, PlaceLevel::kReg);
    return;
  }
  const int64_t m_tiles = tiles(extent(out->m), 16), n_tiles = tiles(extent(out->n), 8);
  out->warps_m = even_share(program.warps, m_tiles);
  out->warps_n = even_share(program.warps / out->warps_m, n_tiles);
  out->tiles_m = tiles(m_tiles, out->warps_m);
  out->tiles_n = tiles(n_tiles, out->warps_n);
}

}  // namespace

std::optional<UnitProduct> unit_product(const TileProgram& program, const TileStatement& s) {
  if (program.cpu || s.unit.empty() || s.reduce_axes.size() != 1 ||
      s.value->kind != Scalar::Kind::kApply || s.value->op != ScalarOp::kMul) {
    return std::nullopt;
  }
  UnitProduct out;
  out.a = as_read(s.value->operands[0]);
  out.b = as_read(s.value->operands[1]);
  out.k = s.reduce_axes[0];
  if (out.a == nullptr || out.b == nullptr) return std::nullopt;
  const auto uses = [&](const Scalar& read, TileVarId var) {
    return std::any_of(read.indices.begin(), read.indices.end(),
                       [&](const IndexExpr& e) { return uses_var(e, var); });
  };
  std::set<TileVarId> result;
  for (const IndexExpr& e : s.targets[0].indices) add_box_variables(program, e, &result);
  for (const TileVarId var : result) {
    const bool in_a = uses(*out.a, var), in_b = uses(*out.b, var);
    if (in_a && !in_b && out.m < 0) {
      out.m = var;
    } else if (in_b && !in_a && out.n < 0) {
      out.n = var;
    } else {
      return std::nullopt;
    }
  }
  if (out.m < 0 || out.n < 0) return std::nullopt;
  out.by_group = s.unit == kGroupUnit;
  share_tiles(program, s.place, &out);
  return out;
}

bool multiplies_by_groups(const TileProgram& program) {
  bool found = false;
  for_each_statement(program.body, [&](const TileStatement& s) { found |= s.unit == kGroupUnit; });
  return found;
}

bool lie_alike(const Place& a, const Place& b) {
  const auto plain = [](Place place) {
    for (Place::Axis& axis : place.axes)
      std::erase_if(axis.digits, [](const Place::Digit& d) { return d.extent == 1; });
    std::erase_if(place.axes, [](const Place::Axis& axis) { return axis.digits.empty(); });
    return place;
  };
  return plain(a) == plain(b);
}

bool adds_to_carry(const TileProgram& program, const TileStatement& product,
                   const TileStatement& next) {
  if (!next.unit.empty() || next.combiner != TileCombiner::kNone || next.targets.size() != 1 ||
      !next.targets[0].next || next.value->kind != Scalar::Kind::kApply ||
      next.value->op != ScalarOp::kAdd || !unit_product(program, product))
    return false;
  const TileRef &carry = next.targets[0], &made = product.targets[0];
  const auto reads = [](const Scalar& s, const TileRef& of) {
    return s.kind == Scalar::Kind::kRead && !s.next && s.symbol == of.symbol &&
           s.indices == of.indices;
  };
  const Scalar &a = *next.value->operands[0], &b = *next.value->operands[1];
  const auto is_float = [&](const TileRef& of) {
    return program.symbols[static_cast<size_t>(of.symbol)].type == DType::kF32;
  };
  const bool adds = (reads(a, carry) && reads(b, made)) || (reads(b, carry) && reads(a, made));
  return adds && made.indices == carry.indices && is_float(carry) && is_float(made);
}

Place UnitProduct::result() const {
  return {{{m, {{kWarp, warps_m}, {kReg, tiles_m * 2}, {kLane, 8}}},
           {n, {{kWarp, warps_n}, {kReg, tiles_n}, {kLane, 4}, {kVec, 2}}}}};
}
Place UnitProduct::left() const {
  return {{{m, {{kWarp, warps_m}, {kReg, tiles_m * 2}, {kLane, 8}}},
           {-1, {{kWarp, warps_n}}},
           {k, {{kReg, halves_k}, {kLane, 4}, {kVec, lane_k}}}}};
}
Place UnitProduct::right() const {
  return {{{-1, {{kWarp, warps_m}}},
           {n, {{kWarp, warps_n}, {kReg, tiles_n}, {kLane, 8}}},
           {k, {{kReg, halves_k}, {kLane, 4}, {kVec, lane_k}}}}};
}

namespace {

class Resolver {
 public:
  explicit Resolver(const TileStructure& structure)
      : structure_(structure), program_(*structure.program), state_(structure.sites.size(), kNew) {
    out_.of_site.resize(structure.sites.size());
    out_.of_symbol.resize(program_.symbols.size());
  }

  PlaceTable run() {
    for (size_t i = 0; i < structure_.sites.size(); ++i) resolve(static_cast<int32_t>(i), 0);
    return std::move(out_);
  }

 private:
  enum State : uint8_t { kNew, kOpen, kDone };

  /// Recursion follows reads to definitions; each site once. Chains longer than this fall back to
  /// the default.
  static constexpr int kLongestChain = 2000;

  void resolve(int32_t number, int depth) {
    const size_t i = static_cast<size_t>(number);
    if (state_[i] != kNew || depth > kLongestChain) return;
    state_[i] = kOpen;
    const Site& site = structure_.sites[i];
    if (site.kind == Site::Kind::kStatement) {
      out_.of_site[i] = statement_place(site, number, depth);
      for (const TileRef& target : site.statement->targets) {
        const size_t id = static_cast<size_t>(target.symbol);
        if (program_.symbols[id].kind == TileSymbol::Kind::kValue) {
          out_.of_symbol[id] = out_.of_site[i];
        }
      }
    } else if (site.kind == Site::Kind::kCarry) {
      out_.of_site[i] = carry_place(site, number, depth);
      out_.of_symbol[static_cast<size_t>(site.carry->target.symbol)] = out_.of_site[i];
    }
    state_[i] = kDone;
  }

  std::set<TileVarId> box(const Site& site) const {
    std::set<TileVarId> vars;
    if (site.kind == Site::Kind::kStatement) {
      const auto all = box_of(program_, *site.statement);
      vars.insert(all.begin(), all.end());
    } else {
      for (const IndexExpr& e : site.carry->target.indices) add_box_variables(program_, e, &vars);
    }
    return vars;
  }

  Place statement_place(const Site& site, int32_t number, int depth) {
    const TileStatement& s = *site.statement;
    const std::set<TileVarId> vars = box(site);
    if (!s.place.empty()) return completed(s.place, vars);
    if (const auto product = unit_product(program_, s)) {
      return completed(product->result(), vars);
    }
    Place place = inherited(number, vars, depth);
    if (program_.cpu || (!place.empty() && covers(place, vars))) {
      return completed(std::move(place), vars);
    }
    // The reader's place where it says more; of a reduction it would say nothing of what is
    // reduced.
    const bool staged = s.demand.value_or(Scope::kRegister) >= Scope::kBlock;
    if (!staged) {
      const Place wanted = wanted_by_reader(s, vars, depth);
      if (!wanted.empty() && (covers(wanted, vars) || (place.empty() && s.reduce_axes.empty()))) {
        place = wanted;
      }
    }
    return place.empty() ? spread(s, vars) : completed(std::move(place), vars);
  }

  Place carry_place(const Site& site, int32_t number, int depth) {
    const TileCarry& carry = *site.carry;
    const std::set<TileVarId> vars = box(site);
    if (!carry.place.empty()) return completed(carry.place, vars);
    Place place = inherited(number, vars, depth);
    if (!place.empty()) return completed(std::move(place), vars);
    for (const int32_t update : structure_.updates[static_cast<size_t>(carry.target.symbol)]) {
      resolve(update, depth + 1);
      const Site& writer = structure_.sites[static_cast<size_t>(update)];
      for (const TileRef& target : writer.statement->targets) {
        if (target.symbol != carry.target.symbol) continue;
        place = moved(out_.of_site[static_cast<size_t>(update)], target.indices,
                      carry.target.indices, vars);
      }
      if (!place.empty()) return completed(std::move(place), vars);
    }
    return completed({}, vars);
  }

  /// The place of the first read that has one for the whole box, else of the first that has one at
  /// all, in terms of the reader's variables.
  Place inherited(int32_t number, const std::set<TileVarId>& vars, int depth) {
    Place first;
    for (const ReadSite& read : structure_.reads) {
      if (read.site != number) continue;
      const size_t symbol = static_cast<size_t>(read.read->symbol);
      const int32_t definition = structure_.definition[symbol];
      if (definition < 0) continue;
      resolve(definition, depth + 1);
      if (state_[static_cast<size_t>(definition)] != kDone) continue;
      const Site& site = structure_.sites[static_cast<size_t>(definition)];
      const Place place = moved(out_.of_symbol[symbol], target_indices(site, read.read->symbol),
                                read.read->indices, vars);
      if (!place.empty() && covers(place, vars)) return place;
      if (first.empty()) first = place;
    }
    return first;
  }

  static const std::vector<IndexExpr>& target_indices(const Site& site, int symbol) {
    if (site.kind == Site::Kind::kCarry) return site.carry->target.indices;
    for (const TileRef& target : site.statement->targets) {
      if (target.symbol == symbol) return target.indices;
    }
    return site.statement->targets[0].indices;
  }

  /// `place`, whose axes are those of `from`, with the variables that stand at the same coordinates
  /// in `to`. Empty when no variable of `to` gets one.
  Place moved(const Place& place, const std::vector<IndexExpr>& from,
              const std::vector<IndexExpr>& to, const std::set<TileVarId>& vars) const {
    Place out;
    bool any = false;
    for (const Place::Axis& axis : place.axes) {
      TileVarId becomes = -1;
      for (size_t c = 0; c < from.size() && c < to.size() && axis.var >= 0; ++c) {
        if (axis_of(program_, from[c]) != axis.var) continue;
        const TileVarId reader = axis_of(program_, to[c]);
        if (reader < 0 || vars.count(reader) == 0 || placed(out, reader)) continue;
        const bool same = program_.vars[static_cast<size_t>(reader)].extent ==
                          program_.vars[static_cast<size_t>(axis.var)].extent;
        if (same) becomes = reader;
      }
      if (becomes >= 0) {
        out.axes.push_back({becomes, axis.digits});
        any = true;
        continue;
      }
      Place::Axis copies{-1, {}};
      for (const Place::Digit& digit : axis.digits) {
        if (digit.level == PlaceLevel::kWarp || digit.level == PlaceLevel::kLane) {
          copies.digits.push_back(digit);
        }
      }
      if (!copies.digits.empty()) out.axes.push_back(std::move(copies));
    }
    // A value without axes lends its copies to a reader without axes.
    if (!any && !(vars.empty() && !out.axes.empty())) return {};
    return out;
  }

  static bool placed(const Place& place, TileVarId var) {
    return std::any_of(place.axes.begin(), place.axes.end(),
                       [&](const Place::Axis& a) { return a.var == var; });
  }

  static bool covers(const Place& place, const std::set<TileVarId>& vars) {
    return std::all_of(vars.begin(), vars.end(), [&](TileVarId v) { return placed(place, v); });
  }

  /// Variables of the box that the place leaves out are unrolled.
  Place completed(Place place, const std::set<TileVarId>& vars) const {
    for (const TileVarId var : vars) {
      if (placed(place, var)) continue;
      const int64_t extent = program_.vars[static_cast<size_t>(var)].extent;
      place.axes.push_back({var, {{PlaceLevel::kReg, std::max<int64_t>(extent, 1)}}});
    }
    return place;
  }

  /// The place in which the first reader that has one wants what a load makes.
  Place wanted_by_reader(const TileStatement& s, const std::set<TileVarId>& vars, int depth) {
    for (const TileRef& target : s.targets) {
      for (const ReadSite* read : structure_.reads_of(target.symbol)) {
        const Site& site = structure_.sites[static_cast<size_t>(read->site)];
        if (site.kind != Site::Kind::kStatement) continue;
        Place wanted;
        const auto product = unit_product(program_, *site.statement);
        if (product && (read->read == product->a || read->read == product->b)) {
          wanted = read->read == product->a ? product->left() : product->right();
        } else {
          resolve(read->site, depth + 1);
          if (state_[static_cast<size_t>(read->site)] != kDone) continue;
          wanted = out_.of_site[static_cast<size_t>(read->site)];
        }
        Place own = moved(wanted, read->read->indices, target.indices, vars);
        if (!own.empty()) return own;
      }
    }
    return {};
  }

  /// The axis along which most of the elements that the statement touches are contiguous: that of
  /// last indices. A reduced one, which threads would have to exchange, only if it is no other;
  /// of equals the last in `order`.
  TileVarId contiguous_axis(const TileStatement& s, const std::vector<TileVarId>& order) const {
    std::map<TileVarId, double> elements;
    const auto count = [&](const std::vector<IndexExpr>& indices) {
      std::set<TileVarId> last, all;
      if (!indices.empty()) add_box_variables(program_, indices.back(), &last);
      for (const IndexExpr& e : indices) add_box_variables(program_, e, &all);
      double own = 1;
      for (const TileVarId v : all) {
        own *= static_cast<double>(program_.vars[static_cast<size_t>(v)].extent);
      }
      for (const TileVarId var : last) elements[var] += own;
    };
    for (const TileRef& target : s.targets) {
      const TileSymbol& symbol = program_.symbols[static_cast<size_t>(target.symbol)];
      if (symbol.kind == TileSymbol::Kind::kOutput) count(target.indices);
    }
    visit(s.value, [&](const Scalar& n) {
      if (n.kind == Scalar::Kind::kRead) count(n.indices);
    });
    const auto rank = [&](TileVarId v) {
      const bool reduced =
          std::find(s.reduce_axes.begin(), s.reduce_axes.end(), v) != s.reduce_axes.end();
      return std::pair(elements[v] > 0 && !reduced, elements[v]);
    };
    TileVarId best = order.back();
    for (size_t i = order.size(); i-- > 0;) {
      if (rank(order[i]) > rank(best)) best = order[i];
    }
    return best;
  }

  /// VEC_4 on the contiguous axis where it divides, then lanes and warps from there outwards, the
  /// rest in registers.
  Place spread(const TileStatement& s, const std::set<TileVarId>& vars) const {
    if (vars.empty()) return {};
    std::vector<TileVarId> order;
    for (const TileVarId var : s.reduce_axes) order.push_back(var);
    for (const IndexExpr& e : s.targets[0].indices) {
      std::set<TileVarId> of_index;
      add_box_variables(program_, e, &of_index);
      for (const TileVarId var : of_index) {
        if (std::find(order.begin(), order.end(), var) == order.end()) order.push_back(var);
      }
    }
    for (const TileVarId var : vars) {
      if (std::find(order.begin(), order.end(), var) == order.end()) {
        order.insert(order.begin(), var);
      }
    }
    const TileVarId last = contiguous_axis(s, order);
    std::erase(order, last);
    order.push_back(last);
    int64_t lanes = 32, warps = program_.warps;
    Place place;
    for (size_t i = order.size(); i-- > 0;) {
      int64_t left = std::max<int64_t>(program_.vars[static_cast<size_t>(order[i])].extent, 1);
      const int64_t vec = i + 1 == order.size() && left % 4 == 0 ? 4 : 1;
      left /= vec;
      const int64_t own_lanes =
          std::min(lanes, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(left))));
      left = (left + own_lanes - 1) / own_lanes;
      const int64_t own_warps = lanes == own_lanes ? even_share(warps, left) : 1;
      left = (left + own_warps - 1) / own_warps;
      lanes /= own_lanes;
      warps /= own_warps;
      place.axes.insert(place.axes.begin(), {order[i],
                                             {{PlaceLevel::kReg, left},
                                              {PlaceLevel::kWarp, own_warps},
                                              {PlaceLevel::kLane, own_lanes},
                                              {PlaceLevel::kVec, vec}}});
    }
    return place;
  }

  const TileStructure& structure_;
  const TileProgram& program_;
  std::vector<uint8_t> state_;
  PlaceTable out_;
};

}  // namespace

PlaceTable resolve_places(const TileStructure& structure) { return Resolver(structure).run(); }

Place reader_place(const TileStructure& structure, const PlaceTable& places, const ReadSite& read) {
  const Site& site = structure.sites[static_cast<size_t>(read.site)];
  if (site.kind == Site::Kind::kStatement) {
    if (const auto product = unit_product(*structure.program, *site.statement)) {
      if (read.read == product->a) return product->left();
      if (read.read == product->b) return product->right();
    }
  }
  return places.of_site[static_cast<size_t>(read.site)];
}

}  // namespace weft
