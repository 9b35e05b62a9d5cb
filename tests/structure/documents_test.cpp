// What the documents name is there, and each file has its sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/structure/source_files.h"

namespace weft {
namespace {

using ::testing::IsEmpty;

std::vector<fs::path> documents() {
  std::vector<fs::path> files = {kRoot / "README.md"};
  for (const fs::path& file : files_below(kRoot / "docs")) {
    if (file.extension() == ".md") files.push_back(file);
  }
  return files;
}

/// Whether a document may call a file or folder so: from the root or from src/, a header and its
/// source without an ending. Of a pattern, `graph/infer_*.cpp`, the folder counts.
bool is_there(const std::string& name) {
  const size_t pattern = name.find_first_of("*{");
  const std::string path =
      pattern == std::string::npos ? name : name.substr(0, name.rfind('/', pattern));
  for (const char* root : {".", "src"}) {
    for (const char* ending : {"", ".h", ".cpp"}) {
      if (fs::exists(kRoot / root / (path + ending))) return true;
    }
  }
  return false;
}

TEST(Documents, NameFilesThatAreThere) {
  const std::regex pattern("`([A-Za-z0-9_.{},*-]+(/[A-Za-z0-9_.{},*-]*)+)`");
  std::vector<std::string> missing;
  int names = 0;
  for (const fs::path& file : documents()) {
    std::ifstream stream(file);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      for (std::sregex_iterator match(line.begin(), line.end(), pattern), end; match != end;
           ++match) {
        const std::string name = (*match)[1].str();
        // What is built, and what a reader is to put a name in.
        if (name.starts_with("build/") || name.find("NAME") != std::string::npos) continue;
        ++names;
        if (is_there(name)) continue;
        missing.push_back(name_of(file) + ":" + std::to_string(number) + ": " + name);
      }
    }
  }
  EXPECT_GT(names, 100);
  EXPECT_THAT(missing, IsEmpty());
}

/// The words that docs/folders.md has in backticks, by the folder of src/ whose section it is.
std::map<std::string, std::set<std::string>> words_by_folder() {
  const std::regex heading("## `([a-z/]+)`"), word("`([a-z0-9_.]+)`");
  std::map<std::string, std::set<std::string>> words;
  std::ifstream stream(kRoot / "docs/folders.md");
  std::string folder;
  for (std::string line; std::getline(stream, line);) {
    std::smatch title;
    if (std::regex_match(line, title, heading)) folder = title[1].str();
    for (std::sregex_iterator match(line.begin(), line.end(), word), end; match != end; ++match) {
      words[folder].insert((*match)[1].str());
    }
  }
  return words;
}

TEST(Documents, FoldersHaveASentenceForEachFile) {
  const std::map<std::string, std::set<std::string>> words = words_by_folder();
  std::vector<std::string> missing;
  for (const fs::path& file : files_below(kRoot / "src")) {
    if (!is_source(file)) continue;
    const auto section =
        words.find(fs::relative(file.parent_path(), kRoot / "src").generic_string());
    if (section != words.end() && (section->second.contains(file.stem().string()) ||
                                   section->second.contains(file.filename().string())))
      continue;
    missing.push_back(name_of(file));
  }
  EXPECT_THAT(missing, IsEmpty());
}

}  // namespace
}  // namespace weft
