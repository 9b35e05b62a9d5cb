#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tensors.h"
#include "weft/weft.h"

namespace weft_python {

/// A model compiled for some shapes of its inputs, with contexts for its runs. Read and written
/// with the GIL.
struct Binding {
  weft::Executable executable;
  std::vector<std::vector<int64_t>> shapes;          ///< of the inputs
  std::vector<std::unique_ptr<weft::Context>> idle;  ///< contexts that no run has
  int64_t last_nanoseconds = -1;                     ///< of the run that ended last; -1: none has
};

/// A compiled model as Python has it. Where the model leaves dimensions open, each set of shapes is
/// compiled when it first comes, and the bindings that were used last are kept. A model whose sizes
/// depend on values runs in parts. Methods are called with the GIL, by any number of threads, and
/// release it while they compile and run.
class Executable {
 public:
  /// Compiles at once where the options bind all dimensions. `kept`: bindings that are kept, at
  /// least 1. `progress`: None, or what is called with a pass's name and how many kernels are done
  /// of how many while one is compiled; what it raises ends that.
  Executable(weft::Model model, weft::CompileOptions options, size_t kept,
             nanobind::object progress);
  /// Of an artefact.
  explicit Executable(weft::Executable loaded);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  /// Runs on the tensors; the results are new arrays: one, or a tuple of several.
  nanobind::object call(const nanobind::args& tensors, const nanobind::kwargs& named);
  /// The results, always as a list.
  nanobind::list run(const nanobind::args& tensors, const nanobind::kwargs& named);
  /// Runs on the tensors into arrays of the caller's: a sequence in the model's order, or a dict.
  void run_into(nanobind::handle outputs, const nanobind::args& tensors,
                const nanobind::kwargs& named);

  /// As TensorSpec of weft/tensor_spec.py.
  nanobind::list inputs() const;
  nanobind::list outputs() const;
  size_t bindings() const { return bindings_.size(); }

  /// Of the binding that was used last; throws InvalidInput while there is none.
  const weft::Executable& last() const;
  void save(const std::filesystem::path& path) const;
  /// The plan of that binding as a page; with its kernels' code where there is a model to compile.
  void save_page(const std::filesystem::path& path, const weft::PageOptions& page) const;

 private:
  struct Frame;
  class FrameOfRun;

  std::unique_ptr<Frame> take_frame();
  void hold_inputs(Frame& frame, const nanobind::args& tensors, const nanobind::kwargs& named);
  std::shared_ptr<Binding> binding_of(const Frame& frame);
  std::shared_ptr<Binding> find(const Frame& frame);
  std::shared_ptr<Binding> bind(const Frame& frame);
  /// Null where the model is one in parts now.
  std::shared_ptr<Binding> compile(const weft::CompileOptions& options,
                                   std::vector<std::vector<int64_t>> shapes);
  void run_parts(Frame& frame, ArrayKind kind, nanobind::list& results);
  void keep(std::shared_ptr<Binding> binding);
  void release_idle();
  void check_types(const Frame& frame) const;
  void run_watched(Frame& frame, int64_t& last_nanoseconds, const std::function<void()>& work);
  void execute(Frame& frame, Binding& binding);
  void run_to_new(Frame& frame, ArrayKind kind, nanobind::list& results);

  std::optional<weft::Model> model_;         ///< none of an artefact
  std::optional<weft::ModelInParts> parts_;  ///< of one whose sizes depend on values
  int64_t parts_nanoseconds_ = -1;           ///< as Binding::last_nanoseconds
  weft::CompileOptions options_;
  nanobind::object progress_ = nanobind::none();
  bool is_open_ = false;  ///< other shapes may come
  size_t kept_ = 1;
  std::vector<std::string> input_names_, output_names_;
  std::vector<std::shared_ptr<Binding>> bindings_;  ///< the one used last in front
  std::timed_mutex compiling_;                      ///< taken without the GIL
  std::vector<std::unique_ptr<Frame>> idle_frames_;
};

}  // namespace weft_python
