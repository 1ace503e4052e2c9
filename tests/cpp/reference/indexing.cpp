// Reading and writing by index tensors.
#include <algorithm>

#include "core/trace.h"
#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

int64_t wrapped_index(int64_t i, int64_t n) {
  if (i < -n || i >= n) throw Undefined("an index is out of range");
  return i < 0 ? i + n : i;
}

Element plus(const Element& x, const Element& y) {
  return {static_cast<int64_t>(static_cast<uint64_t>(x.i) + static_cast<uint64_t>(y.i)), x.re + y.re, x.im + y.im};
}

// torch.index_select
Datum take(const Inputs& in) {
  const Array &a = in.tensor("a"), &index = in.tensor("index");
  if (a.rank() == 0) return std::make_shared<Array>(a);
  size_t dim = at(wrap_dim(in.integer("dim"), a.rank()));
  Shape shape = a.shape;
  shape[dim] = index.numel();
  ArrayPtr out = make_array(a.dtype, a.device, shape);
  size_t k = 0;
  for_each_index(shape, [&](Shape i) {
    i[dim] = wrapped_index(index.data[at(i[dim])].i, a.shape[dim]);
    out->data[k++] = a.data[at(flat(a.shape, i))];
  });
  return out;
}

// torch.gather: the index tells the place along one dimension, its own place the others.
Datum take_along_axis(const Inputs& in) {
  const Array &a = in.tensor("a"), &index = in.tensor("index");
  ArrayPtr out = make_array(a.dtype, a.device, index.shape);
  if (a.rank() == 0) {
    for (Element& e : out->data) e = a.data[0];
    return out;
  }
  size_t dim = at(wrap_dim(in.integer("dim"), a.rank())), k = 0;
  for_each_index(index.shape, [&](Shape i) {
    if (!i.empty()) i[dim] = wrapped_index(index.data[k].i, a.shape[dim]);
    out->data[k++] = a.data[at(flat(a.shape, i))];
  });
  return out;
}

using Combine = std::function<Element(const Element& old, const Element& now)>;

Element replaced(const Element&, const Element& now) { return now; }

// out[i with i[dim] = index[i]] combines src[i]; `src` may be a number.
Kernel scatter(std::string source_name, const Combine& combine) {
  return [=](const Inputs& in) -> Datum {
    const Array &a = in.tensor("a"), &index = in.tensor("index");
    const Datum& src = in[source_name];
    auto out = std::make_shared<Array>(a);
    size_t k = 0;
    auto value = [&](const Shape& i) {
      return src.is_tensor() ? src.array->data[at(flat(src.array->shape, i))] : src.as(a.dtype);
    };
    if (a.rank() == 0) {
      for (size_t j = 0; j < index.data.size(); ++j) {
        Element e = src.is_tensor() ? src.array->data.at(j) : src.as(a.dtype);
        out->data[0] = in.store(a.dtype, combine(out->data[0], e));
      }
      return out;
    }
    size_t dim = at(wrap_dim(in.integer("dim"), a.rank()));
    for_each_index(index.shape, [&](const Shape& i) {
      Shape to = i;
      if (!to.empty()) to[dim] = wrapped_index(index.data[k].i, a.shape[dim]);
      ++k;
      Element& e = out->data[at(flat(a.shape, to))];
      e = in.store(a.dtype, combine(e, value(i)));
    });
    return out;
  };
}

Element times(const Element& x, const Element& y) {
  std::complex<double> z = x.z() * y.z();
  return {static_cast<int64_t>(static_cast<uint64_t>(x.i) * static_cast<uint64_t>(y.i)), z.real(), z.imag()};
}

