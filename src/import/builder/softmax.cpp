#include "import/builder/softmax.h"

namespace weft::onnx {
namespace {

ValueId shifted(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes) {
  return b.sub(x, b.reduce(Combiner::kMax, x, axes, true));
}

}  // namespace

ValueId softmax(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes) {
  ValueId e = b.exp(shifted(b, x, axes));
  return b.div(e, b.reduce(Combiner::kSum, e, axes, true));
}

ValueId log_softmax(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes) {
  ValueId d = shifted(b, x, axes);
  return b.sub(d, b.log(b.reduce(Combiner::kSum, b.exp(d), axes, true)));
}

}  // namespace weft::onnx
