#include "expr/movement/sink_movement.h"

#include <algorithm>

#include "expr/movement/read_composer.h"
#include "expr/movement/remove_dead_expressions.h"

namespace weft {
namespace {

bool all_affine(const TensorExpr& e) {
  bool affine = true;
  AffineForm form;
  visit(e.body, [&](const Scalar& s) {
    for (const IndexExpr& index : s.indices) affine = affine && as_affine(index, &form);
    if (s.kind == Scalar::Kind::kIndex) affine = affine && as_affine(s.index, &form);
  });
  return affine;
}

/// The producer's body over the consumer's output axes: its output axes are what the consumer
/// reads, its reduction axes come behind.
TensorExpr taken_over(const TensorExpr& producer, const TensorExpr& consumer) {
  TensorExpr e = producer;
  const Scalar& read = *consumer.body;
  e.output = consumer.output;
  e.extents = consumer.extents;
  const int shift = consumer.output_rank() - producer.output_rank();
  const auto index_of = [&](int id) {
    return id < producer.output_rank() ? read.indices[static_cast<size_t>(id)]
                                       : IndexExpr::var(id + shift);
  };
  e.body = rewrite(producer.body, index_of);
  return e;
}

class MovementSink {
 public:
  explicit MovementSink(TensorProgram& program) : program_(program), uses_(tensor_uses(program)) {}

  bool run() {
    bool changed = false;
    for (TensorExpr& e : program_.exprs) changed = sink(e) || changed;
    if (changed) remove_dead_expressions(program_);
    return changed;
  }

 private:
  bool sink(TensorExpr& e) {
    if (!program_.tensors[static_cast<size_t>(e.output)].is_output) return false;
    if (!e.reduce_extents.empty() || e.body->kind != Scalar::Kind::kRead) return false;
    if (!e.body->operands.empty() || e.body->fill) return false;
    const auto from = static_cast<size_t>(e.body->symbol);
    const Tensor& source = program_.tensors[from];
    if (source.kind != Tensor::Kind::kIntermediate || source.is_output) return false;
    if (uses_.consumers[from].size() != 1 || uses_.producer[from] < 0) return false;
    const TensorProgram::Step& step = program_.steps[static_cast<size_t>(uses_.producer[from])];
    if (step.opaque || !each_element_once(e, source)) return false;
    const TensorExpr& producer = program_.exprs[static_cast<size_t>(step.index)];
    TensorExpr merged = taken_over(producer, e);
    const ScalarRef simplified =
        ReadComposer(program_, merged, [](const Scalar&) -> ScalarRef { return nullptr; }).run();
    if (!simplified) return false;
    merged.body = simplified;
    if (all_affine(producer) && !all_affine(merged)) return false;
    for (const int32_t o : e.origins) merged.origins.push_back(o);
    std::sort(merged.origins.begin(), merged.origins.end());
    merged.origins.erase(std::unique(merged.origins.begin(), merged.origins.end()),
                         merged.origins.end());
    e = std::move(merged);
    return true;
  }

  /// The read is a bijection onto the source, so that nothing is computed twice.
  static bool each_element_once(const TensorExpr& e, const Tensor& source) {
    IndexMap map = identity_map(e.extents);
    map.results = e.body->indices;
    return element_count(e.extents) == element_count(source.type.shape) && is_injective(map);
  }

  TensorProgram& program_;
  TensorUses uses_;
};

}  // namespace

bool sink_movement(TensorProgram& program) { return MovementSink(program).run(); }

}  // namespace weft
