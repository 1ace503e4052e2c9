// Reductions and scans.
#include <limits>
#include <set>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

std::vector<bool> reduced_dims(const Array& a, const std::vector<int64_t>& dims) {
  std::vector<bool> reduced(a.shape.size(), false);
  for (int64_t d : dims) {
    int64_t w = wrap_dim(d, a.rank());
    if (a.rank() > 0) reduced[static_cast<size_t>(w)] = true;
  }
  return reduced;
}

// The elements that fall on each element of the result, in order.
std::vector<std::vector<Element>> groups(const Array& a, const std::vector<bool>& reduced, Shape& kept) {
  for (size_t d = 0; d < reduced.size(); ++d)
    if (!reduced[d]) kept.push_back(a.shape[d]);
  std::vector<std::vector<Element>> out(static_cast<size_t>(count(kept)));
  size_t k = 0;
  for_each_index(a.shape, [&](const Shape& index) {
    Shape to;
    for (size_t d = 0; d < reduced.size(); ++d)
      if (!reduced[d]) to.push_back(index[d]);
    out[static_cast<size_t>(flat(kept, to))].push_back(a.data[k++]);
  });
  return out;
}

using Fold = std::function<Element(const std::vector<Element>&, DType)>;

Datum reduce(const Inputs& in, DType result, const Fold& fold) {
  const Array& a = in.tensor("a");
  Shape kept;
  std::vector<std::vector<Element>> g = groups(a, reduced_dims(a, in.integers("dims")), kept);
  ArrayPtr out = make_array(result, a.device, kept);
  for (size_t k = 0; k < g.size(); ++k) out->data[k] = in.store(result, fold(g[k], a.dtype));
  return out;
}

Element sum_of(const std::vector<Element>& g, DType t) {
  uint64_t i = 0;
  std::complex<double> z = 0;
  for (const Element& e : g) {
    i += static_cast<uint64_t>(e.i);
    z += e.z();
  }
  return {static_cast<int64_t>(i), z.real(), z.imag()};
}

Element product_of(const std::vector<Element>& g, DType t) {
  uint64_t i = 1;
  double re = 1;
  std::complex<double> z = 1;
  for (const Element& e : g) {
    i *= static_cast<uint64_t>(e.i);
    re *= e.re;
    z *= e.z();
  }
  return {static_cast<int64_t>(i), is_complex(t) ? z.real() : re, is_complex(t) ? z.imag() : 0};
}

// Whether `x` beats `best`; NaN beats everything but NaN.
bool beats(const Element& x, const Element& best, DType t, bool greatest) {
  if (is_exact(t)) return greatest ? x.i > best.i : x.i < best.i;
  if (std::isnan(x.re)) return !std::isnan(best.re);
  return greatest ? x.re > best.re : x.re < best.re;
}

size_t position_of_extreme(const std::vector<Element>& g, DType t, bool greatest) {
  if (g.empty()) throw Undefined("the extreme of no elements");
  size_t best = 0;
  for (size_t k = 1; k < g.size(); ++k)
    if (beats(g[k], g[best], t, greatest)) best = k;
  return best;
}

Kernel extreme(bool greatest) {
  return [=](const Inputs& in) {
    return reduce(in, in.tensor("a").dtype,
                  [=](const std::vector<Element>& g, DType t) { return g[position_of_extreme(g, t, greatest)]; });
  };
}

Kernel position(bool greatest) {
  return [=](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    std::vector<bool> reduced(a.shape.size(), !in.has("dim"));
    if (in.has("dim") && a.rank() > 0) reduced[static_cast<size_t>(wrap_dim(in.integer("dim"), a.rank()))] = true;
    Shape kept;
    std::vector<std::vector<Element>> g = groups(a, reduced, kept);
    ArrayPtr out = make_array(DType::i64, a.device, kept);
    for (size_t k = 0; k < g.size(); ++k)
      out->data[k] = Element::integer(static_cast<int64_t>(position_of_extreme(g[k], a.dtype, greatest)));
    return out;
  };
}

Kernel truth(bool all) {
  return [=](const Inputs& in) {
    return reduce(in, DType::boolean, [=](const std::vector<Element>& g, DType type) {
      bool r = all;
      for (const Element& e : g) r = all ? r && is_true(e, type) : r || is_true(e, type);
      return Element::integer(r);
    });
  };
}

DType part_type(DType t) {
  return t == DType::c128 ? DType::f64 : t == DType::c64 ? DType::f32 : t == DType::c32 ? DType::f16 : t;
}

double variance(const std::vector<Element>& g, double correction) {
  std::complex<double> mean = 0;
  for (const Element& e : g) mean += e.z();
  mean /= static_cast<double>(g.size());
  double total = 0;
  for (const Element& e : g) total += std::norm(e.z() - mean);
  return total / std::max(0.0, static_cast<double>(g.size()) - correction);
}

double correction_of(const Inputs& in) { return in.has("correction") ? in.real("correction") : 1; }

Datum var(const Inputs& in) {
  double correction = correction_of(in);
  return reduce(in, part_type(in.tensor("a").dtype),
                [=](const std::vector<Element>& g, DType) { return Element::real(variance(g, correction)); });
}

Element mean_of(const std::vector<Element>& g, DType t) {
  std::complex<double> z = sum_of(g, t).z() / static_cast<double>(g.size());
  return Element::complex(z);
}

