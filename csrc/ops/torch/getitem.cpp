// x[key] and x[key] = value, with PyTorch's basic and advanced indexing.
//
// A key is read from left to right.  What needs no tensors (integers, slices, None, Ellipsis) becomes one broadcast,
// one slice and one squeeze, which are views (the broadcast comes first, so that new dimensions get the strides that
// they get in eager); what remains are index tensors at places of that view's dimensions.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "core/out_of_bounds.h"
#include "ops/common.h"
#include "ops/shape_common.h"
#include "ops/torch/put.h"

namespace thunder::ops::torch {
namespace {

struct Key {
  std::vector<int64_t> unsqueeze;           // places of new dimensions, before slicing
  Dims start, end, step;                    // per dimension, new ones included
  std::vector<std::pair<int64_t, Arg>> at;  // dimensions indexed by a 0-d integer tensor
  std::vector<int64_t> squeeze;             // dimensions indexed by an integer or a 0-d integer tensor
  ArgList indices;                          // per dimension of the view: an index tensor, or None
  bool has_indices = false;
};

bool is_integer(const Arg& a) {
  return a.kind() == Arg::Kind::Int ||
         (a.is_value() && a.value().type().is_number() && a.number_kind() == NumberKind::Int);
}
bool is_python_bool(const Arg& a) { return a.kind() == Arg::Kind::Bool; }
bool is_ellipsis(const Arg& a) {
  return a.kind() == Arg::Kind::Constant && (a.constant().name == "..." || a.constant().name == "Ellipsis");
}
bool is_scalar_tensor(const Arg& a) { return a.is_tensor() && a.value().rank() == 0; }

// Dimensions of the tensor that one part of the key stands for.
int64_t consumed(const Arg& a) {
  if (a.is_none() || is_ellipsis(a) || is_python_bool(a)) return 0;
  return is_mask(a) ? a.value().rank() : 1;
}

DType list_dtype(const Arg& list) {
  const Arg* a = &list;
  while (a->is_sequence()) {
    if (a->items().empty()) return DType::i64;
    a = &a->items()[0];
  }
  return a->kind() == Arg::Kind::Bool ? DType::boolean : DType::i64;
}

bool holds_tensor(const Arg& a) { return !values_in(a).empty(); }

// A list of integers or booleans (nested, for several dimensions) as an index tensor.
Arg index_of_list(Builder& b, const Arg& list, Device device) {
  if (holds_tensor(list)) {
    ArgList rows;
    for (const Arg& item : list.items())
      rows.push_back(item.is_tensor() ? item
                     : item.is_sequence()
                         ? index_of_list(b, item, device)
                         : b("prims.full", Dims{}, item, kw("dtype", DType::i64), kw("device", device)).arg());
    return b("torch.stack", Arg::list(std::move(rows)));
  }
  return b("prims.tensor_from_sequence", list, kw("dtype", list_dtype(list)), kw("device", device));
}

// A list that holds anything but numbers means the tuple of the same parts, as in NumPy of old.
bool is_tuple_of_keys(const Arg& key) {
  if (key.kind() == Arg::Kind::Tuple) return true;
  if (key.kind() != Arg::Kind::List || key.items().size() >= 32) return false;
  return std::any_of(key.items().begin(), key.items().end(), [](const Arg& a) {
    return a.is_sequence() || a.is_tensor() || a.kind() == Arg::Kind::Slice || a.is_none() || is_ellipsis(a);
  });
}

bool is_bool_list(const Arg& a) {
  return a.is_sequence() && !a.items().empty() && std::all_of(a.items().begin(), a.items().end(), is_python_bool);
}

Dim checked_step(const SliceArg& s) {
  Dim step = s.step.is_none() ? Dim(1) : size_arg("getitem", s.step);
  THUNDER_CHECK(step > 0, Value, "getitem", "step must be greater than zero, got ", step);
  return step;
}

ArgList parts_of(Builder& b, const Arg& key, Device device) {
  if (key.kind() == Arg::Kind::Slice) checked_step(key.slice());  // before the number of dimensions is looked at
  ArgList parts = is_tuple_of_keys(key) ? key.items() : ArgList{key};
  for (Arg& p : parts) {
    if (is_bool_list(p)) continue;
    if (p.is_sequence()) p = index_of_list(b, p, device);
    bool ok = p.is_none() || is_ellipsis(p) || is_python_bool(p) || is_integer(p) || p.kind() == Arg::Kind::Slice ||
              p.is_tensor();
    THUNDER_CHECK(ok, Index, "getitem",
                  "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices");
  }
  return parts;
}

// Reads a key; `x` is only asked for its type, the builder for index tensors made of lists and masks.
class KeyReader {
 public:
  KeyReader(Builder& b, const TensorType& t, bool expand_masks) : b_(b), t_(t), expand_masks_(expand_masks) {}

