#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// The activation of a gate of an RNN, GRU or LSTM, with its parameters.
struct RecurrentActivation {
  enum class Kind : uint8_t {
    kRelu,
    kTanh,
    kSigmoid,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSelu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind = Kind::kTanh;
  double alpha = 0, beta = 0;
  double clip = 0;  ///< bounds the input to [-clip, clip]; 0: not at all

  ValueId apply(GraphBuilder& b, ValueId x) const;
};

}  // namespace weft::onnx
