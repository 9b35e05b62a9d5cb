#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/cuda/library_routine.h"
#include "support/result.h"
#include "target/product_call.h"

namespace weft {

/// The functions of cublasLt.h that are used, under their own names; each returns a
/// cublasStatus_t, 0 for success. Descriptors are opaque.
struct CublasFunctions {
  // NOLINTBEGIN(readability-identifier-naming)
  int (*cublasLtCreate)(void**);
  int (*cublasLtDestroy)(void*);
  int (*cublasLtMatmulDescCreate)(void**, int compute_type, int scale_type);
  int (*cublasLtMatmulDescDestroy)(void*);
  int (*cublasLtMatmulDescSetAttribute)(void*, int, const void*, size_t);
  int (*cublasLtMatrixLayoutCreate)(void**, int type, uint64_t rows, uint64_t columns,
                                    int64_t leading);
  int (*cublasLtMatrixLayoutDestroy)(void*);
  int (*cublasLtMatrixLayoutSetAttribute)(void*, int, const void*, size_t);
  int (*cublasLtMatmulPreferenceCreate)(void**);
  int (*cublasLtMatmulPreferenceDestroy)(void*);
  int (*cublasLtMatmulPreferenceSetAttribute)(void*, int, const void*, size_t);
  int (*cublasLtMatmulAlgoGetHeuristic)(void*, void* operation, void* a, void* b, void* c, void* d,
                                        void* preference, int wanted, void* results, int* found);
  int (*cublasLtMatmul)(void*, void* operation, const void* alpha, const void* a, void* a_layout,
                        const void* b, void* b_layout, const void* beta, const void* c,
                        void* c_layout, void* d, void* d_layout, const void* algorithm,
                        void* workspace, size_t workspace_bytes, void* stream);
  // NOLINTEND(readability-identifier-naming)
};

/// cuBLASLt, loaded. Stays loaded until the process ends.
class Cublas {
 public:
  /// Looks for the library: `path` if given, else $WEFT_CUBLASLT, else the versions that are known.
  /// kMissingDevice says what was looked for.
  static Result<std::shared_ptr<const Cublas>> load(const std::string& path = {});
  static std::shared_ptr<const Cublas> from_functions(const CublasFunctions& functions);

  const CublasFunctions& functions() const { return functions_; }

 private:
  Cublas() = default;
  CublasFunctions functions_ = {};
};

/// A product that cuBLASLt was asked for, with the algorithm that it proposes. Valid while the
/// device is. Products sum up in float32 and float32 operands are not rounded to shorter types.
class CublasProduct final : public LibraryRoutine {
 public:
  /// Bytes that the addresses of a, b and c must be multiples of.
  static constexpr uint32_t kAlignment = 16;

  /// kMissingDevice when the library has no algorithm for this product on the current device.
  static Result<CublasProduct> create(std::shared_ptr<const Cublas> library,
                                      const ProductCall& call, const std::string& name);
  CublasProduct(CublasProduct&& other) noexcept;
  CublasProduct& operator=(CublasProduct&& other) noexcept;
  ~CublasProduct() override;

  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  Status run(CudaStream& stream, std::span<const CudaAddress> buffers,
             CudaAddress workspace) override;

 private:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  CublasProduct() = default;
  Status prepare(const ProductCall& call);
  Status check(int status, const char* what) const;

  struct Handles {
    void* library = nullptr;
    void* operation = nullptr;
    void* a = nullptr;
    void* b = nullptr;
    void* c = nullptr;
    void* preference = nullptr;
  };
  std::shared_ptr<const Cublas> library_;
  std::string name_;
  Handles handles_;
  uint64_t algorithm_[8] = {};
  ProductCall call_;
};

}  // namespace weft
