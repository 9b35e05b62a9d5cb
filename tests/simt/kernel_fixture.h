#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simt/launch.h"

namespace weft::simt {

/// Global memory for a test: aligned as an allocation on a device is.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : size_(count), storage_(count * sizeof(T) + 256) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = reinterpret_cast<T*>(storage_.data() + (256 - address % 256) % 256);
  }
  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }
  Buffer buffer(const std::string& name, Buffer::Use use) {
    return {name, reinterpret_cast<std::byte*>(data_), size_ * sizeof(T), use};
  }

 private:
  size_t size_;
  std::vector<std::byte> storage_;
  T* data_ = nullptr;
};

/// Numbers in [-1, 1), the same in every run.
inline void fill(std::span<float> values, uint32_t seed = 1) {
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
}

inline std::shared_ptr<const Module> compile(const std::string& text,
                                             const std::string& name = "kernel.cu") {
  Result<std::shared_ptr<const Module>> module = Module::compile(text, name);
  if (!module.ok()) {
    ADD_FAILURE() << module.error().message;
    return nullptr;
  }
  return *module;
}

inline bool has_issue(const Report& report, IssueKind kind) {
  for (const Issue& issue : report.issues) {
    if (issue.kind == kind) return true;
  }
  return false;
}

inline const Issue* find_issue(const Report& report, IssueKind kind) {
  for (const Issue& issue : report.issues) {
    if (issue.kind == kind) return &issue;
  }
  return nullptr;
}

}  // namespace weft::simt
