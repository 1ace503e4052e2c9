#include "ops/shape_common.h"

#include <algorithm>
#include <numeric>

#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops {

Dim size_arg(std::string_view op, const Arg& arg) {
  if (arg.kind() == Arg::Kind::Int) return arg.dim();
  if (arg.kind() == Arg::Kind::Bool) return arg.boolean() ? 1 : 0;
  THUNDER_CHECK(arg.is_number() && arg.is_value(), Type, op, "an int was expected as a size");
  const NumberType& n = arg.value().type().number();
  THUNDER_CHECK(n.kind == NumberKind::Int, Type, op, "an int was expected as a size, got a ", arg.value().type().str());
  THUNDER_CHECK(n.dim, NotImplemented, op, "a size was taken from a value in a tensor (", arg.value().name(),
                "), which is known only when the program runs");
  return *n.dim;
}

Dims size_args(std::string_view op, const Arg& list) {
  Dims out;
  out.reserve(list.items().size());
  for (const Arg& a : list.items()) out.push_back(size_arg(op, a));
  return out;
}

Dim storage_extent(const Dims& shape, const Dims& strides) {
  Dim extent = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    extent += (shape[i] - 1) * strides[i];
  }
  return extent;
}

bool reads_once(const Dims& shape, const Dims& strides) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].same(1)) continue;
    if (!shape[i].is_constant() || !strides[i].is_constant()) return false;
    steps.emplace_back(strides[i].constant(), shape[i].constant());
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;  // of the finer steps together
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += (size - 1) * stride;
  }
  return true;
}

int64_t wrapped_dim(std::string_view op, const Arg& dim, int64_t rank) {
  return canonical_dim(op, size_arg(op, dim).specialize(), rank);
}

std::vector<int64_t> wrapped_dims(std::string_view op, const std::vector<int64_t>& dims, int64_t rank) {
  std::vector<int64_t> out;
  for (int64_t d : dims) {
    int64_t w = canonical_dim(op, d, rank);
    THUNDER_CHECK(std::find(out.begin(), out.end(), w) == out.end(), Runtime, op, "dim ", w,
                  " appears multiple times in the list of dims, got ", "[", join(dims), "]");
    out.push_back(w);
  }
  return out;
}

std::vector<int64_t> wrapped_dims(std::string_view op, const Arg& dims, int64_t rank) {
  std::vector<int64_t> ints;
  for (const Arg& a : dims.items()) ints.push_back(size_arg(op, a).specialize());
  return wrapped_dims(op, ints, rank);
}

Dims inferred_shape(std::string_view op, Dims shape, const Dim& numel) {
  int64_t hole = -1;
  Dim known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_constant() && shape[i].constant() == -1) {
      THUNDER_CHECK(hole < 0, Runtime, op, "only one dimension can be inferred, got shape ", str(shape));
      hole = static_cast<int64_t>(i);
      continue;
    }
    THUNDER_CHECK(!(shape[i].is_constant() && shape[i].constant() < 0), Runtime, op, "invalid shape dimension ",
                  shape[i], " in shape ", str(shape));
    known *= shape[i];
  }
  if (hole < 0) {
    THUNDER_CHECK(known == numel, Runtime, op, "shape '", str(shape), "' is invalid for input of size ", numel);
    return shape;
  }
  THUNDER_CHECK(known != 0, Runtime, op, "cannot reshape tensor of ", numel, " elements into shape ", str(shape),
                " because the unspecified dimension size -1 can be any value and is ambiguous");
  THUNDER_CHECK(mod(numel, known) == 0, Runtime, op, "shape '", str(shape), "' is invalid for input of size ", numel);
  shape[static_cast<size_t>(hole)] = floordiv(numel, known);
  return shape;
}

TensorType with_shape(const TensorType& like, Dims shape, Dims strides) {
  return TensorType{like.dtype, like.device, std::move(shape), std::move(strides), false};
}

