#include "expr/movement/turn_windows.h"

#include <algorithm>
#include <map>

#include "expr/movement/copy_tensor.h"
#include "expr/new_tensors.h"

namespace weft {
namespace {

/// Fewer do not fill a vector.
constexpr int64_t kLeastChannels = 16;

/// The output axis whose neighbours lie side by side.
int innermost_axis(const Tensor& t) {
  const auto& axes = t.layout.axes;
  return axes.empty() ? static_cast<int>(t.type.shape.size()) - 1 : axes.back().axis;
}

/// Whether all that a contraction reads runs along the axis: its channels are not mixed.
bool keeps_channels(const TensorExpr& e, int channel) {
  bool keeps = true;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    keeps = keeps && std::ranges::any_of(s.indices,
                                         [&](const IndexExpr& i) { return uses_var(i, channel); });
  });
  return keeps;
}

/// Whether lanes along `channel` read a window of their own each, whole windows apart.
bool reads_own_windows(const TensorExpr& e, const Scalar& read, int channel) {
  if (read.indices.size() < 2 || !read.operands.empty()) return false;
  if (!read.indices[0].is_var() || read.indices[0].var_id() != channel) return false;
  bool slides = false;
  for (size_t a = 1; a < read.indices.size(); ++a) {
    for (const int v : variables(read.indices[a])) {
      if (v < e.output_rank() || v >= kRuntimeIndexBase) return false;
      slides = true;
    }
  }
  return slides;
}

class WindowTurner {
 public:
  explicit WindowTurner(TensorProgram& program) : program_(program), tensors_(program) {}

  bool run() {
    const size_t count = program_.exprs.size();
    for (size_t x = 0; x < count; ++x) {
      if (!program_.exprs[x].is_contraction || program_.exprs[x].output_rank() < 2) continue;
      const ScalarRef body = program_.exprs[x].body;
      program_.exprs[x].body =
          rewrite(body, {}, [&](const ScalarRef& read) { return turned(x, read); });
    }
    return !twins_.empty();
  }

 private:
  Tensor& tensor(TensorId t) { return program_.tensors[static_cast<size_t>(t)]; }

  ScalarRef turned(size_t x, const ScalarRef& read) {
    const TensorExpr& e = program_.exprs[x];
    const Tensor& of = tensor(read->symbol);
    const int channel = innermost_axis(tensor(e.output));
    const bool fits = of.kind != Tensor::Kind::kConstant && of.layout.is_row_major() &&
                      reads_own_windows(e, *read, channel) && of.type.shape[0] >= kLeastChannels &&
                      keeps_channels(e, channel);
    if (!fits) return read;
    auto [twin, is_new] = twins_.try_emplace(read->symbol, -1);
    if (is_new) twin->second = copied(read->symbol);
    return scalar_read(twin->second, read->type, read->indices, read->operands, read->fill);
  }

  TensorId copied(TensorId t) {
    const std::string name = tensor(t).name + "_turned";
    const TensorType type = tensor(t).type;
    const TensorId twin = tensors_.add(name, type, Tensor::Kind::kIntermediate);
    std::vector<int64_t> order;
    for (size_t a = 1; a < type.shape.size(); ++a) order.push_back(static_cast<int64_t>(a));
    order.push_back(0);
    tensor(twin).layout = permuted_layout(type.shape, order);
    add_copy(program_, t, twin);
    return twin;
  }

  TensorProgram& program_;
  NewTensors tensors_;
  std::map<TensorId, TensorId> twins_;
};

}  // namespace

bool turn_windows(TensorProgram& program) { return WindowTurner(program).run(); }

}  // namespace weft
