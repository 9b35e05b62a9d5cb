#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

// Operators whose output shape depends on the values of their inputs. Shapes are fixed once a
// model is imported, so these are computed then, from inputs that follow from constants (or from
// inputs that the caller bound to values); otherwise they are refused.

void translate_unique(OpContext& n);
void translate_non_max_suppression(OpContext& n);

}  // namespace weft::onnx
