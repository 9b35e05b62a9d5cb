#include "cost/first_iteration.h"

#include <algorithm>

#include "support/rounding.h"

namespace weft {

FirstIteration::FirstIteration(const TileProgram& program)
    : program_(program),
      values_(program.vars.size(), 0),
      middles_(program.vars.size(), 0),
      lengths_(program.vars.size(), 1),
      trips_(program.vars.size(), 1),
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
  lengths_[origin] = std::max<int64_t>(in_middle(dim.end) - begin, 0);
  const int64_t trips = ceil_div(lengths_[origin], dim.step);
  trips_[origin] = static_cast<double>(trips);
  middles_[origin] = begin + trips / 2 * dim.step;
  if (dim.offset < 0) return;
  boxes_[static_cast<size_t>(dim.offset)] =
      trips_[origin] == 0 ? 0 : static_cast<double>(lengths_[origin]) / trips_[origin];
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
