// Primitives that move elements: views and copies are the same here, since arrays have no strides.
#include <algorithm>
#include <map>
#include <set>

#include "reference/bytes.h"
#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// out[index] = a[source(index)]
ArrayPtr gathered(const Array& a, Shape shape, const std::function<Shape(const Shape&)>& source) {
  ArrayPtr out = make_array(a.dtype, a.device, std::move(shape));
  size_t k = 0;
  for_each_index(out->shape, [&](const Shape& index) { out->data[k++] = a.data[at(flat(a.shape, source(index)))]; });
  return out;
}

ArrayPtr reshaped(const Array& a, Shape shape) {
  auto out = std::make_shared<Array>(a);
  if (count(shape) != a.numel()) throw Wrong("a reshape changes the number of elements");
  out->shape = std::move(shape);
  return out;
}

Datum broadcast_in_dim(const Inputs& in) {
  const Array& a = in.tensor("a");
  std::vector<int64_t> dims = in.integers("broadcast_dims");
  if (dims.size() != a.shape.size()) throw Wrong("broadcast_in_dim: another number of dims");
  return gathered(a, in.integers("shape"), [&](const Shape& index) {
    Shape from(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) from[d] = a.shape[d] == 1 ? 0 : index[at(dims[d])];
    return from;
  });
}

Datum transpose(const Inputs& in) {
  const Array& a = in.tensor("a");
  std::vector<int64_t> permutation = in.integers("permutation");
  Shape shape;
  for (int64_t p : permutation) shape.push_back(a.shape.at(at(p)));
  return gathered(a, shape, [&](const Shape& index) {
    Shape from(index.size());
    for (size_t d = 0; d < index.size(); ++d) from[at(permutation[d])] = index[d];
    return from;
  });
}

struct Slice {
  std::vector<int64_t> start, end, step;
  Shape shape;
  Shape source(const Shape& index) const {
    Shape from(index.size());
    for (size_t d = 0; d < index.size(); ++d) from[d] = start[d] + index[d] * step[d];
    return from;
  }
};

Slice slice_of(const Inputs& in, const Array& a) {
  Slice s{in.integers("start_indices"), in.integers("end_indices"), {}, {}};
  s.step = in.has("strides") ? in.integers("strides") : std::vector<int64_t>(s.start.size(), 1);
  if (s.step.empty()) s.step.assign(s.start.size(), 1);
  for (size_t d = 0; d < a.shape.size(); ++d) {
    if (s.step[d] < 1) throw Undefined("slice: a step that the run found not to be positive");
    s.shape.push_back(std::max<int64_t>(0, (s.end[d] - s.start[d] + s.step[d] - 1) / s.step[d]));
  }
  return s;
}

Datum slice(const Inputs& in) {
  const Array& a = in.tensor("a");
  Slice s = slice_of(in, a);
  return gathered(a, s.shape, [&](const Shape& index) { return s.source(index); });
}

// A copy of `a` in which `target(index)` holds src[index].
Datum written(const Inputs& in, const std::function<Shape(const Shape&)>& target,
              std::string_view source_name = "src") {
  const Array &a = in.tensor("a"), &src = in.tensor(source_name);
  auto out = std::make_shared<Array>(a);
  size_t k = 0;
  for_each_index(src.shape, [&](const Shape& index) {
    out->data[at(flat(a.shape, target(index)))] = in.store(a.dtype, converted(src.data[k++], src.dtype, a.dtype));
  });
  return out;
}

Datum slice_scatter(const Inputs& in) {
  Slice s = slice_of(in, in.tensor("a"));
  if (s.shape != in.tensor("src").shape) throw Wrong("slice_scatter: the source has another shape");
  return written(in, [&](const Shape& index) { return s.source(index); });
}

