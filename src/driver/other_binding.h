#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "import/onnx/import_onnx.h"

namespace weft {

struct Compilation;
struct CompileOptions;

/// A model once more, with the dimensions that it leaves open bound otherwise: compiled beside the
/// first on a thread of its own, up to its tensor program. Where the two differ, numbers come from
/// the binding. Extents are those at hand times 2, 3, …, by the names of the dimensions; those of 1
/// stay, as they make no axis.
class OtherBinding {
 public:
  /// `inputs` are bound to shapes, and the model's nodes may be still to read. null where nothing
  /// is open. A model that is specialised on values, which belong to the shapes at hand, has no use
  /// for it.
  static std::unique_ptr<OtherBinding> start(const std::string& model,
                                             const CompileOptions& as_first,
                                             const std::vector<ImportedInput>& inputs);
  ~OtherBinding();

  /// Waits for it. null where the model does not allow that binding.
  Compilation* get();

 private:
  explicit OtherBinding(std::future<std::unique_ptr<Compilation>> made);

  std::future<std::unique_ptr<Compilation>> made_;
  std::unique_ptr<Compilation> compilation_;
};

}  // namespace weft
