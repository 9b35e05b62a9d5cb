#include "tools/later.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace weft {

namespace {

struct LaterOption {
  const char* name;
  std::string_view commands;  ///< that will have it
};
constexpr LaterOption kOptions[] = {
    {"--async", "run"},
};

/// Whether a list of words has this one.
bool lists(std::string_view words, std::string_view word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

void add_later(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    std::string names;
    for (const LaterOption& option : kOptions) {
      if (!lists(option.commands, command->get_name())) continue;
      names += (names.empty() ? "" : ", ") + std::string(option.name);
    }
    if (!names.empty()) command->footer("Not there yet: " + names);
  }
}

Status refuse_later(std::span<char* const> words) {
  if (words.empty()) return {};
  const std::string_view command = words[0];
  for (const char* text : words.subspan(1)) {
    const std::string_view word(text);
    if (word == "--") break;  // what follows is no option
    const std::string_view name = word.substr(0, word.find('='));
    for (const LaterOption& later : kOptions) {
      if (name == later.name && lists(later.commands, command))
        return unsupported(fmt::format("{} {}: this option is not there yet", command, name));
    }
  }
  return {};
}

}  // namespace weft
