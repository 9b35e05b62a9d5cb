#include "tile/rewrite/load_ahead.h"

namespace weft {

namespace {

void unmark(TileBody& body) {
  for (TileNode& node : body) {
    if (node.kind != TileNode::Kind::kLoop) continue;
    node.loop->ahead = false;
    unmark(node.loop->body);
  }
}

}  // namespace

void load_ahead(TileProgram& program, const std::vector<std::vector<int32_t>>& loops) {
  program.body = cloned(program.body);
  unmark(program.body);
  for (const std::vector<int32_t>& path : loops) {
    TileBody* body = &program.body;
    for (size_t i = 0; i + 1 < path.size(); ++i)
      body = &(*body)[static_cast<size_t>(path[i])].loop->body;
    (*body)[static_cast<size_t>(path.back())].loop->ahead = true;
  }
}

}  // namespace weft
