#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "import/builder/imported_model.h"
#include "support/hash.h"
#include "support/tensor.h"

namespace weft {

/// The files of a model with what identifies their content, and where constants lie in them.
class ModelFiles {
 public:
  struct File {
    ModelFile file;
    Hash128 identity;
  };
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;
  };

  ModelFiles() = default;
  /// `whole`: see identify_file. kInvalidInput when a file is gone.
  static Result<ModelFiles> identify(const std::vector<ModelFile>& files, bool whole);

  const std::vector<File>& files() const { return files_; }
  /// Where the constant lies, when it is a view of one of the files.
  std::optional<Place> find(const HostTensor& constant) const;
  /// Names the constant's bytes: by their place in a file, else by their hash.
  Hash128 content_key(const HostTensor& constant) const;

 private:
  std::vector<File> files_;
};

}  // namespace weft
