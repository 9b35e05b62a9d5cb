#pragma once

#include <string>

#include "graph/graph.h"
#include "support/result.h"

namespace weft {

/// Writes a graph as text to `path`, behind `comment`, each of whose lines becomes a comment; its
/// larger constants go to the archive PATH.npz beside it, under the hashes that the text names.
/// Both are complete or not there. kInvalidInput when they cannot be written.
Status write_graph_file(const std::string& path, const Graph& graph, const std::string& comment);

/// A graph that was printed, by write_graph_file or by hand: constants that the text names by their
/// hash come from PATH.npz. kInvalidInput with the line of what is wrong.
Result<Graph> read_graph_file(const std::string& path);

}  // namespace weft
