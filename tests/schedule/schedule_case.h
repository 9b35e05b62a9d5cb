#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/result.h"
#include "target/target.h"

namespace weft::schedule_test {

/// A file of tests/schedule/cases: a group, a device, and the schedule expected of it. What the
/// case shows stands above the first section; sections begin with a line `== title`.
///
///     graph         the text of a graph, all of it one group
///     constants     optional: inputs that are constants of the model, names
///     sizes         optional: a line `N 30 45` for each name of the graph's text that stands for
///                   a number; with two numbers the model leaves it open, and what is chosen for
///                   the first must do for the second
///     target        a known target; lines of a target's text that replace its own, `without KEY`
///                   that takes its lines away, `fast_math` (Target::reduced_float32)
///     as            optional: `chain` where blocks are to carry the group's reductions
///     choice        how the kernel was built, its composition, its library's call
///     tile program  with its scopes
///     traffic       bytes by the scopes: of all requests, of distinct elements
struct ScheduleCase {
  struct Section {
    std::string title, text;
  };
  std::string name, comment;
  std::vector<Section> sections;

  /// Empty where there is none.
  std::string section(const std::string& title) const;
  /// Of the section's words.
  std::vector<std::string> words(const std::string& title) const;
  void replace(const std::string& title, std::string text);
  /// The graph's text with the first or the second of its sizes; nothing where no size has two.
  std::string graph() const;
  std::optional<std::string> graph_at_second_sizes() const;
  Result<Target> target() const;
};

/// Names of the files, ascending.
std::vector<std::string> case_names();
ScheduleCase read_case(const std::string& name);
void write_case(const ScheduleCase& c);

}  // namespace weft::schedule_test
