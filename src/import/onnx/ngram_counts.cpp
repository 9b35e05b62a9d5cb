#include "import/onnx/ngram_counts.h"

#include <algorithm>

namespace weft::onnx {
namespace {

struct Pool {
  std::vector<int64_t> tokens, starts, columns;
  int64_t min_length = 1, max_length = 1, max_skip = 0;

  /// Tokens of the n-grams of one length, one after the other.
  std::span<const int64_t> section(int64_t length) const {
    auto i = static_cast<size_t>(length - 1);
    if (i >= starts.size()) return {};
    auto begin = static_cast<size_t>(starts[i]);
    auto end = i + 1 < starts.size() ? static_cast<size_t>(starts[i + 1]) : tokens.size();
    return std::span(tokens).subspan(begin, end - begin);
  }
};

Pool read_pool(OpContext& n) {
  Pool pool;
  auto tokens = n.ints_attr("pool_int64s");
  if (!tokens) n.unsupported("n-grams of strings");
  pool.tokens = *tokens;
  pool.starts = n.ints_attr("ngram_counts", {});
  pool.columns = n.ints_attr("ngram_indexes", {});
  pool.min_length = n.int_attr("min_gram_length");
  pool.max_length = n.int_attr("max_gram_length");
  pool.max_skip = n.int_attr("max_skip_count");
  n.require(pool.min_length >= 1 && pool.max_length >= pool.min_length && pool.max_length <= 64 &&
                pool.max_skip >= 0 && pool.max_skip <= 64,
            "the n-gram lengths or skips are out of range");
  auto size = static_cast<int64_t>(pool.tokens.size());
  n.require(std::is_sorted(pool.starts.begin(), pool.starts.end()) &&
                std::all_of(pool.starts.begin(), pool.starts.end(),
                            [&](int64_t start) { return start >= 0 && start <= size; }),
            "ngram_counts must be ascending positions in the pool");
  size_t count = 0;
  for (int64_t length = 1; length <= static_cast<int64_t>(pool.starts.size()); ++length) {
    n.require(pool.section(length).size() % static_cast<size_t>(length) == 0,
              "the pool holds a part of an n-gram");
    count += pool.section(length).size() / static_cast<size_t>(length);
  }
  n.require(count == pool.columns.size(), "ngram_indexes must have one column per n-gram");
  n.require(std::all_of(pool.columns.begin(), pool.columns.end(),
                        [](int64_t c) { return c >= 0 && c < (int64_t{1} << 24); }),
            "ngram_indexes is out of range");
  return pool;
}

/// Occurrences [N, P] of the P n-grams of one length in x [N, L] whose tokens are `step` apart.
ValueId count_grams(GraphBuilder& b, ValueId x, std::span<const int64_t> grams, int64_t length,
                    int64_t step) {
  auto count = static_cast<int64_t>(grams.size()) / length;
  int64_t windows = b.extent(x, 1) - (length - 1) * step;
  if (windows <= 0) return b.full(DType::kF32, {b.extent(x, 0), count}, 0);
  ValueId hit = kNoValue;
  for (int64_t j = 0; j < length; ++j) {
    std::vector<int64_t> wanted;
    for (int64_t p = 0; p < count; ++p)
      wanted.push_back(grams[static_cast<size_t>(p * length + j)]);
    ValueId token = b.unsqueeze(b.slice_axis(x, 1, j * step, j * step + windows), {2});
    ValueId equal = b.binary(ScalarOp::kEq, token, b.constant_ints(wanted));
    hit = hit == kNoValue ? equal : b.binary(ScalarOp::kAnd, hit, equal);
  }
  return b.reduce(Combiner::kSum, b.convert(hit, DType::kF32), {1}, false);
}

/// Values [N, pool] with each n-gram in its column; columns without one are 0.
ValueId place_columns(GraphBuilder& b, ValueId values, const Pool& pool) {
  int64_t grams = static_cast<int64_t>(pool.columns.size()), width = 0;
  for (int64_t column : pool.columns) width = std::max(width, column + 1);
  std::vector<int64_t> source(static_cast<size_t>(width), grams);
  for (int64_t p = 0; p < grams; ++p) {
    source[static_cast<size_t>(pool.columns[static_cast<size_t>(p)])] = p;
  }
  values = b.pad(values, b.scalar(DType::kF32, 0), {0, 0}, {0, 1});
  return b.gather(values, b.constant_ints(source), 1);
}

}  // namespace

void translate_tf_idf_vectorizer(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = b.convert(n.input(0), DType::kI64);
  bool vector = b.rank(x) == 1;
  if (vector) x = b.unsqueeze(x, {0});
  n.require(b.rank(x) == 2, "the input must have one axis or two");
  Pool pool = read_pool(n);
  std::vector<ValueId> counts;
  for (int64_t length = 1; length <= static_cast<int64_t>(pool.starts.size()); ++length) {
    std::span<const int64_t> grams = pool.section(length);
    if (grams.empty()) continue;
    ValueId sum =
        b.full(DType::kF32, {b.extent(x, 0), static_cast<int64_t>(grams.size()) / length}, 0);
    // A single token is the same at every distance: it counts once.
    int64_t steps = length == 1 ? 1 : pool.max_skip + 1;
    if (length < pool.min_length || length > pool.max_length) steps = 0;
    for (int64_t step = 1; step <= steps; ++step) {
      sum = b.add(sum, count_grams(b, x, grams, length, step));
    }
    counts.push_back(sum);
  }
  n.require(!counts.empty(), "the pool is empty");
  ValueId y = b.concat(counts, 1);
  std::string mode = n.string_attr("mode");
  n.require(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode must be TF, IDF or TFIDF");
  if (mode == "IDF") y = b.min(y, 1.0);
  auto weights = n.floats_attr("weights");
  if (mode != "TF" && weights) {
    n.require(weights->size() == pool.columns.size(), "weights must have one number per n-gram");
    std::vector<double> values(weights->begin(), weights->end());
    y = b.mul(y, b.constant_floats(DType::kF32, values, {b.extent(y, 1)}));
  }
  y = place_columns(b, y, pool);
  n.set_output(0, vector ? b.squeeze(y, {0}) : y);
}

}  // namespace weft::onnx
