// Modules cut short and with text changed: an error or a graph that verifies, never a crash.
// WEFT_MUTATIONS says how many of each module, for scripts/fuzz-models; the suite makes 60.

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/import/hlo/importing.h"
#include "tests/paths.h"

namespace weft::hlo {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(WEFT_SOURCE_DIR) + "/tests/import/hlo/modules/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

void import_anything(const std::string& text) {
  const auto imported = import_hlo(text);
  if (!imported.ok()) {
    EXPECT_FALSE(imported.error().message.empty());
    EXPECT_TRUE(imported.error().code == ErrorCode::kInvalidInput ||
                imported.error().code == ErrorCode::kUnsupported);
    return;
  }
  const Status verified = verify_graph(imported->graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  /// One of: a cut, a changed byte, a number in place of another, a stretch moved or removed.
  std::string mutate(std::string text) {
    const size_t at = below(text.size());
    const size_t length = std::min(text.size() - at, 1 + below(60));
    switch (below(6)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = kBytes[below(sizeof(kBytes) - 1)];
        break;
      case 2:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 3:
        text.erase(at, length);
        break;
      default:
        change_number(text, at);
        break;
    }
    return text;
  }

 private:
  static constexpr char kBytes[] = "{}()[],=%\"/*-_.x0129abf\n \xff";
  static constexpr const char* kNumbers[] = {
      "0", "1", "-1", "2", "3", "4294967296", "2147483647", "9223372036854775807"};

  size_t below(size_t n) { return static_cast<size_t>(random_()) % n; }

  void change_number(std::string& text, size_t from) {
    const size_t begin = text.find_first_of("0123456789", from);
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
  }

  std::mt19937 random_;
};

int mutation_count() {
  const char* count = std::getenv("WEFT_MUTATIONS");
  return count != nullptr ? static_cast<int>(std::strtol(count, nullptr, 10)) : 60;
}

class MutatedModules : public ::testing::TestWithParam<const char*> {};

TEST_P(MutatedModules, GiveAnErrorOrAGoodGraph) {
  const std::string text = read_file(GetParam());
  ASSERT_FALSE(text.empty());
  const auto imported = import_hlo(text);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  Mutator mutator(20261122);
  for (int i = 0; i < mutation_count(); ++i) {
    SCOPED_TRACE(i);
    import_anything(mutator.mutate(text));
  }
}

INSTANTIATE_TEST_SUITE_P(SmallModules, MutatedModules,
                         ::testing::Values("layernorm.hlo", "scan_grad.hlo", "scan_grad.opt.hlo",
                                           "maxpool_grad.hlo", "sort_keys.hlo",
                                           "scatter_window.hlo", "convolutions.hlo", "switch.hlo",
                                           "complex_states.hlo", "linear_algebra.hlo"));

}  // namespace
}  // namespace weft::hlo
