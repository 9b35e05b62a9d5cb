#pragma once

#include <string>
#include <utility>

#include "support/mapped_file.h"

namespace weft {

/// Where a model comes from: a file, or the bytes of one in memory.
struct ModelSource {
  ModelSource(std::string file) : path(std::move(file)) {}  // NOLINT: implicit
  ModelSource(const char* file) : path(file) {}             // NOLINT: implicit
  explicit ModelSource(MappedFile bytes) : memory(std::move(bytes)) {}

  bool is_file() const { return memory.owner == nullptr; }
  /// For messages.
  std::string name() const { return is_file() ? path : "the model in memory"; }

  std::string path;   ///< empty for bytes
  MappedFile memory;  ///< null for a file; it may have no external data
};

}  // namespace weft