// scatter with a reduction; the mean of integers is rounded down.
Datum scatter_reduce(const Inputs& in) {
  const Array &a = in.tensor("a"), &index = in.tensor("index"), &src = in.tensor("src");
  const std::string& kind = in["reduce"].text;
  bool include_self = in.flag("include_self");
  size_t dim = a.rank() > 0 ? at(wrap_dim(in.integer("dim"), a.rank())) : 0;
  std::vector<std::vector<Element>> parts(a.data.size());
  size_t k = 0;
  for_each_index(index.shape, [&](const Shape& i) {
    Shape to = a.rank() > 0 ? i : Shape{};
    if (a.rank() > 0) to[dim] = wrapped_index(index.data[k].i, a.shape[dim]);
    const Element& e = src.rank() > 0 ? src.data[at(flat(src.shape, i))] : src.data[0];
    ++k;
    parts[at(flat(a.shape, to))].push_back(e);
  });
  auto out = std::make_shared<Array>(a);
  for (size_t j = 0; j < parts.size(); ++j) {
    if (parts[j].empty()) continue;
    if (include_self) parts[j].insert(parts[j].begin(), a.data[j]);
    Element r = parts[j][0];
    auto n = static_cast<int64_t>(parts[j].size());
    for (size_t m = 1; m < parts[j].size(); ++m) {
      const Element& e = parts[j][m];
      bool above = is_exact(a.dtype) ? e.i > r.i : e.re > r.re || std::isnan(e.re);
      bool below = is_exact(a.dtype) ? e.i < r.i : e.re < r.re || std::isnan(e.re);
      if (kind == "sum" || kind == "mean") r = in.store(a.dtype, plus(r, e));
      else if (kind == "prod") r = in.store(a.dtype, times(r, e));
      else if (kind == "amax" ? above : below) r = e;
    }
    if (kind == "mean")
      r = {r.i >= 0 ? r.i / n : -((-r.i + n - 1) / n), r.re / static_cast<double>(n), r.im / static_cast<double>(n)};
    out->data[j] = in.store(a.dtype, r);
  }
  return out;
}

// out[.., index[j], ..] combines source[.., j, ..]
Kernel index_write(std::string source_name, const Combine& combine) {
  return [=](const Inputs& in) -> Datum {
    const Array &a = in.tensor("a"), &index = in.tensor("index");
    const Datum& source = in[source_name];
    auto out = std::make_shared<Array>(a);
    double alpha = in.has("alpha") ? in.real("alpha") : 1;
    auto scaled = [&](Element e) { return Element{e.i * static_cast<int64_t>(alpha), e.re * alpha, e.im * alpha}; };
    if (a.rank() == 0) {
      for (size_t j = 0; j < index.data.size(); ++j) {
        Element e = source.is_tensor() ? source.array->data.at(source.array->rank() ? j : 0) : source.as(a.dtype);
        out->data[0] = in.store(a.dtype, combine(out->data[0], scaled(e)));
      }
      return out;
    }
    size_t dim = at(wrap_dim(in.integer("dim"), a.rank()));
    Shape places = a.shape;
    places[dim] = index.numel();
    for_each_index(places, [&](const Shape& i) {
      Shape to = i;
      to[dim] = wrapped_index(index.data[at(i[dim])].i, a.shape[dim]);
      Element e = !source.is_tensor()         ? source.as(a.dtype)
                  : source.array->rank() == 0 ? source.array->data[0]
                                              : source.array->data[at(flat(source.array->shape, i))];
      Element& target = out->data[at(flat(a.shape, to))];
      target = in.store(a.dtype, combine(target, scaled(e)));
    });
    return out;
  };
}

// ---- x[i, j, ...] ---------------------------------------------------------------------------------------------------

// Where each element of an indexed read comes from.
struct Selection {
  Shape shape;
  std::function<Shape(const Shape&)> source;
};

// One index tensor a dimension, bool masks opened.
struct Part {
  size_t dim;
  ArrayPtr index;
};

void open_mask(const Array& mask, size_t dim, std::vector<Part>& parts) {
  std::vector<ArrayPtr> columns;
  for (size_t d = 0; d < mask.shape.size(); ++d) columns.push_back(make_array(DType::i64, mask.device, {0}));
  size_t k = 0;
  for_each_index(mask.shape, [&](const Shape& i) {
    if (!mask.data[k++].i) return;
    for (size_t d = 0; d < i.size(); ++d) columns[d]->data.push_back(Element::integer(i[d]));
  });
  for (size_t d = 0; d < columns.size(); ++d) {
    columns[d]->shape = {static_cast<int64_t>(columns[d]->data.size())};
    parts.push_back({dim + d, columns[d]});
  }
}

