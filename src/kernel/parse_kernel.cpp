#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "kernel/kernel_function.h"
#include "kernel/kernel_op.h"

namespace weft {
namespace {

constexpr int kMaxDepth = 200;  ///< of blocks, as verify_kernel has it
/// Registers are dense, so a text cannot name one far beyond the number of its characters.
constexpr int64_t kMaxListed = int64_t{1} << 24;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

/// Reads the grammar that print() writes. The first error ends it: `ok()` turns false, what follows
/// reads nothing.
class KernelParser {
 public:
  explicit KernelParser(std::string_view text) : text_(text) {}

  Result<KernelFunction> run() {
    expect_word("kernel");
    kernel_.name = quoted();
    expect('{');
    while (ok() && !accept('}')) parse_item();
    skip_space();
    if (ok() && position_ < text_.size()) fail("text after the kernel");
    if (!ok()) return *error_;
    return std::move(kernel_);
  }

 private:
  bool ok() const { return !error_.has_value(); }

  void fail(const std::string& message) {
    if (!ok()) return;
    const std::string_view before = text_.substr(0, std::min(token_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n');
    const size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    error_ = invalid_input(fmt::format("kernel text {}:{}: {}", line, column, message));
  }

  void skip_space() {
    while (position_ < text_.size()) {
      if (text_.substr(position_, 2) == "//") {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t' ||
                 text_[position_] == '\r') {
        ++position_;
      } else {
        break;
      }
    }
    token_ = position_;
  }

  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (!ok() || peek() != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }

  std::string_view peek_word() {
    skip_space();
    size_t end = position_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(position_, end - position_);
  }
  std::string_view word() {
    const std::string_view w = peek_word();
    if (w.empty()) fail("expected a word");
    position_ += w.size();
    return w;
  }
  bool accept_word(std::string_view w) {
    if (!ok() || peek_word() != w) return false;
    position_ += w.size();
    return true;
  }
  void expect_word(std::string_view w) {
    if (!accept_word(w)) fail(fmt::format("expected '{}'", w));
  }

  int64_t number(int64_t low = std::numeric_limits<int64_t>::min(),
                 int64_t high = std::numeric_limits<int64_t>::max()) {
    const std::string_view w = word();
    int64_t value = 0;
    const auto [end, status] = std::from_chars(w.data(), w.data() + w.size(), value);
    if (status != std::errc() || end != w.data() + w.size() || value < low || value > high) {
      fail(fmt::format("'{}' is not a number that fits here", w));
      return 0;
    }
    return value;
  }
  int32_t small_number() { return static_cast<int32_t>(number(0, (int64_t{1} << 31) - 1)); }

  std::string quoted() {
    std::string out;
    if (!accept('"')) fail("expected a quoted name");
    while (ok()) {
      if (position_ >= text_.size()) {
        fail("a name without its closing quote");
      } else if (const char c = text_[position_++]; c == '"') {
        return out;
      } else if (c == '\\') {
        escaped(out);
      } else {
        out += c;
      }
    }
    return out;
  }
  void escaped(std::string& out) {
    const char c = position_ < text_.size() ? text_[position_++] : '\0';
    if (c != 'x') {
      out += c;
      return;
    }
    unsigned value = 0;
    const std::string_view digits = text_.substr(position_, 2);
    const auto [end, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (status != std::errc() || end != digits.data() + 2) fail("an escape that is not one");
    out += static_cast<char>(value);
    position_ += 2;
  }

  DType dtype() { return named(parse_dtype, "an element type"); }

  /// f32, or f32x16. Element types have no 'x' in their names.
  KernelType type() {
    const std::string_view w = word();
    const size_t x = w.find('x');
    const auto element = parse_dtype(w.substr(0, x));
    int32_t lanes = 1;
    bool good = element.has_value();
    if (good && x != std::string_view::npos) {
      const char* last = w.data() + w.size();
      const auto [end, status] = std::from_chars(w.data() + x + 1, last, lanes);
      good = status == std::errc() && end == last && lanes > 1;
    }
    if (!good) fail(fmt::format("'{}' is not a type", w));
    return {element.value_or(DType::kF32), good ? lanes : 1};
  }

  Reg reg() {
    expect('%');
    return static_cast<Reg>(number(0, kMaxListed));
  }

  /// A register where it is defined.
  Reg define(KernelType t, Reg r) {
    const auto index = static_cast<size_t>(r);
    if (index > text_.size()) fail("a register number beyond those of this text");
    if (!ok()) return r;
    if (index >= kernel_.types.size()) kernel_.types.resize(index + 1);
    kernel_.types[index] = t;
    return r;
  }
  Reg typed_reg() {
    const Reg r = reg();
    expect(':');
    return define(type(), r);
  }

  ScalarValue value(DType t) {
    if (!is_float(t)) return int_value(t, number());
    const std::string w(word());
    ScalarValue v;
    v.type = t;
    char* end = nullptr;
    v.f = t == DType::kF64 ? std::strtod(w.c_str(), &end)
                           : static_cast<double>(std::strtof(w.c_str(), &end));
    if (w.empty() || end != w.c_str() + w.size()) fail(fmt::format("'{}' is not a number", w));
    return ok() ? float_value(t, v.f) : v;
  }

  void parse_item() {
    if (accept_word("arguments")) {
      kernel_.argument_count = small_number();
    } else if (accept_word("gpu")) {
      expect_word("blocks");
      kernel_.blocks = number(1);
      expect_word("warps");
      kernel_.warps = static_cast<int32_t>(number(1, 32));
      expect_word("per_sm");
      kernel_.blocks_per_sm = small_number();
      expect_word("shared");
      kernel_.shared_bytes = number(0);
      if (accept_word("cluster"))
        kernel_.cluster = static_cast<int32_t>(number(1, kMostClusterBlocks));
    } else if (accept_word("library")) {
      auto call = parse_library_call(quoted());
      if (!call.ok()) return fail(call.error().message);
      kernel_.library = std::move(*call);
    } else if (accept_word("scratch")) {
      kernel_.scratch_bytes = number(0);
    } else if (accept_word("buffer")) {
      parse_buffer();
    } else if (accept_word("phase")) {
      KernelPhase phase;
      phase.work_items = number();
      expect('(');
      const Reg begin = define({DType::kI64, 1}, reg());
      expect(',');
      const Reg end = define({DType::kI64, 1}, reg());
      expect(')');
      phase.body = block(0);
      phase.body.parameters = {begin, end};
      kernel_.phases.push_back(std::move(phase));
      kernel_.inner_barriers = !kernel_.is_gpu() && has_inner_barrier(kernel_);
    } else {
      fail("expected arguments, gpu, scratch, buffer, phase or '}'");
    }
  }

  void parse_buffer() {
    KernelBuffer b;
    if (number() != static_cast<int64_t>(kernel_.buffers.size())) fail("buffers count from 0");
    b.name = quoted();
    b.kind = named(parse_buffer_kind, "a kind of buffer");
    b.dtype = dtype();
    expect('[');
    b.elements = number(0);
    expect(']');
    expect_word("align");
    b.alignment = small_number();
    if (accept_word("offset")) b.scratch_offset = number(0);
    kernel_.buffers.push_back(std::move(b));
  }

  KernelBlock block(int depth) {
    KernelBlock out;
    expect('{');
    if (depth > kMaxDepth) fail("blocks nest too deeply");
    while (ok() && !accept('}')) {
      if (accept_word("yield")) {
        do {
          out.yields.push_back(reg());
        } while (accept(','));
        expect('}');
        break;
      }
      out.body.push_back(parse_instruction(depth));
    }
    return out;
  }

  KernelInstruction parse_instruction(int depth) {
    // Results of a loop or an if are numbered after what is inside: types first, then the body.
    std::vector<Reg> results;
    if (peek() == '%') {
      do {
        results.push_back(typed_reg());
      } while (accept(','));
      expect('=');
    }
    const auto op = named(parse_kernel_op, "an instruction");
    if (!ok()) return {KernelOp::kConst, ConstPayload{}};
    KernelInstruction in{op, default_payload(op)};
    in.results = std::move(results);
    if (in.op == KernelOp::kFor) {
      parse_for(in, depth);
    } else if (in.op == KernelOp::kIf) {
      in.operands = {reg()};
      in.regions.push_back(block(depth + 1));
      in.regions.push_back(accept_word("else") ? block(depth + 1) : KernelBlock{});
    } else {
      std::visit([&](auto& payload) { read(in, payload); }, in.payload);
    }
    return in;
  }

  void parse_for(KernelInstruction& in, int depth) {
    expect('(');
    std::vector<Reg> parameters{typed_reg()};
    expect('=');
    in.operands = {reg()};
    expect_word("to");
    in.operands.push_back(reg());
    expect_word("step");
    in.operands.push_back(reg());
    while (accept(',')) {
      parameters.push_back(typed_reg());
      expect('=');
      in.operands.push_back(reg());
    }
    expect(')');
    in.regions.push_back(block(depth + 1));
    in.regions[0].parameters = std::move(parameters);
  }

  KernelType result_type(const KernelInstruction& in) const {
    return in.results.empty() ? KernelType{} : kernel_.type(in.results[0]);
  }

  /// %3, %4: as many as there are.
  void read_operands(KernelInstruction& in) {
    while (ok() && peek() == '%' && !starts_next_instruction()) {
      in.operands.push_back(reg());
      if (!accept(',')) break;
    }
  }
  void read_mask(KernelInstruction& in) {
    if (accept_word("mask")) in.operands.push_back(reg());
  }
  /// What masked-off lanes hold, of the result's type; behind a mask only.
  void read_filler(KernelInstruction& in, ScalarValue& filler) {
    if (!mask_operand(in)) return;
    expect_word("else");
    filler = value(result_type(in).dtype);
  }

  // What follows the name, by what the instruction holds, as print() writes it.
  void read(KernelInstruction& in, NoPayload&) { read_operands(in); }
  void read(KernelInstruction& in, ConstPayload& p) { p.value = value(result_type(in).dtype); }
  void read(KernelInstruction&, ArgumentPayload& p) { p.number = small_number(); }
  void read(KernelInstruction& in, ApplyPayload& p) {
    p.op = named(parse_scalar_op, "a scalar operation");
    p.exponent_nonpositive = accept_word("nonpositive");
    read_operands(in);
  }
  void read(KernelInstruction& in, ReduceLanesPayload& p) {
    p.combiner = named(parse_combiner, "a combiner");
    read_operands(in);
  }
  void read(KernelInstruction& in, ExtractPayload& p) {
    read_operands(in);
    p.lane = bracketed_number();
  }
  void read(KernelInstruction& in, ShufflePayload& p) {
    read_operands(in);
    p.lanes = bracketed_numbers(0);
  }
  void read(KernelInstruction& in, LookUpPayload& p) {
    read_operands(in);
    p.entries = bracketed_numbers(INT32_MIN);
  }
  void read(KernelInstruction& in, LoadPayload& p) {
    p.buffer = small_number();
    in.operands = {element()};
    read_mask(in);
    read_filler(in, p.filler);
  }
  void read(KernelInstruction& in, StorePayload& p) {
    p.buffer = small_number();
    in.operands = {element()};
    expect(',');
    in.operands.push_back(reg());
    read_mask(in);
    p.non_temporal = accept_word("non_temporal");
  }
  void read(KernelInstruction& in, PrefetchPayload& p) {
    p.buffer = small_number();
    in.operands = {element()};
    p.for_write = accept_word("write");
  }
  void read(KernelInstruction&, PositionPayload& p) {
    p.position = named(parse_position, "a position");
  }
  void read(KernelInstruction& in, WarpXorPayload& p) {
    read_operands(in);
    p.lane_bits = bracketed_number();
  }
  void read(KernelInstruction&, BarrierPayload& p) {
    p.scope = named(parse_barrier, "a scope of barriers");
  }
  void read(KernelInstruction& in, LoadClusterPayload& p) {
    p.buffer = small_number();
    const Reg offset = element();
    expect_word("of");
    in.operands = {reg(), offset};
    read_mask(in);
    read_filler(in, p.filler);
  }
  void read(KernelInstruction& in, CopyAsyncPayload& p) {
    p.to = small_number();
    in.operands = {element()};
    expect(',');
    p.from = small_number();
    in.operands.push_back(element());
    p.elements = times();
    read_mask(in);
  }
  void read(KernelInstruction&, WaitAsyncPayload& p) { p.groups_left = small_number(); }
  void read(KernelInstruction& in, LoadMatrixPayload& p) {
    p.buffer = small_number();
    in.operands = {element()};
    p.matrices = times();
    p.transposed = accept_word("transposed");
  }
  void read(KernelInstruction& in, MatrixMultiplyPayload& p) {
    p.unit = named(parse_unit, "a matrix unit");
    read_operands(in);
  }

  void read(KernelInstruction& in, GroupMultiplyPayload& p) {
    p.unit = named(parse_unit, "a matrix unit");
    expect_word("columns");
    p.columns = small_number();
    expect_word("depth");
    p.depth = small_number();
    const auto panels = [&](int32_t& buffer, int32_t& panel, bool& across) {
      buffer = small_number();
      const Reg offset = element();
      expect_word("panels");
      panel = small_number();
      across = accept_word("across");
      expect(',');
      return offset;
    };
    const Reg left = panels(p.left, p.left_panel, p.left_across);
    const Reg right = panels(p.right, p.right_panel, p.right_across);
    p.under_way = accept_word("under_way");
    if (p.under_way) expect(',');
    read_operands(in);
    in.operands.insert(in.operands.begin(), {left, right});
  }

  /// The value that a word names.
  template <typename E>
  E named(std::optional<E> (*parse)(std::string_view), std::string_view what) {
    const std::string_view name = word();
    const std::optional<E> value = parse(name);
    if (!value) fail(fmt::format("'{}' is not {}", name, what));
    return value.value_or(E{});
  }
  /// [%3]
  Reg element() {
    expect('[');
    const Reg r = reg();
    expect(']');
    return r;
  }
  /// [3]
  int32_t bracketed_number() {
    expect('[');
    const int32_t n = small_number();
    expect(']');
    return n;
  }
  std::vector<int32_t> bracketed_numbers(int64_t least) {
    std::vector<int32_t> out;
    expect('[');
    do {
      out.push_back(static_cast<int32_t>(number(least, INT32_MAX)));
    } while (accept(','));
    expect(']');
    return out;
  }
  /// x4
  int32_t times() {
    const std::string_view w = word();
    int32_t value = 0;
    const char* last = w.data() + w.size();
    if (!w.starts_with('x') || std::from_chars(w.data() + 1, last, value).ptr != last ||
        value < 1) {
      fail(fmt::format("'{}' is not a count", w));
    }
    return value;
  }

  /// Whether the register at hand is a result: "%3:". Only after an instruction without operands.
  bool starts_next_instruction() {
    size_t p = position_ + 1;
    while (p < text_.size() && text_[p] >= '0' && text_[p] <= '9') ++p;
    return p < text_.size() && text_[p] == ':';
  }

  std::string_view text_;
  size_t position_ = 0, token_ = 0;
  KernelFunction kernel_;
  std::optional<Error> error_;
};

}  // namespace

Result<KernelFunction> parse_kernel(std::string_view text) { return KernelParser(text).run(); }

}  // namespace weft
