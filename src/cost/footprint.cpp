#include "cost/footprint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "expr/layout.h"
#include "index/index_terms.h"
#include "support/rounding.h"

namespace weft {

namespace {

constexpr auto kLine = static_cast<double>(kLineBytes);
/// How many times the lines that a set holds it still keeps a part of: sets do not give up their
/// oldest line each time.
constexpr double kKeepsAPart = 4;

double count(const Footprint::Extent& e) {
  return std::min(static_cast<double>(e.hull.hi - e.hull.lo + 1), e.points);
}

}  // namespace

Footprint::Footprint(const TileProgram& program, const ScopeAnalysis& scopes,
                     const FirstIteration& numbers, TileSymbolId symbol,
                     const std::vector<IndexExpr>& indices, const Scalar* read)
    : program_(program), numbers_(numbers), symbol_(symbol) {
  const TileSymbol& s = program.symbols[static_cast<size_t>(symbol)];
  const bool parameter = s.kind == TileSymbol::Kind::kInput || s.kind == TileSymbol::Kind::kOutput;
  const SymbolScope& scope = scopes.symbols[static_cast<size_t>(symbol)];
  element_ = byte_size(s.type);
  layout_ = parameter ? s.layout : Layout{};
  for (size_t d = 0; d < indices.size(); ++d) {
    const bool has_base = !parameter && d < scope.base.size();
    coordinates_.push_back(numbers.expanded(has_base ? indices[d] - scope.base[d] : indices[d]));
    variables_.push_back(variables(coordinates_.back()));
    forms_.push_back(affine_form(coordinates_.back()));
    int64_t extent = INT64_MAX;
    if (parameter) extent = numbers.of(s.shape[d]);
    if (has_base) extent = scope.extents[d];
    shape_.push_back(std::max<int64_t>(extent, 1));
  }
  std::set<TileVarId> of_data;
  if (read != nullptr) {
    for (const ScalarRef& operand : read->operands) {
      visit(operand, [&](const Scalar& node) {
        for (const IndexExpr& e : node.indices) {
          for (const int v : variables(numbers.expanded(e))) of_data.insert(v);
        }
      });
    }
  }
  of_data_.assign(of_data.begin(), of_data.end());
}

/// Values that a variable takes.
double Footprint::points_of(int var, std::span<const TileVarId> running) const {
  const TileVar::Kind kind = program_.vars[static_cast<size_t>(var)].kind;
  if (kind != TileVar::Kind::kOrigin) return std::max(numbers_.box(var), 1.0);
  return std::ranges::find(running, var) != running.end() ? std::max(numbers_.trips(var), 1.0) : 1;
}

Interval Footprint::range_of_variable(int var, std::span<const TileVarId> running) const {
  if (var >= kRuntimeIndexBase) return kUnbounded;
  if (program_.vars[static_cast<size_t>(var)].kind != TileVar::Kind::kOrigin)
    return {0, static_cast<int64_t>(std::ceil(std::max(numbers_.box(var), 1.0))) - 1};
  if (std::ranges::find(running, var) == running.end()) return {0, 0};
  const auto trips = static_cast<int64_t>(std::max(numbers_.trips(var), 1.0));
  return {0, (trips - 1) * ceil_div(std::max<int64_t>(numbers_.length(var), 1), trips)};
}

/// Of a coordinate, within the buffer.
Interval Footprint::hull_along(size_t d, std::span<const TileVarId> running) const {
  __int128 lo = 0, hi = 0;
  if (forms_[d]) {
    lo = hi = forms_[d]->constant;
    for (const auto& [var, k] : forms_[d]->terms) {
      const Interval own = range_of_variable(var, running);
      lo += static_cast<__int128>(k) * (k > 0 ? own.lo : own.hi);
      hi += static_cast<__int128>(k) * (k > 0 ? own.hi : own.lo);
    }
  } else {
    const Interval all =
        range_of(coordinates_[d], [&](int var) { return range_of_variable(var, running); });
    lo = all.lo, hi = all.hi;
  }
  const int64_t last = shape_[d] - 1;
  const auto first = static_cast<int64_t>(std::clamp<__int128>(lo, 0, last));
  return {first, static_cast<int64_t>(std::clamp<__int128>(hi, first, last))};
}

Footprint::Box Footprint::box(std::span<const TileVarId> running) const {
  Box out;
  out.extents.reserve(coordinates_.size());
  bool of_data = false;
  for (size_t d = 0; d < coordinates_.size(); ++d) {
    Extent e;
    bool runtime = false;
    for (const int var : variables_[d]) {
      if (var >= kRuntimeIndexBase) {
        runtime = true;
      } else {
        e.points *= points_of(var, running);
      }
    }
    of_data |= runtime;
    e.hull = runtime ? Interval{0, shape_[d] - 1} : hull_along(d, running);
    out.extents.push_back(e);
  }
  if (!of_data) return out;
  for (const int var : of_data_) {
    if (var < kRuntimeIndexBase) out.times *= points_of(var, running);
  }
  return out;
}

double Footprint::bytes(const Box& box) const {
  const auto size = static_cast<double>(element_);
  if (shape_.empty()) return size;
  double all = 1;
  for (const int64_t n : shape_) all *= static_cast<double>(n);
  // Physical axes, the innermost one first: what runs on without a gap is loaded in whole lines.
  double run = size, runs = 1;
  bool inside = true;
  const auto add_axis = [&](double values, double extent) {
    (inside ? run : runs) *= values;
    inside &= values >= extent;
  };
  if (layout_.is_row_major()) {
    for (size_t d = shape_.size(); d-- > 0;)
      add_axis(count(box.extents[d]), static_cast<double>(shape_[d]));
  } else {
    for (size_t p = layout_.axes.size(); p-- > 0;) {
      const Layout::Axis& a = layout_.axes[p];
      const Extent& e = box.extents[static_cast<size_t>(a.axis)];
      const auto digits = static_cast<double>(e.hull.hi / a.divisor - e.hull.lo / a.divisor + 1);
      const auto extent = static_cast<double>(a.extent);
      add_axis(std::min({digits, extent, count(e)}), extent);
    }
  }
  if (runs * box.times > 1) run = std::ceil(run / kLine) * kLine;
  return std::min(runs * run * box.times, std::max(all * size, run));
}

double Footprint::crowded_bytes(const Box& box, int64_t cache_bytes) const {
  const double plain = bytes(box);
  if (!layout_.is_row_major() || box.times > 1) return plain;
  double run = static_cast<double>(element_), lines = 1;
  int64_t stride = element_, apart = 0;
  bool inside = true;
  for (size_t d = shape_.size(); d-- > 0;) {
    const double n = count(box.extents[d]);
    if (inside) {
      run = n * static_cast<double>(stride);
      inside = n >= static_cast<double>(shape_[d]);
    } else if (n > 1) {
      if (apart > 0) return plain;
      lines = n;
      apart = stride;
    }
    stride *= shape_[d];
  }
  const int64_t way = std::max<int64_t>(cache_bytes / kSecondCacheWays, 1);
  const double sets = static_cast<double>(way) / kLine, of_run = std::ceil(run / kLine);
  if (apart == 0) return plain;
  const double reached = std::min(sets, of_run * static_cast<double>(sets_reached(apart, way)));
  return lines * of_run <= kKeepsAPart * reached * kSecondCacheWays ? plain
                                                                    : plain * sets / reached;
}

int64_t sets_reached(int64_t step, int64_t way) {
  return std::min(way / std::gcd(step, way), way / static_cast<int64_t>(kLine));
}

double bytes_of_all(std::span<const Footprint* const> footprints,
                    std::span<const TileVarId> running) {
  struct Held {
    Footprint::Box box;
    double bytes = 0;
  };
  std::map<TileSymbolId, std::vector<Held>> by_symbol;
  for (const Footprint* f : footprints) {
    Held next{f->box(running)};
    next.bytes = f->bytes(next.box);
    std::vector<Held>& held = by_symbol[f->symbol()];
    const bool joined = std::ranges::any_of(held, [&](Held& h) {
      if (h.box == next.box) return true;
      Footprint::Box both = h.box;
      both.times = std::max(both.times, next.box.times);
      for (size_t d = 0; d < both.extents.size(); ++d) {
        Footprint::Extent& e = both.extents[d];
        const Footprint::Extent& other = next.box.extents[d];
        if (e.hull == other.hull) {
          e.points = std::max(e.points, other.points);
          continue;
        }
        e.hull = {std::min(e.hull.lo, other.hull.lo), std::max(e.hull.hi, other.hull.hi)};
        e.points += other.points;
      }
      const double bytes = f->bytes(both);
      if (bytes > h.bytes + next.bytes) return false;
      h = {std::move(both), bytes};
      return true;
    });
    if (!joined) held.push_back(std::move(next));
  }
  double bytes = 0;
  for (const auto& [symbol, held] : by_symbol) {
    for (const Held& h : held) bytes += h.bytes;
  }
  return bytes;
}

double crowded_bytes_of_all(std::span<const Footprint* const> footprints,
                            std::span<const TileVarId> running, int64_t cache_bytes) {
  std::map<TileSymbolId, double> more;
  for (const Footprint* f : footprints) {
    const Footprint::Box box = f->box(running);
    double& of_symbol = more[f->symbol()];
    of_symbol = std::max(of_symbol, f->crowded_bytes(box, cache_bytes) - f->bytes(box));
  }
  double bytes = 0;
  for (const auto& [symbol, n] : more) bytes += n;
  return bytes;
}

}  // namespace weft
