// Models cut short and with bytes changed: an error or a graph that verifies, never a crash.
// WEFT_MUTATIONS says how many of each model, for scripts/fuzz-models; the suite makes 60.

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "import/onnx/model_parts.h"
#include "tests/import/onnx/importing.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/paths.h"

namespace weft::onnx {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(WEFT_SOURCE_DIR) + "/tests/models/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The same of the first part of a model in parts, and of what waits for values.
void import_parts(const std::string& model) {
  auto owner = std::make_shared<std::string>(model);
  const auto parts = ModelParts::open({owner, bytes_of(*owner)}, "");
  if (!parts.ok()) return;
  const auto inputs = (*parts)->bind({});
  if (!inputs.ok()) return;
  KnownValues known;
  for (const ImportedInput& input : *inputs) known[input.name] = {input.type, std::nullopt};
  const auto first = (*parts)->import(std::vector<bool>((*parts)->node_count()), known);
  if (!first.ok()) return;
  const Status verified = verify_graph(first->graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
}

/// Imports, and checks what must hold whatever the bytes are.
void import_anything(const std::string& model) {
  ImportOptions options;
  const auto imported = import_bytes(model, options);
  if (!imported.ok()) {
    import_parts(model);
    EXPECT_FALSE(imported.error().message.empty());
    EXPECT_TRUE(imported.error().code == ErrorCode::kInvalidInput ||
                imported.error().code == ErrorCode::kUnsupported);
    return;
  }
  const Status verified = verify_graph(imported->graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
}

/// One of: a cut, a few changed bytes, a stretch doubled or removed, a length byte made large.
std::string mutate(std::string model, std::mt19937& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  const size_t at = below(model.size());
  const size_t length = std::min(model.size() - at, size_t{1} + below(40));
  switch (below(5)) {
    case 0:
      model.resize(at);
      break;
    case 1:
      for (size_t i = 0; i <= below(8); ++i) {
        model[below(model.size())] = static_cast<char>(random());
      }
      break;
    case 2:
      model.insert(at, model.substr(at, length));
      break;
    case 3:
      model.erase(at, length);
      break;
    default:
      model[at] = static_cast<char>(0xff);
      break;
  }
  return model;
}

int mutation_count() {
  const char* count = std::getenv("WEFT_MUTATIONS");
  return count != nullptr ? static_cast<int>(std::strtol(count, nullptr, 10)) : 60;
}

class MutatedModels : public ::testing::TestWithParam<const char*> {};

TEST_P(MutatedModels, GiveAnErrorOrAGoodGraph) {
  const std::string model = read_file(GetParam());
  ASSERT_FALSE(model.empty());
  ASSERT_TRUE(import_bytes(model).ok());
  std::mt19937 random(20240517);
  for (int i = 0; i < mutation_count(); ++i) {
    SCOPED_TRACE(i);
    import_anything(mutate(model, random));
  }
}

INSTANTIATE_TEST_SUITE_P(SmallModels, MutatedModels,
                         ::testing::Values("if-folds.onnx", "mlp.onnx", "gru.onnx", "crnn.onnx",
                                           "quantised.onnx"));

}  // namespace
}  // namespace weft::onnx
