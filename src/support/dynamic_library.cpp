#include "support/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace weft {

DynamicLibrary DynamicLibrary::open(const std::string& file) {
  DynamicLibrary library;
  library.file_ = file;
  library.handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ != nullptr) return library;
  const char* reason = ::dlerror();
  library.reason_ = reason == nullptr ? "not found" : reason;
  return library;
}

DynamicLibrary DynamicLibrary::open_first(const std::vector<std::string>& files,
                                          std::string* missed) {
  DynamicLibrary library;
  for (const std::string& file : files) {
    library = open(file);
    if (library.is_open()) break;
    *missed += (missed->empty() ? "" : ", ") + file;
  }
  return library;
}

void* DynamicLibrary::find(const char* symbol) {
  void* found = handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
  if (found == nullptr && lacking_.empty()) lacking_ = symbol;
  return found;
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace weft
