#include "cost/first_iteration.h"

#include <algorithm>
#include <cmath>

#include "support/rounding.h"

namespace weft {

FirstIteration::FirstIteration(const TileProgram& program)
    : program_(program),
      values_(program.vars.size(), 0),
      starts_(program.vars.size(), 0),
      steps_(program.vars.size(), 1),
      middles_(program.vars.size(), 0),
      lengths_(program.vars.size(), 1),
      trips_(program.vars.size(), 1),
      whole_(program.vars.size(), 1),
      boxes_(program.vars.size(), 1),
      begins_(program.vars.size(), 0) {
  for (size_t v = 0; v < program.vars.size(); ++v) {
    const TileVar& var = program.vars[v];
    if (var.kind == TileVar::Kind::kSize)
      middles_[v] = values_[v] = std::max<int64_t>(var.extent, 1);
    if (var.kind == TileVar::Kind::kAxis) boxes_[v] = static_cast<double>(var.extent);
  }
  collect(program.body);
}

void FirstIteration::collect(const TileBody& body) {
  for (const TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        break;
      case TileNode::Kind::kLoop:
        for (const TileLoop::Dim& dim : node.loop->dims) enter(dim);
        collect(node.loop->body);
        break;
      case TileNode::Kind::kCondition:
        collect(node.condition->body);
        break;
      case TileNode::Kind::kPack:
        for (const TilePack::Member& member : node.pack->members) collect(member.body);
        break;
    }
  }
}

void FirstIteration::enter(const TileLoop::Dim& dim) {
  const auto origin = static_cast<size_t>(dim.origin);
  values_[origin] = of(dim.begin);
  begins_[origin] = expanded(dim.begin);
  const int64_t begin = in_middle(dim.begin);
  const Length length = mean_length(dim);
  lengths_[origin] = static_cast<int64_t>(length.points + 0.5);
  trips_[origin] = length.trips;
  whole_[origin] = length.whole;
  const auto trips = static_cast<int64_t>(length.trips);
  starts_[origin] = begin;
  steps_[origin] = dim.step;
  middles_[origin] = begin + trips / 2 * dim.step;
  if (dim.offset < 0) return;
  boxes_[static_cast<size_t>(dim.offset)] =
      trips_[origin] == 0 ? 0 : length.points / trips_[origin];
}

FirstIteration::Border FirstIteration::border(const TileLoop::Dim& dim) const {
  const double trips = this->trips(dim.origin);
  if (dim.offset < 0) return {.whole = trips};
  const double whole = whole_[static_cast<size_t>(dim.origin)], others = trips - whole;
  if (others <= 0) return {.whole = trips};
  const double rest = box(dim.offset) * trips - whole * static_cast<double>(dim.step);
  return {whole, others, std::max(rest, 1.0) / others};
}

FirstIteration::Length FirstIteration::mean_length(const TileLoop::Dim& dim) const {
  constexpr int64_t kMostSamples = 16;
  int shortest = -1;
  for (const IndexExpr* e : {&dim.begin, &dim.end}) {
    for (const int v : variables(*e)) {
      const bool moves = v < kRuntimeIndexBase && trips_[static_cast<size_t>(v)] > 1;
      if (moves && (shortest < 0 || trips(v) < trips(shortest))) shortest = v;
    }
  }
  const auto of_length = [&](int64_t points) {
    points = std::max<int64_t>(points, 0);
    return Length{static_cast<double>(points), static_cast<double>(ceil_div(points, dim.step)),
                  static_cast<double>(points / dim.step)};
  };
  if (shortest < 0) return of_length(in_middle(dim.end) - in_middle(dim.begin));
  const auto loop = static_cast<size_t>(shortest);
  const auto length_in = [&](int64_t trip) {
    const auto at = [&](int id) {
      if (id >= kRuntimeIndexBase) return int64_t{0};
      return id == shortest ? starts_[loop] + trip * steps_[loop]
                            : middles_[static_cast<size_t>(id)];
    };
    return of_length(evaluate(dim.end, at) - evaluate(dim.begin, at));
  };
  // The last one, and some of the others, evenly apart.
  const auto others = std::max<int64_t>(static_cast<int64_t>(std::ceil(trips_[loop])) - 1, 1);
  const int64_t samples = std::min(others, kMostSamples);
  Length mean = length_in(others);
  for (int64_t s = 0; s < samples; ++s) {
    const Length own = length_in(s * others / samples);
    const double times = static_cast<double>(others) / static_cast<double>(samples);
    mean.points += own.points * times;
    mean.trips += own.trips * times;
    mean.whole += own.whole * times;
  }
  const auto count = static_cast<double>(others + 1);
  return {mean.points / count, mean.trips / count, mean.whole / count};
}

double FirstIteration::trips(const TileLoop& loop) const {
  double n = 1;
  for (const TileLoop::Dim& dim : loop.dims) n *= trips(dim.origin);
  return n;
}

int64_t FirstIteration::of(const IndexExpr& e) const {
  return evaluate(e, [&](int id) { return id < kRuntimeIndexBase ? value(id) : 0; });
}

int64_t FirstIteration::in_middle(const IndexExpr& e) const {
  return evaluate(
      e, [&](int id) { return id < kRuntimeIndexBase ? middles_[static_cast<size_t>(id)] : 0; });
}

IndexExpr FirstIteration::expanded(const IndexExpr& e) const {
  return substitute(e, [&](int id) {
    if (id >= kRuntimeIndexBase) return IndexExpr::var(id);
    const TileVar& var = program_.vars[static_cast<size_t>(id)];
    if (var.kind == TileVar::Kind::kSize) return IndexExpr(value(id));
    if (var.kind != TileVar::Kind::kOrigin) return IndexExpr::var(id);
    return begins_[static_cast<size_t>(id)] + IndexExpr::var(id);
  });
}

}  // namespace weft
