/// weft.h: compile a deep-learning model and run it, from C++20.
///
///     auto model = weft::compile("m.onnx");                       // Result<Executable>
///     if (!model) return fail(model.error().message);
///     auto context = model->new_context();                        // Result<Context>
///     std::vector<float> x(12), y(4);
///     const int64_t x_shape[] = {3, 4}, y_shape[] = {4};
///     weft::Status done = context->run({{weft::input(x, x_shape)}}, {{weft::output(y, y_shape)}});
///
/// Errors are values; nothing here throws except for exhausted memory. Types are handles to shared,
/// immutable objects unless they say otherwise; nothing is global.
///
/// The names live in a namespace with the version of the interface; write weft::compile.

#ifndef WEFT_WEFT_H_
#define WEFT_WEFT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft_v1 {

/// Element types. f16 and bf16 are their 16 bits.
enum class DType : uint8_t {
  kBool,  ///< one byte, 0 or 1
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
};
int64_t byte_size(DType type);
std::string_view dtype_name(DType type);  ///< "f32", "i64", "bool", …

/// The values are the exit codes of the weft command.
enum class ErrorCode : int {
  kInvalidInput = 2,   ///< a file, a tensor, an option or a model is wrong
  kUnsupported = 3,    ///< the model uses something that weft does not support
  kMissingDevice = 4,  ///< the processor or a library is missing
  kInternal = 70,      ///< a defect of weft
  kInterrupted = 130,  ///< cancelled
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  ///< what is wrong, where, and what to do about it
};

/// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }  ///< requires !ok()

 private:
  std::optional<Error> error_;
};

/// A value, or an Error. Requires ok() for the value, !ok() for the error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

/// The caller's memory, not owned. `strides` count elements and may be zero or negative (outputs:
/// every element its own place); empty means dense row-major. `data` is the element at index 0.
/// With `on_device` it is an address of the GPU that the executable is for, of a dense tensor; what
/// makes it must have ended.
struct Input {
  DType dtype = DType::kF32;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  std::span<const int64_t> strides = {};
  bool on_device = false;
};
struct Output {
  DType dtype = DType::kF32;
  std::span<const int64_t> shape;
  void* data = nullptr;
  std::span<const int64_t> strides = {};
  bool on_device = false;
};

/// Views of vectors.
template <typename T>
inline constexpr std::optional<DType> kDTypeOf = std::nullopt;
template <>
inline constexpr std::optional<DType> kDTypeOf<int8_t> = DType::kI8;
template <>
inline constexpr std::optional<DType> kDTypeOf<int16_t> = DType::kI16;
template <>
inline constexpr std::optional<DType> kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr std::optional<DType> kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr std::optional<DType> kDTypeOf<uint8_t> = DType::kU8;
template <>
inline constexpr std::optional<DType> kDTypeOf<uint16_t> = DType::kU16;
template <>
inline constexpr std::optional<DType> kDTypeOf<uint32_t> = DType::kU32;
template <>
inline constexpr std::optional<DType> kDTypeOf<uint64_t> = DType::kU64;
template <>
inline constexpr std::optional<DType> kDTypeOf<float> = DType::kF32;
template <>
inline constexpr std::optional<DType> kDTypeOf<double> = DType::kF64;

/// Dense tensors over memory of a plain type, which must hold as many elements as the shape says.
template <typename T>
Input input(const std::vector<T>& data, std::span<const int64_t> shape) {
  static_assert(kDTypeOf<T>.has_value(), "not an element type");
  return {*kDTypeOf<T>, shape, data.data()};
}
template <typename T>
Output output(std::vector<T>& data, std::span<const int64_t> shape) {
  static_assert(kDTypeOf<T>.has_value(), "not an element type");
  return {*kDTypeOf<T>, shape, data.data()};
}

/// Asks a compilation or runs to stop; may be set from any thread and from a signal handler.
class CancellationToken {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void reset() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  friend class Context;
  friend struct Bridge;
  std::atomic<bool> cancelled_{false};
};

/// Threads that runs of any number of executables share. A run that finds them busy goes on alone.
class ThreadPool {
 public:
  struct Options {
    int threads = 0;   ///< the caller's included; 0: the cores that the process may use
    bool pin = false;  ///< each worker to one core
    /// The threads of the OpenMP runtime that the process has loaded, where it has one, in the
    /// place of own ones: for programs that compute with OpenMP between runs.
    bool openmp = false;
  };
  static Result<ThreadPool> create(const Options& options);
  int threads() const;

