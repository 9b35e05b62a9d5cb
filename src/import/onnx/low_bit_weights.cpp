#include <algorithm>
#include <array>

#include "import/builder/numpy_matmul.h"
#include "import/builder/precision.h"
#include "import/onnx/graph_importer.h"
#include "import/onnx/low_bit_numbers.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

ValueId taken_apart(GraphBuilder& b, ValueId bytes, int64_t bits, int64_t axis) {
  if (bits == 8) return bytes;
  Shape shape = b.shape(bytes), along(shape.size(), 1);
  shape[static_cast<size_t>(axis)] = along[static_cast<size_t>(axis)] = 8 / bits;
  ValueId shift = b.mul(b.iota(DType::kU8, along, axis), b.scalar_int(DType::kU8, bits));
  ValueId v = b.binary(ScalarOp::kShr, b.broadcast_to(bytes, shape), b.broadcast_to(shift, shape));
  return b.binary(ScalarOp::kAnd, v, b.scalar_int(DType::kU8, (int64_t{1} << bits) - 1));
}

ValueId unpacked(OpContext& n, ValueId bytes, int64_t bits, int64_t rows, int64_t per_row) {
  GraphBuilder& b = n.b;
  const int64_t in_byte = 8 / bits, width = (per_row + in_byte - 1) / in_byte;
  n.require(b.dtype(bytes) == DType::kU8 && b.size(bytes) == rows * width,
            "the packed numbers do not have the size that N, K and bits say");
  ValueId v = taken_apart(b, b.reshape(bytes, {rows, width, 1}), bits, 2);
  return b.slice_axis(b.reshape(v, {rows, width * in_byte}), 1, 0, per_row);
}

ValueId repeated(GraphBuilder& b, ValueId v, int64_t axis, int64_t block, int64_t extent) {
  Shape shape = b.shape(v);
  const auto at = static_cast<size_t>(axis);
  block = std::min(block, extent);
  shape.insert(shape.begin() + axis + 1, block);
  v = b.broadcast_to(b.unsqueeze(v, {axis + 1}), shape);
  shape[at] *= block;
  shape.erase(shape.begin() + axis + 1);
  return b.slice_axis(b.reshape(v, shape), axis, 0, extent);
}

namespace {

/// A times the transpose of weights [N, K] in few bits, with a scale and a zero point for each
/// block of block_size along K.
void translate_matmul_n_bits(OpContext& n) {
  GraphBuilder& b = n.b;
  const int64_t bits = n.int_attr("bits", 4), block = n.int_attr("block_size");
  const int64_t columns = n.int_attr("N"), depth = n.int_attr("K");
  n.require(bits == 2 || bits == 4 || bits == 8, "bits must be 2, 4 or 8");
  constexpr int64_t kMost = int64_t{1} << 31;
  n.require(block >= 8 && columns > 0 && depth > 0 && block < kMost && columns < kMost &&
                depth < kMost && block % 8 == 0,
            "N, K or block_size is out of range");
  if (n.has_input(4)) n.unsupported("g_idx");
  const int64_t blocks = (depth + block - 1) / block;
  const DType type = b.dtype(n.input(0)), wide = working_type(type);
  ValueId w = b.convert(unpacked(n, n.input(1), bits, columns * blocks, block), wide);
  const Shape blocked = {columns, blocks, block}, parameter = {columns, blocks, 1};
  n.require(b.size(n.input(2)) == columns * blocks, "scales must be one for each block");
  ValueId scale = b.reshape(b.convert(n.input(2), wide), parameter);
  ValueId zero = b.scalar(wide, static_cast<double>(int64_t{1} << (bits - 1)));
  if (n.has_input(3)) {
    zero = n.input(3);
    if (!is_float(b.dtype(zero))) zero = unpacked(n, zero, bits, columns, blocks);
    n.require(b.size(zero) == columns * blocks, "zero points must be one for each block");
    zero = b.reshape(b.convert(zero, wide), parameter);
  }
  w = b.mul(b.sub(b.reshape(w, blocked), zero), scale);
  w = b.slice_axis(b.reshape(w, {columns, blocks * block}), 1, 0, depth);
  ValueId y = numpy_matmul(b, widen(b, n.input(0)), b.swap_axes(w, 0, 1), wide);
  if (n.has_input(5)) y = b.add(y, widen(b, n.input(5)));
  n.set_output(0, b.convert(y, type));
}

constexpr std::array<float, 16> kFp4 = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
/// Quantiles of the normal distribution (Dettmers et al., QLoRA, 2023, appendix E).
constexpr std::array<float, 16> kNf4 = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};

