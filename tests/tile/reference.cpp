#include "tests/tile/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace weft::tile_test {
namespace {

using Values = std::vector<double>;

/// An input as doubles with its shape.
struct Array {
  Shape shape;
  Values data;

  double operator()(std::initializer_list<int64_t> at) const {
    int64_t offset = 0;
    size_t a = 0;
    for (const int64_t i : at) offset = offset * shape[a++] + i;
    return data[static_cast<size_t>(offset)];
  }
};

Array array(const Tensors& in, const std::string& name) {
  const HostTensor& tensor = in.at(name);
  Array out{tensor.shape(), {}};
  for (int64_t i = 0; i < tensor.size(); ++i) out.data.push_back(tensor.at_double(i));
  return out;
}

HostTensor tensor(const Shape& shape, const Values& data) {
  HostTensor out(DType::kF32, shape);
  for (int64_t i = 0; i < out.size(); ++i) out.set_double(i, data[static_cast<size_t>(i)]);
  return out;
}

double rounded(double x, DType type) {
  HostTensor one(type, {1});
  one.set_double(0, x);
  return one.at_double(0);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

Tensors softmax(const Tensors& in) {
  const Array x = array(in, "x");
  Values y;
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < x.shape[1]; ++j) sum += std::exp(x({i, j}));
    for (int64_t j = 0; j < x.shape[1]; ++j) y.push_back(std::exp(x({i, j})) / sum);
  }
  return {{"y", tensor(x.shape, y)}};
}

Tensors attention(const Tensors& in) {
  const Array q = array(in, "q"), k = array(in, "k"), v = array(in, "v"), mask = array(in, "mask");
  const int64_t rows = q.shape[2], keys = k.shape[2], width = q.shape[3];
  Values y;
  for (int64_t b = 0; b < q.shape[0]; ++b) {
    for (int64_t h = 0; h < q.shape[1]; ++h) {
      for (int64_t m = 0; m < rows; ++m) {
        Values p(static_cast<size_t>(keys), 0);
        double sum = 0;
        for (int64_t n = 0; n < keys; ++n) {
          double s = 0;
          for (int64_t d = 0; d < width; ++d) s += q({b, h, m, d}) * k({b, h, n, d});
          p[static_cast<size_t>(n)] = std::exp(s / 8 + mask({m, n}));
          sum += p[static_cast<size_t>(n)];
        }
        for (int64_t e = 0; e < width; ++e) {
          double all = 0;
          for (int64_t n = 0; n < keys; ++n) all += p[static_cast<size_t>(n)] * v({b, h, n, e});
          y.push_back(all / sum);
        }
      }
    }
  }
  return {{"y", tensor(q.shape, y)}};
}

Tensors norm_mlp(const Tensors& in) {
  const Array x = array(in, "x"), w1 = array(in, "W1"), b1 = array(in, "b1"), w2 = array(in, "W2");
  const int64_t width = x.shape[1], hidden = w1.shape[1], out = w2.shape[1];
  // What meets weights of half the width is rounded as they are.
  const DType type = in.at("W1").dtype();
  Values y;
  for (int64_t m = 0; m < x.shape[0]; ++m) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < width; ++j) mean += x({m, j});
    mean /= static_cast<double>(width);
    for (int64_t j = 0; j < width; ++j) variance += (x({m, j}) - mean) * (x({m, j}) - mean);
    variance /= static_cast<double>(width);
    Values h;
    for (int64_t n = 0; n < hidden; ++n) {
      double a = b1({n});
      for (int64_t k = 0; k < width; ++k) {
        a += rounded((x({m, k}) - mean) / std::sqrt(variance + 1e-5), type) * w1({k, n});
      }
      h.push_back(rounded(0.5 * a * (1 + std::erf(a * std::sqrt(0.5))), type));
    }
    for (int64_t o = 0; o < out; ++o) {
      double a = 0;
      for (int64_t n = 0; n < hidden; ++n) a += h[static_cast<size_t>(n)] * w2({n, o});
      y.push_back(a);
    }
  }
  return {{"y", tensor({x.shape[0], out}, y)}};
}

