#include "support/strong_components.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

/// Without recursion, as chains may be long.
class Search {
 public:
  explicit Search(const std::vector<std::vector<size_t>>& depends)
      : depends_(depends), seen_(depends.size(), 0), first_(depends.size(), 0) {}

  std::vector<std::vector<size_t>> run() {
    for (size_t n = 0; n < depends_.size(); ++n) {
      if (seen_[n] == 0) visit(n);
    }
    return std::move(components_);
  }

 private:
  struct Call {
    size_t number, next;
  };
  static constexpr size_t kClosed = SIZE_MAX;

  void begin(size_t n) {
    seen_[n] = first_[n] = ++count_;
    open_.push_back(n);
    calls_.push_back({n, 0});
  }

  void visit(size_t root) {
    begin(root);
    while (!calls_.empty()) {
      Call& call = calls_.back();
      const size_t n = call.number;
      if (call.next == depends_[n].size()) {
        calls_.pop_back();
        if (first_[n] == seen_[n]) {
          close(n);
        } else {  // the root of its component called it, perhaps through others
          size_t& caller = first_[calls_.back().number];
          caller = std::min(caller, first_[n]);
        }
        continue;
      }
      const size_t m = depends_[n][call.next++];
      if (seen_[m] == 0) {
        begin(m);
      } else if (first_[m] != kClosed) {
        first_[n] = std::min(first_[n], seen_[m]);
      }
    }
  }

  void close(size_t root) {
    std::vector<size_t>& members = components_.emplace_back();
    while (members.empty() || members.back() != root) {
      members.push_back(open_.back());
      first_[open_.back()] = kClosed;
      open_.pop_back();
    }
  }

  const std::vector<std::vector<size_t>>& depends_;
  std::vector<size_t> seen_;   ///< when a number was met, from 1 on
  std::vector<size_t> first_;  ///< the earliest of those open that it leads to
  std::vector<size_t> open_;   ///< met, and in no component yet
  std::vector<Call> calls_;
  std::vector<std::vector<size_t>> components_;
  size_t count_ = 0;
};

}  // namespace

std::vector<std::vector<size_t>> strong_components(
    const std::vector<std::vector<size_t>>& depends) {
  return Search(depends).run();
}

}  // namespace weft
