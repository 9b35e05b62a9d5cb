#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "simt/module.h"
#include "simt/report.h"

namespace weft::simt {

/// A place of the text: a return address of the module, a line, or none.
struct Site {
  uint32_t value = 0;
  enum class Kind : uint8_t { kNone, kCode, kLine } kind = Kind::kNone;

  static Site none() { return {}; }
  static Site code(uint32_t offset) { return {offset, Kind::kCode}; }
  /// Of the number that a barrier or collective is called with.
  static Site call(uint32_t site) { return {site / 1000, Kind::kLine}; }
  friend auto operator<=>(const Site&, const Site&) = default;
};

/// Gathers issues, each place once, and names their lines when the launch is over.
class ReportBuilder {
 public:
  explicit ReportBuilder(size_t max_issues) : max_issues_(max_issues) {}

  /// `text` may hold kHere and kThere, which become "file:line" of the two sites.
  static constexpr char kHere = '\1';
  static constexpr char kThere = '\2';
  /// Whether this issue is new, so that its text is wanted.
  bool count(IssueKind kind, Site here, Site there);
  void describe(IssueKind kind, Site here, Site there, std::string text);

  /// In order of lines. `lines` translates sites of the traffic too.
  std::vector<Issue> finish(const Module& module) const;

 private:
  using Key = std::tuple<IssueKind, Site, Site>;
  struct Found {
    std::string text;
    int64_t count = 0;
  };
  size_t max_issues_;
  std::map<Key, Found> found_;
};

}  // namespace weft::simt