 private:
  struct Impl;
  friend struct Bridge;
  std::shared_ptr<Impl> impl_;
};

/// An input or output of a compiled model.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

/// The extent of an axis that a model leaves open.
inline constexpr int64_t kOpen = -1;

/// An input or output as a model declares it.
struct ModelTensor {
  struct Dimension {
    int64_t extent = kOpen;
    std::string name;  ///< of an open one; empty where it has none
  };
  std::string name;
  DType dtype = DType::kF32;
  std::optional<std::vector<Dimension>> shape;  ///< nullopt: the rank is open, too
};

/// A model that is yet to be compiled, any number of times; also made by graph_builder.h. Where it
/// leaves dimensions open, its compilations share kernels and weights. Cheap to copy.
class Model {
 public:
  /// A .onnx file. It is mapped, not read: its weights are read when it is compiled.
  static Result<Model> open(const std::string& path);
  /// The bytes of a .onnx file, which are copied; the model may have no external data.
  static Result<Model> from_bytes(std::span<const std::byte> bytes);

  const std::vector<ModelTensor>& inputs() const;
  /// Their shapes are open where a built graph leaves dimensions open.
  const std::vector<ModelTensor>& outputs() const;

 private:
  struct Impl;
  friend struct Bridge;
  Model() = default;
  std::shared_ptr<const Impl> impl_;
};

/// How far a compilation is: the pass that begins, or `done` of `total` kernels whose code is made.
struct CompileProgress {
  std::string_view pass;
  int64_t done = 0, total = 0;  ///< zeros where a pass begins
};

struct CompileOptions {
  /// cpu, cuda (the GPU that is there), a name of `weft targets`, or a description's file,
  /// NAME.target, as `weft calibrate` writes it. Compiling for a GPU needs NVRTC; running there,
  /// NVIDIA's driver. Inputs and outputs are in host memory or, where they say so, in the GPU's.
  std::string target = "cpu";
  /// none, xla or auto: how operators are fused; or a plan's file, NAME.plan.
  std::string plan = "auto";
  /// Symbolic dimensions of the model by name ("batch"), or as "input.axis" ("x.0").
  std::map<std::string, int64_t> bind;
  /// Shapes that inputs will have; symbolic dimensions bind from them.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Of runs without `pool`, and of the compiler; 0: the cores that the process may use. 1: no
  /// pool.
  int threads = 0;
  std::optional<ThreadPool> pool;
  /// Where compiled models, kernels and packed weights are kept between processes; empty: nowhere.
  std::string cache_dir;
  /// Allow reassociation and substitutions of floating-point arithmetic.
  bool fast_math = false;
  /// In which type contractions multiply: "model", or "bf16" (on CPUs): their factors are rounded
  /// to bfloat16, weights when they are compiled; sums stay float32.
  std::string precision = "model";
  /// Compiles the model unfused, too, at the same time, and returns with what is ready first. Runs
  /// change to the fused model when it is ready (Executable::wait_for_plan): those that begin then,
  /// and the first of a context where it goes on, writes over no input and takes no token. `cancel`
  /// must outlive the executable.
  bool start_unfused = false;
  /// Ends the compilation with kInterrupted, between passes and kernels. Must outlive it.
  const CancellationToken* cancel = nullptr;
  /// Called by one thread at a time, not always the same one.
  std::function<void(const CompileProgress&)> progress;
};

/// What the page of a plan shows beside the plan.
struct PageOptions {
  /// Runs the model on this machine, on random inputs, for the times of its kernels; about a
  /// second.
  bool measure = false;
  /// A plan's file, NAME.plan, that the model's plan is compared with; empty: none.
  std::string compare_with = {};
};

struct LoadOptions {
  int threads = 0;  ///< as in CompileOptions
  std::optional<ThreadPool> pool;
  bool skip_constants_checksum = false;  ///< large weights are not read before they are used
};

/// Models that draw random numbers draw others in each run, from a sequence of the process that
/// begins at random: here it begins anew, the same one for the same value. From any thread.
void set_seed(uint64_t seed);

