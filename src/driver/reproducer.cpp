#include "driver/reproducer.h"

#include "driver/graph_file.h"
#include "support/hash.h"

namespace weft {
namespace {

std::string command_for(const std::string& path, const CompileOptions& options) {
  std::string command = "weft dump " + path + " --stage code --no-cache --plan " +
                        (options.plan_text.empty() ? options.planner : options.plan_source);
  if (!options.compositions.empty()) command += " --compositions " + options.compositions;
  if (!options.planner_parameters.empty()) command += " --parameters " + options.planner_parameters;
  if (options.threads > 0) command += " --threads " + std::to_string(options.threads);
  if (options.max_vector_bytes > 0) {
    command += " --vector-bytes " + std::to_string(options.max_vector_bytes);
  }
  if (options.fast_math) command += " --fast-math";
  if (options.precision != Precision::kModel)
    command += " --precision " + std::string(precision_name(options.precision));
  if (options.unroll) command += " --unroll";
  return command;
}

}  // namespace

std::string with_reproducer(const std::string& folder, const Graph& graph,
                            const CompileOptions& options, const std::string& message) {
  const std::string text = print(graph);
  const std::string name =
      "weft-" + to_hex(hash64(std::as_bytes(std::span(text.data(), text.size())))) + ".graph";
  const std::string path = folder + "/" + name;
  const std::string command = command_for(path, options);
  const Status written = write_graph_file(path, graph, message + "\n" + command);
  if (!written.ok()) return message + "; no reproducer: " + written.error().message;
  return message + "; " + kReproducerIs + path + " (" + command + ")";
}

}  // namespace weft
