#pragma once

#include <memory>
#include <string>
#include <utility>

#include "import/recorded/recorded_graph.h"
#include "support/mapped_file.h"

namespace weft {

/// Where a model comes from: a file, the bytes of one in memory, or a recorded graph.
struct ModelSource {
  ModelSource(std::string file) : path(std::move(file)) {}  // NOLINT: implicit
  ModelSource(const char* file) : path(file) {}             // NOLINT: implicit
  explicit ModelSource(MappedFile bytes) : memory(std::move(bytes)) {}
  explicit ModelSource(std::shared_ptr<const RecordedGraph> graph) : recorded(std::move(graph)) {}

  bool is_file() const { return memory.owner == nullptr && recorded == nullptr; }
  /// For messages.
  std::string name() const {
    return is_file() ? path : recorded ? "the graph" : "the model in memory";
  }

  std::string path;   ///< empty for others than a file
  MappedFile memory;  ///< may have no external data
  std::shared_ptr<const RecordedGraph> recorded;
};

}  // namespace weft
