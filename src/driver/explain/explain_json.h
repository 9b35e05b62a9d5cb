#pragma once

#include <string>

#include "driver/explain/explained.h"

namespace weft {

/// The plan as one JSON object: totals of a run, its kernels, and a verdict with its reason on
/// every edge. "times" is how often a kernel runs in one run of the model (the steps of a scan);
/// figures that a target does not know are null.
///
///     {"target", "plan", "ops", "memory_kernels", "least_memory_kernels" (of any plan in which
///      products are calls: expr/analysis/memory_levels.h), "compute_kernels", "library_calls",
///      "opaque_steps", "launches", "memory_launches",
///      "bytes_read", "bytes_from_memory" (of a GPU: of them, what its second-level cache does not
///      hold: memory_reads.h), "bytes_from_memory_each_alone" (where each launch finds it empty),
///      "bytes_written", "compulsory_bytes" (that one kernel of all would move), "flops",
///      "predicted_us", "arena_bytes" (between kernels), "unfused_arena_bytes",
///      "kernels": [{"name", "number" (of explain_text; of a region behind a dot), "kind": "memory"
///                   | "compute" | "library", "ops": [names of the model's nodes], "template",
///                   "scopes", "shared_bytes", "registers", "predicted_us", "roofline_us",
///                   "bytes_read", "bytes_written", "bytes_requested" (of caches), "times";
///                   "library_call" where a library does it, "copies" where it makes again what
///                   another kernel makes: names of tensors; "rounding" where it makes tensors of
///                   16-bit floats: {"stored", "multiplied" (rounded for a contraction), "kept"
///                   (float32 inside): names of tensors}; "tiling" of a chain, how its loops over
///                   tiles stand: "mnk"; "scaled_behind" where a chain multiplies or divides
///                   sums that the model makes of scaled terms: ["y by l"]; "masks_are_bounds"
///                   where it leaves out what masks hide though these are finite, or added: names
///                   of reductions}],
///      "nodes": [{"names": [names of the model's nodes], "tensor" (first that it makes), "kernel":
///                 position, null for what is none, "depth" (of regions around it)}], as they run,
///      "edges": [{"from", "to", "verdict", "reason", "producer", "consumer" (positions in
///                 "nodes"), "tensor", "bytes" (of the tensor)}]}
std::string explain_json(const Explained& c);

}  // namespace weft
