#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "choice/choice_fields.h"
#include "graph/graph_text.h"

namespace weft {

namespace {

constexpr std::array<std::pair<std::string_view, PlaceLevel>, 4> kLevels = {
    {{"WARP", PlaceLevel::kWarp},
     {"LANE", PlaceLevel::kLane},
     {"REG", PlaceLevel::kReg},
     {"VEC", PlaceLevel::kVec}}};

using Digits = std::vector<Place::Digit>;

std::string text_of(int64_t v) { return std::to_string(v); }
std::string text_of(int v) { return std::to_string(v); }
std::string text_of(bool v) { return v ? "true" : "false"; }
/// `REG_2-LANE_32-VEC_4`; `1` for a single element.
std::string text_of(const Digits& digits) {
  std::string out;
  for (const Place::Digit& d : digits) {
    const auto* level =
        std::ranges::find(kLevels, d.level, &std::pair<std::string_view, PlaceLevel>::second);
    out += (out.empty() ? "" : "-") + std::string(level->first) + "_" + std::to_string(d.extent);
  }
  return out.empty() ? "1" : out;
}
std::string text_of(const AxisDigits& digits) {
  std::string out = "{";
  for (const auto& [axis, list] : digits)
    out += (out.size() > 1 ? ", " : "") + std::to_string(axis) + ": " + text_of(list);
  return out + "}";
}
template <typename T>
std::string text_of(const std::vector<T>& values) {
  std::string out = "[";
  for (const T v : values) out += (out.size() > 1 ? ", " : "") + text_of(v);
  return out + "]";
}

template <typename C>
std::string text_of_choice(const C& choice) {
  std::string out(C::kName);
  const C defaults;
  for_each_field(&choice, [&](const char* name, auto member) {
    if (choice.*member != defaults.*member)
      out += " " + std::string(name) + " " + text_of(choice.*member);
  });
  return out;
}

/// Reads the fields of a choice.
class ChoiceReader {
 public:
  explicit ChoiceReader(TextCursor& cursor) : cursor_(cursor) {}

  /// The variant that the next word names.
  Result<Choice> run() { return alternative<0>(); }

 private:
  template <size_t I>
  Result<Choice> alternative() {
    if constexpr (I == std::variant_size_v<Choice>) {
      return cursor_.error("expected what a template chose: its name and fields");
    } else {
      using C = std::variant_alternative_t<I, Choice>;
      if (!cursor_.take(C::kName)) return alternative<I + 1>();
      C choice;
      WEFT_RETURN_IF_ERROR(fields(&choice));
      return Choice(std::move(choice));
    }
  }

  template <typename C>
  Status fields(C* choice) {
    std::set<std::string> seen;
    for (bool found = true; found;) {
      found = false;
      Status status;
      for_each_field(choice, [&](const char* name, auto member) {
        if (found || !status.ok() || !cursor_.take(name)) return;
        found = true;
        status = seen.insert(name).second
                     ? value(&(choice->*member))
                     : Status(cursor_.error(std::string("'") + name + "' stands twice"));
      });
      WEFT_RETURN_IF_ERROR(std::move(status));
    }
    return {};
  }

  Status value(int64_t* v) {
    WEFT_ASSIGN_OR_RETURN(*v, cursor_.integer());
    return {};
  }
  Status value(int* v) {
    WEFT_ASSIGN_OR_RETURN(const int64_t n, cursor_.integer());
    if (n < INT32_MIN || n > INT32_MAX) return cursor_.error("the number is too large");
    *v = static_cast<int>(n);
    return {};
  }
  Status value(bool* v) {
    *v = cursor_.take("true");
    if (!*v && !cursor_.take("false")) return cursor_.error("expected true or false");
    return {};
  }
  Status value(Digits* digits) {
    if (cursor_.take("1")) return {};
    do {
      WEFT_ASSIGN_OR_RETURN(const std::string word, cursor_.name());
      const size_t bar = word.find('_');
      const auto* level = std::ranges::find(kLevels, std::string_view(word).substr(0, bar),
                                            &std::pair<std::string_view, PlaceLevel>::first);
      const std::string digits_text = bar == std::string::npos ? "" : word.substr(bar + 1);
      const bool number =
          !digits_text.empty() && digits_text.size() <= 18 &&
          std::ranges::all_of(digits_text, [](char c) { return c >= '0' && c <= '9'; });
      if (level == kLevels.end() || !number)
        return cursor_.error("expected WARP_n, LANE_n, REG_n or VEC_n");
      digits->push_back({level->second, std::stoll(digits_text)});
    } while (cursor_.take("-"));
    return {};
  }
  Status value(AxisDigits* digits) {
    WEFT_RETURN_IF_ERROR(cursor_.expect("{"));
    if (cursor_.take("}")) return {};
    do {
      int axis = 0;
      WEFT_RETURN_IF_ERROR(value(&axis));
      WEFT_RETURN_IF_ERROR(cursor_.expect(":"));
      Digits list;
      WEFT_RETURN_IF_ERROR(value(&list));
      if (!digits->emplace(axis, std::move(list)).second)
        return cursor_.error("an axis stands twice");
    } while (cursor_.take(","));
    return cursor_.expect("}");
  }
  template <typename T>
  Status value(std::vector<T>* values) {
    WEFT_RETURN_IF_ERROR(cursor_.expect("["));
    if (cursor_.take("]")) return {};
    do {
      T v{};
      WEFT_RETURN_IF_ERROR(value(&v));
      values->push_back(v);
    } while (cursor_.take(","));
    return cursor_.expect("]");
  }

  TextCursor& cursor_;
};

}  // namespace

std::string_view choice_name(const Choice& choice) {
  return std::visit([](const auto& c) { return c.kName; }, choice);
}

std::string print(const Choice& choice) {
  return std::visit([](const auto& c) { return text_of_choice(c); }, choice);
}

Result<Choice> parse_choice(TextCursor& cursor) { return ChoiceReader(cursor).run(); }

}  // namespace weft