Datum logsumexp(const Inputs& in) {
  return reduce(in, in.tensor("a").dtype, [](const std::vector<Element>& g, DType t) {
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (const Element& e : g) top = std::isnan(e.re) ? e.re : std::max(top, e.re);
    if (!std::isfinite(top)) return Element::real(top);
    for (const Element& e : g) total += std::exp(e.re - top);
    return Element::real(top + std::log(total));
  });
}

// ---- scans ----------------------------------------------------------------------------------------------------------

using Step = std::function<void(Element& state, int64_t& at, const Element& next, int64_t position)>;

// Runs `step` along a dimension; gives the states and where they were taken from.
std::pair<ArrayPtr, ArrayPtr> scan(const Inputs& in, const Step& step) {
  const Array& a = in.tensor("a");
  ArrayPtr values = make_array(a.dtype, a.device, a.shape), places = make_array(DType::i64, a.device, a.shape);
  size_t dim = static_cast<size_t>(wrap_dim(in.integer("dim"), a.rank()));
  std::map<Shape, std::pair<Element, int64_t>> states;
  size_t k = 0;
  for_each_index(a.shape, [&](const Shape& index) {
    Shape key = index;
    int64_t position = 0;
    if (a.rank() > 0) {
      position = index[dim];
      key[dim] = 0;
    }
    auto [it, first] = states.try_emplace(key, a.data[k], 0);
    if (!first) step(it->second.first, it->second.second, a.data[k], position);
    it->second.first = in.store(a.dtype, it->second.first);
    values->data[k] = it->second.first;
    places->data[k] = Element::integer(it->second.second);
    ++k;
  });
  return {values, places};
}

Kernel cumulative(bool product) {
  return [=](const Inputs& in) -> Datum {
    DType t = in.tensor("a").dtype;
    return scan(in,
                [=](Element& state, int64_t&, const Element& next, int64_t) {
                  state = product ? product_of({state, next}, t) : sum_of({state, next}, t);
                })
        .first;
  };
}

Kernel cumulative_extreme(bool greatest) {
  return [=](const Inputs& in) -> Datum {
    DType t = in.tensor("a").dtype;
    auto [values, places] = scan(in, [=](Element& state, int64_t& at, const Element& next, int64_t position) {
      // The later one wins a tie, and NaN stays.
      if (beats(state, next, t, greatest)) return;
      state = next;
      at = position;
    });
    return Datum::sequence({values, places});
  };
}

Datum logcumsumexp(const Inputs& in) {
  bool complex = is_complex(in.tensor("a").dtype);
  return scan(in,
              [complex](Element& state, int64_t&, const Element& next, int64_t) {
                if (complex) {
                  Element top = state.re > next.re ? state : next, low = state.re > next.re ? next : state;
                  state = std::isfinite(top.re)
                              ? Element::complex(top.z() + std::log(1.0 + std::exp(low.z() - top.z())))
                              : Element::complex(state.z() + next.z());
                  return;
                }
                double top = std::max(state.re, next.re), low = std::min(state.re, next.re);
                state.re = std::isfinite(top) ? top + std::log1p(std::exp(low - top)) : state.re + next.re;
              })
      .first;
}

// Every product that an element is a factor of, without it.
Datum cumprod_backward(const Inputs& in) {
  const Array &g = in.tensor("grad"), &x = in.tensor("input");
  auto out = std::make_shared<Array>(x);
  if (x.rank() == 0) {
    out->data = g.data;
    return out;
  }
  size_t dim = static_cast<size_t>(wrap_dim(in.integer("dim"), x.rank())), k = 0;
  auto value = [&](const Array& a, Shape i, int64_t at) {
    i[dim] = at;
    return a.data[static_cast<size_t>(flat(a.shape, i))].z();
  };
  for_each_index(x.shape, [&](const Shape& i) {
    std::complex<double> total = 0, product = 1;
    for (int64_t j = 0; j < x.shape[dim]; ++j) {
      if (j != i[dim]) product *= value(x, i, j);
      if (j >= i[dim]) total += value(g, i, j) * std::conj(product);
    }
    out->data[k++] = in.store(x.dtype, Element::complex(total));
  });
  return out;
}

}  // namespace

void add_reductions(Kernels& k) {
  k["prims.sum"] = [](const Inputs& in) { return reduce(in, in.tensor("a").dtype, sum_of); };
  k["prims.prod"] = [](const Inputs& in) { return reduce(in, in.tensor("a").dtype, product_of); };
  k["prims.mean"] = [](const Inputs& in) { return reduce(in, in.tensor("a").dtype, mean_of); };
  k["prims.amax"] = extreme(true);
  k["prims.amin"] = extreme(false);
  k["prims.argmax"] = position(true);
  k["prims.argmin"] = position(false);
  k["prims.any"] = truth(false);
  k["prims.all"] = truth(true);
  k["prims.var"] = var;
  k["prims.var_mean"] = [](const Inputs& in) {
    return Datum::sequence({var(in), reduce(in, in.tensor("a").dtype, mean_of)});
  };
  k["prims.logsumexp"] = logsumexp;
  k["prims.cumsum"] = cumulative(false);
  k["prims.cumprod"] = cumulative(true);
  k["prims.cummax"] = cumulative_extreme(true);
  k["prims.cummin"] = cumulative_extreme(false);
  k["prims.logcumsumexp"] = logcumsumexp;
  k["torch.cumprod_backward"] = cumprod_backward;
}

}  // namespace thunder::reference
