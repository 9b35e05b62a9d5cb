#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/tensor.h"

namespace weft::tile_test {

using Tensors = std::map<std::string, HostTensor>;

// What the programs compute, in double, straight from their definitions. Shapes follow from
// the inputs.
Tensors softmax(const Tensors& in);       ///< y = softmax over the last axis of x
Tensors attention(const Tensors& in);     ///< y = softmax(q k^T / 8 + mask, keys up to the query) v
Tensors norm_mlp(const Tensors& in);      ///< y = gelu(norm(x) W1 + b1) W2
Tensors feed_forward(const Tensors& in);  ///< y = norm(gelu(x W1 + b1) W2 + b2 + x)
Tensors lstm(
    const Tensors& in);  ///< y = the last layer's h over time; gates i, g, f, o; forget bias 1
Tensors weights(const Tensors& in);    ///< (x minus the maximum of its row) times w
Tensors recurrent(const Tensors& in);  ///< y[t] = tanh(w y[t-1] + x[t])
Tensors conv(const Tensors& in);       ///< y = relu(conv3x3(x, W) * a + b + res)
Tensors sums(const Tensors& in);       ///< r, q = row and column sums of tanh(x)
Tensors handed(const Tensors& in);     ///< h = x W, y = the rows of h, normed
Tensors packing(const Tensors& in);    ///< y = row sums of x, z = row maxima of u
Tensors squeeze(const Tensors& in);    ///< y = x * sigmoid(swish(sum x W1) W2)
Tensors depthwise(const Tensors& in);  ///< y = depthwise3x3(x Wp)

using Reference = Tensors (*)(const Tensors&);
Reference reference_of(const std::string& program);  ///< by the name of its file

}  // namespace weft::tile_test
