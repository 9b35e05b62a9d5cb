#pragma once

#include <string>
#include <type_traits>
#include <vector>

namespace weft {

/// A shared library that is looked for while the program runs, so that nothing of it is needed to
/// build. It stays loaded until the process ends: vendors' libraries leave threads behind.
class DynamicLibrary {
 public:
  /// The library in `file`, a path or a name in the loader's folders. Not found: is_open() is
  /// false, and reason() says what the loader does.
  static DynamicLibrary open(const std::string& file);
  /// The first of the files that there is; those before it and, with none, all are in `*missed`.
  static DynamicLibrary open_first(const std::vector<std::string>& files, std::string* missed);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& file() const { return file_; }
  const std::string& reason() const { return reason_; }

  /// Points `function` to the library's `symbol`, or to nothing.
  template <typename Function>
  void bind(Function*& function, const char* symbol) {
    static_assert(std::is_function_v<Function>);
    function = reinterpret_cast<Function*>(find(symbol));
  }
  /// The first symbol that bind() did not find; empty where all were.
  const std::string& lacking() const { return lacking_; }

 private:
  void* find(const char* symbol);

  std::string file_, reason_, lacking_;
  void* handle_ = nullptr;
};

/// The value of an environment variable; empty where it is not set.
std::string environment_variable(const char* name);

}  // namespace weft