/// The memory of one run at a time; movable. Give every thread its own.
class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  /// Runs the model on tensors in the order of Executable::inputs() and outputs().
  ///
  /// Dense tensors aligned to their element are used in place: no copy, no allocation. Outputs may
  /// overlap inputs (a state passed back into itself) but not each other. kInvalidInput names the
  /// tensor that does not fit; after kInterrupted the outputs are unspecified.
  Status run(std::span<const Input> inputs, std::span<const Output> outputs,
             const CancellationToken* cancel = nullptr);

 private:
  struct Impl;
  friend class Executable;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A compiled model for given shapes: immutable, cheap to copy, usable by many threads at once.
class Executable {
 public:
  const std::vector<TensorSpec>& inputs() const;
  const std::vector<TensorSpec>& outputs() const;
  /// What the model file says about itself (labels, versions), by key; empty for an artefact.
  const std::map<std::string, std::string>& metadata() const;
  /// Kernels that a run which begins now launches, and bytes of its intermediate values.
  int64_t kernel_count() const;
  int64_t arena_bytes() const;
  /// The plan, as `weft explain` prints it and as one JSON object; empty for an artefact that was
  /// written without.
  const std::string& explanation() const;
  const std::string& explanation_json() const;

  Result<Context> new_context() const;
  /// Waits until runs are of the plan that was asked for, also where they began unfused
  /// (CompileOptions::start_unfused). Error: why that is not to be; runs stay unfused.
  Status wait_for_plan() const;
  /// Writes a self-contained file, complete or not at all, that load() and the C runtime read.
  Status save(const std::string& path) const;
  /// Writes the plan as a page for a browser (docs/explain-page.md), complete or not at all. It
  /// lacks the programs and code of kernels: see the function of that name. kInvalidInput for an
  /// artefact that was written without an explanation, and where it is to be compared.
  Status save_page(const std::string& path, const PageOptions& options = {}) const;

 private:
  struct Impl;
  friend struct Bridge;
  Executable() = default;
  std::shared_ptr<const Impl> impl_;
};

/// Compiles a model for the shapes that the options give its open dimensions.
Result<Executable> compile(const Model& model, const CompileOptions& options = {});
/// The same of a file: a .onnx model or an HLO module (.hlo, .hlo.gz).
Result<Executable> compile(const std::string& path, const CompileOptions& options = {});
/// The page of a model's plan with the programs and code of its kernels, which are made for it once
/// more: `cache_dir` is not used.
Status save_page(const Model& model, const std::string& path, const CompileOptions& options = {},
                 const PageOptions& page = {});
/// Loads a .weft artefact.
Result<Executable> load(const std::string& path, const LoadOptions& options = {});

/// A tensor that weft made, dense.
struct OwnedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::shared_ptr<const void> data;
};

/// A .onnx model some of whose sizes depend on values: the boxes that NonMaxSuppression leaves, the
/// elements that NonZero finds. compile() refuses it (kUnsupported). It runs in parts, each of
/// which is compiled for the shapes that it meets when it first meets them; parts of little work
/// are interpreted then, and compiled when the same shapes come again.
class ModelInParts {
 public:
  /// kUnsupported: the model has no such sizes, or needs more than values. The options say which
  /// shapes inputs have; those of runs may be others where the model leaves dimensions open.
  static Result<ModelInParts> create(const Model& model, const CompileOptions& options = {});

  const std::vector<std::string>& output_names() const;
  /// Inputs in the order of Model::inputs(), in host memory; outputs in that of output_names().
  /// Runs of one model wait for each other.
  Result<std::vector<OwnedTensor>> run(std::span<const Input> inputs,
                                       const CancellationToken* cancel = nullptr) const;

 private:
  struct Impl;
  ModelInParts() = default;
  std::shared_ptr<Impl> impl_;
};

/// A target that models are compiled for.
struct TargetInfo {
  std::string name;         ///< for CompileOptions::target
  std::string description;  ///< its figures, or why it is not there
  bool is_here = false;     ///< false: code for it is made here and runs elsewhere
};
/// cpu, cuda (the GPU that is there), and the GPUs that are described.
std::vector<TargetInfo> targets();

/// weft's version, "0.1.0".
std::string_view version();

}  // namespace weft_v1

namespace weft {
using namespace weft_v1;  // NOLINT: the names that users write
}  // namespace weft

#endif  // WEFT_WEFT_H_
