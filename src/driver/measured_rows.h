#pragma once

#include <string>

#include "choice/measured_compositions.h"
#include "driver/compile_options.h"
#include "support/hash.h"
#include "support/result.h"
#include "target/target.h"

namespace weft {

/// What stands for a target in the performance library: all that its description says.
Hash128 fingerprint(const Target& target);

/// What stands for this state of the compiler there.
std::string compiler_version();

/// Where `weft tune` and `weft library` keep rows when no file is named: WEFT_LIBRARY, else
/// weft/library.db in the user's folder for data; empty without one.
std::string default_library();

/// Reads the rows of a library's file into the options. kInvalidInput: there is none, it is
/// damaged, or it is another program's.
Status read_library(const std::string& path, CompileOptions* options);

/// The options' rows that this compiler measured on the target. A composition that does not parse
/// is none.
MeasuredCompositions measured_on(const CompileOptions& options, const Target& target);

/// The same rows as a part of a key.
void add_measured(Hasher& hasher, const CompileOptions& options, const Target& target);

}  // namespace weft
