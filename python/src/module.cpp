// The module weft._weft: the public C++ interface for Python. weft/__init__.py is what users see.

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <tuple>

#include "errors.h"
#include "executable.h"
#include "graph_builder.h"
#include "interruptible.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft_python {

namespace {

struct Settings {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, int64_t> bind;
  std::string target = "cpu", plan = "auto", precision = "model";
  int threads = 0;
  std::string cache_dir;
  bool fast_math = false;
  size_t kept = 1;
  std::optional<weft::ThreadPool> pool;
  nb::object progress = nb::none();
};

std::unique_ptr<Executable> compile(weft::Result<weft::Model> model, const Settings& settings) {
  weft::CompileOptions options;
  options.shapes = settings.shapes;
  options.bind = settings.bind;
  options.target = settings.target;
  options.plan = settings.plan;
  options.threads = settings.threads;
  options.pool = settings.pool;
  options.cache_dir = settings.cache_dir;
  options.fast_math = settings.fast_math;
  options.precision = settings.precision;
  return std::make_unique<Executable>(check(std::move(model)), std::move(options), settings.kept,
                                      settings.progress);
}

std::unique_ptr<Executable> compile_file(const std::string& path, const Settings& settings) {
  weft::Result<weft::Model> model = [&] {
    const nb::gil_scoped_release unlocked;
    return weft::Model::open(path);
  }();
  return compile(std::move(model), settings);
}

std::unique_ptr<Executable> compile_bytes(const nb::bytes& bytes, const Settings& settings) {
  weft::Result<weft::Model> model = [&] {
    const std::span data(static_cast<const std::byte*>(bytes.data()), bytes.size());
    const nb::gil_scoped_release unlocked;
    return weft::Model::from_bytes(data);
  }();
  return compile(std::move(model), settings);
}

std::unique_ptr<Executable> compile_model(const weft::Model& model, const Settings& settings) {
  return compile(model, settings);
}

std::unique_ptr<Executable> load(const std::string& path, int threads) {
  weft::LoadOptions options;
  options.threads = threads;
  weft::Result<weft::Executable> loaded = [&] {
    const nb::gil_scoped_release unlocked;
    return weft::load(path, options);
  }();
  return std::make_unique<Executable>(check(std::move(loaded)));
}

std::vector<std::tuple<std::string, std::string, bool>> targets() {
  std::vector<std::tuple<std::string, std::string, bool>> list;
  for (const weft::TargetInfo& t : weft::targets())
    list.emplace_back(t.name, t.description, t.is_here);
  return list;
}

}  // namespace

}  // namespace weft_python

