#include "expr/leaves.h"

#include "expr/node_map.h"
#include "support/check.h"

namespace weft {

namespace {

class LeafReader {
 public:
  explicit LeafReader(std::vector<Leaf>* leaves) : leaves_(*leaves) {}

  void run(const ScalarRef& s) {
    if (s->kind == Scalar::Kind::kConstant) return;
    if (is_shared(s) && !seen_.insert(s.get())) return;
    for (const ScalarRef& o : s->operands) run(o);
    if (s->fill) run(s->fill);
    if (s->kind == Scalar::Kind::kRead) leaves_.push_back({s->symbol, s->indices});
    if (s->kind == Scalar::Kind::kIndex) leaves_.push_back({-1, {s->index}});
  }

 private:
  std::vector<Leaf>& leaves_;
  NodeSet seen_;
};

class LeafWriter {
 public:
  explicit LeafWriter(std::span<Leaf> leaves) : left_(leaves) {}

  ScalarRef run(const ScalarRef& s) {
    if (s->kind == Scalar::Kind::kConstant) return s;
    if (!is_shared(s)) return rebuilt(s);
    if (const ScalarRef* known = done_.find(s.get())) return *known;
    ScalarRef result = rebuilt(s);
    done_.insert(s.get(), result);
    return result;
  }
  bool is_done() const { return left_.empty(); }

 private:
  Leaf& next() {
    WEFT_CHECK(!left_.empty(), "a body has more leaves than are to stand in their places");
    Leaf& leaf = left_.front();
    left_ = left_.subspan(1);
    return leaf;
  }

  ScalarRef rebuilt(const ScalarRef& s) {
    if (s->kind == Scalar::Kind::kIndex) {
      const Leaf& leaf = next();
      return leaf.indices[0] == s->index ? s : scalar_index(leaf.indices[0], s->type);
    }
    std::vector<ScalarRef> operands;
    operands.reserve(s->operands.size());
    bool same = true;
    for (const ScalarRef& o : s->operands) {
      operands.push_back(run(o));
      same = same && operands.back() == o;
    }
    if (s->kind == Scalar::Kind::kApply)
      return same ? s : scalar_apply(s->op, std::move(operands), s->type);
    ScalarRef fill = s->fill ? run(s->fill) : nullptr;
    Leaf& leaf = next();
    if (same && fill == s->fill && leaf.symbol == s->symbol && leaf.indices == s->indices) return s;
    auto read = std::make_shared<Scalar>();
    read->kind = Scalar::Kind::kRead;
    read->type = s->type;
    read->symbol = leaf.symbol;
    read->indices = std::move(leaf.indices);
    read->operands = std::move(operands);
    read->fill = std::move(fill);
    read->next = s->next;
    return read;
  }

  std::span<Leaf> left_;
  NodeMap<ScalarRef> done_;
};

}  // namespace

std::vector<Leaf> leaves_of(const ScalarRef& body) {
  std::vector<Leaf> leaves;
  LeafReader(&leaves).run(body);
  return leaves;
}

void rename_variables(std::span<const IndexExpr> to, std::vector<Leaf>& leaves) {
  const auto renamed = [&](int var) {
    return var < kRuntimeIndexBase ? to[static_cast<size_t>(var)] : IndexExpr::var(var);
  };
  for (Leaf& leaf : leaves) {
    for (IndexExpr& index : leaf.indices) {
      if (index.is_var()) {
        index = renamed(index.var_id());
      } else if (!index.is_const()) {
        index = substitute(index, renamed);
      }
    }
  }
}

ScalarRef with_leaves(const ScalarRef& body, std::vector<Leaf> leaves) {
  LeafWriter writer(leaves);
  ScalarRef out = writer.run(body);
  WEFT_CHECK(writer.is_done(), "a body has fewer leaves than are to stand in their places");
  return out;
}

}  // namespace weft
