// The node tests of the onnx package, as scripts/export-node-tests writes them: every one passes,
// interpreted and compiled, or stands in unsupported.txt with its reason; one that stands there and
// passes is an error too.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "driver/session.h"
#include "interp/interpreter.h"
#include "io/onnx_case.h"
#include "tests/paths.h"

namespace weft {
namespace {

const std::string kCases = std::string(WEFT_SOURCE_DIR) + "/build/node-tests";
constexpr size_t kCaseCount = 1884;
/// Each is a test of its own, so that the cores share the work.
constexpr size_t kShards = 8;

std::string name_of(const std::string& folder) {
  return folder.substr(folder.find_last_of('/') + 1);
}

std::vector<std::string> all_cases() {
  auto folders = find_cases(kCases);
  EXPECT_TRUE(folders.ok()) << folders.error().message << " (run scripts/export-node-tests)";
  return folders.ok() ? std::move(*folders) : std::vector<std::string>();
}

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

Result<std::vector<HostTensor>> compile_and_run(const ImportedModel& model,
                                                const std::vector<HostTensor>& inputs) {
  CompileOptions options;
  options.threads = 1;
  options.verify = true;
  WEFT_ASSIGN_OR_RETURN(const auto c, compile_graph(model.graph, options));
  WEFT_ASSIGN_OR_RETURN(const auto session, Session::create(c->program, 1));
  return session->run(inputs);
}

TEST(NodeCaseList, NamesWhatThereIs) {
  const std::vector<std::string> folders = all_cases();
  EXPECT_EQ(folders.size(), kCaseCount);
  std::set<std::string> names;
  for (const std::string& folder : folders) names.insert(name_of(folder));
  for (const auto& [name, reason] : read_unsupported()) {
    EXPECT_TRUE(names.contains(name)) << name << " is listed, but there is no such test";
  }
}

class NodeCases : public ::testing::TestWithParam<size_t> {};

TEST_P(NodeCases, PassOrAreListed) {
  const std::vector<std::string> folders = all_cases();
  const std::map<std::string, std::string> unsupported = read_unsupported();
  const std::pair<const char*, ModelRunner> ways[] = {{"interpreted", verify_and_interpret},
                                                      {"compiled", compile_and_run}};
  for (size_t i = GetParam(); i < folders.size(); i += kShards) {
    const bool listed = unsupported.contains(name_of(folders[i]));
    for (const auto& [way, runner] : ways) {
      const CaseResult result = check_case(folders[i], runner);
      if (result.status == CaseStatus::kPassed) {
        EXPECT_FALSE(listed) << result.name << " passes now, " << way << ": take it off the list";
      } else {
        EXPECT_TRUE(listed) << result.name << ", " << way << ": " << result.reason;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, NodeCases, ::testing::Range(size_t{0}, kShards));

}  // namespace
}  // namespace weft
