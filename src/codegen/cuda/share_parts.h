#pragma once

#include <map>
#include <string>

namespace weft {

/// A kernel's body whose equal parts are calls, and the functions that they call.
struct SharedParts {
  std::string functions;
  std::string body;
};

/// Makes one function of parts of a kernel's body (as emit_cuda writes it, a statement a line) that
/// are equal up to names and to numbers that are added: kernels side by side in a launch, one after
/// another in it, pieces of unrolled loops. A compiler then sees each once. A part is what blocks
/// do between two meetings of theirs, so that a call costs nothing beside it; short ones stay.
///
/// `kernel` begins the functions' names, `parameters` are the entry point's: type by name.
SharedParts share_parts(const std::string& body, const std::string& kernel,
                        const std::map<std::string, std::string>& parameters);

}  // namespace weft
