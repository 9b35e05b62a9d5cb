#pragma once

#include <stdexcept>
#include <string>

namespace weft {

/// A broken invariant of weft itself. Thrown by WEFT_CHECK, caught by driver/ (exit code 70 with a
/// reproducer); no other code catches it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition,
                                       const std::string& message);

}  // namespace weft

/// Internal check, on in every build. `message` is evaluated only on failure.
#define WEFT_CHECK(condition, message)                                         \
  do {                                                                         \
    if (!(condition)) [[unlikely]] {                                           \
      ::weft::throw_internal_error(__FILE__, __LINE__, #condition, (message)); \
    }                                                                          \
  } while (false)
