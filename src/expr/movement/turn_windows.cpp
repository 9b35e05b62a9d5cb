#include "expr/movement/turn_windows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "expr/movement/copy_tensor.h"
#include "expr/movement/factor_steps.h"
#include "expr/new_tensors.h"

namespace weft {
namespace {

/// Fewer do not fill a vector.
constexpr int64_t kLeastChannels = 16;

bool is_of_sum(const TensorExpr& e, int v) { return v >= e.output_rank() && v < kRuntimeIndexBase; }

/// The axis of weights along which a contraction's channels lie; -1 where something else is read
/// than windows.
int axis_of_channels(const TensorExpr& e, const Scalar& read, const Scalar& other, int channel) {
  int found = -1;
  for (size_t a = 0; a < read.indices.size(); ++a) {
    const IndexExpr index = inside_group(read.indices[a]);
    if (index.is_var() && index.var_id() == channel && found < 0) {
      found = static_cast<int>(a);
      continue;
    }
    for (const int v : variables(index)) {
      const bool of_group = v < e.output_rank() && v != channel && runs_along(other, v);
      if (!of_group && !is_of_sum(e, v)) return -1;
    }
  }
  return found;
}

class WindowTurner {
 public:
  explicit WindowTurner(TensorProgram& program) : program_(program), tensors_(program) {}

  bool run() {
    const size_t count = program_.exprs.size();
    for (size_t x = 0; x < count; ++x) {
      if (!program_.exprs[x].is_contraction || program_.exprs[x].output_rank() < 2) continue;
      const ScalarRef body = program_.exprs[x].body;
      std::vector<const Scalar*> reads;
      visit(body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead) reads.push_back(&s);
      });
      if (reads.size() != 2 || reads[0]->symbol == reads[1]->symbol) continue;
      program_.exprs[x].body = rewrite(body, {}, [&](const ScalarRef& read) {
        return turned(x, read, *reads[read->symbol == reads[0]->symbol ? 1 : 0]);
      });
    }
    return !twins_.empty();
  }

 private:
  using Order = std::vector<int64_t>;

  Tensor& tensor(TensorId t) { return program_.tensors[static_cast<size_t>(t)]; }

  ScalarRef turned(size_t x, const ScalarRef& read, const Scalar& other) {
    const std::optional<Order> order = order_for(program_.exprs[x], *read, other);
    if (!order) return read;
    auto [twin, is_new] = twins_.try_emplace({read->symbol, *order}, -1);
    if (is_new)
      twin->second = add_copy_in_order(program_, tensors_, read->symbol, "_turned", *order);
    return scalar_read(twin->second, read->type, read->indices, read->operands, read->fill);
  }

  /// The order of axes in which a contraction wants what it reads, where that are weights that vary
  /// and lie otherwise.
  std::optional<Order> order_for(const TensorExpr& e, const Scalar& read, const Scalar& other) {
    const Tensor& of = tensor(read.symbol);
    if (of.kind == Tensor::Kind::kConstant || !of.layout.is_row_major() || !read.operands.empty() ||
        !slides(e, other, read))
      return std::nullopt;
    const auto channel = static_cast<int>(axes_in_memory(tensor(e.output)).back());
    const int at = axis_of_channels(e, read, other, channel);
    if (at < 0 || at + 1 == std::ssize(read.indices) ||
        of.type.shape[static_cast<size_t>(at)] < kLeastChannels)
      return std::nullopt;
    return behind_each_other(read, other, at);
  }

  /// The axes of weights in the order in which the sum goes over the other factor, channels last.
  Order behind_each_other(const Scalar& read, const Scalar& other, int channels) {
    const std::vector<int64_t> axes = axes_in_memory(tensor(other.symbol));
    const auto place = [&](int64_t a) {
      if (a == channels) return std::ssize(axes) + 1;
      const auto used = variables(read.indices[static_cast<size_t>(a)]);
      const auto runs = [&](int64_t axis) {
        return std::ranges::any_of(
            used, [&](int v) { return uses_var(other.indices[static_cast<size_t>(axis)], v); });
      };
      return std::ranges::find_if(axes, runs) - axes.begin();
    };
    Order order;
    for (int64_t a = 0; a < std::ssize(read.indices); ++a) {
      const auto behind =
          std::ranges::find_if(order, [&](int64_t o) { return place(o) > place(a); });
      order.insert(behind, a);
    }
    return order;
  }

  TensorProgram& program_;
  NewTensors tensors_;
  std::map<std::pair<TensorId, Order>, TensorId> twins_;
};

}  // namespace

bool turn_windows(TensorProgram& program) { return WindowTurner(program).run(); }

}  // namespace weft
