#include "kernel/share_literals.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <utility>

#include "kernel/clone_block.h"
#include "support/hash.h"

namespace weft {

namespace {

/// Arguments that a kernel takes for numbers, at most.
constexpr size_t kMostArguments = 64;

bool is_literal(const KernelInstruction& in, const KernelFunction& kernel) {
  if (in.op != KernelOp::kConst) return false;
  const DType type = kernel.type(in.results[0]).dtype;
  return type == DType::kF32 || type == DType::kI32 || type == DType::kI16 || type == DType::kU8;
}

/// Whether the same is made of any number that such an instruction gets: of bounds it is said that
/// they are no NaN.
bool takes_any_number(const KernelInstruction& in, const KernelFunction& kernel) {
  if (in.op == KernelOp::kFma) return true;
  if (in.op != KernelOp::kApply) return false;
  switch (in.as<ApplyPayload>().op) {
    case ScalarOp::kDiv:
      return is_float(kernel.type(in.results[0]).dtype);
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kNeg:
    case ScalarOp::kSelect:
      return true;
    default:
      return false;
  }
}

/// Marks registers that something needs as they are: users before what they use.
void mark_fixed(const KernelFunction& kernel, const KernelBlock& block, std::vector<bool>* fixed) {
  const auto mark = [&](const std::vector<Reg>& registers) {
    for (const Reg r : registers) (*fixed)[static_cast<size_t>(r)] = true;
  };
  mark(block.yields);
  for (const KernelInstruction& in : std::views::reverse(block.body)) {
    for (const KernelBlock& region : in.regions) mark_fixed(kernel, region, fixed);
    const bool spreads = in.op == KernelOp::kBroadcast;
    if (spreads ? (*fixed)[static_cast<size_t>(in.results[0])] : !takes_any_number(in, kernel))
      mark(in.operands);
  }
}

using Literals = std::vector<KernelInstruction*>;

void collect_literals(const KernelFunction& kernel, const std::vector<bool>& fixed,
                      KernelBlock& block, Literals* out) {
  for (KernelInstruction& in : block.body) {
    if (is_literal(in, kernel) && !fixed[static_cast<size_t>(in.results[0])]) out->push_back(&in);
    for (KernelBlock& region : in.regions) collect_literals(kernel, fixed, region, out);
  }
}

/// Numbers of a kernel that may be arguments, in order.
Literals literals_of(KernelFunction& kernel) {
  std::vector<bool> fixed(kernel.types.size(), false);
  for (const KernelPhase& phase : kernel.phases) mark_fixed(kernel, phase.body, &fixed);
  Literals out;
  for (KernelPhase& phase : kernel.phases) collect_literals(kernel, fixed, phase.body, &out);
  return out;
}

/// Of the kernel without these numbers, which it has again afterwards.
Hash128 digest_without(const KernelFunction& kernel, const Literals& literals) {
  std::vector<ScalarValue> values;
  for (KernelInstruction* in : literals) {
    ScalarValue& value = in->as<ConstPayload>().value;
    values.push_back(value);
    value.i = 0;
    value.f = 0;
  }
  const Hash128 digest = kernel_digest(kernel);
  for (size_t i = 0; i < literals.size(); ++i) literals[i]->as<ConstPayload>().value = values[i];
  return digest;
}

int64_t bits_of(const ScalarValue& value) {
  return value.type == DType::kF32 ? std::bit_cast<uint32_t>(static_cast<float>(value.f)) : value.i;
}

/// A number that launches of a kernel bring along.
struct Argument {
  int32_t number = -1;
  bool whole = false;  ///< an integer of 16 bits in float32
};

bool is_whole(const ScalarValue& value) {
  constexpr double kMost = std::numeric_limits<int16_t>::max();
  return value.type == DType::kF32 && std::abs(value.f) <= kMost &&
         value.f == std::trunc(value.f) && !(value.f == 0 && std::signbit(value.f));
}

/// Kernels that are alike but for their numbers.
class AlikeKernels {
 public:
  void add(const KernelOfLaunches& kernel, Literals literals) {
    kernels_.push_back(kernel);
    literals_.push_back(std::move(literals));
  }