std::vector<Part> parts_of(const std::vector<Datum>& indices) {
  std::vector<Part> parts;
  size_t dim = 0;
  for (const Datum& d : indices) {
    if (!d.is_tensor()) {
      ++dim;
    } else if (is_bool(d.array->dtype)) {
      open_mask(*d.array, dim, parts);
      dim += d.array->shape.size();
    } else {
      parts.push_back({dim++, d.array});
    }
  }
  return parts;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (const Shape* s : {&a, &b})
    for (size_t d = 0; d < s->size(); ++d) {
      int64_t& o = out[out.size() - s->size() + d];
      if ((*s)[d] == 1) continue;
      if (o != 1 && o != (*s)[d]) throw Undefined("shapes do not broadcast");
      o = (*s)[d];
    }
  return out;
}

const Element& broadcast_element(const Array& a, const Shape& index) {
  Shape i(a.shape.size());
  for (size_t d = 0; d < i.size(); ++d) i[d] = a.shape[d] == 1 ? 0 : index[index.size() - i.size() + d];
  return a.data[at(flat(a.shape, i))];
}

// Advanced dimensions stand where the first of them stood if they are adjacent, else in front.
Selection select(const Array& a, const std::vector<Datum>& indices) {
  std::vector<Part> parts = parts_of(indices);
  if (parts.empty()) return {a.shape, [](const Shape& i) { return i; }};
  Shape common;
  for (const Part& p : parts) common = broadcast(common, p.index->shape);
  bool adjacent = true;
  for (size_t j = 1; j < parts.size(); ++j) adjacent &= parts[j].dim == parts[j - 1].dim + 1;
  size_t front = adjacent ? parts[0].dim : 0;
  std::vector<size_t> plain;
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (std::none_of(parts.begin(), parts.end(), [&](const Part& p) { return p.dim == d; })) plain.push_back(d);
  Shape shape;
  for (size_t j = 0; j < front; ++j) shape.push_back(a.shape[plain[j]]);
  shape.insert(shape.end(), common.begin(), common.end());
  for (size_t j = front; j < plain.size(); ++j) shape.push_back(a.shape[plain[j]]);
  size_t width = common.size();
  auto source = [parts, plain, front, width, from = a.shape](const Shape& i) {
    Shape to(from.size());
    Shape advanced(i.begin() + static_cast<long>(front), i.begin() + static_cast<long>(front + width));
    for (const Part& p : parts) to[p.dim] = wrapped_index(broadcast_element(*p.index, advanced).i, from[p.dim]);
    for (size_t j = 0; j < plain.size(); ++j) to[plain[j]] = i[j < front ? j : j + width];
    return to;
  };
  return {shape, source};
}

Datum index(const Inputs& in) {
  const Array& a = in.tensor("a");
  Selection s = select(a, in["indices"].items);
  ArrayPtr out = make_array(a.dtype, a.device, s.shape);
  size_t k = 0;
  for_each_index(s.shape, [&](const Shape& i) { out->data[k++] = a.data[at(flat(a.shape, s.source(i)))]; });
  return out;
}

Datum index_put(const Inputs& in) {
  const Array &a = in.tensor("a"), &values = in.tensor("values");
  bool accumulate = in.flag("accumulate");
  Selection s = select(a, in["indices"].items);
  auto out = std::make_shared<Array>(a);
  for_each_index(s.shape, [&](const Shape& i) {
    Element& target = out->data[at(flat(a.shape, s.source(i)))];
    const Element& e = broadcast_element(values, i);
    target = in.store(a.dtype, accumulate ? plus(target, e) : e);
  });
  return out;
}

// ---- masks and data-dependent things --------------------------------------------------------------------------------

Datum masked_scatter(const Inputs& in) {
  const Array &a = in.tensor("a"), &mask = in.tensor("mask"), &source = *in.at(2).array;
  auto out = std::make_shared<Array>(a);
  size_t k = 0, next = 0;
  for_each_index(a.shape, [&](const Shape& i) {
    if (broadcast_element(mask, i).i) {
      if (next >= source.data.size()) throw Undefined("masked_scatter: too few values");
      out->data[k] = source.data[next++];
    }
    ++k;
  });
  return out;
}

