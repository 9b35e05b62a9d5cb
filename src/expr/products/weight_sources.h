#pragma once

#include <set>
#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// Which tensors are weights that element-wise expressions make of constants of bytes. The program
/// may get new tensors meanwhile.
class WeightSources {
 public:
  explicit WeightSources(const TensorProgram& program);

  /// Whether it is a sum of float32 whose weights are made of fewer bytes than they take.
  bool decodes(const TensorExpr& e) const;
  /// Whether it reads such tensors.
  bool reads_decoded(const TensorExpr& e) const;
  /// The body of the expression that makes what is read of constants, null where none does.
  ScalarRef decoded(const Scalar& read) const;
  /// All tensors between constants and such sums.
  std::set<TensorId> tensors() const;

 private:
  /// What a tensor is made of, if that is constants alone.
  struct Source {
    bool constant = false;
    bool of_bytes = false;
    int64_t bytes = 0;  ///< of the constants
  };

  const Tensor& tensor(TensorId t) const { return program_.tensors[static_cast<size_t>(t)]; }
  Source source_of(TensorId t, int depth) const;

  const TensorProgram& program_;
  std::vector<int> made_by_;  ///< by tensor of the program as it came: its expression, or -1
};

}  // namespace weft