TensorType contiguous_like(const TensorType& like, Dims shape) {
  Dims strides = contiguous_strides(shape);
  return with_shape(like, std::move(shape), std::move(strides));
}

TensorType preserve_like(const TensorType& like) { return with_shape(like, like.shape, preserve_format_strides(like)); }

std::vector<bool> legacy_empty(const std::vector<Value>& tensors) {
  const bool one_rank =
      std::all_of(tensors.begin(), tensors.end(), [&](Value v) { return v.rank() == tensors[0].rank(); });
  ShapeEnv::Asking scope;
  std::vector<bool> out;
  for (Value v : tensors)
    out.push_back(v.rank() == 1 && (known_empty(v.shape()) || (!one_rank && turned_out_empty(v.shape()))));
  return out;
}

void cat_vjp(VjpContext& c) {
  const std::vector<Value> tensors = c.args().values("tensors");
  const std::vector<bool> empty = legacy_empty(tensors);
  const bool all_empty = std::all_of(empty.begin(), empty.end(), [](bool e) { return e; });
  const size_t dim = all_empty ? 0 : static_cast<size_t>(wrapped_dim("cat", c.args()["dim"], c.out().rank()));
  Dim start = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Dim size = empty[i] ? Dim(0) : tensors[i].shape()[dim];
    if (tensors[i].requires_grad()) {
      Expr g = empty[i] ? zeros(c.b, tensors[i].shape(), c.grad().tensor())
                        : c.b("torch.narrow", c.grad(), static_cast<int64_t>(dim), start, size);
      c.put("tensors", i, to_dtype(g, tensors[i].dtype()));
    }
    start += size;
  }
}

bool is_one(const Dim& d) { return d == 1; }

bool turns_out_one(const Dim& d) {
  ShapeEnv::Asking scope(true);
  return is_one(d);
}

std::vector<int64_t> dims_of_one(const Dims& shape) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < shape.size(); ++i)
    if (turns_out_one(shape[i])) out.push_back(static_cast<int64_t>(i));
  return out;
}

bool suggests_channels_last(const TensorType& t) {
  if (t.rank() != 4 && t.rank() != 5) return false;
  ShapeEnv::LayingOut scope;
  // From the innermost dimension out: channels, width, height, (depth,) batch.
  std::vector<size_t> order = {1};
  for (size_t i = t.shape.size(); i-- > 2;) order.push_back(i);
  order.push_back(0);
  if (t.strides[1] == 0) return false;
  Dim least = 0;
  for (size_t d : order) {
    if (t.shape[d] == 0 || t.strides[d] < least) return false;
    if (d == 0 && least == t.strides[1]) return false;
    least = t.strides[d] * max(t.shape[d], Dim(1));
  }
  return true;
}

ConstantArg channels_last_format(const TensorType& t) {
  return {t.rank() == 4 ? "torch.channels_last" : "torch.channels_last_3d"};
}

Expr reshape(const Expr& x, const Dims& shape) {
  const TensorType& t = x.tensor();
  std::optional<Dims> strides = view_strides(t.shape, t.strides, shape);
  if (!strides) return x.builder()("prims.reshape", x, shape);
  if (same(t.shape, shape) && same(t.strides, *strides)) return x;
  return x.builder()("prims.view", x, shape);
}

Expr permute(const Expr& x, const std::vector<int64_t>& permutation) {
  return std::is_sorted(permutation.begin(), permutation.end()) ? x : x.builder()("prims.transpose", x, permutation);
}

Expr squeeze_dims(const Expr& x, const std::vector<int64_t>& dims) {
  return dims.empty() ? x : x.builder()("prims.squeeze", x, dims);
}

Expr unsqueeze_dims(const Expr& x, const std::vector<int64_t>& places) {
  if (places.empty()) return x;
  size_t rank = x.shape().size() + places.size(), next = 0;
  Dims shape;
  std::vector<int64_t> from;
  for (size_t i = 0; i < rank; ++i) {
    if (std::find(places.begin(), places.end(), static_cast<int64_t>(i)) != places.end()) {
      shape.push_back(1);
    } else {
      shape.push_back(x.shape()[next++]);
      from.push_back(static_cast<int64_t>(i));
    }
  }
  return x.builder()("prims.broadcast_in_dim", x, shape, from);
}

