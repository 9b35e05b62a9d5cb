#include "lower/core/nests.h"

#include <algorithm>

namespace weft::lowering {

std::vector<std::vector<Nest>> phases(const KernelWriter& w) {
  std::vector<std::vector<Nest>> out(1);
  for (size_t n = 0; n < w.program.body.size(); ++n) {
    const auto child = static_cast<int32_t>(n);
    for (const BarrierPoint& barrier : w.scopes.barriers) {
      const bool here =
          barrier.scope == Scope::kGrid && barrier.before.size() == 1 && barrier.before[0] == child;
      if (here && !out.back().empty()) out.emplace_back();
    }
    const TileNode& node = w.program.body[n];
    if (node.kind != TileNode::Kind::kPack) {
      out.back().push_back({&node, {child}});
      continue;
    }
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