  Key read(const Arg& key) {
    ArgList parts = parts_of(b_, key, t_.device);
    int64_t total = 0, ellipses = 0;
    for (const Arg& p : parts) total += consumed(p);
    THUNDER_CHECK(total <= t_.rank(), Index, "getitem", "too many indices for tensor of dimension ", t_.rank());
    const int64_t rest = t_.rank() - total;
    for (const Arg& p : parts) {
      if (is_ellipsis(p)) {
        for (int64_t i = 0; ellipses == 0 && i < rest; ++i) keep();
        ++ellipses;
      } else {
        // Eager moves on by `rest` at every ellipsis, and reads sizes beyond the last.
        THUNDER_CHECK(ellipses < 2 || rest == 0 || consumed(p) == 0, Index, "getitem",
                      "an index can only have a single ellipsis ('...') before what it indexes");
        read_part(p);
      }
    }
    while (dim_ < t_.rank()) keep();
    return std::move(key_);
  }

 private:
  int64_t wide_dim() const { return static_cast<int64_t>(key_.start.size()); }
  void add_range(const Dim& start, const Dim& end, const Dim& step) {
    key_.start.push_back(start);
    key_.end.push_back(end);
    key_.step.push_back(step);
  }
  void keep() {
    add_range(0, t_.shape[static_cast<size_t>(dim_++)], 1);
    key_.indices.push_back(nullptr);
  }
  void new_dimension() {
    key_.unsqueeze.push_back(wide_dim());
    add_range(0, 1, 1);
    key_.indices.push_back(nullptr);
  }
  void put_index(Arg index) {
    key_.indices.back() = std::move(index);
    key_.has_indices = true;
  }

  void read_part(const Arg& p) {
    if (p.is_none()) return new_dimension();
    if (is_integer(p)) return read_integer(size_arg("getitem", p));
    if (p.kind() == Arg::Kind::Slice) return read_slice(p.slice());
    if (is_python_bool(p)) {
      new_dimension();
      ArgList rows;
      if (p.boolean()) rows.push_back(0);
      return put_index(
          b_("prims.tensor_from_sequence", Arg::list(rows), kw("dtype", DType::i64), kw("device", t_.device)));
    }
    if (is_bool_list(p)) return read_bool_list(p.items());
    if (is_mask(p)) return read_mask(p);
    if (is_scalar_tensor(p)) {  // eager selects with its value, so it takes no part in the placement of index tensors
      key_.at.emplace_back(wide_dim(), p);
      key_.squeeze.push_back(wide_dim());
      return add_range(0, t_.shape[static_cast<size_t>(dim_++)], 1);
    }
    keep();
    put_index(p);
  }

  void read_integer(const Dim& given) {
    size_t d = static_cast<size_t>(dim_);
    const Dim& size = t_.shape[d];
    ShapeEnv::Asking scope;
    if (!(given >= -size && given < size))
      throw OutOfBounds(cat("[getitem] index ", given, " is out of bounds for dimension ", dim_, " with size ", size));
    Dim index = given < 0 ? given + size : given;
    key_.squeeze.push_back(wide_dim());
    add_range(index, index + 1, 1);
    ++dim_;
  }

