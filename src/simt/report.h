#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::simt {

/// What is wrong with a kernel, or with the launch of it.
enum class IssueKind : uint8_t {
  kRace,                  ///< two unordered accesses, one a write
  kPendingCopy,           ///< an access to what an unfinished cp.async writes
  kUninitialisedRead,     ///< nothing wrote it
  kStaleRead,             ///< wf_load_ro of what this launch wrote
  kReadOnlyWrite,         ///< a store to a buffer given for reading
  kUnwrittenOutput,       ///< bytes of an output that the launch left as they were
  kOutOfBounds,           ///< outside every buffer and the block's shared memory
  kMisaligned,            ///< a wide access off its alignment
  kDivergentBarrier,      ///< threads of a block at different barriers, or some gone
  kDivergentCollective,   ///< lanes of a mask at different collectives, or some gone
  kInvalidCollective,     ///< a mask without the caller, a shuffle from outside the mask
  kUnfinishedCopy,        ///< a thread ended while a cp.async of its was under way
  kClusterExit,           ///< shared memory of a block that has ended
  kDeadlock,              ///< nothing can go on
  kUnsupportedOperation,  ///< a grid or cluster barrier that the launch does not provide
  kStackOverflow,         ///< a thread needed more than the emulator's stack
};
std::string_view issue_name(IssueKind kind);

/// One place of the text at fault; the same again only counts.
struct Issue {
  IssueKind kind = IssueKind::kRace;
  int line = 0;         ///< of the text, from 1; 0 if unknown
  int other_line = 0;   ///< of the earlier access or the other barrier; 0 if there is none
  std::string message;  ///< the first occurrence: "race: softmax.cu:17: block 0 thread 3 reads …"
  int64_t count = 0;
};

/// Warps' accesses to global memory. A request is one instruction of one warp.
struct GlobalTraffic {
  int64_t requests = 0;
  int64_t bytes = 0;         ///< asked for by the lanes
  int64_t distinct = 0;      ///< bytes, each once per request
  int64_t sectors = 0;       ///< of 32 bytes, each once per request
  int64_t unique_bytes = 0;  ///< of the sectors touched in the launch, each once
};

struct BufferTraffic {
  std::string name;
  GlobalTraffic loads, stores;  ///< atomics are stores
};

struct SharedTraffic {
  int64_t requests = 0;
  int64_t bytes = 0;
  int64_t wavefronts = 0;        ///< passes over the 32 banks
  int64_t ideal_wavefronts = 0;  ///< without conflicts
};

/// Shared accesses of one line that need more wavefronts than their width does.
struct BankConflict {
  int line = 0;
  SharedTraffic traffic;
};

struct Traffic {
  GlobalTraffic loads, stores;  ///< over all buffers
  std::vector<BufferTraffic> buffers;
  SharedTraffic shared;
  std::vector<BankConflict> bank_conflicts;  ///< by line
};

/// What one launch did.
struct Report {
  bool completed = false;  ///< every thread ran to its end; otherwise outputs mean nothing
  std::vector<Issue> issues;
  Traffic traffic;  ///< zero unless asked for
  int64_t barriers = 0;
  int64_t collectives = 0;
  int64_t accesses = 0;

  bool clean() const { return completed && issues.empty(); }
};

/// One issue a line, then the traffic where there is any.
std::string print(const Report& report);

}  // namespace weft::simt
