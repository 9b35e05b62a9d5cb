#include "codegen/cuda/share_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {
namespace {

constexpr size_t kShortest = 32;     ///< lines of a part
constexpr size_t kLeastSaved = 128;  ///< lines that are not written again
/// Registers that a part's parameters take, at most: of the kernel's own, code has constants.
constexpr size_t kMostParameters = 32;
constexpr size_t kMostDigits = 10;  ///< of a number that is added
constexpr char kNumber = '\1';      ///< stands for such a number in a part's text

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t end_of_word(std::string_view text, size_t at) {
  while (at < text.size() && is_word(text[at])) ++at;
  return at;
}

/// Whether the emitter made up the word: a short prefix and numbers.
bool is_name(std::string_view word) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"v", "t", "st", "m", "ma", "mb", "c", "b"};
  const size_t digits = word.find_first_of("0123456789");
  if (word == "barrier") return true;
  if (digits == std::string_view::npos) return false;
  const auto numbers = word.substr(digits);
  return std::ranges::find(kPrefixes, word.substr(0, digits)) != kPrefixes.end() &&
         std::ranges::all_of(numbers, [](char c) { return is_digit(c) || c == '_'; });
}

struct Definition {
  std::string_view name;
  std::string_view type;  ///< none of an array, or where the compiler finds it
};

/// What a line defines: "const T name = …", "T name;", "for (T name = …".
std::optional<Definition> definition_of(std::string_view line) {
  constexpr std::array<std::string_view, 14> kTypes = {"s8",   "s16",  "s32",   "s64",   "u8",
                                                       "u16",  "u32",  "u64",   "f16",   "bf16",
                                                       "bool", "auto", "float", "double"};
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  for (const std::string_view start : {"for (", "const "}) {
    if (line.starts_with(start)) line.remove_prefix(start.size());
  }
  size_t end = end_of_word(line, 0);
  const bool vector = line.substr(0, end) == "vec";
  if (!vector && std::ranges::find(kTypes, line.substr(0, end)) == kTypes.end())
    return std::nullopt;
  if (vector) end = line.find('>') + 1;
  if (end == 0 || end >= line.size() || line[end] != ' ') return std::nullopt;
  const size_t after = end_of_word(line, end + 1);
  const std::string_view name = line.substr(end + 1, after - end - 1);
  if (!is_name(name)) return std::nullopt;
  const bool plain = !vector && line.substr(0, end) != "auto" && line[after] != '[';
  return Definition{name, plain ? line.substr(0, end) : std::string_view()};
}

/// A pointer into shared memory: "float* const b7 = (float*)(shared + 4096);  // name".
struct SharedPointer {
  std::string type;  ///< "float*"
  int64_t offset = 0;
};

/// A part that may be equal to others.
struct Part {
  size_t begin = 0, end = 0;  ///< lines
  std::string text;           ///< with names of its own, and kNumber for numbers that are added
  std::vector<int64_t> numbers;
  std::vector<std::string> captured;  ///< names from outside, by the part's number of them
  size_t parameters = 0;              ///< registers that these take
};

class Sharer {
 public:
  Sharer(const std::string& body, const std::string& kernel,
         const std::map<std::string, std::string>& parameters)
      : kernel_(kernel), parameters_(parameters) {
    for (size_t at = 0; at < body.size();) {
      const size_t end = std::min(body.find('\n', at), body.size());
      lines_.push_back(std::string_view(body).substr(at, end - at));
      at = end + 1;
    }
    for (const std::string_view line : lines_) note(line);
  }

  SharedParts run() {
    find_parts(0, lines_.size());
    std::map<std::string, std::vector<const Part*>> equal;  // by text
    std::vector<const std::string*> order;
    for (const Part& part : parts_) {
      const auto [at, is_new] = equal.try_emplace(part.text);
      if (is_new) order.push_back(&at->first);
      at->second.push_back(&part);
    }
    SharedParts out;
    for (const std::string* text : order) share(equal.at(*text), out);
    for (size_t i = 0; i < lines_.size(); ++i) {
      const auto call = calls_.find(i);
      out.body += call == calls_.end() ? lines_[i] : call->second.second;
      out.body += '\n';
      if (call != calls_.end()) i = call->second.first - 1;
    }
    return out;
  }

