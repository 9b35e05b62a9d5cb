#include "executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "errors.h"
#include "interruptible.h"
#include "specs.h"

namespace nb = nanobind;

namespace weft_python {

namespace {

/// Runs that took this long last time look for signals.
constexpr int64_t kLongRun = 50'000'000;
/// Of intermediate values, that contexts of other bindings than the last one keep.
constexpr int64_t kIdleBytes = int64_t{256} << 20;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool is_open(const weft::ModelTensor& tensor) {
  return !tensor.shape || std::ranges::any_of(*tensor.shape, [](const auto& dim) {
    return dim.extent == weft::kOpen;
  });
}

/// Whether the options bind every dimension of the inputs.
bool binds_all(const std::vector<weft::ModelTensor>& inputs, const weft::CompileOptions& options) {
  std::set<std::string> bound;
  for (const auto& [name, extent] : options.bind) bound.insert(name);
  for (const weft::ModelTensor& input : inputs) {
    if (!options.shapes.contains(input.name) || !input.shape) continue;
    for (const auto& dim : *input.shape) bound.insert(dim.name);
  }
  bound.erase("");
  return std::ranges::all_of(inputs, [&](const weft::ModelTensor& input) {
    if (options.shapes.contains(input.name)) return true;
    if (!input.shape) return false;
    for (size_t axis = 0; axis < input.shape->size(); ++axis) {
      const auto& [extent, name] = (*input.shape)[axis];
      const std::string place = input.name + "." + std::to_string(axis);
      if (extent == weft::kOpen && !bound.contains(name) && !bound.contains(place)) return false;
    }
    return true;
  });
}

/// As callers write them and messages show them.
template <typename Specs>
std::vector<std::string> names_of(const Specs& specs) {
  std::vector<std::string> names;
  for (const auto& spec : specs) names.push_back(nb::cast<std::string>(text_of(spec.name)));
  return names;
}

/// Arrays by the names of tensors, from a dict that may hold no other.
void take_named(nb::handle dict, const std::vector<std::string>& names, const char* what,
                std::vector<nb::handle>& arrays) {
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict.ptr(), &at, &key, &value) != 0;) {
    const std::string name = nb::cast<std::string>(nb::str(nb::handle(key)));
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      raise_invalid(std::string("the model has no ") + what + " '" + name + "'; its " + what +
                    "s are: " + joined(names));
    }
    nb::handle& array = arrays[static_cast<size_t>(found - names.begin())];
    if (array.is_valid()) raise_invalid(std::string(what) + " '" + name + "' is given twice");
    array = value;
  }
}

void check_complete(const std::vector<nb::handle>& arrays, const std::vector<std::string>& names,
                    const char* what) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!arrays[i].is_valid()) missing.push_back(names[i]);
  }
  if (!missing.empty())
    raise_invalid(std::string("no tensor is given for ") + what + " " + joined(missing));
}

/// Of a list or tuple; borrowed.
nb::handle item_of(nb::handle sequence, Py_ssize_t i) {
  return PyTuple_Check(sequence.ptr()) ? PyTuple_GetItem(sequence.ptr(), i)
                                       : PyList_GetItem(sequence.ptr(), i);
}

void check_count(size_t given, const std::vector<std::string>& names, const char* what) {
  if (given <= names.size()) return;
  raise_invalid(std::to_string(given) + " " + what + "s are given; the model has " +
                std::to_string(names.size()) + ": " + joined(names));
}

}  // namespace

/// The tensors of one run, kept for the memory of its lists.
struct Executable::Frame {
  Frame(size_t input_count, size_t output_count) : inputs(input_count), outputs(output_count) {}

  std::vector<HeldTensor> inputs, outputs;
  std::vector<nb::handle> arrays;  ///< borrowed
  std::vector<weft::Input> in;
  std::vector<weft::Output> out;
  weft::CancellationToken cancel;

  void release() {
    for (HeldTensor& tensor : inputs) tensor.release();
    for (HeldTensor& tensor : outputs) tensor.release();
  }
};

/// A frame for the duration of a run.
class Executable::FrameOfRun {
 public:
  explicit FrameOfRun(Executable& owner) : owner_(owner), frame_(owner.take_frame()) {}
  ~FrameOfRun() {
    frame_->release();
    owner_.idle_frames_.push_back(std::move(frame_));
  }
  FrameOfRun(const FrameOfRun&) = delete;
  FrameOfRun& operator=(const FrameOfRun&) = delete;
  Frame& operator*() const { return *frame_; }