/// A times weights [N, K] (or their transpose), whose elements in row-major order are codes of 4
/// bits, the first of a byte in its upper half, of a table; one factor for each block of them.
void translate_matmul_bnb4(OpContext& n) {
  GraphBuilder& b = n.b;
  const int64_t block = n.int_attr("block_size"), rows = n.int_attr("N"), depth = n.int_attr("K");
  constexpr int64_t kMost = int64_t{1} << 31;
  n.require(block >= 16 && block < kMost && rows > 0 && rows < kMost && depth > 0 && depth < kMost,
            "N, K or block_size is out of range");
  const int64_t type_number = n.int_attr("quant_type"), count = rows * depth;
  n.require(type_number == 0 || type_number == 1, "quant_type must be 0 (FP4) or 1 (NF4)");
  const int64_t bytes = (count + 1) / 2, blocks = (count + block - 1) / block;
  const DType type = b.dtype(n.input(0)), wide = working_type(type);
  ValueId codes = b.reverse(unpacked(n, b.reshape(n.input(1), {bytes}), 4, bytes, 2), 1);
  codes = b.slice_axis(b.reshape(codes, {2 * bytes}), 0, 0, count);
  const auto& values = type_number == 0 ? kFp4 : kNf4;
  HostTensor table(DType::kF32, {16});
  std::ranges::copy(values, table.mutable_data<float>());
  ValueId w =
      b.gather(b.convert(b.constant(std::move(table)), wide), b.convert(codes, DType::kI64), 0);
  n.require(b.size(n.input(2)) == blocks, "absmax must be one for each block");
  ValueId scale = repeated(b, b.reshape(b.convert(n.input(2), wide), {blocks}), 0, block, count);
  w = b.reshape(b.mul(w, scale), {rows, depth});
  if (n.bool_attr("transB", true)) w = b.swap_axes(w, 0, 1);
  n.set_output(0, b.convert(numpy_matmul(b, widen(b, n.input(0)), w, wide), type));
}

/// A table in few bits that is gathered from, rows first: what the indices choose is rescaled, not
/// the table.
class BlockQuantizedTable {
 public:
  explicit BlockQuantizedTable(OpContext& n)
      : n_(n), b_(n.b), narrow_(narrow_input(n, 0)), bits_(n.int_attr("bits", 4)) {
    const Shape& shape = b_.shape(n.input(0));
    const auto rank = static_cast<int64_t>(shape.size());
    gather_axis_ = n.axis_attr("gather_axis", 0, rank);
    quantize_axis_ = n.axis_attr("quantize_axis", 1, rank);
    n.require(bits_ == 2 || bits_ == 4 || bits_ == 8, "bits must be 2, 4 or 8");
    n.require(narrow_ || b_.dtype(n.input(0)) == DType::kU8,
              "data must be uint8 or of a type of at most 8 bits");
    n.require(!is_packed() || (gather_axis_ == 0 && quantize_axis_ != 0),
              "uint8 data is gathered along axis 0 and quantised along another one");
    n.require(b_.rank(n.input(2)) == rank && is_float(b_.dtype(n.input(2))),
              "scales must be of floats and have the rank of data");
    n.require(!n.has_input(3) || !is_float_code(), "data of floats has no zero points");
    block_ = n.int_attr("block_size", 128);
    if (block_ == 0 && is_float_code())
      block_ = std::max<int64_t>(shape[static_cast<size_t>(quantize_axis_)], 1);
    n.require(block_ >= 1 && block_ <= int64_t{1} << 31, "block_size is out of range");
  }