Tensors feed_forward(const Tensors& in) {
  const Array x = array(in, "x"), w1 = array(in, "W1"), b1 = array(in, "b1");
  const Array w2 = array(in, "W2"), b2 = array(in, "b2");
  const int64_t width = x.shape[1], hidden = w1.shape[1];
  const DType type = in.at("W2").dtype();
  Values y;
  for (int64_t m = 0; m < x.shape[0]; ++m) {
    Values h, z;
    for (int64_t n = 0; n < hidden; ++n) {
      double a = b1({n});
      for (int64_t k = 0; k < width; ++k) a += x({m, k}) * w1({k, n});
      h.push_back(rounded(0.5 * a * (1 + std::erf(a * std::sqrt(0.5))), type));
    }
    double mean = 0, variance = 0;
    for (int64_t o = 0; o < width; ++o) {
      double a = b2({o}) + x({m, o});
      for (int64_t n = 0; n < hidden; ++n) a += h[static_cast<size_t>(n)] * w2({n, o});
      z.push_back(a);
      mean += a / static_cast<double>(width);
    }
    for (const double a : z) variance += (a - mean) * (a - mean) / static_cast<double>(width);
    for (const double a : z) y.push_back((a - mean) / std::sqrt(variance + 1e-5));
  }
  return {{"y", tensor(x.shape, y)}};
}

/// Three products, tanh of what the first two make.
Tensors products(const Tensors& in) {
  const Array x = array(in, "x");
  const int64_t rows = x.shape[0];
  const DType type = in.at("x").dtype();
  Values row, y;
  int64_t columns = 0;
  for (int64_t m = 0; m < rows; ++m) {
    row.clear();
    for (int64_t k = 0; k < x.shape[1]; ++k) row.push_back(x({m, k}));
    for (const char* name : {"W1", "W2", "W3"}) {
      const Array w = array(in, name);
      columns = w.shape[1];
      Values next;
      for (int64_t n = 0; n < columns; ++n) {
        double a = 0;
        for (int64_t k = 0; k < w.shape[0]; ++k) a += row[static_cast<size_t>(k)] * w({k, n});
        next.push_back(name[1] == '3' ? a : rounded(std::tanh(a), type));
      }
      row = std::move(next);
    }
    y.insert(y.end(), row.begin(), row.end());
  }
  return {{"y", tensor({rows, columns}, y)}};
}

Tensors lstm(const Tensors& in) {
  const Array w = array(in, "Wst"), b = array(in, "b"), x = array(in, "x");
  const int64_t layers = w.shape[0], size = w.shape[2], time = x.shape[0];
  std::vector<Values> h(static_cast<size_t>(layers), Values(static_cast<size_t>(size), 0));
  std::vector<Values> c = h;
  Values y;
  for (int64_t t = 0; t < time; ++t) {
    Values below;
    for (int64_t s = 0; s < size; ++s) below.push_back(x({t, s}));
    for (int64_t l = 0; l < layers; ++l) {
      const Values before = h[static_cast<size_t>(l)];
      for (int64_t s = 0; s < size; ++s) {
        double gate[4];
        for (int64_t g = 0; g < 4; ++g) {
          gate[g] = b({l, g, s});
          for (int64_t k = 0; k < size; ++k) {
            gate[g] += w({l, g, s, k}) * below[static_cast<size_t>(k)];
            gate[g] += w({l, g, s, k + size}) * before[static_cast<size_t>(k)];
          }
        }
        double& cell = c[static_cast<size_t>(l)][static_cast<size_t>(s)];
        cell = cell * sigmoid(gate[2] + 1) + sigmoid(gate[0]) * std::tanh(gate[1]);
        h[static_cast<size_t>(l)][static_cast<size_t>(s)] = std::tanh(cell) * sigmoid(gate[3]);
      }
      below = h[static_cast<size_t>(l)];
    }
    y.insert(y.end(), below.begin(), below.end());
  }
  return {{"y", tensor(x.shape, y)}};
}

Tensors recurrence(const Tensors& in) {
  const Array x = array(in, "x"), u = array(in, "U"), v = array(in, "V"), h0 = array(in, "h0");
  const int64_t time = x.shape[0], size = x.shape[1];
  Values h, y;
  for (int64_t n = 0; n < size; ++n) h.push_back(h0({n}));
  for (int64_t t = 0; t < time; ++t) {
    Values r, next;
    for (int64_t m = 0; m < size; ++m) {
      double g = x({t, m});
      for (int64_t j = 0; j < size; ++j) g += u({m, j}) * h[static_cast<size_t>(j)];
      r.push_back(sigmoid(g));
    }
    for (int64_t n = 0; n < size; ++n) {
      double c = 0;
      for (int64_t j = 0; j < size; ++j)
        c += v({n, j}) * r[static_cast<size_t>(j)] * h[static_cast<size_t>(j)];
      next.push_back(std::tanh(c));
      y.push_back(2 * next.back());
    }
    h = next;
  }
  return {{"y", tensor(x.shape, y)}, {"last", tensor(h0.shape, h)}};
}

