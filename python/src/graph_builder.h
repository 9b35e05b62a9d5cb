#pragma once

#include <nanobind/nanobind.h>

namespace weft_python {

/// Adds the classes Extent, GraphTensor, Model and GraphBuilder: weft/graph_builder.h in Python.
void bind_graph_builder(nanobind::module_& m);

}  // namespace weft_python
