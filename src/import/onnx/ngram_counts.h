#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// TfIdfVectorizer over integers: how often each n-gram of a constant pool occurs in each row.
void translate_tf_idf_vectorizer(OpContext& n);

}  // namespace weft::onnx