NB_MODULE(_weft, m) {
  using weft_python::Executable;
  using weft_python::Settings;
  nb::set_leak_warnings(false);  // of users' programs that end with models in global names
  weft_python::find_main_thread();

  nb::class_<weft::ThreadPool>(m, "ThreadPool", "Threads that runs of several executables share.")
      .def(
          "__init__",
          [](weft::ThreadPool* self, int threads, bool openmp) {
            weft::ThreadPool::Options options;
            options.threads = threads;
            options.openmp = openmp;
            new (self) weft::ThreadPool(weft_python::check(weft::ThreadPool::create(options)));
          },
          "threads"_a, "openmp"_a = false);
  nb::class_<Settings>(m, "Settings", "How to compile; see weft.compile.")
      .def(nb::init<>())
      .def_rw("shapes", &Settings::shapes)
      .def_rw("bind", &Settings::bind)
      .def_rw("target", &Settings::target)
      .def_rw("plan", &Settings::plan)
      .def_rw("threads", &Settings::threads)
      .def_rw("cache_dir", &Settings::cache_dir)
      .def_rw("fast_math", &Settings::fast_math)
      .def_rw("precision", &Settings::precision)
      .def_rw("kept", &Settings::kept)
      .def_rw("pool", &Settings::pool, nb::arg("value").none())
      .def_rw("progress", &Settings::progress, nb::arg("value").none());

  nb::class_<Executable>(m, "Executable",
                         "A compiled model, from weft.compile or weft.load. Any number of threads "
                         "may run it at once.")
      .def("__call__", &Executable::call, "tensors"_a, "named"_a,
           nb::sig("def __call__(self, *tensors: object, **named: object) -> typing.Any"),
           "Runs the model on arrays, in its order or by the names of its inputs.\n\n"
           "Arrays come by the buffer protocol or DLPack (numpy, torch, jax on the CPU) and are "
           "not\n"
           "copied where they are dense. Returns an array, or a tuple where the model has several\n"
           "outputs: of torch when the first input is, else of numpy.")
      .def("run", &Executable::run, "tensors"_a, "named"_a,
           nb::sig("def run(self, *tensors: object, **named: object) -> list[typing.Any]"),
           "Like a call; the results always come as a list.")
      .def("run_into", &Executable::run_into, "outputs"_a, "tensors"_a, "named"_a,
           nb::sig("def run_into(self, outputs: object, /, *tensors: object, **named: object) -> "
                   "None"),
           "Runs the model into writable arrays of the outputs' shapes and types: a sequence in "
           "the\n"
           "model's order, a dict by name, or the array itself of a model with one output. They "
           "may\n"
           "overlap inputs (a state that is passed back), not each other.")
      .def_prop_ro("inputs", &Executable::inputs,
                   nb::sig("def inputs(self) -> list[weft.tensor_spec.TensorSpec]"),
                   "The inputs in the model's order. An open dimension is its name, or None.")
      .def_prop_ro("outputs", &Executable::outputs,
                   nb::sig("def outputs(self) -> list[weft.tensor_spec.TensorSpec]"),
                   "The outputs in the model's order.")
      .def_prop_ro("bindings", &Executable::bindings,
                   "How many sets of input shapes it is compiled for at present.")
      .def_prop_ro(
          "kernel_count", [](const Executable& e) { return e.last().kernel_count(); },
          "Kernels that a run launches (of the binding used last).")
      .def_prop_ro(
          "arena_bytes", [](const Executable& e) { return e.last().arena_bytes(); },
          "Bytes of a run's intermediate values (of the binding used last).")
      .def("save", &Executable::save, "path"_a,
           "Writes the binding used last as an artefact, which weft.load, the command and the C\n"
           "runtime run.")
      .def(
          "explain",
          [](const Executable& e, const std::optional<std::filesystem::path>& html, bool measure,
             const std::optional<std::filesystem::path>& compare) {
            if (html) {
              e.save_page(*html, {measure, compare ? compare->string() : ""});
            } else if (measure || compare) {
              weft_python::raise_invalid("measure= and compare= are for the page: html=");
            }
            return weft_python::text_of(e.last().explanation());
          },
          nb::kw_only(), "html"_a = nb::none(), "measure"_a = false, "compare"_a = nb::none(),
          nb::sig("def explain(self, *, html: str | os.PathLike[str] | None = None, "
                  "measure: bool = False, compare: str | os.PathLike[str] | None = None) -> str"),
          "The plan of the binding used last, as `weft explain` prints it: kernels, what is in\n"
          "each, and why the edges between them were cut. With html=, the path of a file, it is\n"
          "also written there as a page for a browser; with measure=True that runs the model on\n"
          "random inputs for about a second, and shows measured times (microseconds) beside the\n"
          "predicted ones; with compare=, the path of a plan (NAME.plan), it shows what changed\n"
          "since that plan.")
      .def(
          "explain_json",
          [](const Executable& e) { return weft_python::text_of(e.last().explanation_json()); },
          "The same as one JSON object: see explain_dict.")
      .def(
          "explain_dict",
          [](const Executable& e) {
            const std::string& text = e.last().explanation_json();
            if (text.empty()) weft_python::raise_invalid("it was written without an explanation");
            return nb::module_::import_("json").attr("loads")(weft_python::text_of(text));
          },
          nb::sig("def explain_dict(self) -> dict[str, typing.Any]"),
          "The plan of the binding used last: totals of a run in bytes, operations and predicted\n"
          "microseconds, its kernels, and a verdict with its reason on every edge.");

  m.def("compile_file", &weft_python::compile_file, "path"_a, "settings"_a);
  m.def("compile_bytes", &weft_python::compile_bytes, "model"_a, "settings"_a);
  weft_python::bind_graph_builder(m);
  m.def("compile_model", &weft_python::compile_model, "model"_a, "settings"_a);
  m.def("load", &weft_python::load, "path"_a, "threads"_a);
  m.def("targets", &weft_python::targets);
  m.def("set_seed", &weft::set_seed, "seed"_a,
        "Models that draw random numbers draw others in each run, from a sequence of the process\n"
        "that begins at random: here it begins anew, the same one for the same value.");
  m.def("version", [] { return std::string(weft::version()); });
}