  Dim bound(const Arg& a, const Dim& size, const Dim& missing) {
    if (a.is_none()) return missing;
    THUNDER_CHECK(!a.is_tensor(), Runtime, "getitem",
                  "a slice bound that is a tensor depends on its value; use .item() outside the compiled program");
    THUNDER_CHECK(is_integer(a), Type, "getitem", "slice indices must be integers or None or have an __index__ method");
    Dim i = size_arg("getitem", a);
    if (i.same(0) || i.same(size)) return i;
    if (i < 0) i = max(i + size, Dim(0));
    return min(i, size);
  }

  void read_slice(const SliceArg& s) {
    size_t d = static_cast<size_t>(dim_);
    const Dim& size = t_.shape[d];
    Dim step = checked_step(s), start = bound(s.start, size, 0), end = bound(s.stop, size, size);
    if (!start.same(0)) end = max(start, end);
    add_range(start, end, step);
    key_.indices.push_back(nullptr);
    ++dim_;
  }

  // Unlike those of a tensor, the positions of True are known.
  void read_bool_list(const ArgList& mask) {
    const Dim& size = t_.shape[static_cast<size_t>(dim_)];
    THUNDER_CHECK(size == Dim(static_cast<int64_t>(mask.size())), Index, "getitem", "The shape of the mask [",
                  mask.size(), "] at index 0 does not match the shape of the indexed tensor ", str(t_.shape),
                  " at index ", dim_);
    ArgList positions;
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i].boolean()) positions.push_back(i);
    keep();
    put_index(b_("prims.tensor_from_sequence", Arg::list(positions), kw("dtype", DType::i64), kw("device", t_.device)));
  }

  void read_mask(const Arg& p) {
    Expr mask = b_.expr(p);
    if (mask.rank() == 0) {  // one dimension of size 0 or 1
      new_dimension();
      mask = reshape(mask, {Dim(1)});
      return add_mask(mask, key_.indices.size() - 1);
    }
    for (int64_t i = 0; i < mask.rank(); ++i) {
      const Dim &have = t_.shape[static_cast<size_t>(dim_ + i)], &want = mask.shape()[static_cast<size_t>(i)];
      THUNDER_CHECK(have == want, Index, "getitem", "The shape of the mask ", str(mask.shape()), " at index ", i,
                    " does not match the shape of the indexed tensor ", str(t_.shape), " at index ", dim_ + i);
    }
    size_t place = key_.indices.size();
    for (int64_t i = 0; i < mask.rank(); ++i) keep();
    add_mask(mask, place);
  }

  void add_mask(const Expr& mask, size_t place) {
    key_.has_indices = true;
    if (!expand_masks_) {
      key_.indices[place] = mask;
      key_.indices.erase(key_.indices.begin() + static_cast<long>(place) + 1,
                         key_.indices.begin() + static_cast<long>(place) + mask.rank());
      return;
    }
    Expr positions = b_("prims.nonzero", mask);
    for (int64_t i = 0; i < mask.rank(); ++i)
      key_.indices[place + static_cast<size_t>(i)] = squeeze_dims(slice_dim(positions, 1, i, i + 1), {1});
  }

  Builder& b_;
  const TensorType& t_;
  bool expand_masks_;
  Key key_;
  int64_t dim_ = 0;
};

Expr basic_view(const Expr& x, const Key& k) {
  Expr view = slice_dims(unsqueeze_dims(x, k.unsqueeze), k.start, k.end, k.step);
  for (const auto& [dim, index] : k.at) view = x.builder()("prims.narrow_at", view, dim, index, 1);
  return squeeze_dims(view, k.squeeze);
}

// The indices without trailing None.
Arg index_list(ArgList indices) {
  while (!indices.empty() && indices.back().is_none()) indices.pop_back();
  return Arg::list(std::move(indices));
}

