#include <algorithm>
#include <memory>

#include "import/hlo/loop.h"

namespace weft::hlo {
namespace {

constexpr int kMaxIndexDepth = 32;
constexpr int kMaxIndexNodes = 256;
/// The smallest and the largest that it becomes.
std::pair<int64_t, int64_t> bounds_of(const Progression& p, int64_t trips) {
  const int64_t last = p.first + p.step * (trips - 1);
  return std::minmax({p.first, last});
}

/// Reads integers of a loop's body as progressions of its counter.
class IndexReader {
 public:
  IndexReader(GraphBuilder& body, ValueId counter, const LoopCounter& values)
      : body_(body), counter_(counter), values_(values) {}

  std::optional<Progression> read(ValueId v, int depth = 0) {
    if (v == counter_)
      return is_small(values_.values) ? std::optional(values_.values) : std::nullopt;
    if (body_.size(v) != 1 || !is_integer(body_.dtype(v)) || depth > kMaxIndexDepth ||
        ++nodes_ > kMaxIndexNodes) {
      return std::nullopt;
    }
    if (const HostTensor* known = body_.constant_value(v)) {
      const Progression p{known->at_int(0), 0};
      return is_small(p) ? std::optional(p) : std::nullopt;
    }
    const Node* made = body_.maker(v);
    if (made == nullptr) return std::nullopt;
    const Node node = *made;  // reading a constant may add to the graph
    if (node.op == GraphOp::kReshape || node.op == GraphOp::kBroadcast) {
      return read(node.operands[0], depth + 1);
    }
    if (node.op != GraphOp::kElementwise) return std::nullopt;
    const auto p = read_elementwise(node, depth);
    return p && fits(*p, v) ? p : std::nullopt;
  }

 private:
  std::optional<Progression> read_elementwise(const Node& node, int depth) {
    const ScalarOp op = std::get<ElementwiseAttrs>(node.attrs).op;
    if (op == ScalarOp::kSelect) return read_select(node, depth);
    const auto a = read(node.operands[0], depth + 1);
    if (!a) return std::nullopt;
    if (op == ScalarOp::kConvert) return a;
    if (op == ScalarOp::kNeg) return Progression{-a->first, -a->step};
    if (node.operands.size() != 2) return std::nullopt;
    const auto b = read(node.operands[1], depth + 1);
    if (!b) return std::nullopt;
    switch (op) {
      case ScalarOp::kAdd:
        return Progression{a->first + b->first, a->step + b->step};
      case ScalarOp::kSub:
        return Progression{a->first - b->first, a->step - b->step};
      case ScalarOp::kMax:
        return larger(*a, *b);
      case ScalarOp::kMin: {
        const auto larger_one = larger(*a, *b);
        if (!larger_one) return std::nullopt;
        return *larger_one == *a ? b : a;
      }
      default:
        return std::nullopt;
    }
  }

  /// A choice that falls the same way in every iteration: an index is wrapped where it is negative.
  std::optional<Progression> read_select(const Node& node, int depth) {
    const Node* condition = body_.maker(node.operands[0]);
    if (condition == nullptr || condition->op != GraphOp::kElementwise) return std::nullopt;
    const ScalarOp op = std::get<ElementwiseAttrs>(condition->attrs).op;
    if (op != ScalarOp::kLt) return std::nullopt;
    const std::vector<ValueId> compared = condition->operands;
    const auto a = read(compared[0], depth + 1), b = read(compared[1], depth + 1);
    if (!a || !b) return std::nullopt;
    const auto [lowest, highest] =
        bounds_of({a->first - b->first, a->step - b->step}, values_.trips);
    if (lowest >= 0) return read(node.operands[2], depth + 1);
    if (highest < 0) return read(node.operands[1], depth + 1);
    return std::nullopt;
  }

