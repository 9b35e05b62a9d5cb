#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "import/builder/precision.h"
#include "import/onnx/contraction.h"

namespace weft::onnx {
namespace {

/// An axis label: a letter, or a negative number for an axis under an ellipsis (-1 is the last).
using Label = int;
using Labels = std::vector<Label>;

struct Operand {
  ValueId value = kNoValue;
  Labels labels;  ///< one per axis, each once
};

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int64_t position(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

/// The labels of one term, such as "ij..."; `rank` decides how many axes the ellipsis covers, and
/// a negative rank stands for `ellipsis_rank` axes of it.
Labels parse_term(std::string_view term, int64_t rank, int64_t ellipsis_rank) {
  int64_t letters = 0;
  for (char c : term) letters += std::isalpha(static_cast<unsigned char>(c)) ? 1 : 0;
  Labels labels;
  bool ellipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && !ellipsis) {
      int64_t covered = rank >= 0 ? rank - letters : ellipsis_rank;
      for (int64_t k = covered; k > 0; --k) labels.push_back(static_cast<Label>(-k));
      ellipsis = true;
      i += 2;
    } else {
      refuse_invalid(fmt::format("the equation's term \"{}\" cannot be read", term));
    }
  }
  if (rank >= 0 && static_cast<int64_t>(labels.size()) != rank) {
    refuse_invalid(
        fmt::format("the equation's term \"{}\" does not fit an operand of {} axes", term, rank));
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms;
  std::string output;
  bool has_output = false;
};

Equation parse_equation(std::string_view text) {
  Equation equation;
  std::string plain;
  for (char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) plain += c;
  }
  size_t arrow = plain.find("->");
  equation.has_output = arrow != std::string::npos;
  if (equation.has_output) {
    equation.output = plain.substr(arrow + 2);
    plain.resize(arrow);
  }
  size_t begin = 0;
  for (size_t comma; (comma = plain.find(',', begin)) != std::string::npos; begin = comma + 1) {
    equation.terms.push_back(plain.substr(begin, comma - begin));
  }
  equation.terms.push_back(plain.substr(begin));
  return equation;
}

/// Axis q of x goes, axis p (of the same extent, p < q) becomes their diagonal: both move to the
/// end, and every (extent + 1)-th element of the joined axis stays.
ValueId take_diagonal(GraphBuilder& b, ValueId x, int64_t p, int64_t q) {
  int64_t rank = b.rank(x), extent = b.extent(x, p);
  if (extent >= (int64_t{1} << 31)) refuse_invalid("a repeated label names too large an axis");
  if (b.extent(x, q) != extent) refuse_invalid("a repeated label names axes of different extents");
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != p && i != q) order.push_back(i);
  }
  order.push_back(p);
  order.push_back(q);
  x = b.transpose(x, order);
  Shape joined(b.shape(x).begin(), b.shape(x).end() - 2);
  joined.push_back(extent * extent);
  x = b.reshape(x, joined);
  std::vector<int64_t> start(joined.size(), 0), step(joined.size(), 1);
  step.back() = extent + 1;
  joined.back() = extent;
  x = b.slice(x, start, step, joined);
  std::vector<int64_t> back(joined.size());
  for (int64_t i = 0, next = 0; i < rank - 1; ++i) back[i] = i == p ? rank - 2 : next++;
  return b.transpose(x, back);
}

void remove_repeated_labels(GraphBuilder& b, Operand& operand) {
  for (size_t q = 1; q < operand.labels.size();) {
    int64_t p = position(operand.labels, operand.labels[q]);
    if (p == static_cast<int64_t>(q)) {
      ++q;
      continue;
    }
    operand.value = take_diagonal(b, operand.value, p, static_cast<int64_t>(q));
    operand.labels.erase(operand.labels.begin() + static_cast<int64_t>(q));
  }
}