Datum squeeze(const Inputs& in) {
  const Array& a = in.tensor("a");
  std::vector<int64_t> dims = in.integers("dims");
  Shape shape;
  for (int64_t d = 0; d < a.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(a.shape[at(d)]);
  return reshaped(a, shape);
}

struct Diagonal {
  size_t dim1, dim2;
  int64_t offset;
  Shape shape;
  Shape source(const Shape& index, size_t rank) const {
    Shape from(rank);
    size_t k = 0;
    for (size_t d = 0; d < rank; ++d)
      if (d != dim1 && d != dim2) from[d] = index[k++];
    from[dim1] = index.back() + std::max<int64_t>(0, -offset);
    from[dim2] = index.back() + std::max<int64_t>(0, offset);
    return from;
  }
};

Diagonal diagonal_of(const Inputs& in, const Array& a) {
  Diagonal g{
      at(wrap_dim(in.integer("dim1"), a.rank())), at(wrap_dim(in.integer("dim2"), a.rank())), in.integer("offset"), {}};
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (d != g.dim1 && d != g.dim2) g.shape.push_back(a.shape[d]);
  int64_t rows = a.shape[g.dim1] - std::max<int64_t>(0, -g.offset),
          columns = a.shape[g.dim2] - std::max<int64_t>(0, g.offset);
  g.shape.push_back(std::max<int64_t>(0, std::min(rows, columns)));
  return g;
}

Datum diagonal(const Inputs& in) {
  const Array& a = in.tensor("a");
  Diagonal g = diagonal_of(in, a);
  return gathered(a, g.shape, [&](const Shape& index) { return g.source(index, a.shape.size()); });
}

Datum diagonal_scatter(const Inputs& in) {
  const Array& a = in.tensor("a");
  Diagonal g = diagonal_of(in, a);
  return written(in, [&](const Shape& index) { return g.source(index, a.shape.size()); });
}

Datum unfold(const Inputs& in) {
  const Array& a = in.tensor("a");
  int64_t size = in.integer("size"), step = in.integer("step");
  size_t dim = at(wrap_dim(in.integer(in.op().schema.params[1].name), a.rank()));
  if (a.rank() == 0) return reshaped(a, {size});
  Shape shape = a.shape;
  shape[dim] = (a.shape[dim] - size) / step + 1;
  shape.push_back(size);
  return gathered(a, shape, [&](const Shape& index) {
    Shape from(index.begin(), index.end() - 1);
    from[dim] = index[dim] * step + index.back();
    return from;
  });
}

Datum join_along(const Inputs& in) {
  std::vector<const Array*> tensors = in.tensors("tensors");
  Shape shape = tensors.at(0)->shape;
  size_t dim = at(wrap_dim(in.integer("dim"), tensors[0]->rank()));
  shape[dim] = 0;
  for (const Array* t : tensors) shape[dim] += t->shape[dim];
  ArrayPtr out = make_array(tensors[0]->dtype, tensors[0]->device, shape);
  int64_t base = 0;
  for (const Array* t : tensors) {
    size_t k = 0;
    for_each_index(t->shape, [&](Shape index) {
      index[dim] += base;
      out->data[at(flat(shape, index))] = t->data[k++];
    });
    base += t->shape[dim];
  }
  return out;
}

// Each entry of the configuration: before, after, between; negative ones cut.
Datum pad(const Inputs& in) {
  const Array& a = in.tensor("a");
  Shape shape;
  std::vector<std::vector<int64_t>> config;
  for (const Datum& d : in["config"].items) {
    std::vector<int64_t> entry;
    for (const Datum& i : d.items) entry.push_back(i.integer());
    entry.resize(3, 0);
    config.push_back(entry);
  }
  for (size_t d = 0; d < a.shape.size(); ++d) {
    int64_t between = std::max<int64_t>(0, a.shape[d] - 1) * config[d][2];
    shape.push_back(std::max<int64_t>(0, a.shape[d] + between + config[d][0] + config[d][1]));
  }
  ArrayPtr out = make_array(a.dtype, a.device, shape);
  Element value = in.store(a.dtype, in["value"].is_tensor() ? in["value"].array->data.at(0) : in["value"].as(a.dtype));
  std::fill(out->data.begin(), out->data.end(), value);
  size_t k = 0;
  for_each_index(a.shape, [&](Shape index) {
    const Element& e = a.data[k++];
    for (size_t d = 0; d < index.size(); ++d) {
      index[d] = index[d] * (1 + config[d][2]) + config[d][0];
      if (index[d] < 0 || index[d] >= shape[d]) return;
    }
    out->data[at(flat(shape, index))] = e;
  });
  return out;
}

Datum flip(const Inputs& in) {
  const Array& a = in.tensor("a");
  std::vector<bool> flipped(a.shape.size(), false);
  for (int64_t d : in.integers("dims"))
    if (a.rank() > 0) flipped[at(wrap_dim(d, a.rank()))] = true;
  return gathered(a, a.shape, [&](Shape index) {
    for (size_t d = 0; d < index.size(); ++d)
      if (flipped[d]) index[d] = a.shape[d] - 1 - index[d];
    return index;
  });
}

Datum roll(const Inputs& in) {
  const Array& a = in.tensor("a");
  std::vector<int64_t> shifts = in.integers("shifts"), dims = in.integers("dims");
  if (dims.empty()) {
    auto out = std::make_shared<Array>(a);
    int64_t n = a.numel();
    for (int64_t k = 0; k < n; ++k) out->data[at((((k + shifts[0]) % n) + n) % n)] = a.data[at(k)];
    return out;
  }
  return gathered(a, a.shape, [&](Shape index) {
    for (size_t j = 0; j < dims.size(); ++j) {
      if (a.rank() == 0) continue;
      size_t d = at(wrap_dim(dims[j], a.rank()));
      int64_t n = a.shape[d];
      index[d] = (((index[d] - shifts[j]) % n) + n) % n;
    }
    return index;
  });
}

// A slice whose start a tensor holds.
Datum narrow_at(const Inputs& in) {
  const Array& a = in.tensor("a");
  size_t dim = at(wrap_dim(in.integer("dim"), a.rank()));
  int64_t start = in.tensor("start").data.at(0).i, length = in.integer("length");
  if (start < 0) start += a.shape[dim];
  Shape shape = a.shape;
  shape[dim] = length;
  if (start < 0 || start + length > a.shape[dim]) throw Undefined("narrow: out of range");
  return gathered(a, shape, [&](Shape index) {
    index[dim] += start;
    return index;
  });
}

// Where in memory each element of `a` lies, counted from its first one.
std::map<int64_t, int64_t> memory_of(const Array& a, const Shape& strides) {
  std::map<int64_t, int64_t> element_at;
  int64_t k = 0;
  for_each_index(a.shape, [&](const Shape& index) {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * strides[d];
    element_at[place] = k++;
  });
  return element_at;
}

// Calls fn(place in `a`, position in the strided view); a view of memory between a's elements has no values here.
void for_each_strided(const Inputs& in, const std::function<void(int64_t, int64_t)>& fn) {
  std::map<int64_t, int64_t> element_at = memory_of(in.tensor("a"), in.declared_strides("a"));
  Shape size = in.integers("size"), stride = in.integers("stride");
  int64_t offset = in.has("storage_offset") ? in.integer("storage_offset") : 0, k = 0;
  for_each_index(size, [&](const Shape& index) {
    int64_t place = offset;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * stride[d];
    auto it = element_at.find(place);
    if (it == element_at.end()) throw Undefined("as_strided: outside of the tensor");
    fn(it->second, k++);
  });
}

Datum as_strided(const Inputs& in) {
  const Array& a = in.tensor("a");
  ArrayPtr out = make_array(a.dtype, a.device, in.integers("size"));
  for_each_strided(in, [&](int64_t from, int64_t to) { out->data[at(to)] = a.data[at(from)]; });
  return out;
}

Datum as_strided_scatter(const Inputs& in) {
  auto out = std::make_shared<Array>(in.tensor("a"));
  std::set<int64_t> written;
  for_each_strided(in, [&](int64_t to, int64_t from) {
    // As in PyTorch: which of several elements a place keeps, and where its gradient goes, is not specified.
    if (!written.insert(to).second) throw Undefined("as_strided_scatter: two elements for one place");
    out->data[at(to)] = in.tensor("src").data[at(from)];
  });
  return out;
}

Datum view_as_real(const Inputs& in) {
  const Array& a = in.tensor("a");
  Shape shape = a.shape;
  shape.push_back(2);
  ArrayPtr out = make_array(a.dtype == DType::c128  ? DType::f64
                            : a.dtype == DType::c64 ? DType::f32
                                                    : DType::f16,
                            a.device, shape);
  for (size_t k = 0; k < a.data.size(); ++k) {
    out->data[2 * k] = Element::real(a.data[k].re);
    out->data[2 * k + 1] = Element::real(a.data[k].im);
  }
  return out;
}

Datum view_as_complex(const Inputs& in) {
  const Array& a = in.tensor("a");
  ArrayPtr out = make_array(a.dtype == DType::f64   ? DType::c128
                            : a.dtype == DType::f32 ? DType::c64
                                                    : DType::c32,
                            a.device, Shape(a.shape.begin(), a.shape.end() - 1));
  for (size_t k = 0; k < out->data.size(); ++k) out->data[k] = {0, a.data[2 * k].re, a.data[2 * k + 1].re};
  return out;
}

Datum view_dtype(const Inputs& in) {
  const Array& a = in.tensor("a");
  DType to = in.dtype("dtype");
  std::vector<uint8_t> bytes;
  for (const Element& e : a.data) append_bytes(a.dtype, e, bytes);
  size_t size = bytes_of(to);
  Shape shape = a.shape;
  if (bytes_of(a.dtype) != size)
    shape.back() = shape.back() * static_cast<int64_t>(bytes_of(a.dtype)) / static_cast<int64_t>(size);
  ArrayPtr out = make_array(to, a.device, shape);
  for (size_t k = 0; k < out->data.size(); ++k) out->data[k] = from_bytes(to, &bytes[k * size]);
  return out;
}

// What each window read gets the window's gradient.
Datum unfold_backward(const Inputs& in) {
  const Array& g = in.tensor("grad_in");
  ArrayPtr out = make_array(g.dtype, g.device, in.integers("input_sizes"));
  size_t dim = at(wrap_dim(in.integer("dim"), out->rank())), k = 0;
  for_each_index(g.shape, [&](const Shape& index) {
    Shape to(index.begin(), index.end() - 1);
    if (out->rank() > 0) to[dim] = index[dim] * in.integer("step") + index.back();
    Element& e = out->data[at(flat(out->shape, to))];
    const Element& x = g.data[k++];
    e = in.store(g.dtype, {e.i + x.i, e.re + x.re, e.im + x.im});
  });
  return out;
}

Datum same_data(const Inputs& in) { return std::make_shared<Array>(in.tensor("a")); }

}  // namespace

