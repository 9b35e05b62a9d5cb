#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "expr/scalar_expr.h"

namespace weft {

/// Whether a walk may come by a node again: an owner is a node above it at most once each.
inline bool is_shared(const ScalarRef& s) { return s.use_count() > 1; }

/// What is known about nodes by their address: most bodies have a dozen, which a list holds best.
template <typename Value>
class NodeMap {
 public:
  const Value* find(const Scalar* node) const {
    if (large_.empty()) {
      for (const auto& [key, value] : small_) {
        if (key == node) return &value;
      }
      return nullptr;
    }
    const auto found = large_.find(node);
    return found == large_.end() ? nullptr : &found->second;
  }
  void insert(const Scalar* node, Value value) {
    if (large_.empty() && small_.size() < kSmall) {
      if (small_.empty()) small_.reserve(kSmall / 4);
      small_.emplace_back(node, std::move(value));
      return;
    }
    if (large_.empty()) large_.insert(small_.begin(), small_.end());
    large_.emplace(node, std::move(value));
  }

 private:
  static constexpr size_t kSmall = 24;
  std::vector<std::pair<const Scalar*, Value>> small_;
  std::unordered_map<const Scalar*, Value> large_;
};

/// Nodes by their address, the first of them without memory of their own.
class NodeSet {
 public:
  /// Whether the node was not there.
  bool insert(const Scalar* node) {
    for (size_t i = 0; i < few_count_; ++i) {
      if (few_[i] == node) return false;
    }
    if (few_count_ < few_.size()) {
      few_[few_count_++] = node;
      return true;
    }
    return more_.insert(node).second;
  }

 private:
  std::array<const Scalar*, 16> few_;
  size_t few_count_ = 0;
  std::unordered_set<const Scalar*> more_;
};

}  // namespace weft
