#include "driver/graph_file.h"

#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "io/npz.h"
#include "support/atomic_file.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace weft {
namespace {

std::string archive_beside(const std::string& path) { return path + ".npz"; }

void collect_constants(const Graph& graph, int64_t above,
                       std::map<std::string, HostTensor>& found) {
  for (const Node& node : graph.nodes) {
    if (const auto* constant = std::get_if<ConstantAttrs>(&node.attrs);
        constant != nullptr && constant->value.size() > above) {
      found.emplace(to_hex(content_hash(constant->value)), constant->value);
    }
    for (const auto& region : node.regions) collect_constants(*region, above, found);
  }
}

std::string as_comment(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "// " + line + "\n";
  return out;
}

}  // namespace

Status write_graph_file(const std::string& path, const Graph& graph, const std::string& comment) {
  const PrintGraphOptions options;
  std::map<std::string, HostTensor> constants;
  collect_constants(graph, options.max_inline_elements, constants);
  if (!constants.empty()) WEFT_RETURN_IF_ERROR(save_npz(archive_beside(path), constants));
  const std::string text = as_comment(comment) + print(graph, options);
  WEFT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  WEFT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit(/*durable=*/false);
}

Result<Graph> read_graph_file(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const MappedFile file, map_file(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  std::optional<std::map<std::string, HostTensor>> constants;  // read when the first is named
  const auto constant_of_hash = [&](std::string_view hash,
                                    const TensorType&) -> Result<HostTensor> {
    if (!constants) {
      WEFT_ASSIGN_OR_RETURN(constants, load_npz(archive_beside(path)));
    }
    const auto found = constants->find(std::string(hash));
    if (found != constants->end()) return found->second;
    return invalid_input("'" + archive_beside(path) + "' has no constant '" + std::string(hash) +
                         "'");
  };
  auto graph = parse_graph(text, constant_of_hash);
  if (graph.ok()) return graph;
  return invalid_input("'" + path + "': " + graph.error().message);
}

}  // namespace weft
