#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/compile_options.h"
#include "driver/model_source.h"
#include "driver/session.h"
#include "import/onnx/model_parts.h"

namespace weft {

/// Runs a model some of whose sizes depend on values (import/onnx/model_parts.h): part after part,
/// each with the shapes that those in front of it found. A part is compiled for the shapes that it
/// meets; one of little work is interpreted where it meets them for the first time, which takes
/// less than to compile it.
class ModelInParts {
 public:
  /// kUnsupported: the model is no such model, or needs more than values. kInvalidInput: it is no
  /// ONNX file, or its inputs stay unbound.
  /// `interpreted`: nothing is compiled.
  static Result<std::unique_ptr<ModelInParts>> open(const ModelSource& source,
                                                    const CompileOptions& options,
                                                    bool interpreted = false);

  /// In the model's order, with the shapes that the options give; other shapes may be run.
  const std::vector<ImportedInput>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return parts_->outputs(); }

  /// Runs on these threads from now on; null: on own ones.
  void use(std::shared_ptr<ThreadPool> pool) { pool_ = std::move(pool); }
  /// Inputs in the model's order. One run at a time: others wait for it. kInvalidInput for inputs
  /// that are not the model's.
  Result<std::vector<HostTensor>> run(const std::vector<HostTensor>& inputs,
                                      const std::atomic<bool>* cancel = nullptr);
  /// Of the parts that runs have met, in their order: the plans of those that are compiled, and the
  /// nodes that wait for values behind each.
  std::string explanation() const;

 private:
  struct Value {
    HostTensor tensor;
    bool constant = false;  ///< follows from shapes
  };
  /// Values by their names in the model.
  using Values = std::map<std::string, Value>;
  struct Piece {
    ModelPart part;
    size_t number = 0;                 ///< how many were met before it
    std::unique_ptr<Session> session;  ///< once it is compiled
    int64_t runs = 0;
    uint64_t last_run = 0;  ///< that used it
    /// The same nodes for values of other shapes, met before it.
    std::optional<Graph> other;
  };

  ModelInParts(std::unique_ptr<ModelParts> parts, CompileOptions options, bool interpreted)
      : parts_(std::move(parts)), options_(std::move(options)), interpreted_(interpreted) {}

  static KnownValues known_of(const Values& values);
  Status check_inputs(const std::vector<HostTensor>& inputs) const;
  Result<Piece*> piece_of(const std::vector<bool>& done, Values& values);
  Status run_piece(Piece& piece, Values& values, const std::atomic<bool>* cancel);
  Status run_node(size_t node, Values& values, const std::atomic<bool>* cancel);
  Result<std::vector<HostTensor>> execute(Piece& piece, const Values& values,
                                          const std::atomic<bool>* cancel);
  Status compile(Piece& piece, const std::atomic<bool>* cancel);
  void drop_old();

  std::unique_ptr<ModelParts> parts_;
  CompileOptions options_;
  const bool interpreted_;
  std::vector<ImportedInput> inputs_;
  std::mutex running_;
  std::shared_ptr<ThreadPool> pool_;
  std::map<std::pair<uint64_t, uint64_t>, Piece> pieces_;  ///< by what is done, types and constants
  std::map<std::vector<bool>, Graph> met_;                 ///< by what is done, the last one
  uint64_t runs_ = 0;
  size_t met_pieces_ = 0;
};

}  // namespace weft