Expr slice_dims(const Expr& x, const Dims& start, const Dims& end, const Dims& step) {
  bool whole = true;
  for (size_t i = 0; i < start.size(); ++i) whole &= start[i].same(0) && end[i].same(x.shape()[i]) && step[i].same(1);
  return whole ? x : x.builder()("prims.slice", x, start, end, step);
}

Expr slice_dim(const Expr& x, int64_t dim, const Dim& start, const Dim& end, const Dim& step) {
  size_t rank = x.shape().size(), d = static_cast<size_t>(dim);
  Dims from(rank, Dim(0)), to = x.shape(), by(rank, Dim(1));
  from[d] = start;
  to[d] = end;
  by[d] = step;
  return slice_dims(x, from, to, by);
}

Expr zeros(Builder& b, const Dims& shape, const TensorType& like) {
  return b("torch.zeros", shape, kw("dtype", like.dtype), kw("device", like.device));
}

Expr full_scalar(Builder& b, const Arg& number, const TensorType& like) {
  return b("prims.full", Dims{}, number, kw("dtype", like.dtype), kw("device", like.device));
}

Dims expanded_shape(std::string_view op, const Dims& from, const Dims& to) {
  THUNDER_CHECK(to.size() >= from.size(), Runtime, op, "the number of sizes provided (", to.size(),
                ") must be greater or equal to the number of dimensions in the tensor (", from.size(), ")");
  Dims shape = to;
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < to.size(); ++i) {
    bool keep = to[i].is_constant() && to[i].constant() == -1;
    if (i < lead) {
      THUNDER_CHECK(!(to[i].is_constant() && to[i].constant() < 0), Runtime, op, "the expanded size (", to[i],
                    ") isn't allowed in a leading, non-existing dimension ", i);
      continue;
    }
    const Dim& size = from[i - lead];
    if (keep) shape[i] = size;
    if (keep || size.same(to[i]) || is_one(size)) continue;
    THUNDER_CHECK(size == to[i], Runtime, op, "The expanded size of the tensor (", to[i],
                  ") must match the existing size (", size, ") at non-singleton dimension ", i,
                  ". Target sizes: ", str(to), ". Tensor sizes: ", str(from));
  }
  return shape;
}

Expr expand(const Expr& x, const Dims& shape) {
  if (same(x.shape(), shape)) return x;
  std::vector<int64_t> from(x.shape().size());
  std::iota(from.begin(), from.end(), static_cast<int64_t>(shape.size() - from.size()));
  // Eager gives an expanded 0-d tensor the stride 0 everywhere, also where the size is 1.
  if (from.empty() && std::any_of(shape.begin(), shape.end(), is_one))
    return x.builder()("prims.as_strided", x, shape, Dims(shape.size(), Dim(0)));
  return x.builder()("prims.broadcast_in_dim", x, shape, from);
}

Expr expand_to_sizes(std::string_view op, const Expr& x, const Arg& sizes) {
  return expand(x, expanded_shape(op, x.shape(), size_args(op, sizes)));
}

Dims broadcast_of(std::string_view op, const std::vector<Dims>& shapes, ErrorKind kind) {
  Dims out;
  for (const Dims& s : shapes) {
    if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), Dim(1));
    size_t lead = out.size() - s.size();
    for (size_t i = 0; i < s.size(); ++i) {
      Dim& o = out[lead + i];
      if (o.same(s[i]) || is_one(s[i])) continue;
      if (is_one(o)) {
        o = s[i];
      } else if (o != s[i]) {
        std::vector<std::string> parts;
        for (const Dims& p : shapes) parts.push_back(str(p));
        throw Error(kind, cat("[", op, "] shapes cannot be broadcast together: ", join(parts)));
      }
    }
  }
  return out;
}

}  // namespace thunder::ops
