#include "kernel/prefetch_windows.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernel/address_sum.h"
#include "kernel/clone_block.h"
#include "kernel/definitions.h"
#include "kernel/request_line.h"

namespace weft {

namespace {

/// Lines of a tile that are asked for at most: processors wait for few at once.
constexpr size_t kMostLines = 48;

/// A load inside the loops that make a tile's sums, and these loops, outermost first.
struct TapLoad {
  const KernelInstruction* load = nullptr;
  std::vector<const KernelInstruction*> loops;
};

class WindowPrefetcher {
 public:
  WindowPrefetcher(KernelFunction& kernel, const Target& target)
      : kernel_(kernel), target_(target), definitions_(definitions_of(kernel)) {}

  bool run() {
    for (KernelPhase& phase : kernel_.phases) walk(phase.body, nullptr, nullptr);
    return changed_;
  }

 private:
  void walk(KernelBlock& block, const KernelInstruction* tiles, const KernelInstruction* rows) {
    for (size_t i = 0; i < block.body.size(); ++i) {
      KernelInstruction& in = block.body[i];
      const bool loop = in.op == KernelOp::kFor;
      const bool sums = loop && !in.results.empty();
      if (sums && rows != nullptr) {
        std::vector<KernelInstruction> requests = requests_for(in, *tiles, *rows);
        changed_ |= !requests.empty();
        const auto at = block.body.begin() + static_cast<std::ptrdiff_t>(i);
        i += requests.size();
        block.body.insert(at, std::make_move_iterator(requests.begin()),
                          std::make_move_iterator(requests.end()));
        continue;
      }
      for (KernelBlock& region : in.regions) walk(region, loop ? &in : tiles, loop ? tiles : rows);
    }
  }

  void find_loads(const KernelInstruction& loop, std::vector<const KernelInstruction*> loops,
                  std::vector<TapLoad>& out) {
    loops.push_back(&loop);
    const KernelBlock& block = loop.regions[0];
    inside_.insert(block.parameters.begin(), block.parameters.end());
    for (const KernelInstruction& in : block.body) {
      inside_.insert(in.results.begin(), in.results.end());
      if (in.op == KernelOp::kLoad) out.push_back({&in, loops});
      if (in.op == KernelOp::kFor) find_loads(in, loops, out);
    }
  }

  std::optional<int64_t> steps_with(Reg r, const KernelInstruction& loop) const {
    const std::optional<int64_t> moved = moves_with(definitions_, r, loop.regions[0].parameters[0]);
    const std::optional<int64_t> step = number_in(definitions_, loop.operands[2]);
    if (!moved || !step) return std::nullopt;
    return *moved * *step;
  }

  std::vector<KernelInstruction> requests_for(const KernelInstruction& sums,
                                              const KernelInstruction& tiles,
                                              const KernelInstruction& rows) {
    inside_.clear();
    std::vector<TapLoad> loads;
    find_loads(sums, {}, loads);
    std::vector<BufferPlace> lines;
    for (const TapLoad& tap : loads) {
      const std::optional<int64_t> row = row_apart(*tap.load, tiles, rows);
      if (row && !add_lines(tap, *row, lines)) return {};
      if (lines.size() > kMostLines) return {};
    }
    return are_foreseen(lines) ? std::vector<KernelInstruction>{} : requests(lines);
  }

  /// Whether most lie one behind the other: pixels next to each other, or with many channels.
  bool are_foreseen(const std::vector<BufferPlace>& lines) const {
    const auto lies_behind = [&](const BufferPlace& l) {
      const int64_t size = byte_size(kernel_.buffers[static_cast<size_t>(l.buffer)].dtype);
      return std::ranges::any_of(lines, [&](const BufferPlace& before) {
        return before.buffer == l.buffer && before.at.terms == l.at.terms &&
               before.at.constant == l.at.constant - kLineBytes / size;
      });
    };
    return 4 * std::ranges::count_if(lines, lies_behind) > 3 * std::ssize(lines);
  }

  /// How far the next row is; nothing where the load is none of an image's in rows far apart.
  std::optional<int64_t> row_apart(const KernelInstruction& load, const KernelInstruction& tiles,
                                   const KernelInstruction& rows) const {
    const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(load.as<LoadPayload>().buffer)];
    const int64_t size = byte_size(b.dtype);
    if (b.kind != KernelBuffer::Kind::kInput || b.elements * size <= target_.l2_bytes / 8)
      return std::nullopt;
    const std::optional<int64_t> row = steps_with(load.operands[0], rows);
    const std::optional<int64_t> tile = steps_with(load.operands[0], tiles);
    const bool shared = tile == 0 && kernel_.type(load.results[0]).lanes > 1;
    if (!row || !tile || shared || std::abs(*row) * size < kLineBytes) return std::nullopt;
    return row;
  }