// The elements that masked_scatter read, in order; zeros for those it did not reach.
Datum masked_scatter_backward(const Inputs& in) {
  const Array &g = in.tensor("grad_output"), &mask = in.tensor("mask");
  ArrayPtr out = make_array(g.dtype, g.device, in.integers("sizes"));
  size_t k = 0, next = 0;
  for_each_index(g.shape, [&](const Shape& i) {
    if (broadcast_element(mask, i).i && next < out->data.size()) out->data[next++] = g.data[k];
    ++k;
  });
  return out;
}

Datum repeat_index(const Inputs& in) {
  const Array& repeats = in.tensor("repeats");
  ArrayPtr out = make_array(repeats.dtype, repeats.device, {0});
  for (size_t k = 0; k < repeats.data.size(); ++k) {
    if (repeats.data[k].i < 0) throw Undefined("a negative repeat");
    for (int64_t n = repeats.data[k].i; n > 0; --n) out->data.push_back(Element::integer(static_cast<int64_t>(k)));
  }
  out->shape[0] = out->numel();
  if (in.has("output_size") && in.integer("output_size") != out->shape[0])
    throw Undefined("repeats do not add up to output_size");
  return out;
}

Datum group_index(const Inputs& in) {
  const Array& index = in.tensor("index");
  const int64_t groups = in.integer("groups");
  ArrayPtr order = make_array(DType::i64, index.device, {0}),
           starts = make_array(DType::i64, index.device, {groups + 1});
  auto append_all = [&](int64_t number) {
    for (int64_t k = 0; k < index.numel(); ++k)
      if (index.data[at(k)].i == number) order->data.push_back(Element::integer(k));
  };
  for (int64_t r = 0; r < groups; ++r) {
    append_all(r);
    starts->data[at(r + 1)] = Element::integer(order->numel());
  }
  if (in.flag("skips")) append_all(-1);
  order->shape[0] = order->numel();
  if (order->numel() != index.numel()) throw Undefined("an index is out of range");
  return Datum::sequence({order, starts});
}

Datum segment_sum(const Inputs& in) {
  const Array &a = in.tensor("a"), &places = in.tensor("places");
  const size_t dim = at(wrap_dim(in.integer("dim"), a.rank()));
  const int64_t length = in.integer("length");
  Shape shape = a.shape;
  shape[dim] = in.has("starts") ? in.tensor("starts").numel() - 1 : places.numel() / length;
  auto start = [&](int64_t r) { return in.has("starts") ? in.tensor("starts").data[at(r)].i : r * length; };
  ArrayPtr out = make_array(a.dtype, a.device, shape);
  size_t k = 0;
  for_each_index(shape, [&](Shape i) {
    const int64_t r = i[dim];
    Element sum;
    for (int64_t p = start(r); p < start(r + 1); ++p) {
      if (p < 0 || p >= places.numel()) throw Undefined("a segment is out of range");
      if (in.flag("skips") && places.data[at(p)].i == -1) continue;
      i[dim] = places.data[at(p)].i;
      if (i[dim] < 0 || i[dim] >= a.shape[dim]) throw Undefined("a place is out of range");
      const Element& e = a.data[at(flat(a.shape, i))];
      sum = plus(sum, in.has("weights") ? times(e, in.tensor("weights").data[at(p)]) : e);
    }
    out->data[k++] = in.store(a.dtype, sum);
  });
  return out;
}

Datum embedding_bag_max(const Inputs& in) {
  const Array &weight = in.tensor("weight"), &indices = in.tensor("indices"), &offsets = in.tensor("offsets");
  const int64_t bags = offsets.numel(), cols = weight.shape[1];
  ArrayPtr out = make_array(weight.dtype, weight.device, {bags, cols}),
           rows = make_array(DType::i64, weight.device, {bags, cols});
  for (int64_t r = 0; r < bags; ++r) {
    const int64_t end = r + 1 < bags ? offsets.data[at(r + 1)].i : indices.numel();
    if (offsets.data[at(0)].i != 0 || end > indices.numel()) throw Undefined("an offset is out of range");
    for (int64_t c = 0; c < cols; ++c) {
      const size_t k = at(r * cols + c);
      rows->data[k].i = -1;
      for (int64_t p = offsets.data[at(r)].i; p < end; ++p) {
        const int64_t row = indices.data[at(p)].i;
        if (row < 0 || row >= weight.shape[0]) throw Undefined("an index is out of range");
        const Element& e = weight.data[at(row * cols + c)];
        if (row == in.integer("padding_idx") || (rows->data[k].i >= 0 && e.re <= out->data[k].re)) continue;
        out->data[k] = e;
        rows->data[k].i = row;
      }
    }
  }
  return Datum::sequence({out, rows});
}

