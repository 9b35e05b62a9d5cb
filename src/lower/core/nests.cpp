#include "lower/core/nests.h"

#include <algorithm>

namespace weft::lowering {

namespace {

bool has_barrier_before(const KernelWriter& w, const std::vector<int32_t>& path) {
  return std::ranges::any_of(w.scopes.barriers, [&](const BarrierPoint& barrier) {
    return barrier.scope == Scope::kGrid && barrier.before == path;
  });
}

}  // namespace

std::vector<std::vector<Nest>> phases(const KernelWriter& w) {
  std::vector<std::vector<Nest>> out(1);
  const auto add = [&](const TileNode& node, std::vector<int32_t> path) {
    if (has_barrier_before(w, path) && !out.back().empty()) out.emplace_back();
    out.back().push_back({&node, std::move(path)});
  };
  for (size_t n = 0; n < w.program.body.size(); ++n) {
    const auto child = static_cast<int32_t>(n);
    const TileNode& node = w.program.body[n];
    if (node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop)) {
      for (size_t i = 0; i < node.loop->body.size(); ++i)
        add(node.loop->body[i], {child, static_cast<int32_t>(i)});
      continue;
    }
    if (node.kind != TileNode::Kind::kPack) {
      add(node, {child});
      continue;
    }
    if (has_barrier_before(w, {child}) && !out.back().empty()) out.emplace_back();
    for (size_t m = 0; m < node.pack->members.size(); ++m) {
      const TileBody& body = node.pack->members[m].body;
      for (size_t i = 0; i < body.size(); ++i) {
        out.back().push_back({&body[i], {child, static_cast<int32_t>(m), static_cast<int32_t>(i)}});
      }
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

int64_t grid_items_below(const KernelWriter& w, const TileLoop& loop, size_t dim) {
  int64_t items = 1;
  for (size_t d = dim; d < loop.dims.size(); ++d) {
    const TileLoop::Dim& info = loop.dims[d];
    const auto value = [&](int id) { return w.program.vars[static_cast<size_t>(id)].extent; };
    const int64_t extent =
        std::max<int64_t>(weft::evaluate(info.end, value) - weft::evaluate(info.begin, value), 0);
    items *= (extent + info.step - 1) / info.step;
  }
  for (const TileNode& node : loop.body) {
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq) {
      items *= grid_items_below(w, *node.loop, 0);
    }
  }
  return items;
}

int64_t grid_items(const KernelWriter& w, const TileNode& nest) {
  if (nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq) {
    return grid_items_below(w, *nest.loop, 0);
  }
  return 1;
}

}  // namespace weft::lowering
