// The node tests of the onnx package, as scripts/export-node-tests writes them: every one passes,
// or stands in unsupported.txt with its reason; one that stands there and passes is an error too.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "interp/interpreter.h"
#include "io/onnx_case.h"

namespace weft {
namespace {

const std::string kCases = std::string(WEFT_SOURCE_DIR) + "/build/node-tests";

/// Test name -> reason.
std::map<std::string, std::string> read_unsupported() {
  std::map<std::string, std::string> unsupported;
  std::ifstream file(std::string(WEFT_SOURCE_DIR) + "/tests/onnx/unsupported.txt");
  std::string reason;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      reason = line;
    } else {
      EXPECT_TRUE(unsupported.emplace(line.substr(2), reason).second) << line << " is listed twice";
    }
  }
  return unsupported;
}

Result<std::vector<HostTensor>> verify_and_interpret(const ImportedModel& model,
                                                     const std::vector<HostTensor>& inputs) {
  WEFT_RETURN_IF_ERROR(verify_graph(model.graph));
  return interpret(model.graph, inputs);
}

TEST(NodeCases, PassOrAreListed) {
  const auto folders = find_cases(kCases);
  ASSERT_TRUE(folders.ok()) << folders.error().message << " (run scripts/export-node-tests)";
  constexpr size_t kCaseCount = 1884;
  EXPECT_EQ(folders->size(), kCaseCount);
  const std::map<std::string, std::string> unsupported = read_unsupported();
  std::set<std::string> seen;
  for (const CaseResult& result : check_node_cases(*folders, verify_and_interpret)) {
    seen.insert(result.name);
    const bool listed = unsupported.contains(result.name);
    if (result.status == CaseStatus::kPassed) {
      EXPECT_FALSE(listed) << result.name << " passes now: take it off the list";
    } else {
      EXPECT_TRUE(listed) << result.name << ": " << result.reason;
    }
  }
  for (const auto& [name, reason] : unsupported) {
    EXPECT_TRUE(seen.contains(name)) << name << " is listed, but there is no such test";
  }
}

}  // namespace
}  // namespace weft