 private:
  Executable& owner_;
  std::unique_ptr<Frame> frame_;
};

Executable::Executable(weft::Model model, weft::CompileOptions options, size_t kept,
                       nb::object progress)
    : model_(std::move(model)),
      options_(std::move(options)),
      progress_(std::move(progress)),
      is_open_(std::ranges::any_of(model_->inputs(), is_open)),
      kept_(std::max<size_t>(1, kept)),
      input_names_(names_of(model_->inputs())),
      output_names_(names_of(model_->outputs())) {
  if (is_open_ && options_.threads != 1 && !options_.pool) {
    weft::ThreadPool::Options pool;
    pool.threads = options_.threads;
    options_.pool = check(weft::ThreadPool::create(pool));
  }
  if (!binds_all(model_->inputs(), options_)) return;
  std::shared_ptr<Binding> first = compile(options_, {});
  if (first == nullptr) return;
  for (const weft::TensorSpec& spec : first->executable.inputs())
    first->shapes.push_back(spec.shape);
  keep(std::move(first));
}

Executable::Executable(weft::Executable loaded)
    : input_names_(names_of(loaded.inputs())), output_names_(names_of(loaded.outputs())) {
  keep(std::make_shared<Binding>(Binding{std::move(loaded), {}, {}, -1}));
}

Executable::~Executable() {
  // An executable waits for its entry in the cache.
  const nb::gil_scoped_release unlocked;
  bindings_.clear();
}

std::unique_ptr<Executable::Frame> Executable::take_frame() {
  if (idle_frames_.empty())
    return std::make_unique<Frame>(input_names_.size(), output_names_.size());
  std::unique_ptr<Frame> frame = std::move(idle_frames_.back());
  idle_frames_.pop_back();
  frame->cancel.reset();
  return frame;
}

void Executable::hold_inputs(Frame& frame, const nb::args& tensors, const nb::kwargs& named) {
  check_count(tensors.size(), input_names_, "input");
  frame.arrays.assign(input_names_.size(), {});
  for (size_t i = 0; i < tensors.size(); ++i) frame.arrays[i] = tensors[i];
  if (named.size() != 0) take_named(named, input_names_, "input", frame.arrays);
  check_complete(frame.arrays, input_names_, "input");
  frame.in.clear();
  for (size_t i = 0; i < input_names_.size(); ++i) {
    frame.inputs[i].hold(frame.arrays[i], input_names_[i], /*writable=*/false);
    frame.in.push_back(frame.inputs[i].input());
  }
}

/// The binding for the frame's inputs; null where the model is one in parts.
std::shared_ptr<Binding> Executable::binding_of(const Frame& frame) {
  if (parts_) return nullptr;
  if (auto found = find(frame)) return found;
  return bind(frame);
}

/// The binding that is there, brought to the front; null where there is none.
std::shared_ptr<Binding> Executable::find(const Frame& frame) {
  if (!is_open_) return bindings_.front();
  for (size_t b = 0; b < bindings_.size(); ++b) {
    const auto& shapes = bindings_[b]->shapes;
    bool fits = true;
    for (size_t i = 0; fits && i < shapes.size(); ++i)
      fits = std::ranges::equal(shapes[i], frame.in[i].shape);
    if (!fits) continue;
    if (b != 0) std::rotate(bindings_.begin(), bindings_.begin() + b, bindings_.begin() + b + 1);
    return bindings_.front();
  }
  return nullptr;
}

void Executable::check_types(const Frame& frame) const {
  for (size_t i = 0; i < frame.in.size(); ++i) {
    const weft::ModelTensor& declared = model_->inputs()[i];
    if (frame.in[i].dtype == declared.dtype) continue;
    raise_invalid("input '" + input_names_[i] + "' is " +
                  std::string(weft::dtype_name(frame.in[i].dtype)) + ", the model wants " +
                  std::string(weft::dtype_name(declared.dtype)));
  }
}

