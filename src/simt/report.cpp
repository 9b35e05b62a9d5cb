#include "simt/report.h"

#include <fmt/format.h>

#include "support/check.h"

namespace weft::simt {

std::string_view issue_name(IssueKind kind) {
  switch (kind) {
    case IssueKind::kRace:
      return "race";
    case IssueKind::kPendingCopy:
      return "access to an unfinished copy";
    case IssueKind::kUninitialisedRead:
      return "uninitialised read";
    case IssueKind::kStaleRead:
      return "stale read";
    case IssueKind::kReadOnlyWrite:
      return "write to an input";
    case IssueKind::kUnwrittenOutput:
      return "unwritten output";
    case IssueKind::kOutOfBounds:
      return "out of bounds";
    case IssueKind::kMisaligned:
      return "misaligned access";
    case IssueKind::kDivergentBarrier:
      return "divergent barrier";
    case IssueKind::kDivergentCollective:
      return "divergent collective";
    case IssueKind::kInvalidCollective:
      return "invalid collective";
    case IssueKind::kUnfinishedCopy:
      return "unfinished copy";
    case IssueKind::kClusterExit:
      return "access to an ended block";
    case IssueKind::kDeadlock:
      return "deadlock";
    case IssueKind::kUnsupportedOperation:
      return "unsupported operation";
    case IssueKind::kStackOverflow:
      return "stack overflow";
  }
  WEFT_CHECK(false, "every kind has a name");
}

std::string print(const Report& report) {
  std::string text;
  for (const Issue& issue : report.issues) {
    text += issue.message;
    if (issue.count > 1) text += fmt::format(" ({} times)", issue.count);
    text += "\n";
  }
  const auto add_global = [&text](std::string_view name, const GlobalTraffic& traffic) {
    if (traffic.requests == 0) return;
    text += fmt::format("{}: {} requests, {} bytes, {} sectors, {} unique bytes\n", name,
                        traffic.requests, traffic.bytes, traffic.sectors, traffic.unique_bytes);
  };
  add_global("loads", report.traffic.loads);
  add_global("stores", report.traffic.stores);
  const SharedTraffic& shared = report.traffic.shared;
  if (shared.requests != 0) {
    text += fmt::format("shared: {} requests, {} bytes, {} wavefronts of {}\n", shared.requests,
                        shared.bytes, shared.wavefronts, shared.ideal_wavefronts);
  }
  for (const BankConflict& conflict : report.traffic.bank_conflicts) {
    text += fmt::format("bank conflicts: line {}: {} wavefronts of {}\n", conflict.line,
                        conflict.traffic.wavefronts, conflict.traffic.ideal_wavefronts);
  }
  return text;
}

}  // namespace weft::simt
