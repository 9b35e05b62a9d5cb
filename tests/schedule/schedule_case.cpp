#include "tests/schedule/schedule_case.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/paths.h"
#include "tests/tile/program_cases.h"

namespace weft::schedule_test {

namespace {

std::filesystem::path directory() { return std::string(WEFT_SOURCE_DIR) + "/tests/schedule/cases"; }

std::string path_of(const std::string& name) { return (directory() / (name + ".case")).string(); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

/// A target's text without the lines of a key.
std::string without_key(const std::string& text, const std::string& key) {
  std::string out;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with(key + " ")) out += line + "\n";
  }
  return out;
}

}  // namespace

std::string ScheduleCase::section(const std::string& title) const {
  const auto found = std::ranges::find(sections, title, &Section::title);
  return found == sections.end() ? "" : found->text;
}

std::vector<std::string> ScheduleCase::words(const std::string& title) const {
  return words_of(section(title));
}

void ScheduleCase::replace(const std::string& title, std::string text) {
  const auto found = std::ranges::find(sections, title, &Section::title);
  if (found == sections.end()) {
    sections.push_back({title, std::move(text)});
  } else {
    found->text = std::move(text);
  }
}

std::string ScheduleCase::graph() const {
  std::vector<std::pair<std::string, std::string>> numbers;
  for (const std::string& line : lines_of(section("sizes"))) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() > 1) numbers.emplace_back(words[0], words[1]);
  }
  return tile_test::with_numbers(section("graph"), numbers);
}

std::optional<std::string> ScheduleCase::graph_at_second_sizes() const {
  std::vector<std::pair<std::string, std::string>> numbers;
  bool open = false;
  for (const std::string& line : lines_of(section("sizes"))) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() > 1) numbers.emplace_back(words[0], words.back());
    open |= words.size() > 2;
  }
  if (!open) return std::nullopt;
  return tile_test::with_numbers(section("graph"), numbers);
}

Result<Target> ScheduleCase::target() const {
  const std::vector<std::string> lines = lines_of(section("target"));
  if (lines.empty()) return invalid_input(name + " names no target");
  WEFT_ASSIGN_OR_RETURN(const Target known, find_target(lines[0]));
  std::string text = print(known);
  bool fast_math = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i] == "fast_math") {
      fast_math = true;
    } else if (lines[i].starts_with("without ")) {
      text = without_key(text, lines[i].substr(8));
    } else {
      text += lines[i] + "\n";  // the last line of a key counts
    }
  }
  WEFT_ASSIGN_OR_RETURN(Target target, parse_target(text));
  target.reduced_float32 = fast_math;
  return target;
}

std::vector<std::string> case_names() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory())) {
    if (entry.path().extension() == ".case") out.push_back(entry.path().stem().string());
  }
  std::ranges::sort(out);
  return out;
}

ScheduleCase read_case(const std::string& name) {
  ScheduleCase out{name, {}, {}};
  std::string* text = &out.comment;
  for (const std::string& line : lines_of(tile_test::read_text(path_of(name)))) {
    if (line.starts_with("== ")) {
      out.sections.push_back({line.substr(3), {}});
      text = &out.sections.back().text;
    } else {
      *text += line + "\n";
    }
  }
  return out;
}

void write_case(const ScheduleCase& c) {
  std::ofstream out(path_of(c.name));
  out << c.comment;
  for (const ScheduleCase::Section& s : c.sections) out << "== " << s.title << "\n" << s.text;
}

}  // namespace weft::schedule_test
