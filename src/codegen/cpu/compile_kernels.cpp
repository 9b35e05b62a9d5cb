#include "codegen/cpu/compile_kernels.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "support/for_each_in_parallel.h"

#include "codegen/cpu/code_features.h"

namespace weft {
namespace {

/// An internal check that fails on a helper thread must not end the process.
Result<KernelImage> compile_guarded(const KernelFunction& kernel, const Target& target) {
  try {
    return compile_kernel(kernel, target);
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, "kernel '" + kernel.name + "': " + error.what()};
  }
}

/// A distinct kernel of a list.
struct DistinctKernel {
  const KernelFunction* function = nullptr;
  const KernelImage* found = nullptr;  ///< its code, where the caller had it
  Hash128 key;
};

/// A kernel's code: the caller's, the cache's, or made here.
struct MadeCode {
  Result<KernelImage> image;
  bool from_cache = false;
};
MadeCode find_or_compile(const DistinctKernel& kernel, const Target& target, KernelCache* cache) {
  const std::string& name = kernel.function->name;
  std::optional<KernelImage> known;
  if (kernel.found != nullptr) known = *kernel.found;
  if (!known && cache != nullptr) known = cache->find(kernel.key);
  if (known) {
    known->name = name;
    return {std::move(*known), true};
  }
  Result<KernelImage> made = compile_guarded(*kernel.function, target);
  if (cache != nullptr && made.ok()) cache->insert(kernel.key, *made);
  return {std::move(made), false};
}

/// Counts kernels as they get done, and asks the caller whether to go on.
class Watch {
 public:
  Watch(const std::function<Status(int64_t, int64_t)>& ask, size_t total)
      : ask_(ask), total_(static_cast<int64_t>(total)) {}

  bool goes_on() {
    const std::lock_guard lock(mutex_);
    return outcome_.ok();
  }
  void count() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (ask_ && outcome_.ok()) outcome_ = ask_(done_, total_);
  }
  /// When all threads have ended.
  const Status& outcome() const { return outcome_; }

 private:
  const std::function<Status(int64_t, int64_t)>& ask_;
  int64_t total_;
  std::mutex mutex_;
  int64_t done_ = 0;
  Status outcome_;
};

}  // namespace

Hash128 kernel_cache_key(const KernelFunction& kernel, const Target& target) {
  const Hash128 digest = kernel_digest(kernel);
  Hasher hasher;
  hasher.add_value(digest.high);
  hasher.add_value(digest.low);
  hasher.add_text(cpu_codegen_version());
  hasher.add_text(target.cpu);
  hasher.add_value(static_cast<uint64_t>(target.vector_bytes));
  for (const std::string& feature : code_features(target_of_kernel(kernel, target)))
    hasher.add_text(feature);
  return hasher.digest128();
}

Result<GeneratedCode> compile_kernels(const std::vector<KernelToCompile>& kernels,
                                      const Target& target, int threads, KernelCache* cache,
                                      const std::function<Status(int64_t, int64_t)>& watch) {
  GeneratedCode out;
  std::map<Hash128, int32_t> numbers;
  std::vector<DistinctKernel> distinct;
  for (const auto& [function, code] : kernels) {
    const Hash128 key = code != nullptr ? code->key : kernel_cache_key(*function, target);
    const auto [it, added] = numbers.emplace(key, static_cast<int32_t>(distinct.size()));
    if (added) distinct.push_back({function, code != nullptr ? &code->image : nullptr, key});
    out.keys.push_back(key);
    out.image_of.push_back(it->second);
  }
  std::vector<std::optional<MadeCode>> results(distinct.size());
  Watch watched(watch, distinct.size());
  // The longest first, so that no thread is left with one at the end.
  std::vector<size_t> order(distinct.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, {}, [&](size_t i) { return std::pair(-std::ssize(distinct[i].function->types), i); });
  for_each_in_parallel(distinct.size(), threads, [&](size_t nth) {
    const size_t i = order[nth];
    if (!watched.goes_on()) return;
    results[i].emplace(find_or_compile(distinct[i], target, cache));
    watched.count();
  });
  WEFT_RETURN_IF_ERROR(watched.outcome());
  for (std::optional<MadeCode>& made : results) {
    if (!made->image.ok()) return made->image.take_error();
    out.images.push_back(std::move(*made->image));
    out.from_cache += made->from_cache ? 1 : 0;
  }
  return out;
}

}  // namespace weft