/// Sums away the labels that `needed` does not hold.
void sum_unneeded(GraphBuilder& b, Operand& operand, const Labels& needed) {
  std::vector<int64_t> axes;
  Labels kept;
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    if (contains(needed, operand.labels[i])) {
      kept.push_back(operand.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  operand.value = b.reduce(Combiner::kSum, operand.value, axes, false);
  operand.labels = std::move(kept);
}

/// Drops axes of extent 1 whose label has a larger extent elsewhere (broadcasting).
void drop_broadcast_axes(GraphBuilder& b, Operand& operand, const std::map<Label, int64_t>& sizes) {
  std::vector<int64_t> axes;
  Labels kept;
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    int64_t axis = static_cast<int64_t>(i), extent = b.extent(operand.value, axis);
    int64_t size = sizes.at(operand.labels[i]);
    if (extent == size) {
      kept.push_back(operand.labels[i]);
    } else if (extent == 1) {
      axes.push_back(axis);
    } else {
      refuse_invalid(
          fmt::format("one label of the equation names extents {} and {}", extent, size));
    }
  }
  operand.value = b.squeeze(operand.value, axes);
  operand.labels = std::move(kept);
}

/// The product of two operands, summed over the labels that are not needed any more.
Operand contract(GraphBuilder& b, Operand x, Operand y, const Labels& needed) {
  const auto serves = [&needed](const Operand& other) {
    Labels all = needed;
    all.insert(all.end(), other.labels.begin(), other.labels.end());
    return all;
  };
  sum_unneeded(b, x, serves(y));
  sum_unneeded(b, y, serves(x));
  DotAttrs attrs;
  Operand result;
  for (Label label : x.labels) {
    if (!contains(y.labels, label)) continue;
    bool stays = contains(needed, label);
    (stays ? attrs.lhs_batch : attrs.lhs_contract).push_back(position(x.labels, label));
    (stays ? attrs.rhs_batch : attrs.rhs_contract).push_back(position(y.labels, label));
    if (stays) result.labels.push_back(label);
  }
  for (Label label : x.labels) {
    if (!contains(y.labels, label)) result.labels.push_back(label);
  }
  for (Label label : y.labels) {
    if (!contains(x.labels, label)) result.labels.push_back(label);
  }
  result.value = b.dot_general(x.value, y.value, attrs, b.dtype(x.value));
  return result;
}

/// Without an arrow the result has the ellipsis first, then the letters that occur once, sorted.
Labels output_labels(const Equation& equation, const std::vector<Operand>& operands,
                     int64_t ellipsis_rank) {
  if (equation.has_output) return parse_term(equation.output, -1, ellipsis_rank);
  std::map<Label, int> count;
  for (const Operand& operand : operands) {
    for (Label label : operand.labels) ++count[label];
  }
  Labels labels;
  for (auto [label, times] : count) {
    if (label < 0 || times == 1) labels.push_back(label);
  }
  return labels;
}

/// The operand's axes in the order of `output`; a label that broadcasting dropped comes back.
ValueId arrange(GraphBuilder& b, const Operand& operand, const Labels& output,
                const std::map<Label, int64_t>& sizes) {
  Shape shape;
  for (Label label : output) shape.push_back(sizes.at(label));
  std::vector<int64_t> order;
  Labels ordered;
  for (Label label : output) {
    if (!contains(operand.labels, label)) continue;
    order.push_back(position(operand.labels, label));
    ordered.push_back(label);
  }
  ValueId value = b.transpose(operand.value, order);
  std::vector<int64_t> dims;
  for (Label label : ordered) dims.push_back(position(output, label));
  return b.broadcast_in_dim(value, shape, dims);
}

}  // namespace

void translate_einsum(OpContext& n) {
  GraphBuilder& b = n.b;
  Equation equation = parse_equation(n.string_attr("equation"));
  n.require(equation.terms.size() == static_cast<size_t>(n.input_count()) && n.input_count() > 0,
            "the equation has another number of terms than the node has inputs");
  std::vector<Operand> operands;
  std::map<Label, int64_t> sizes;
  int64_t ellipsis_rank = 0;
  DType type = b.dtype(n.input(0));
  for (int i = 0; i < n.input_count(); ++i) {
    n.require(b.dtype(n.input(i)) == type, "all inputs must have one type");
    Operand operand{widen(b, n.input(i)), {}};
    operand.labels = parse_term(equation.terms[static_cast<size_t>(i)], b.rank(operand.value), 0);
    for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
      Label label = operand.labels[axis];
      ellipsis_rank = std::max<int64_t>(ellipsis_rank, -label);
      int64_t extent = b.extent(operand.value, static_cast<int64_t>(axis));
      auto [at, fresh] = sizes.emplace(label, extent);
      if (!fresh && at->second == 1) at->second = extent;
    }
    operands.push_back(std::move(operand));
  }
  Labels output = output_labels(equation, operands, ellipsis_rank);
  for (size_t i = 0; i < output.size(); ++i) {
    n.require(sizes.count(output[i]) > 0, "the equation's result has a label that no input has");
    n.require(position(output, output[i]) == static_cast<int64_t>(i),
              "the equation's result repeats a label");
  }
  for (Operand& operand : operands) {
    remove_repeated_labels(b, operand);
    drop_broadcast_axes(b, operand, sizes);
  }
  Operand result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels needed = output;
    for (size_t k = i + 1; k < operands.size(); ++k) {
      needed.insert(needed.end(), operands[k].labels.begin(), operands[k].labels.end());
    }
    result = contract(b, std::move(result), operands[i], needed);
  }
  sum_unneeded(b, result, output);
  n.set_output(0, b.convert(arrange(b, result, output, sizes), type));
}

}  // namespace weft::onnx