  /// Whichever is never below the other.
  std::optional<Progression> larger(const Progression& a, const Progression& b) const {
    const auto [lowest, highest] = bounds_of({a.first - b.first, a.step - b.step}, values_.trips);
    if (lowest >= 0) return a;
    if (highest <= 0) return b;
    return std::nullopt;
  }

  /// Whether no iteration leaves the type of `v`, in which numbers wrap.
  bool fits(const Progression& p, ValueId v) const {
    if (!is_small(p)) return false;
    const DType type = body_.dtype(v);
    if (!is_integer(type)) return false;
    const bool is_signed = is_signed_integer(type);
    const int64_t bits = std::min<int64_t>(8 * byte_size(type), 62) - (is_signed ? 1 : 0);
    const int64_t high = (int64_t{1} << bits) - 1;
    const auto [lowest, highest] = bounds_of(p, values_.trips);
    return highest <= high && lowest >= (is_signed ? -high - 1 : 0);
  }

  GraphBuilder& body_;
  ValueId counter_;
  const LoopCounter& values_;
  int nodes_ = 0;  ///< read so far, shared ones again
};

/// Rows of an array that come in as slices: one an iteration.
struct ScannedRows {
  size_t leaf = 0;
  Progression rows;
  ValueId slice = kNoValue;  ///< the body's input, without the leading axis
};

class CountedLoop final : public LoopArrays {
 public:
  CountedLoop(InstructionContext& n, const Loop& loop, const LoopCounter& counter)
      : n_(n), loop_(loop), counter_(counter), carried_(loop.inits.size(), false) {
    for (size_t i = 0; i < loop.inits.size(); ++i) {
      const Shape& shape = n.b.shape(loop.inits[i]);
      carried_[i] = shape.empty() || shape[0] < counter.trips;
    }
  }

  Leaves run() {
    do {
      import_body();
    } while (changed_);
    return make_scan();
  }

  ValueId whole(const Deferred& array) override {
    if (loop_.invariant[array.leaf]) return body_->capture(loop_.inits[array.leaf]);
    carry(array.leaf);
    return body_->input(n_.b.type(loop_.inits[array.leaf]));  // until the next attempt
  }

  std::optional<ValueId> read_row(const Deferred& array, ValueId index) override {
    const auto rows = progression(array.leaf, index);
    if (!rows) return std::nullopt;
    if (array.written != kNoValue) {
      const bool same = *rows == Progression{array.first, array.step};
      return same ? std::optional(array.written) : std::nullopt;
    }
    return body_->unsqueeze(scanned_slice(array.leaf, *rows), {0});
  }

  std::optional<Deferred> write_row(const Deferred& array, ValueId row, ValueId index) override {
    const auto rows = progression(array.leaf, index);
    if (!rows || loop_.invariant[array.leaf] || std::abs(rows->step) != 1) return std::nullopt;
    const bool other = *rows != Progression{array.first, array.step};
    if (array.written != kNoValue && other) return std::nullopt;
    return Deferred{this, array.leaf, row, rows->first, rows->step};
  }

 private:
  /// One attempt at the body. What turned out to be read as a whole is carried in the next.
  void import_body() {
    changed_ = false;
    scanned_.clear();
    body_ = std::make_unique<GraphBuilder>(&n_.b);
    Leaves arguments;
    for (size_t i = 0; i < loop_.inits.size(); ++i) {
      const TensorType& type = n_.b.type(loop_.inits[i]);
      const bool has_input = i == counter_.leaf || (carried_[i] && !is_known(i));
      arguments.push_back(has_input ? body_->input(type) : n_.importer().defer({this, i}));
    }
    for (size_t i = 0; i < counter_.companions.size(); ++i) {
      if (counter_.companions[i]) arguments[i] = beside_counter(i, arguments[counter_.leaf]);
    }
    inputs_ = arguments;
    results_ = n_.importer().translate(loop_.body, {arguments}, n_.called_frame(*body_));
    n_.require(results_.size() == loop_.inits.size(), "the body's result is not its parameter's");
    for (size_t i = 0; i < results_.size(); ++i) {
      if (is_known(i)) continue;
      if (carried_[i]) {
        results_[i] = n_.importer().whole(results_[i]);
      } else if (!is_stacked(i)) {
        carry(i);
      }
    }
  }

