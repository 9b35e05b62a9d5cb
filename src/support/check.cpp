#include "support/check.h"

#include <cstring>

namespace weft {

void throw_internal_error(const char* file, int line, const char* condition,
                          const std::string& message) {
  const char* name = std::strrchr(file, '/');
  throw InternalError(std::string(name != nullptr ? name + 1 : file) + ":" + std::to_string(line) +
                      ": " + condition + (message.empty() ? "" : ": " + message));
}

}  // namespace weft