  /// The lines that a load takes in with the next row: of the loop that walks rows, too, its last
  /// steps, of others all. False where that cannot be said.
  bool add_lines(const TapLoad& tap, int64_t row, std::vector<BufferPlace>& lines) const {
    const int32_t buffer = tap.load->as<LoadPayload>().buffer;
    const int64_t size = byte_size(kernel_.buffers[static_cast<size_t>(buffer)].dtype);
    const int64_t line = kLineBytes / size;
    std::map<Reg, AddressSum> at;
    int64_t elements = 1, fresh = 0, apart = 0;
    for (const KernelInstruction* loop : tap.loops) {
      const std::optional<int64_t> moved = steps_with(tap.load->operands[0], *loop);
      if (!moved) return false;
      const bool walks_rows =
          fresh == 0 && std::abs(*moved) >= line && row % *moved == 0 && row / *moved > 0;
      at[loop->regions[0].parameters[0]] =
          address_sum(definitions_, loop->operands[walks_rows ? 1 : 0], at);
      if (walks_rows) {
        fresh = row / *moved;
        apart = *moved;
        continue;
      }
      const std::optional<int64_t> turns = turns_of(*loop);
      if (*moved != 0 && !turns) return false;
      if (*moved != 0) elements += (*turns - 1) * std::abs(*moved);
    }
    const AddressSum first = address_sum(definitions_, tap.load->operands[0], at);
    const bool known = std::ranges::none_of(
        first.terms, [&](const auto& term) { return inside_.contains(term.first); });
    if (fresh == 0 || !known || fresh > static_cast<int64_t>(kMostLines)) return false;
    for (int64_t r = 1; r <= fresh; ++r) {
      for (int64_t l = 0; l < elements && lines.size() <= kMostLines; l += line)
        add_line({buffer, {first.terms, first.constant + row - r * apart + l}}, lines);
    }
    return true;
  }

  std::optional<int64_t> turns_of(const KernelInstruction& loop) const {
    const std::optional<int64_t> begin = number_in(definitions_, loop.operands[0]),
                                 end = number_in(definitions_, loop.operands[1]),
                                 step = number_in(definitions_, loop.operands[2]);
    if (!begin || !end || !step || *step < 1) return std::nullopt;
    return (*end - *begin + *step - 1) / *step;
  }

  void add_line(BufferPlace added, std::vector<BufferPlace>& lines) const {
    const auto asked = [&](const BufferPlace& l) { return in_one_line(kernel_, l, added); };
    if (std::ranges::none_of(lines, asked)) lines.push_back(std::move(added));
  }

  std::vector<KernelInstruction> requests(const std::vector<BufferPlace>& lines) {
    std::vector<KernelInstruction> out;
    const auto constant = [&](int64_t value) {
      return append_constant(kernel_, out, {DType::kI64, 1}, int_value(DType::kI64, value));
    };
    const auto apply = [&](ScalarOp op, Reg a, Reg b) {
      return append_apply(kernel_, out, op, {a, b}, DType::kI64);
    };
    std::map<std::map<Reg, int64_t>, Reg> bases;
    for (const BufferPlace& line : lines) {
      auto base = bases.find(line.at.terms);
      if (base == bases.end()) {
        Reg sum = kNoReg;
        for (const auto& [term, factor] : line.at.terms) {
          const Reg product = apply(ScalarOp::kMul, term, constant(factor));
          sum = sum == kNoReg ? product : apply(ScalarOp::kAdd, sum, product);
        }
        base = bases.emplace(line.at.terms, sum).first;
      }
      const Reg further = constant(line.at.constant);
      const Reg address =
          base->second == kNoReg ? further : apply(ScalarOp::kAdd, base->second, further);
      append_request(kernel_, out, line.buffer, address);
    }
    return out;
  }

  KernelFunction& kernel_;
  const Target& target_;
  Definitions definitions_;
  std::set<Reg> inside_;  ///< defined by the loops that make the sums
  bool changed_ = false;
};

}  // namespace

bool prefetch_windows(KernelFunction& kernel, const Target& target) {
  return WindowPrefetcher(kernel, target).run();
}

}  // namespace weft