/// Compiles for the frame's inputs, unless another thread has done so meanwhile.
std::shared_ptr<Binding> Executable::bind(const Frame& frame) {
  check_types(frame);
  std::unique_lock lock(compiling_, std::defer_lock);
  while (true) {
    {
      const nb::gil_scoped_release unlocked;
      if (lock.try_lock_for(std::chrono::milliseconds(20))) break;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  if (parts_) return nullptr;
  if (auto found = find(frame)) return found;
  weft::CompileOptions options = options_;
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < frame.in.size(); ++i) {
    shapes.emplace_back(frame.in[i].shape.begin(), frame.in[i].shape.end());
    options.shapes[model_->inputs()[i].name] = shapes.back();
  }
  std::shared_ptr<Binding> made = compile(options, std::move(shapes));
  if (made != nullptr) keep(made);
  return made;
}

std::shared_ptr<Binding> Executable::compile(const weft::CompileOptions& options,
                                             std::vector<std::vector<int64_t>> shapes) {
  weft::CompileOptions watched = options;
  weft::CancellationToken cancel;
  watched.cancel = &cancel;
  std::optional<nb::python_error> raised;
  if (!progress_.is_none()) {
    watched.progress = [&](const weft::CompileProgress& p) {
      const nb::gil_scoped_acquire locked;
      if (raised) return;
      try {
        progress_(nb::str(p.pass.data(), p.pass.size()), p.done, p.total);
      } catch (nb::python_error& error) {
        raised.emplace(std::move(error));
        cancel.cancel();
      }
    };
  }
  std::optional<weft::Result<weft::Executable>> made;
  std::optional<weft::ModelInParts> parts;
  run_interruptibly(cancel, [&] {
    made.emplace(weft::compile(*model_, watched));
    if (*made || made->error().code != weft::ErrorCode::kUnsupported) return;
    // Compiled while it runs, when this call's token and progress are gone.
    watched.cancel = nullptr;
    watched.progress = nullptr;
    if (auto opened = weft::ModelInParts::create(*model_, watched)) parts = std::move(*opened);
  });
  if (raised) throw std::move(*raised);
  if (parts) {
    parts_ = std::move(parts);
    return nullptr;
  }
  return std::make_shared<Binding>(Binding{check(std::move(*made)), std::move(shapes), {}, -1});
}

void Executable::keep(std::shared_ptr<Binding> binding) {
  bindings_.insert(bindings_.begin(), std::move(binding));
  if (bindings_.size() > kept_) bindings_.pop_back();
}

/// Frees the idle contexts of bindings that were used long ago, beyond `kIdleBytes`.
void Executable::release_idle() {
  int64_t bytes = 0;
  for (size_t b = 1; b < bindings_.size(); ++b) {
    Binding& binding = *bindings_[b];
    const int64_t own =
        static_cast<int64_t>(binding.idle.size()) * binding.executable.arena_bytes();
    if (bytes + own > kIdleBytes) {
      binding.idle.clear();
    } else {
      bytes += own;
    }
  }
}

/// `work` without the GIL, on this thread where it was short last time.
void Executable::run_watched(Frame& frame, int64_t& last_nanoseconds,
                             const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  if (last_nanoseconds >= 0 && last_nanoseconds < kLongRun) {
    const nb::gil_scoped_release unlocked;
    work();
  } else {
    run_interruptibly(frame.cancel, work);
  }
  last_nanoseconds = (std::chrono::steady_clock::now() - start).count();
}

void Executable::execute(Frame& frame, Binding& binding) {
  std::unique_ptr<weft::Context> context;
  if (binding.idle.empty()) {
    release_idle();
  } else {
    context = std::move(binding.idle.back());
    binding.idle.pop_back();
  }
  weft::Status status;
  run_watched(frame, binding.last_nanoseconds, [&] {
    if (context == nullptr) {
      auto made = binding.executable.new_context();
      if (!made) {
        status = made.error();
        return;
      }
      context = std::make_unique<weft::Context>(std::move(*made));
    }
    status = context->run(frame.in, frame.out, &frame.cancel);
  });
  if (context != nullptr) binding.idle.push_back(std::move(context));
  check(status);
}

/// Outputs whose shapes are known behind the run.
void Executable::run_parts(Frame& frame, ArrayKind kind, nb::list& results) {
  std::optional<weft::Result<std::vector<weft::OwnedTensor>>> made;
  run_watched(frame, parts_nanoseconds_,
              [&] { made.emplace(parts_->run(frame.in, &frame.cancel)); });
  const std::vector<weft::OwnedTensor> tensors = check(std::move(*made));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const weft::OwnedTensor& tensor = tensors[i];
    const nb::object array = new_array(kind, {output_names_[i], tensor.dtype, tensor.shape});
    HeldTensor held;
    held.hold(array, output_names_[i], /*writable=*/true);
    int64_t bytes = weft::byte_size(tensor.dtype);
    for (const int64_t extent : tensor.shape) bytes *= extent;
    if (bytes > 0) std::memcpy(held.output().data, tensor.data.get(), static_cast<size_t>(bytes));
    held.release();
    results.append(array);
  }
}

