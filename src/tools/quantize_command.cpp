#include "tools/quantize_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "driver/models/quantize_file.h"
#include "io/npz.h"
#include "support/atomic_file.h"
#include "support/printable.h"
#include "tools/model_options.h"

namespace weft {

namespace {

struct QuantizeCommand {
  ModelOptions model;
  std::string output;
  int bits = 8;
  std::vector<std::string> calibrate, exclude;
};

void print_layers(const QuantizedFile& file) {
  int64_t before = 0, after = 0;
  fmt::print("{:>4}  {:>9}  {:>9}  {}\n", "bits", "weights", "output", "layer");
  for (const LayerError& e : file.layers) {
    before += e.layer.bytes_before;
    after += e.layer.bytes_after;
    fmt::print("{:>4}  {:>8.4f}%  {:>8.4f}%  {} {}\n", e.layer.bits, 100 * e.layer.weight_error,
               100 * e.output_error, e.layer.op_type,
               printable(e.layer.node.empty() ? e.layer.output : e.layer.node));
  }
  fmt::print("{} layers, {:.1f} MB of weights become {:.1f} MB\n", file.layers.size(),
             static_cast<double>(before) / 1e6, static_cast<double>(after) / 1e6);
}

Status quantize(const QuantizeCommand& o) {
  if (!o.model.model.ends_with(".onnx"))
    return invalid_input(o.model.model + ": only ONNX models are quantised");
  if (o.model.target != "cpu") return invalid_input("--target: models are compared on the CPU");
  QuantizeRequest request;
  WEFT_ASSIGN_OR_RETURN(request.model, model_request(o.model));
  request.bits = o.bits;
  request.exclude = {o.exclude.begin(), o.exclude.end()};
  for (const std::string& path : o.calibrate) {
    WEFT_ASSIGN_OR_RETURN(request.calibration.emplace_back(), load_npz(path));
  }
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(o.output));
  WEFT_ASSIGN_OR_RETURN(const QuantizedFile made, quantize_file(request));
  print_layers(made);
  WEFT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(made.bytes.data(), made.bytes.size()))));
  return file.commit();
}

}  // namespace

void add_quantize_command(CLI::App& app, Status& status) {
  auto o = std::make_shared<QuantizeCommand>();
  CLI::App* command = app.add_subcommand(
      "quantize",
      "Write an ONNX model whose weights have 8 or 4 bits; print each layer's errors: of its "
      "weights, and of what it makes beside the original (root mean square, relative)");
  add_model_options(*command, o->model);
  command->add_option("-o,--output", o->output, "The .onnx file to write")->required();
  command
      ->add_option("--bits", o->bits,
                   "8 (default): int8, a scale for each output channel; 4: products as MatMulNBits "
                   "with a scale for each 32 weights along the sum, convolutions with 8 bits")
      ->check(CLI::IsMember({4, 8}));
  command->add_option("--calibrate", o->calibrate,
                      "FILE.npz of inputs: what layers of 8 bits read and make is quantised, too, "
                      "to the range that it has on these; repeatable");
  command->add_option("--exclude", o->exclude, "Names of nodes to leave as they are; repeatable");
  command->callback([o, &status] { status = quantize(*o); });
}

}  // namespace weft
