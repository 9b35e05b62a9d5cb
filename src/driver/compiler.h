#pragma once

#include <memory>
#include <optional>
#include <string>

#include "driver/compilation.h"
#include "support/result.h"

namespace weft {

/// Runs the passes (driver/passes.h) on a .onnx or .graph file, or on a .onnx model in memory.
/// Internal errors come back as kInternal, with the path of a reproducer where the options name a
/// folder for it; other kinds of model are kUnsupported.
Result<std::unique_ptr<Compilation>> compile_model(const ModelSource& source,
                                                   const CompileOptions& options);
/// The same from a graph made elsewhere. `other`: it at other extents; kernels then serve these and
/// more, too, where they can.
Result<std::unique_ptr<Compilation>> compile_graph(Graph graph, const CompileOptions& options,
                                                   std::optional<Graph> other = std::nullopt);

}  // namespace weft