Arg getitem_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Key k = KeyReader(b, x.tensor(), true).read(a["key"]);
  Expr view = basic_view(x, k);
  return k.has_indices ? b("prims.index", view, index_list(k.indices)) : view;
}

// ---- writing --------------------------------------------------------------------------------------------------------

bool has_one_element(const Arg& value) {
  if (!value.is_tensor()) return true;
  const Dims& s = value.value().shape();
  return std::all_of(s.begin(), s.end(), [](const Dim& d) { return d.same(1); });
}

// ATen fills a mask with a single value of any dtype.
bool is_one_mask(const ArgList& indices, const Expr& value) {
  auto given = std::count_if(indices.begin(), indices.end(), [](const Arg& i) { return !i.is_none(); });
  return given == 1 && has_one_element(value) && std::any_of(indices.begin(), indices.end(), is_mask);
}

// The value without leading dimensions of size 1 beyond `rank`.
Expr without_leading_ones(const Expr& value, size_t rank) {
  const Dims& s = value.shape();
  size_t lead = 0;
  while (s.size() - lead > rank && is_one(s[lead])) ++lead;
  return lead == 0 ? value : reshape(value, Dims(s.begin() + static_cast<long>(lead), s.end()));
}

Arg setitem_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  const Arg& given = a["value"];
  const TensorType& t = x.tensor();
  Key k = KeyReader(b, t, false).read(a["key"]);
  Expr view = basic_view(x, k), written;
  Expr value = given.is_tensor() ? b.expr(given) : full_scalar(b, given, t);
  THUNDER_CHECK_DTYPE(!k.has_indices || value.dtype() == t.dtype || is_one_mask(k.indices, value), "setitem",
                      "Index put requires the source and destination dtypes match, got ", t.dtype,
                      " for the destination and ", value.dtype(), " for the source.");
  value = b.expr(convert(b, value, t.dtype));
  if (value.tensor().device != t.device) value = b("prims.device_put", value, t.device);
  if (std::optional<Expr> masked = put_by_mask(b, view, k.indices, value)) {
    written = *masked;
  } else if (k.has_indices) {
    // A mask whose selected elements all get one value needs no count of them.
    if (!has_one_element(given)) {
      k = KeyReader(b, t, true).read(a["key"]);
      view = basic_view(x, k);
    }
    written = b("prims.index_put", view, index_list(k.indices), without_leading_ones(value, 1), false);
  } else {
    value = without_leading_ones(value, view.shape().size());
    written = expand(value, expanded_shape("setitem", value.shape(), view.shape()));
  }
  if (view.value() == x.value() && k.has_indices) return written;
  // Back through the steps of basic_view.
  written = unsqueeze_dims(written, k.squeeze);
  Expr wide = unsqueeze_dims(x, k.unsqueeze);
  for (size_t i = k.at.size(); i-- > 0;) {
    Expr outer = slice_dims(wide, k.start, k.end, k.step);
    for (size_t j = 0; j < i; ++j) outer = b("prims.narrow_at", outer, k.at[j].first, k.at[j].second, 1);
    Expr place = b("torch.remainder", k.at[i].second, outer.shape()[static_cast<size_t>(k.at[i].first)]);
    written = b("prims.index_copy", outer, k.at[i].first, reshape(place, {Dim(1)}), written);
  }
  return squeeze_dims(b("prims.slice_scatter", wide, written, k.start, k.end, k.step), k.unsqueeze);
}

constexpr OpDef kRecords[] = {
    {.schema = "getitem(Tensor input, index key) -> Tensor",
     .doc = "x[key]: a view for basic keys, a copy where an index is a tensor.",
     .tags = kShape,
     .body = getitem_body,
     .python = "torch.Tensor.__getitem__"},
    {.schema = "setitem(Tensor input, index key, Scalar value) -> Tensor",
     .doc = "A copy of x in which x[key] is the value, broadcast.",
     .tags = kShape,
     .body = setitem_body},
};

}  // namespace

std::span<const OpDef> getitem() { return kRecords; }

}  // namespace thunder::ops::torch
