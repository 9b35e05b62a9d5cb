#pragma once

#include <string>

#include "driver/explain/explained.h"

namespace weft {

/// The plan as one JSON object: totals of a run, its kernels, and a verdict with its reason on
/// every edge. "times" is how often a kernel runs in one run of the model (the steps of a scan);
/// figures that a target does not know are null.
///
///     {"target", "plan", "ops", "memory_kernels", "compute_kernels", "library_calls",
///      "bytes_read", "bytes_written", "flops", "predicted_us",
///      "kernels": [{"name", "kind": "memory" | "compute" | "library", "ops": [names of the model's
///                   nodes], "template", "scopes", "shared_bytes", "registers", "predicted_us",
///                   "roofline_us", "bytes_read", "bytes_written", "bytes_requested" (of caches),
///                   "times"; "library_call" where a library does it, "copies" where it makes
///                   again what another kernel makes: names of tensors}],
///      "edges": [{"from", "to", "verdict", "reason"}]}
std::string explain_json(const Explained& c);

}  // namespace weft
