#include "driver/report/kernel_texts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/cpu/compile_kernel.h"
#include "codegen/cuda/emit_cuda.h"
#include "driver/print_level.h"

namespace weft {

namespace {

/// A page stays under 2 MB with these: of one text, of all tile programs, of all code.
constexpr size_t kMostOfOne = 48 << 10, kMostOfTiles = 512 << 10, kMostOfCode = 640 << 10;

/// A kernel with what a run of the model spends on it.
struct Costed {
  const PlannedKernel* kernel = nullptr;
  double us = 0;
};

void list_kernels(const FusionPlan& plan, const TensorProgram& program, int64_t times,
                  std::vector<Costed>* out) {
  for (const FusionPlan::Step& step : plan.order) {
    const auto index = static_cast<size_t>(step.index);
    if (!step.opaque) {
      const PlannedKernel& kernel = plan.kernels[index];
      out->push_back({&kernel, static_cast<double>(times) * kernel.schedule.estimate.microseconds});
      continue;
    }
    const OpaqueExpr& opaque = program.opaques[index];
    const int64_t inner = region_runs(program, opaque, plan.regions[index], times);
    for (size_t r = 0; r < plan.regions[index].size(); ++r)
      list_kernels(*plan.regions[index][r], *opaque.regions[r], inner, out);
  }
}

/// Up to a line's end, with a last line that says what is missing.
std::string cut(std::string text) {
  if (text.size() <= kMostOfOne) return text;
  const size_t end = text.rfind('\n', kMostOfOne);
  const size_t kept = end == std::string::npos ? 0 : end + 1;
  const auto lines = std::count(text.begin() + static_cast<ptrdiff_t>(kept), text.end(), '\n');
  text.resize(kept);
  return text + "… " + std::to_string(lines) + " more lines: weft dump --stage\n";
}

/// Takes `text` from what is left of a size; false where there is not enough.
bool spend(const std::string& text, size_t* left) {
  if (text.size() > *left) return false;
  *left -= text.size();
  return true;
}

/// Code by what it is made from: kernels that differ in names alone have the same.
class CodeTexts {
 public:
  explicit CodeTexts(const Compilation& c) : c_(c) {
    for (const CompiledKernel& kernel : c.kernels) compiled_[kernel.planned] = &kernel;
  }

  /// Adds those of a kernel, if there is room or another has the same.
  Status add(const PlannedKernel* planned, KernelTexts* texts) {
    const auto at = compiled_.find(planned);
    if (at == compiled_.end()) return {};
    const KernelFunction& f = at->second->function;
    const Hash128 digest = kernel_digest(f);
    auto known = known_.find(digest);
    if (known == known_.end()) {
      if (left_ == 0) return {};
      WEFT_ASSIGN_OR_RETURN(std::string code, code_of(f));
      Pair pair{cut(print(f)), cut(std::move(code))};
      if (!spend(pair.kernel + pair.code, &left_)) {
        left_ = 0;
        return {};
      }
      known = known_.emplace(digest, std::move(pair)).first;
    }
    texts->kernel = known->second.kernel;
    texts->code = known->second.code;
    for (const KernelBuffer& buffer : f.buffers) texts->buffers.push_back(buffer.name);
    return {};
  }

 private:
  struct Pair {
    std::string kernel, code;
  };

  Result<std::string> code_of(const KernelFunction& f) const {
    if (f.is_gpu()) return emit_cuda(f).text;
    return kernel_code_text(f, c_.target);
  }

  const Compilation& c_;
  std::map<const PlannedKernel*, const CompiledKernel*> compiled_;
  std::map<Hash128, Pair> known_;
  size_t left_ = kMostOfCode;
};

}  // namespace

Result<std::vector<KernelTexts>> kernel_texts(const Compilation& c) {
  std::vector<Costed> kernels;
  list_kernels(c.plan, c.tensors, 1, &kernels);
  std::vector<size_t> by_cost(kernels.size());
  std::iota(by_cost.begin(), by_cost.end(), size_t{0});
  std::ranges::sort(by_cost, {}, [&](size_t k) { return std::pair(-kernels[k].us, k); });
  std::vector<KernelTexts> texts(kernels.size());
  CodeTexts code(c);
  size_t tiles_left = kMostOfTiles;
  for (const size_t k : by_cost) {
    std::string tile = cut(tile_text(*kernels[k].kernel));
    if (spend(tile, &tiles_left)) texts[k].tile = std::move(tile);
    WEFT_RETURN_IF_ERROR(code.add(kernels[k].kernel, &texts[k]));
  }
  return texts;
}

}  // namespace weft