Datum nonzero(const Inputs& in) {
  const Array& a = in.tensor("a");
  ArrayPtr out = make_array(DType::i64, a.device, {0, a.rank()});
  size_t k = 0;
  for_each_index(a.shape, [&](const Shape& i) {
    if (!is_true(a.data[k++], a.dtype)) return;
    for (int64_t d : i) out->data.push_back(Element::integer(d));
    ++out->shape[0];
  });
  return out;
}

Datum item(const Inputs& in) {
  const Array& a = in.tensor("a");
  if (a.numel() != 1) throw Undefined("item of several elements");
  NumberKind kind = is_bool(a.dtype)      ? NumberKind::Bool
                    : is_exact(a.dtype)   ? NumberKind::Int
                    : is_complex(a.dtype) ? NumberKind::Complex
                                          : NumberKind::Float;
  return Datum::of_number(kind, a.data[0]);
}

Datum bincount(const Inputs& in) {
  const Array& a = in.tensor(in.op().schema.params[0].name);
  int64_t length = in.has("minlength") ? in.integer("minlength") : 0;
  for (const Element& e : a.data) {
    if (e.i < 0) throw Undefined("bincount of a negative number");
    length = std::max(length, e.i + 1);
  }
  bool weighted = in.has("weights");
  ArrayPtr out = make_array(
      weighted ? (in.tensor("weights").dtype == DType::f32 ? DType::f32 : DType::f64) : DType::i64, a.device, {length});
  for (size_t k = 0; k < a.data.size(); ++k) {
    Element& e = out->data[at(a.data[k].i)];
    Element w = weighted ? converted(in.tensor("weights").data[k], in.tensor("weights").dtype, out->dtype)
                         : Element::integer(1);
    e = in.store(out->dtype, plus(e, w));
  }
  return out;
}

// The tensor that the caller holds takes the source's values.
Datum copy_into(const Inputs& in) {
  const Datum& dst = in.at(0);
  const Array& src = *in.at(1).array;
  Array& a = *dst.array;
  size_t k = 0;
  std::vector<Element> now(a.data.size());
  for_each_index(a.shape, [&](const Shape& i) {
    now[k++] = in.store(a.dtype, converted(broadcast_element(src, i), src.dtype, a.dtype));
  });
  a.data = std::move(now);
  return dst;
}

}  // namespace

void add_indexing(Kernels& k) {
  k["prims.take"] = take;
  k["prims.take_along_axis"] = take_along_axis;
  k["prims.index"] = index;
  k["prims.index_put"] = index_put;
  k["prims.scatter"] = scatter("src", replaced);
  k["prims.scatter_value"] = scatter("value", replaced);
  k["prims.scatter_add"] = scatter("src", plus);
  k["prims.scatter_reduce"] = scatter_reduce;
  k["prims.index_add"] = index_write("source", plus);
  k["prims.index_copy"] = index_write("source", replaced);
  k["prims.index_fill"] = index_write("value", replaced);
  k["prims.masked_scatter"] = masked_scatter;
  k["torch.masked_scatter_backward"] = masked_scatter_backward;
  k["prims.repeat_index"] = repeat_index;
  k["prims.group_index"] = group_index;
  k["prims.segment_sum"] = segment_sum;
  k["prims.embedding_bag_max"] = embedding_bag_max;
  k["prims.nonzero"] = nonzero;
  k["prims.item"] = item;
  k["prims.bincount"] = bincount;
  k["prims.copy_"] = copy_into;
  k["prims.copy_data_"] = copy_into;
  k["prims.set_data_"] = copy_into;
}

}  // namespace thunder::reference