/// `h = tanh(u h + x[t])` from `h` on: all of its values, one step behind another.
Values steps(const Array& u, const std::function<double(int64_t t, int64_t n)>& x, int64_t time,
             Values h) {
  Values all;
  for (int64_t t = 0; t < time; ++t) {
    Values next;
    for (int64_t m = 0; m < static_cast<int64_t>(h.size()); ++m) {
      double a = x(t, m);
      for (int64_t j = 0; j < static_cast<int64_t>(h.size()); ++j)
        a += u({m, j}) * h[static_cast<size_t>(j)];
      next.push_back(std::tanh(a));
    }
    all.insert(all.end(), next.begin(), next.end());
    h = next;
  }
  return all;
}

Tensors loops(const Tensors& in) {
  const Array x = array(in, "x"), u = array(in, "U"), h0 = array(in, "h0");
  const int64_t time = x.shape[0], size = x.shape[1];
  Values h, p, sums(static_cast<size_t>(size), 0), o;
  for (int64_t n = 0; n < size; ++n) h.push_back(h0({n}));
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t n = 0; n < size; ++n) p.push_back(std::tanh(x({t, n})));
  }
  const auto at = [&](const Values& of, int64_t t, int64_t n) {
    return of[static_cast<size_t>(t * size + n)];
  };
  const Values y = steps(u, [&](int64_t t, int64_t n) { return at(p, t, n) * x({t, n}); }, time, h);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t n = 0; n < size; ++n) sums[static_cast<size_t>(n)] += 0.25 * at(y, t, n);
  }
  const Values z = steps(u, [&](int64_t t, int64_t n) { return at(y, t, n); }, time, sums);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t n = 0; n < size; ++n) o.push_back(x({t, n}) * at(z, time - 1, n));
  }
  return {{"p", tensor(x.shape, p)},
          {"y", tensor(x.shape, y)},
          {"z", tensor(x.shape, z)},
          {"o", tensor(x.shape, o)}};
}

Tensors weights(const Tensors& in) {
  const Array x = array(in, "x"), w = array(in, "w");
  Values y;
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    double most = -INFINITY;
    for (int64_t j = 0; j < x.shape[1]; ++j) most = std::max(most, x({i, j}));
    for (int64_t j = 0; j < x.shape[1]; ++j) y.push_back((x({i, j}) - most) * w({j}));
  }
  return {{"y", tensor(x.shape, y)}};
}

Tensors recurrent(const Tensors& in) {
  const Array w = array(in, "w"), x = array(in, "x");
  const int64_t time = x.shape[0], sequences = x.shape[1], size = x.shape[2];
  std::vector<Values> h(static_cast<size_t>(sequences), Values(static_cast<size_t>(size), 0));
  Values y;
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t n = 0; n < sequences; ++n) {
      const Values before = h[static_cast<size_t>(n)];
      for (int64_t s = 0; s < size; ++s) {
        double sum = x({t, n, s});
        for (int64_t k = 0; k < size; ++k) sum += w({s, k}) * before[static_cast<size_t>(k)];
        h[static_cast<size_t>(n)][static_cast<size_t>(s)] = std::tanh(sum);
        y.push_back(std::tanh(sum));
      }
    }
  }
  return {{"y", tensor(x.shape, y)}};
}

Tensors conv(const Tensors& in) {
  const Array x = array(in, "x"), w = array(in, "W"), a = array(in, "a"), b = array(in, "b"),
              res = array(in, "res");
  const int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3], out = w.shape[3];
  Values y;
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t h = 0; h < height; ++h) {
      for (int64_t v = 0; v < width; ++v) {
        for (int64_t co = 0; co < out; ++co) {
          double acc = 0;
          for (int64_t kh = 0; kh < 3; ++kh) {
            for (int64_t kw = 0; kw < 3; ++kw) {
              const int64_t i = h + kh - 1, j = v + kw - 1;
              if (i < 0 || i >= height || j < 0 || j >= width) continue;
              for (int64_t ci = 0; ci < channels; ++ci) {
                acc += x({n, i, j, ci}) * w({kh, kw, ci, co});
              }
            }
          }
          y.push_back(std::max(acc * a({co}) + b({co}) + res({n, h, v, co}), 0.0));
        }
      }
    }
  }
  return {{"y", tensor(in.at("res").shape(), y)}};
}

Tensors sums(const Tensors& in) {
  const Array x = array(in, "x");
  Values r(static_cast<size_t>(x.shape[0]), 0), q(static_cast<size_t>(x.shape[1]), 0);
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    for (int64_t j = 0; j < x.shape[1]; ++j) {
      r[static_cast<size_t>(i)] += std::tanh(x({i, j}));
      q[static_cast<size_t>(j)] += std::tanh(x({i, j}));
    }
  }
  return {{"r", tensor({x.shape[0]}, r)}, {"q", tensor({x.shape[1]}, q)}};
}