  int share() {
    find_arguments();
    if (values_.empty() || values_.size() > kMostArguments) return 0;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      KernelFunction& function = *kernels_[k].function;
      const int32_t first = function.argument_count;
      for (KernelPhase& phase : function.phases) take_arguments(function, first, phase.body);
      function.argument_count += static_cast<int32_t>(values_.size());
      for (const std::vector<int64_t>& of_all : values_)
        kernels_[k].arguments->push_back(of_all[k]);
    }
    return static_cast<int>(kernels_.size());
  }

 private:
  /// One argument for all places at which each kernel has the same number.
  void find_arguments() {
    std::map<std::pair<DType, std::vector<int64_t>>, int32_t> numbers;
    for (size_t place = 0; place < literals_[0].size(); ++place) {
      const auto value_of = [place](const Literals& of_kernel) -> const ScalarValue& {
        return of_kernel[place]->as<ConstPayload>().value;
      };
      const bool whole = std::ranges::all_of(literals_, is_whole, value_of);
      std::vector<int64_t> bits;
      for (const Literals& of_kernel : literals_) {
        const ScalarValue& value = value_of(of_kernel);
        bits.push_back(whole ? static_cast<int64_t>(value.f) : bits_of(value));
      }
      if (std::ranges::count(bits, bits[0]) == std::ssize(bits)) continue;
      const DType type = whole ? DType::kI16 : value_of(literals_[0]).type;
      const auto [at, added] =
          numbers.try_emplace({type, bits}, static_cast<int32_t>(values_.size()));
      if (added) values_.push_back(std::move(bits));
      for (const Literals& of_kernel : literals_)
        arguments_[of_kernel[place]->results[0]] = {at->second, whole};
    }
  }

  void take_arguments(KernelFunction& kernel, int32_t first, KernelBlock& block) {
    std::vector<KernelInstruction> body;
    for (KernelInstruction& in : block.body) {
      for (KernelBlock& region : in.regions) take_arguments(kernel, first, region);
      const auto argument =
          in.op == KernelOp::kConst ? arguments_.find(in.results[0]) : arguments_.end();
      if (argument == arguments_.end()) {
        body.push_back(std::move(in));
        continue;
      }
      const Reg result = in.results[0];
      const KernelType type = kernel.type(result);
      KernelInstruction last = value_of(kernel, first, argument->second, type.dtype, body);
      if (type.lanes == 1) {
        last.results = {result};
      } else {
        const Reg scalar = append(kernel, body, std::move(last), {type.dtype, 1});
        last = {KernelOp::kBroadcast, NoPayload{}, {scalar}};
        last.results = {result};
      }
      body.push_back(std::move(last));
    }
    block.body = std::move(body);
  }

  /// The instruction that makes a number of its argument, with those before it in `body`.
  static KernelInstruction value_of(KernelFunction& kernel, int32_t first, const Argument& argument,
                                    DType type, std::vector<KernelInstruction>& body) {
    const Reg word =
        append(kernel, body, {KernelOp::kArgument, ArgumentPayload{first + argument.number}, {}},
               {DType::kI64, 1});
    if (type != DType::kF32) return {KernelOp::kApply, ApplyPayload{ScalarOp::kConvert}, {word}};
    const Reg narrow = append_apply(kernel, body, ScalarOp::kConvert, {word},
                                    argument.whole ? DType::kI16 : DType::kI32);
    const ScalarOp op = argument.whole ? ScalarOp::kConvert : ScalarOp::kBitcast;
    return {KernelOp::kApply, ApplyPayload{op}, {narrow}};
  }

  std::vector<KernelOfLaunches> kernels_;
  std::vector<Literals> literals_;            ///< of each, at the same places
  std::vector<std::vector<int64_t>> values_;  ///< by argument, of each kernel
  std::map<Reg, Argument> arguments_;         ///< by the register of a number
};

}  // namespace

int share_literals(std::span<const KernelOfLaunches> kernels) {
  std::map<std::pair<uint64_t, uint64_t>, AlikeKernels> alike;
  for (const KernelOfLaunches& kernel : kernels) {
    Literals literals = literals_of(*kernel.function);
    const Hash128 digest = digest_without(*kernel.function, literals);
    alike[{digest.high, digest.low}].add(kernel, std::move(literals));
  }
  int shared = 0;
  for (auto& [digest, group] : alike) shared += group.share();
  return shared;
}

}  // namespace weft
