// The shape of the sources: every #include under src/ follows src/LAYERS, and the headers of a
// folder stand on levels, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/structure/source_files.h"

namespace weft {
namespace {

using ::testing::IsEmpty;

/// folder -> what it may include, itself and all that its dependencies bring along.
using Layers = std::map<std::string, std::set<std::string>>;

Layers read_layers() {
  Layers layers;
  std::ifstream file(kRoot / "src/LAYERS");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    const std::string folder = line.substr(0, colon);
    std::istringstream deps(line.substr(colon + 1, line.find('|') - colon - 1));
    std::set<std::string> reach = {folder};
    for (std::string dep; deps >> dep;) {
      const std::set<std::string>& below = layers.at(dep);  // a folder names only folders above it
      reach.insert(below.begin(), below.end());
    }
    layers[folder] = std::move(reach);
  }
  return layers;
}

struct Include {
  fs::path file;
  int line = 0;
  std::string folder;    ///< of the including file, below src/
  std::string included;  ///< as written between the quotes or brackets
};

std::vector<Include> includes_of_src() {
  static const std::regex kPattern(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  std::vector<Include> includes;
  for (const fs::path& file : files_below(kRoot / "src")) {
    if (!is_source(file)) continue;
    const std::string folder = fs::relative(file.parent_path(), kRoot / "src").generic_string();
    std::ifstream stream(file);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      std::smatch match;
      if (std::regex_search(line, match, kPattern)) {
        includes.push_back({name_of(file), number, folder, match[1]});
      }
    }
  }
  return includes;
}

std::string at(const Include& include) {
  return include.file.generic_string() + ":" + std::to_string(include.line) + " includes " +
         include.included;
}

TEST(IncludeLayers, EveryFolderOfSourcesStandsInLayers) {
  const Layers layers = read_layers();
  std::vector<std::string> strangers;
  for (const fs::path& file : files_below(kRoot / "src")) {
    const std::string folder = fs::relative(file.parent_path(), kRoot / "src").generic_string();
    if (is_source(file) && !layers.contains(folder)) {
      strangers.push_back(file.generic_string());
    }
  }
  EXPECT_THAT(strangers, IsEmpty());
}

TEST(IncludeLayers, IncludesFollowLayers) {
  const Layers layers = read_layers();
  // The public headers are written by what implements them and read by the command.
  const std::set<std::string> public_header_users = {"runtime", "api", "tools"};
  std::vector<std::string> wrong;
  for (const Include& include : includes_of_src()) {
    const std::string target = fs::path(include.included).parent_path().generic_string();
    const bool allowed = target == "weft" ? public_header_users.contains(include.folder)
                                          : layers.at(include.folder).contains(target);
    if ((layers.contains(target) || target == "weft" || target.starts_with("tests")) && !allowed) {
      wrong.push_back(at(include));
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

/// header -> the headers of its own folder that it includes
using Headers = std::map<std::string, std::set<std::string>>;

Headers headers_of_folders() {
  Headers headers;
  for (const Include& include : includes_of_src()) {
    const fs::path included = include.included;
    const bool inside = included.parent_path().generic_string() == include.folder;
    if (!inside || include.file.extension() != ".h" || included.extension() != ".h") continue;
    headers[include.folder + "/" + include.file.filename().string()].insert(include.included);
    headers[include.included];
  }
  return headers;
}

/// Takes away, level by level, the headers that include none that is left. Those that remain
/// include each other, or include some that do.
void remove_levels(Headers* headers) {
  while (std::erase_if(*headers, [](const auto& header) { return header.second.empty(); }) > 0) {
    for (auto& [header, included] : *headers) {
      std::erase_if(included, [&](const std::string& other) { return !headers->contains(other); });
    }
  }
}

TEST(IncludeLayers, HeadersOfAFolderStandOnLevels) {
  Headers headers = headers_of_folders();
  EXPECT_GT(headers.size(), 50U);
  remove_levels(&headers);
  std::vector<std::string> wrong;
  for (const auto& [header, included] : headers) {
    for (const std::string& other : included) {
      wrong.push_back("src/" + header + " includes " + other);
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(IncludeLayers, RuntimeStandsOnSupportAndTargetAlone) {
  EXPECT_EQ(read_layers().at("runtime"),
            (std::set<std::string>{"runtime", "runtime/cuda", "support", "target"}));
  EXPECT_EQ(read_layers().at("runtime/cuda"),
            (std::set<std::string>{"runtime/cuda", "support", "target"}));
}

TEST(IncludeLayers, OnlyTheCpuGeneratorIncludesLlvm) {
  std::vector<std::string> wrong;
  for (const Include& include : includes_of_src()) {
    const bool llvm =
        include.included.starts_with("llvm/") || include.included.starts_with("llvm-c/");
    if (llvm && include.folder != "codegen/cpu") wrong.push_back(at(include));
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(IncludeLayers, OnlyWhatReadsOrWritesOnnxIncludesProtozero) {
  std::vector<std::string> wrong;
  for (const Include& include : includes_of_src()) {
    if (include.included.starts_with("protozero/") && include.folder != "import/onnx" &&
        include.folder != "io" && include.folder != "quantize") {
      wrong.push_back(at(include));
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(IncludeLayers, PythonStandsOnThePublicInterface) {
  const fs::path folder = kRoot / "python/src";
  const std::regex include("^#include \"([^\"]+)\"");
  std::vector<std::string> wrong;
  int includes = 0;
  for (const fs::path& file : files_below(folder)) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++includes;
      const std::string name = match[1].str();
      const bool is_public = fs::exists(kRoot / "include" / name);
      if (!is_public && !fs::exists(folder / name)) wrong.push_back(line);
    }
  }
  EXPECT_GT(includes, 5);
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(IncludeLayers, NoFileIsCalledUtils) {
  std::vector<std::string> wrong;
  for (const char* part : {"src", "include", "tests", "bench", "examples", "models", "python"}) {
    for (const fs::path& file : files_below(kRoot / part)) {
      if (file.filename().string().find("utils") != std::string::npos) {
        wrong.push_back(file.generic_string());
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

}  // namespace
}  // namespace weft