Tensors packing(const Tensors& in) {
  const Array x = array(in, "x"), u = array(in, "u");
  Values y(static_cast<size_t>(x.shape[0]), 0);
  Values z(static_cast<size_t>(u.shape[0]), -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    for (int64_t j = 0; j < x.shape[1]; ++j) y[static_cast<size_t>(i)] += x({i, j});
  }
  for (int64_t i = 0; i < u.shape[0]; ++i) {
    for (int64_t j = 0; j < u.shape[1]; ++j) {
      z[static_cast<size_t>(i)] = std::max(z[static_cast<size_t>(i)], u({i, j}));
    }
  }
  return {{"y", tensor({x.shape[0]}, y)}, {"z", tensor({u.shape[0]}, z)}};
}

Tensors squeeze(const Tensors& in) {
  const Array x = array(in, "x"), w1 = array(in, "W1"), w2 = array(in, "W2");
  const int64_t pixels = x.shape[0], channels = x.shape[1], small = w1.shape[1];
  Values s, g;
  for (int64_t c = 0; c < channels; ++c) {
    s.push_back(0);
    for (int64_t p = 0; p < pixels; ++p) s.back() += x({p, c});
  }
  for (int64_t c = 0; c < channels; ++c) {
    g.push_back(0);
    for (int64_t q = 0; q < small; ++q) {
      double r = 0;
      for (int64_t k = 0; k < channels; ++k) r += s[static_cast<size_t>(k)] * w1({k, q});
      g.back() += r * sigmoid(r) * w2({q, c});
    }
  }
  Values y;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      y.push_back(x({p, c}) * sigmoid(g[static_cast<size_t>(c)]));
    }
  }
  return {{"y", tensor(x.shape, y)}};
}

Tensors depthwise(const Tensors& in) {
  const Array x = array(in, "x"), wp = array(in, "Wp"), wd = array(in, "Wd");
  const int64_t height = x.shape[0], width = x.shape[1], ci = x.shape[2], channels = wp.shape[1];
  const auto point = [&](int64_t i, int64_t j, int64_t c) {
    double p = 0;
    for (int64_t k = 0; k < ci; ++k) p += x({i, j, k}) * wp({k, c});
    return p;
  };
  Values y;
  for (int64_t h = 0; h < height; ++h) {
    for (int64_t v = 0; v < width; ++v) {
      for (int64_t c = 0; c < channels; ++c) {
        double acc = 0;
        for (int64_t kh = 0; kh < 3; ++kh) {
          for (int64_t kw = 0; kw < 3; ++kw) {
            const int64_t i = h + kh - 1, j = v + kw - 1;
            if (i < 0 || i >= height || j < 0 || j >= width) continue;
            acc += point(i, j, c) * wd({kh, kw, c});
          }
        }
        y.push_back(acc);
      }
    }
  }
  return {{"y", tensor({height, width, channels}, y)}};
}

Tensors handed(const Tensors& in) {
  const Array x = array(in, "x"), w = array(in, "W");
  const int64_t rows = x.shape[0], depth = x.shape[1], columns = w.shape[1];
  Values h, y;
  for (int64_t m = 0; m < rows; ++m) {
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < columns; ++n) {
      double p = 0;
      for (int64_t k = 0; k < depth; ++k) p += x({m, k}) * w({k, n});
      h.push_back(p);
      sum += p;
      squares += p * p;
    }
    const double mean = sum / static_cast<double>(columns);
    const double variance = squares / static_cast<double>(columns) - mean * mean;
    for (int64_t n = 0; n < columns; ++n) {
      const double p = h[static_cast<size_t>(m * columns + n)];
      y.push_back((p - mean) / std::sqrt(variance + 1e-5));
    }
  }
  return {{"h", tensor({rows, columns}, h)}, {"y", tensor({rows, columns}, y)}};
}

Reference reference_of(const std::string& program) {
  const std::vector<std::pair<std::string, Reference>> all = {
      {"softmax", softmax},     {"attention", attention},
      {"norm_mlp", norm_mlp},   {"lstm", lstm},
      {"conv", conv},           {"sums", sums},
      {"packing", packing},     {"squeeze", squeeze},
      {"depthwise", depthwise}, {"recurrence", recurrence},
      {"loops", loops},         {"recurrent", recurrent},
      {"weights", weights},     {"feed_forward", feed_forward},
      {"handed", handed},       {"ahead", products}};
  for (const auto& [name, function] : all) {
    if (program.starts_with(name)) return function;
  }
  return nullptr;
}

}  // namespace weft::tile_test
