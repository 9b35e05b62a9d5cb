#pragma once

#include "import/builder/graph_builder.h"
#include "import/builder/imported_model.h"

namespace weft::onnx {

/// The graph that a builder made, without what no output needs, as the model's: its inputs get the
/// ranges that follow from it, and the seed of random numbers comes last where something draws.
void finish_import(const GraphBuilder& builder, ImportedModel& model);

}  // namespace weft::onnx
