#include "simt/report_builder.h"

#include <algorithm>
#include <utility>

namespace weft::simt {
namespace {

std::string place_of(const Module& module, int line) {
  return line == 0 ? module.name() : module.name() + ":" + std::to_string(line);
}

}  // namespace

bool ReportBuilder::count(IssueKind kind, Site here, Site there) {
  const Key key = {kind, here, there};
  const auto at = found_.find(key);
  if (at != found_.end()) {
    ++at->second.count;
    return false;
  }
  if (found_.size() >= max_issues_) return false;
  found_[key].count = 1;
  return true;
}

void ReportBuilder::describe(IssueKind kind, Site here, Site there, std::string text) {
  found_[{kind, here, there}].text = std::move(text);
}

std::vector<Issue> ReportBuilder::finish(const Module& module) const {
  std::vector<uint32_t> offsets;
  for (const auto& [key, found] : found_) {
    for (const Site& site : {std::get<1>(key), std::get<2>(key)}) {
      if (site.kind == Site::Kind::kCode) offsets.push_back(site.value);
    }
  }
  const std::vector<int> lines = module.lines_of(offsets);
  size_t next = 0;
  const auto line_of = [&](const Site& site) {
    if (site.kind == Site::Kind::kCode) return lines[next++];
    return site.kind == Site::Kind::kLine ? static_cast<int>(site.value) : 0;
  };

  std::vector<Issue> issues;
  for (const auto& [key, found] : found_) {
    Issue issue;
    issue.kind = std::get<0>(key);
    issue.line = line_of(std::get<1>(key));
    issue.other_line = line_of(std::get<2>(key));
    issue.count = found.count;
    issue.message = std::string(issue_name(issue.kind)) + ": ";
    for (const char c : found.text) {
      if (c == kHere) {
        issue.message += place_of(module, issue.line);
      } else if (c == kThere) {
        issue.message += place_of(module, issue.other_line);
      } else {
        issue.message += c;
      }
    }
    issues.push_back(std::move(issue));
  }
  std::sort(issues.begin(), issues.end(), [](const Issue& a, const Issue& b) {
    return std::tie(a.line, a.other_line, a.kind, a.message) <
           std::tie(b.line, b.other_line, b.kind, b.message);
  });
  return issues;
}

}  // namespace weft::simt
