#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "io/npy.h"
#include "io/npz.h"
#include "io/onnx_case.h"
#include "support/printable.h"
#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/output_files.h"

namespace weft {

namespace {

struct RunCommand {
  ModelOptions model;
  std::string output_dir;
  std::string expect;
  double rtol = 1e-3, atol = 1e-4;
};

void print_output(const std::string& name, const HostTensor& t) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = t.at_double(i);
    low = std::fmin(low, v);
    high = std::fmax(high, v);
    sum += v;
  }
  fmt::print("{} {}", printable(name), print(TensorType{t.dtype(), t.shape()}));
  if (t.size() > 0)
    fmt::print(" min {:.6g} mean {:.6g} max {:.6g}", low, sum / static_cast<double>(t.size()),
               high);
  fmt::print("\n");
}

Status write_outputs(const std::string& folder, const std::vector<std::string>& names,
                     const std::vector<HostTensor>& outputs) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return invalid_input("cannot make the folder " + folder + ": " + code.message());
  // All are written before the first appears: a full disk or an interrupt leaves none.
  std::vector<AtomicFile> files;
  for (const std::string& name : file_names(names)) {
    WEFT_ASSIGN_OR_RETURN(AtomicFile file,
                          AtomicFile::create(fmt::format("{}/{}.npy", folder, name)));
    WEFT_RETURN_IF_ERROR(write_npy(file, outputs[files.size()]));
    files.push_back(std::move(file));
  }
  for (AtomicFile& file : files) WEFT_RETURN_IF_ERROR(file.commit(/*durable=*/false));
  return {};
}

Status run(const RunCommand& o) {
  WEFT_ASSIGN_OR_RETURN(ReadyModel model, ready_model(o.model));
  WEFT_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs, run_model(model));
  for (size_t i = 0; i < outputs.size(); ++i) print_output(model.output_names[i], outputs[i]);
  if (!o.output_dir.empty())
    WEFT_RETURN_IF_ERROR(write_outputs(o.output_dir, model.output_names, outputs));
  if (o.expect.empty()) return {};
  WEFT_ASSIGN_OR_RETURN(const auto expected, load_npz(o.expect));
  Status verdict;
  size_t compared = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto it = expected.find(model.output_names[i]);
    if (it == expected.end()) continue;
    ++compared;
    Status same = compare_tensors(outputs[i], it->second, {o.rtol, o.atol});
    fmt::print("{}: {}\n", printable(model.output_names[i]),
               same.ok() ? "as expected" : same.error().message);
    if (!same.ok()) {
      verdict = Error{ErrorCode::kComparison,
                      "output " + model.output_names[i] + " differs: " + same.error().message};
    }
  }
  if (compared == 0) return invalid_input(o.expect + " holds none of the model's outputs");
  return verdict;
}

}  // namespace

void add_run_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<RunCommand>();
  CLI::App* command =
      app.add_subcommand("run", "Compile (or take from the cache) and run once; print each output");
  add_model_options(*command, o->model);
  command->add_option("--output-dir", o->output_dir, "Write one .npy per output into a folder");
  command->add_option("--expect", o->expect, "FILE.npz to compare the outputs with, by name");
  command->add_option("--rtol", o->rtol, "Relative tolerance (1e-3)");
  command->add_option("--atol", o->atol, "Absolute tolerance (1e-4)");
  command->callback([o, &status] { status = run(*o); });
}

}  // namespace weft