void Executable::run_to_new(Frame& frame, ArrayKind kind, nb::list& results) {
  const std::shared_ptr<Binding> binding = binding_of(frame);
  if (parts_) {
    run_parts(frame, kind, results);
    return;
  }
  frame.out.clear();
  const auto& specs = binding->executable.outputs();
  for (size_t i = 0; i < specs.size(); ++i) {
    const nb::object array = new_array(kind, specs[i]);
    frame.outputs[i].hold(array, specs[i].name, /*writable=*/true);
    frame.out.push_back(frame.outputs[i].output());
    results.append(array);
  }
  execute(frame, *binding);
}

nb::list Executable::run(const nb::args& tensors, const nb::kwargs& named) {
  const FrameOfRun frame(*this);
  hold_inputs(*frame, tensors, named);
  const bool any = !(*frame).arrays.empty();
  nb::list results;
  run_to_new(*frame, any ? kind_of((*frame).arrays.front()) : ArrayKind::kNumpy, results);
  return results;
}

nb::object Executable::call(const nb::args& tensors, const nb::kwargs& named) {
  nb::list results = run(tensors, named);
  if (results.size() == 1) return nb::object(results[0]);
  return nb::tuple(results);
}

void Executable::run_into(nb::handle outputs, const nb::args& tensors, const nb::kwargs& named) {
  const FrameOfRun taken(*this);
  Frame& frame = *taken;
  hold_inputs(frame, tensors, named);
  frame.arrays.assign(output_names_.size(), {});
  if (nb::isinstance<nb::dict>(outputs)) {
    take_named(outputs, output_names_, "output", frame.arrays);
  } else if (nb::isinstance<nb::list>(outputs) || nb::isinstance<nb::tuple>(outputs)) {
    check_count(nb::len(outputs), output_names_, "output");
    for (size_t i = 0; i < nb::len(outputs); ++i)
      frame.arrays[i] = item_of(outputs, static_cast<Py_ssize_t>(i));
  } else if (output_names_.size() == 1) {
    frame.arrays[0] = outputs;
  }
  check_complete(frame.arrays, output_names_, "output");
  const std::shared_ptr<Binding> binding = binding_of(frame);
  if (parts_)
    raise_invalid(
        "the model's outputs have sizes that depend on values: call run(), which makes them");
  frame.out.clear();
  for (size_t i = 0; i < output_names_.size(); ++i) {
    frame.outputs[i].hold(frame.arrays[i], output_names_[i], /*writable=*/true);
    frame.out.push_back(frame.outputs[i].output());
  }
  execute(frame, *binding);
}

nb::list Executable::inputs() const {
  return model_ ? specs_of(model_->inputs()) : specs_of(last().inputs());
}

nb::list Executable::outputs() const {
  return is_open_ || parts_ ? specs_of(model_->outputs()) : specs_of(last().outputs());
}

const weft::Executable& Executable::last() const {
  if (parts_) {
    raise_invalid(
        "sizes of the model depend on values: it is compiled while it runs, and is no one program");
  }
  if (bindings_.empty()) {
    raise_invalid(
        "dimensions of the model are open and nothing has bound them yet: run it, or "
        "compile it with shapes= or bind=");
  }
  return bindings_.front()->executable;
}

void Executable::save(const std::filesystem::path& path) const {
  const weft::Executable executable = last();
  const nb::gil_scoped_release unlocked;
  const weft::Status saved = executable.save(path.string());
  if (saved) return;
  const nb::gil_scoped_acquire locked;
  raise(saved.error());
}

void Executable::save_page(const std::filesystem::path& path, const weft::PageOptions& page) const {
  const weft::Executable executable = last();
  weft::CompileOptions options = options_;
  weft::CancellationToken cancel;
  options.cancel = &cancel;
  for (const weft::TensorSpec& input : executable.inputs())
    options.shapes[input.name] = input.shape;
  weft::Status saved;
  run_interruptibly(cancel, [&] {
    saved = model_ ? weft::save_page(*model_, path.string(), options, page)
                   : executable.save_page(path.string(), page);
  });
  check(saved);
}

}  // namespace weft_python