  /// Whether the value of any iteration is known before the loop.
  bool is_known(size_t leaf) const {
    return leaf == counter_.leaf || loop_.invariant[leaf] || is_companion(leaf);
  }

  bool is_companion(size_t leaf) const {
    return leaf < counter_.companions.size() && counter_.companions[leaf];
  }

  /// A companion's value, from the counter's.
  ValueId beside_counter(size_t leaf, ValueId counter) {
    const DType type = n_.b.dtype(loop_.inits[leaf]);
    const Progression& values = *counter_.companions[leaf];
    const auto number = [&](int64_t value) { return body_->scalar_int(type, value); };
    counter = body_->convert(counter, type);
    if (values.step == counter_.values.step) {
      return body_->add(counter, number(values.first - counter_.values.first));
    }
    return body_->sub(number(values.first + counter_.values.first), counter);
  }

  void carry(size_t leaf) {
    carried_[leaf] = true;
    changed_ = true;
  }

  /// Whether the loop reads and writes one row of the array an iteration, each time another, the
  /// same for reading and writing.
  bool is_stacked(size_t leaf) const {
    const Deferred* result = n_.importer().deferred(results_[leaf]);
    if (result == nullptr || result->loop != this || result->leaf != leaf) return false;
    if (result->written == kNoValue) return true;
    return std::ranges::all_of(scanned_, [&](const ScannedRows& scanned) {
      return scanned.leaf != leaf || scanned.rows == Progression{result->first, result->step};
    });
  }

  /// The rows that an index names in all iterations, where they are different ones of the array.
  std::optional<Progression> progression(size_t leaf, ValueId index) {
    const auto rows = IndexReader(*body_, inputs_[counter_.leaf], counter_).read(index);
    if (!rows || rows->step == 0) return std::nullopt;
    const auto [lowest, highest] = bounds_of(*rows, counter_.trips);
    if (lowest < 0 || highest >= n_.b.shape(loop_.inits[leaf])[0]) return std::nullopt;
    return rows;
  }

  ValueId scanned_slice(size_t leaf, const Progression& rows) {
    for (const ScannedRows& scanned : scanned_) {
      if (scanned.leaf == leaf && scanned.rows == rows) return scanned.slice;
    }
    TensorType type = n_.b.type(loop_.inits[leaf]);
    type.shape.erase(type.shape.begin());
    scanned_.push_back({leaf, rows, body_->input(std::move(type))});
    return scanned_.back().slice;
  }

  /// Whether a result of the body depends on the counter.
  bool reads_counter() const {
    const Graph& graph = body_->graph();
    std::vector<bool> needed(graph.values.size(), false);
    for (const ValueId v : body_->results()) needed[static_cast<size_t>(v)] = true;
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const Node& node = graph.nodes[n];
      const bool used = std::ranges::any_of(
          node.results, [&](ValueId v) { return needed[static_cast<size_t>(v)]; });
      if (!used) continue;
      for (const ValueId v : node.operands) needed[static_cast<size_t>(v)] = true;
    }
    return needed[static_cast<size_t>(inputs_[counter_.leaf])];
  }

  /// The values that the counter takes.
  ValueId counter_values() {
    const DType type = n_.b.dtype(loop_.inits[counter_.leaf]);
    const ValueId steps =
        n_.b.mul(n_.b.iota(type, {counter_.trips}, 0), n_.b.scalar_int(type, counter_.values.step));
    return n_.b.add(steps, n_.b.scalar_int(type, counter_.values.first));
  }

