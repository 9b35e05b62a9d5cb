#include "runtime/cuda/library_routine.h"

#include <utility>

#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cudnn.h"

namespace weft {

Result<std::unique_ptr<LibraryRoutine>> VendorLibraries::prepare(const LibraryCall& call,
                                                                 const std::string& name) {
  if (const auto* product = std::get_if<ProductCall>(&call)) {
    if (cublas_ == nullptr) {
      WEFT_ASSIGN_OR_RETURN(cublas_, Cublas::load());
    }
    WEFT_ASSIGN_OR_RETURN(CublasProduct ready, CublasProduct::create(cublas_, *product, name));
    return std::unique_ptr<LibraryRoutine>(std::make_unique<CublasProduct>(std::move(ready)));
  }
  if (cudnn_ == nullptr) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Cudnn> library, Cudnn::load());
    WEFT_ASSIGN_OR_RETURN(cudnn_, CudnnHandle::create(std::move(library)));
  }
  WEFT_ASSIGN_OR_RETURN(CudnnConvolution ready,
                        CudnnConvolution::create(cudnn_, std::get<ConvolutionCall>(call), name));
  return std::unique_ptr<LibraryRoutine>(std::make_unique<CudnnConvolution>(std::move(ready)));
}

}  // namespace weft
