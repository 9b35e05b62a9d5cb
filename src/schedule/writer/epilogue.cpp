#include "schedule/writer/epilogue.h"

#include <utility>

#include "schedule/writer/statements.h"

namespace weft {

void emit_epilogue(TileBuilder* builder, int root, const ScalarRef& total,
                   const EpilogueBoxes& boxes, TileBody* out) {
  emit_epilogue(builder, {{root, total}}, boxes, out);
}

void emit_epilogue(TileBuilder* builder, const std::map<int, ScalarRef>& totals,
                   const EpilogueBoxes& boxes, TileBody* out) {
  TileBuilder& b = *builder;
  const GroupSpace& space = b.space();
  std::map<int, ScalarRef> values;
  for (int p = 0; p < space.size(); ++p) {
    const auto total = totals.find(p);
    if (boxes.here && !boxes.here(p)) continue;
    ScalarRef value;
    if (total != totals.end()) {
      value = total->second;
    } else {
      value = b.translate(p, [&](int producer, const Scalar&) { return values.at(producer); });
      if (space.reduces(p)) value = boxes.reduced(p, value, out);
      if (!value) continue;
    }
    const DType type = b.result_type(p);
    const std::vector<IndexExpr> at = boxes.coordinates(p);
    const TileSymbolId id = b.add_value(space.name_of(p) + "_v", type);
    out->push_back(TileNode::of(assign(id, at, scalar_convert(value, type), boxes.place(p))));
    values[p] = scalar_read(id, type, at);
    if (space.is_output(p)) {
      out->push_back(TileNode::of(b.store(p, values[p], boxes.store_place(p))));
    }
  }
}

}  // namespace weft
