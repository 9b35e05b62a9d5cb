#include "codegen/cpu/compile_kernels.h"

#include <atomic>
#include <map>
#include <optional>

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

}  // namespace

Hash128 kernel_cache_key(const KernelFunction& kernel, const Target& target) {
  const Hash128 digest = kernel_digest(kernel);
  Hasher hasher;
  hasher.add_value(digest.high);
  hasher.add_value(digest.low);
  hasher.add_text(cpu_codegen_version());
  hasher.add_text(target.cpu);
  hasher.add_value(static_cast<uint64_t>(target.vector_bytes));
  for (const std::string& feature : code_features(target)) hasher.add_text(feature);
  return hasher.digest128();
}

Result<GeneratedCode> compile_kernels(const std::vector<KernelToCompile>& kernels,
                                      const Target& target, int threads, KernelCache* cache) {
  GeneratedCode out;
  std::map<Hash128, int32_t> numbers;
  std::vector<const KernelFunction*> distinct;
  std::vector<const KernelImage*> found;
  std::vector<Hash128> keys;
  for (const auto& [function, code] : kernels) {
    out.keys.push_back(code != nullptr ? code->key : kernel_cache_key(*function, target));
    const auto [it, added] =
        numbers.emplace(out.keys.back(), static_cast<int32_t>(distinct.size()));
    if (added) {
      distinct.push_back(function);
      found.push_back(code != nullptr ? &code->image : nullptr);
      keys.push_back(out.keys.back());
    }
    out.image_of.push_back(it->second);
  }
  std::vector<std::optional<Result<KernelImage>>> results(distinct.size());
  std::atomic<int64_t> from_cache{0};
  for_each_in_parallel(distinct.size(), threads, [&](size_t i) {
    if (found[i] != nullptr) {
      results[i].emplace(*found[i]);
      (*results[i])->name = distinct[i]->name;
      ++from_cache;
      return;
    }
    if (cache != nullptr) {
      if (std::optional<KernelImage> image = cache->find(keys[i])) {
        image->name = distinct[i]->name;
        results[i].emplace(std::move(*image));
        ++from_cache;
        return;
      }
    }
    results[i].emplace(compile_guarded(*distinct[i], target));
    if (cache != nullptr && results[i]->ok()) cache->insert(keys[i], **results[i]);
  });
  for (std::optional<Result<KernelImage>>& result : results) {
    if (!result->ok()) return result->take_error();
    out.images.push_back(std::move(**result));
  }
  out.from_cache = from_cache;
  return out;
}

}  // namespace weft