  ValueId gather(ValueId indices) {
    const int64_t extent = b_.extent(n_.input(0), gather_axis_);
    indices = b_.convert(b_.wrap_indices(indices, extent), DType::kI64);
    ValueId inside = b_.binary(ScalarOp::kAnd, b_.binary(ScalarOp::kGe, indices, int_of(0)),
                               b_.binary(ScalarOp::kLt, indices, int_of(extent)));
    indices = b_.max(b_.min(indices, int_of(extent - 1)), int_of(0));
    const DType type = b_.dtype(n_.input(2)), wide = working_type(type);
    ValueId y = b_.gather(n_.input(0), indices, gather_axis_);
    if (is_packed()) y = unpacked_last(y, b_.extent(y, -1) * 8 / bits_);
    y = is_float_code() ? b_.convert(decode_small_float(b_, y, *narrow_->as_float), wide)
                        : b_.convert(y, wide);
    const Shape shape = b_.shape(y);
    if (n_.has_input(3)) {
      y = b_.sub(y, parameter(n_.input(3), indices, shape, is_packed(), wide));
    } else if (is_packed()) {
      y = b_.sub(y, static_cast<double>(int64_t{1} << (bits_ - 1)));
    }
    y = b_.mul(y, parameter(n_.input(2), indices, shape, false, wide));
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < b_.rank(indices); ++i) axes.push_back(gather_axis_ + i);
    inside = b_.broadcast_in_dim(inside, shape, axes);
    return b_.convert(b_.select(inside, y, b_.broadcast_to(b_.scalar(wide, 0), shape)), type);
  }

 private:
  bool is_packed() const { return !narrow_; }
  bool is_float_code() const { return narrow_ && narrow_->as_float != nullptr; }
  ValueId int_of(int64_t value) { return b_.scalar_int(DType::kI64, value); }

  ValueId unpacked_last(ValueId v, int64_t per_row) {
    Shape shape = b_.shape(v);
    const int64_t rows = shape.back() == 0 ? 0 : b_.size(v) / shape.back();
    shape.back() = per_row;
    return b_.reshape(unpacked(n_, v, bits_, rows, per_row), shape);
  }

  /// The scale or zero point of each element of what was gathered.
  ValueId parameter(ValueId v, ValueId indices, const Shape& shape, bool packed, DType wide) {
    const int64_t rows = b_.extent(n_.input(0), gather_axis_);
    const int64_t needed = gather_axis_ == quantize_axis_ ? (rows + block_ - 1) / block_ : rows;
    const bool of_all = is_float_code() && b_.extent(v, gather_axis_) == 1;
    n_.require(of_all || b_.extent(v, gather_axis_) == needed,
               "scales and zero points must be one for each block of what is gathered from");
    if (gather_axis_ == quantize_axis_) {
      indices = b_.binary(ScalarOp::kDiv, indices, int_of(block_));
    } else if (of_all) {
      indices = b_.broadcast_to(int_of(0), b_.shape(indices));
    }
    v = b_.gather(v, indices, gather_axis_);
    if (gather_axis_ == quantize_axis_) return b_.broadcast_to(b_.convert(v, wide), shape);
    const int64_t axis =
        quantize_axis_ < gather_axis_ ? quantize_axis_ : quantize_axis_ + b_.rank(indices) - 1;
    const int64_t extent = shape[static_cast<size_t>(axis)],
                  blocks = (extent + block_ - 1) / block_;
    const int64_t last = static_cast<int64_t>(shape.size()) - 1;
    if (packed) v = unpacked_last(v, axis == last ? blocks : shape.back());
    n_.require(b_.extent(v, axis) == blocks, "scales and zero points must be one for each block");
    return b_.broadcast_to(repeated(b_, b_.convert(v, wide), axis, block_, extent), shape);
  }

  OpContext& n_;
  GraphBuilder& b_;
  std::optional<NarrowType> narrow_;
  int64_t bits_, block_ = 0, gather_axis_ = 0, quantize_axis_ = 0;
};

void translate_gather_block_quantized(OpContext& n) {
  n.set_output(0, BlockQuantizedTable(n).gather(n.input(1)));
}

const Translator kRows[] = {
    {"com.microsoft", "GatherBlockQuantized", 1, translate_gather_block_quantized},
    {"com.microsoft", "MatMulBnb4", 1, translate_matmul_bnb4},
    {"com.microsoft", "MatMulNBits", 1, translate_matmul_n_bits},
};

}  // namespace

TranslatorTable low_bit_translators() { return kRows; }

}  // namespace weft::onnx