 private:
  /// Types of what lines define.
  void note(std::string_view line) {
    if (const auto made = definition_of(line)) types_[std::string(made->name)] = made->type;
    const size_t pointer = line.find("* const b"), offset = line.find("*)(shared + ");
    if (pointer == std::string_view::npos || offset == std::string_view::npos) return;
    const size_t name = pointer + 8, first = line.find_first_not_of(' ');
    shared_[std::string(line.substr(name, end_of_word(line, name) - name))] = {
        std::string(line.substr(first, pointer + 1 - first)),
        std::strtoll(line.data() + offset + 12, nullptr, 10)};
  }

  static size_t indent(std::string_view line) { return line.find_first_not_of(' '); }

  /// The line that closes what line `at` opens.
  size_t closing(size_t at, size_t end) const {
    const size_t depth = indent(lines_[at]);
    for (size_t i = at + 1; i < end; ++i) {
      if (indent(lines_[i]) == depth && lines_[i].substr(depth) == "}") return i;
    }
    return end;
  }

  void find_parts(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!lines_[i].ends_with('{')) continue;
      const size_t close = closing(i, end);
      bool branches = false, meets = lines_[i].substr(indent(lines_[i])) == "{";
      for (size_t j = i + 1; j < close; ++j) {
        branches |= indent(lines_[j]) == indent(lines_[i]);
        meets |= lines_[j].find("wf_sync_grid(") != std::string_view::npos ||
                 lines_[j].find("wf_sync_cluster(") != std::string_view::npos;
      }
      if (meets) {
        find_parts(i + 1, close);
      } else if (!branches && close - i > kShortest) {
        const bool loops = lines_[i].find("for (") != std::string_view::npos;  // behind a pragma
        if (auto part = loops ? part_of(i - 1, close + 1) : part_of(i + 1, close))
          parts_.push_back(std::move(*part));
      }
      i = close;
    }
  }

  /// Lines as a part; none where they assign to what is defined outside, or read what is no number.
  std::optional<Part> part_of(size_t begin, size_t end) const {
    Part part;
    part.begin = begin;
    part.end = end;
    std::set<std::string_view> own;
    for (size_t i = begin; i < end; ++i) {
      if (const auto made = definition_of(lines_[i])) own.insert(made->name);
    }
    std::map<std::string_view, std::string> names;
    const size_t depth = indent(lines_[begin]);
    for (size_t i = begin; i < end; ++i) {
      const std::string_view line = lines_[i].substr(std::min(depth, lines_[i].size()));
      part.text += "  ";
      for (size_t at = 0; at < line.size();) {
        const size_t after = std::max(end_of_word(line, at), at + 1);
        const std::string_view word = line.substr(at, after - at);
        if (is_added(line, at, after)) {
          part.numbers.push_back(std::strtoll(std::string(word).c_str(), nullptr, 10));
          part.text += kNumber;
        } else if (is_name(word)) {
          const auto [known, is_new] = names.try_emplace(word);
          if (is_new) known->second = name_in(part, word, own.contains(word));
          if (known->second.empty()) return std::nullopt;
          const bool assigned = indent(line) == at && line.substr(after).starts_with(" = ");
          if (assigned && !own.contains(word)) return std::nullopt;
          part.text += known->second;
        } else {
          part.text += word;
        }
        at = after;
      }
      part.text += '\n';
    }
    return add_signature(part) ? std::optional(std::move(part)) : std::nullopt;
  }

  /// Whether a word is a whole number that is added to what stands before it.
  static bool is_added(std::string_view line, size_t at, size_t after) {
    if (!is_digit(line[at]) || after - at > kMostDigits || at < 3) return false;
    if (line.substr(at - 3, 3) != " + ") return false;
    if (!std::ranges::all_of(line.substr(at, after - at), is_digit)) return false;
    return after < line.size() && std::string_view(";)],").find(line[after]) != std::string::npos;
  }

  /// The name of a word in a part; empty where a part cannot have it from outside.
  std::string name_in(Part& part, std::string_view word, bool own) const {
    if (own) return fmt::format("x{}", ++made_);
    const auto type = types_.find(word);
    const bool known = shared_.contains(word) || parameters_.contains(std::string(word)) ||
                       (type != types_.end() && !type->second.empty());
    if (!known) return "";
    part.captured.emplace_back(word);
    return fmt::format("p{}", part.captured.size() - 1);
  }

  /// What the part has from outside: its types come first in the text. Whether they are few enough.
  bool add_signature(Part& part) const {
    made_ = 0;
    std::string types, pointers;
    for (size_t c = 0; c < part.captured.size(); ++c) {
      const std::string& name = part.captured[c];
      if (const auto shared = shared_.find(name); shared != shared_.end()) {
        part.numbers.insert(part.numbers.begin() + static_cast<ptrdiff_t>(shared_numbers(pointers)),
                            shared->second.offset);
        pointers += fmt::format("  {0} const p{1} = ({0})(shared + {2});\n", shared->second.type, c,
                                kNumber);
        continue;
      }
      const auto global = parameters_.find(name);
      const std::string type(global == parameters_.end() ? types_.at(name) : global->second);
      types += fmt::format("{}{} p{}", types.empty() ? "" : ", ", type, c);
      const bool wide = type.find('*') != std::string::npos || type.ends_with("64");
      part.parameters += wide || type == "double" ? 2 : 1;
      if (global != parameters_.end() && type.find('*') != std::string::npos)
        pointers += fmt::format("  WF_GLOBAL(p{});\n", c);
    }
    part.text = types + '\n' + pointers + part.text;
    return part.parameters <= kMostParameters;
  }
  static size_t shared_numbers(const std::string& pointers) {
    return static_cast<size_t>(std::ranges::count(pointers, kNumber));
  }

  /// A function of parts of one text, and a call for each, where that is less to write.
  void share(const std::vector<const Part*>& parts, SharedParts& out) {
    const Part& first = *parts[0];
    if ((parts.size() - 1) * (first.end - first.begin) < kLeastSaved) return;
    // What a number is more in each of the parts than in the first; many have that in common.
    std::vector<std::vector<int64_t>> shifts;
    std::vector<size_t> shift_of;  // by number; none of those that are the same in all parts
    for (size_t n = 0; n < first.numbers.size(); ++n) {
      std::vector<int64_t> shift;
      for (const Part* part : parts) shift.push_back(part->numbers[n] - first.numbers[n]);
      if (std::ranges::all_of(shift, [](int64_t s) { return s == 0; })) {
        shift_of.push_back(SIZE_MAX);
        continue;
      }
      const auto at = std::ranges::find(shifts, shift);
      shift_of.push_back(static_cast<size_t>(at - shifts.begin()));
      if (at == shifts.end()) shifts.push_back(std::move(shift));
    }
    if (first.parameters + shifts.size() > kMostParameters) return;
    const std::string name = fmt::format("{}_part{}", kernel_, functions_++);
    out.functions += function_text(name, first, shift_of, shifts.size());
    for (size_t p = 0; p < parts.size(); ++p) {
      std::vector<std::string> values;
      for (const std::string& captured : parts[p]->captured) {
        if (!shared_.contains(captured)) values.push_back(captured);
      }
      for (const std::vector<int64_t>& shift : shifts) values.push_back(std::to_string(shift[p]));
      const size_t depth = indent(lines_[parts[p]->begin]);
      calls_[parts[p]->begin] = {parts[p]->end, fmt::format("{}{}({});", std::string(depth, ' '),
                                                            name, fmt::join(values, ", "))};
    }
  }

  static std::string function_text(const std::string& name, const Part& part,
                                   const std::vector<size_t>& shift_of, size_t shifts) {
    const size_t signature = part.text.find('\n');
    std::string parameters = part.text.substr(0, signature), body;
    for (size_t s = 0; s < shifts; ++s)
      parameters += fmt::format("{}s32 d{}", parameters.empty() ? "" : ", ", s);
    size_t number = 0;
    for (const char c : std::string_view(part.text).substr(signature + 1)) {
      if (c != kNumber) {
        body += c;
        continue;
      }
      // In front of the number, which then stays a constant distance from its neighbours.
      const size_t shift = shift_of[number];
      if (shift != SIZE_MAX) body += fmt::format("d{} + ", shift);
      body += std::to_string(part.numbers[number++]);
    }
    const bool shared = body.find("(shared + ") != std::string::npos;
    return fmt::format("WF_PART void {}({}) {{\n{}{}}}\n", name, parameters,
                       shared ? "  WF_SHARED(shared);\n" : "", body);
  }

  const std::string& kernel_;
  const std::map<std::string, std::string>& parameters_;
  std::vector<std::string_view> lines_;
  std::map<std::string, std::string_view, std::less<>> types_;  ///< by name
  std::map<std::string, SharedPointer, std::less<>> shared_;    ///< by name
  std::vector<Part> parts_;
  std::map<size_t, std::pair<size_t, std::string>> calls_;  ///< by first line: the end, the call
  size_t functions_ = 0;
  mutable size_t made_ = 0;  ///< names of the part at hand
};

}  // namespace

SharedParts share_parts(const std::string& body, const std::string& kernel,
                        const std::map<std::string, std::string>& parameters) {
  return Sharer(body, kernel, parameters).run();
}

}  // namespace weft