void add_shapes(Kernels& k) {
  k["prims.broadcast_in_dim"] = broadcast_in_dim;
  k["prims.transpose"] = transpose;
  k["prims.slice"] = slice;
  k["prims.slice_scatter"] = slice_scatter;
  k["prims.squeeze"] = squeeze;
  k["prims.diagonal"] = diagonal;
  k["prims.diagonal_scatter"] = diagonal_scatter;
  k["prims.unfold"] = unfold;
  k["prims.cat"] = join_along;
  k["prims.pad"] = pad;
  k["prims.flip"] = flip;
  k["prims.roll"] = roll;
  k["prims.view"] =
      k["prims.reshape"] = [](const Inputs& in) -> Datum { return reshaped(in.tensor("a"), in.integers("shape")); };
  k["prims.narrow_at"] = narrow_at;
  k["prims.as_strided"] = as_strided;
  k["prims.as_strided_scatter"] = as_strided_scatter;
  k["prims.view_as_real"] = view_as_real;
  k["prims.view_as_complex"] = view_as_complex;
  k["prims.view_dtype"] = view_dtype;
  k["torch.unfold_backward"] = unfold_backward;
  k["prims.restride"] = k["prims.or_zeros"] = same_data;
  k["prims.detach"] = k["prims.new_leaf"] = k["prims.same"] = same_data;
  k["prims.alias"] = same_data;
  k["prims.graft"] =
      k["prims.cover"] = [](const Inputs& in) -> Datum { return std::make_shared<Array>(in.tensor("data")); };
  k["prims.size"] = [](const Inputs& in) -> Datum {
    const Array& a = in.tensor("a");
    return Datum::integer(a.shape.at(at(wrap_dim(in.integer("dim"), a.rank()))));
  };
}

}  // namespace thunder::reference