  /// The rows of an array in the order of its memory, of which the scan reads one an iteration.
  ValueId rows_of(const ScannedRows& scanned) {
    const ValueId array = loop_.inits[scanned.leaf];
    Shape extents = n_.b.shape(array);
    std::vector<int64_t> start(extents.size(), 0), step(extents.size(), 1);
    extents[0] = counter_.trips;
    start[0] = bounds_of(scanned.rows, counter_.trips).first;
    step[0] = std::abs(scanned.rows.step);
    return n_.b.slice(array, start, step, extents);
  }

  /// Stacked rows in their place in the array.
  ValueId placed(size_t leaf, ValueId stacked) {
    const Deferred& result = *n_.importer().deferred(results_[leaf]);
    const ValueId array = loop_.inits[leaf];
    const auto [first, last] = bounds_of({result.first, result.step}, counter_.trips);
    std::vector<ValueId> pieces;
    if (first > 0) pieces.push_back(n_.b.slice_axis(array, 0, 0, first));
    pieces.push_back(stacked);
    const int64_t extent = n_.b.extent(array, 0);
    if (last + 1 < extent) pieces.push_back(n_.b.slice_axis(array, 0, last + 1, extent));
    return n_.b.concat(pieces, 0);
  }

  bool is_written(size_t i) const {
    const Deferred* result = n_.importer().deferred(results_[i]);
    return result != nullptr && result->written != kNoValue;
  }

  Leaves make_scan() {
    std::vector<ValueId> carries, xs, ordered;
    std::vector<bool> x_reverse, y_reverse;
    std::vector<size_t> carried, stacked;
    for (size_t i = 0; i < results_.size(); ++i) {
      if (is_known(i)) continue;
      if (carried_[i]) {
        carried.push_back(i);
        carries.push_back(loop_.inits[i]);
        ordered.push_back(inputs_[i]);
        body_->result(results_[i]);
      } else if (is_written(i)) {
        stacked.push_back(i);
      }
    }
    for (const size_t i : stacked) {
      const Deferred& result = *n_.importer().deferred(results_[i]);
      body_->result(body_->squeeze(result.written, {0}));
      y_reverse.push_back(result.step < 0);
    }
    if (scanned_.empty() || reads_counter()) {
      xs.push_back(counter_values());
      ordered.push_back(inputs_[counter_.leaf]);
      x_reverse.push_back(false);
    }
    for (const ScannedRows& scanned : scanned_) {
      xs.push_back(rows_of(scanned));
      ordered.push_back(scanned.slice);
      x_reverse.push_back(scanned.rows.step < 0);
    }
    for (const auto& [outer, inner] : body_->captures()) ordered.push_back(inner);
    body_->graph().inputs = std::move(ordered);
    std::vector<ValueId> made;
    if (!carried.empty() || !stacked.empty()) {
      made = n_.b.make_scan(carries, xs, *body_, x_reverse, y_reverse);
    }
    Leaves results = loop_.inits;
    for (size_t i = 0; i < carried.size(); ++i) results[carried[i]] = made[i];
    for (size_t i = 0; i < stacked.size(); ++i) {
      results[stacked[i]] = placed(stacked[i], made[carried.size() + i]);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (i != counter_.leaf && !is_companion(i)) continue;
      const Progression& values = is_companion(i) ? *counter_.companions[i] : counter_.values;
      const int64_t last = values.first + values.step * counter_.trips;
      results[i] = n_.b.scalar_int(n_.b.dtype(loop_.inits[i]), last);
    }
    return results;
  }

  InstructionContext& n_;
  const Loop& loop_;
  const LoopCounter& counter_;
  std::vector<bool> carried_;  ///< by value: handed on as a whole
  bool changed_ = false;       ///< in this attempt
  std::unique_ptr<GraphBuilder> body_;
  Leaves inputs_, results_;  ///< of the body
  std::vector<ScannedRows> scanned_;
};

}  // namespace

Leaves make_counted_loop(InstructionContext& n, const Loop& loop, const LoopCounter& counter) {
  if (counter.trips == 0) return loop.inits;
  return CountedLoop(n, loop, counter).run();
}

}  // namespace weft::hlo
