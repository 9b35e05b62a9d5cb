// Loops and branches of the public graph builder.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "api/graph_builder_impl.h"
#include "import/builder/refusal.h"

namespace weft_v1 {

namespace {

using Ids = std::vector<weft::ValueId>;
using Recorded = weft::RecordedGraph;
using RegionPtr = std::shared_ptr<const Recorded::Region>;

/// A recorded region, and how many results it has.
struct NewRegion {
  RegionPtr region;
  size_t results = 0;
};

/// Records what `record` makes of `count` inputs.
NewRegion record_region(Recorded& graph, size_t count, const GraphBuilder::Body& record) {
  graph.begin_region();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back({graph.add_region_input()});
  std::vector<int32_t> results;
  try {
    for (const Tensor& t : record(inputs)) results.push_back(t.id);
  } catch (...) {
    graph.end_region({});
    throw;
  }
  const size_t made = results.size();
  return {graph.end_region(std::move(results)), made};
}

std::vector<Tensor> tensors(int32_t first, size_t count) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < count; ++i) list.push_back({first + static_cast<int32_t>(i)});
  return list;
}

std::vector<weft::TensorType> types_of(const Recorded::Replay& r, const Ids& ids) {
  std::vector<weft::TensorType> types;
  for (const weft::ValueId id : ids) types.push_back(r.builder.type(id));
  return types;
}

/// Of values without their leading axis, which all must have in common.
std::vector<weft::TensorType> slice_types(const Recorded::Replay& r, const Ids& xs) {
  std::vector<weft::TensorType> types = types_of(r, xs);
  if (types.empty()) weft::onnx::refuse_invalid("it has nothing to run along");
  for (weft::TensorType& type : types) {
    if (type.shape.empty()) weft::onnx::refuse_invalid("it runs along an axis of a scalar");
    if (type.shape.front() != r.builder.extent(xs.front(), 0))
      weft::onnx::refuse_invalid("it runs along axes of different extents");
    type.shape.erase(type.shape.begin());
  }
  return types;
}

void check_carries(const weft::onnx::GraphBuilder& body,
                   const std::vector<weft::TensorType>& carries) {
  if (body.results().size() < carries.size())
    weft::onnx::refuse_invalid("its body makes fewer results than it carries");
  for (size_t i = 0; i < carries.size(); ++i) {
    if (body.type(body.results()[i]) != carries[i])
      weft::onnx::refuse_invalid("its body makes a carry of another type: number " +
                                 std::to_string(i));
  }
}

}  // namespace

std::vector<Tensor> GraphBuilder::conditional(Tensor condition, const Branch& then,
                                              const Branch& otherwise) {
  Recorded& graph = impl_->graph;
  const auto branch = [&](const Branch& record) {
    return record_region(graph, 0, [&](const std::vector<Tensor>&) { return record(); });
  };
  const NewRegion first = branch(then), second = branch(otherwise);
  const auto step = [=](Recorded::Replay& r) -> Ids {
    const weft::ValueId chosen = r.at(condition.id);
    weft::onnx::GraphBuilder yes(&r.builder), no(&r.builder);
    yes.runs_once();
    no.runs_once();
    Recorded::replay_region(*first.region, {}, r, yes);
    Recorded::replay_region(*second.region, {}, r, no);
    const bool alike =
        first.results == second.results &&
        std::ranges::equal(yes.results(), no.results(), [&](weft::ValueId a, weft::ValueId b) {
          return yes.type(a) == no.type(b);
        });
    if (!alike) weft::onnx::refuse_invalid("its branches make results of different types");
    return r.builder.make_if(chosen, yes, no);
  };
  const auto count = static_cast<int32_t>(first.results);
  return tensors(graph.record("conditional", count, step), first.results);
}

std::vector<Tensor> GraphBuilder::while_loop(std::vector<Tensor> carries, const Body& condition,
                                             const Body& body) {
  Recorded& graph = impl_->graph;
  const size_t count = carries.size();
  const NewRegion test = record_region(graph, count, condition);
  const NewRegion next = record_region(graph, count, body);
  const auto step = [=](Recorded::Replay& r) -> Ids {
    const Ids begin = at(r, carries);
    const std::vector<weft::TensorType> types = types_of(r, begin);
    weft::onnx::GraphBuilder tests(&r.builder), makes(&r.builder);
    Recorded::replay_region(*test.region, types, r, tests);
    Recorded::replay_region(*next.region, types, r, makes);
    check_carries(makes, types);
    if (makes.results().size() != types.size())
      weft::onnx::refuse_invalid("its body makes more results than it carries");
    if (tests.results().size() != 1)
      weft::onnx::refuse_invalid("its condition does not make one result");
    return r.builder.make_while(begin, tests, makes);
  };
  const int32_t first = graph.record("while_loop", static_cast<int32_t>(count), step);
  return tensors(first, count);
}

std::vector<Tensor> GraphBuilder::scan(std::vector<Tensor> carries, std::vector<Tensor> xs,
                                       const Body& body, bool reverse) {
  Recorded& graph = impl_->graph;
  const NewRegion next = record_region(graph, carries.size() + xs.size(), body);
  const auto step = [=](Recorded::Replay& r) -> Ids {
    const Ids begin = at(r, carries), along = at(r, xs);
    std::vector<weft::TensorType> types = types_of(r, begin);
    std::vector<weft::TensorType> inputs = types;
    std::ranges::copy(slice_types(r, along), std::back_inserter(inputs));
    weft::onnx::GraphBuilder makes(&r.builder);
    Recorded::replay_region(*next.region, inputs, r, makes);
    check_carries(makes, types);
    const size_t stacked = makes.results().size() - begin.size();
    return r.builder.make_scan(begin, along, makes, std::vector<bool>(along.size(), reverse),
                               std::vector<bool>(stacked, reverse));
  };
  const int32_t first = graph.record("scan", static_cast<int32_t>(next.results), step);
  return tensors(first, next.results);
}

}  // namespace weft_v1
