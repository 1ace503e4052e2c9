// The fields `index_map` and `write_back` of a record against the reference evaluator.
//
// The operand holds its own flat positions, so that each element of the result tells where it comes from.
#include <algorithm>
#include <set>

#include "core/builder.h"
#include "core/error.h"
#include "core/print.h"
#include "fuzz/checks.h"
#include "reference/evaluator.h"

namespace thunder::fuzz {
namespace {

using reference::ArrayPtr;
using reference::Datum;
using reference::Shape;

class ViewCall {
 public:
  ViewCall(const Op& op, const ArgList& args) : op_(op), args_(args) {}

  std::vector<std::string> run() {
    if (!has_constant_sizes() || repeats_elements()) return {};
    try {
      check();
    } catch (const std::exception& e) {
      found(e.what());
    }
    return findings_;
  }

 private:
  void found(const std::string& what) {
    std::vector<std::string> parts;
    for (const Arg& a : args_) {
      parts.push_back(thunder::print(a));
      visit_values(a, [&](Value v) {
        parts.back() += " : " + v.type().str();
        if (v.type().is_tensor()) parts.back() += " strides=" + str(v.tensor().strides);
      });
    }
    findings_.push_back(cat(op_.full_name, ", view rules: ", what, "\n  ", op_.schema.str(), " with ", join(parts)));
  }

  bool has_constant_sizes() const {
    bool constant = true;
    for (const Arg& a : args_)
      visit_values(a, [&](Value v) {
        if (!v.type().is_tensor()) constant = false;
        else
          for (const Dim& d : v.shape()) constant &= d.is_constant();
      });
    return constant;
  }

  // An operand whose elements share memory (expanded): they are equal, and flat positions are not.
  bool repeats_elements() const {
    bool repeats = false;
    visit_values(args_.front(), [&](Value v) {
      for (size_t i = 0; i < v.shape().size(); ++i)
        repeats |= v.tensor().strides[i].same(0) && v.shape()[i].constant() > 1;
    });
    return repeats;
  }

  void check() {
    Builder b(std::make_shared<Arena>());
    const ArgList args = inputs_of(b);
    const Expr out = b.expr(b.call(op_, args));
    const TensorType type = out.tensor();
    const Datum result = evaluate(b.finish("view", out.arg()), {});
    if (op_.index_map) check_map(Args(op_, args), type, *result.array);
    if (op_.write_back) check_write(type, *result.array);
  }

  // Inputs in the place of the tensors; the first one is the operand, of numbers that hold any flat position.
  ArgList inputs_of(Builder& b) {
    data_.clear();
    ArgList out;
    for (const Arg& a : args_)
      out.push_back(map_values(a, [&](Value v) -> Arg {
        TensorType t = v.tensor();
        if (data_.empty() && !reads_bytes()) t.dtype = is_complex(t.dtype) ? DType::c128 : DType::f64;
        t.requires_grad = false;
        ArrayPtr array = array_of(t);
        for (size_t i = 0; data_.empty() && i < array->data.size(); ++i)
          array->data[i] = number(t.dtype, static_cast<int64_t>(i));
        data_.emplace_back(array);
        return b.input(t);
      }));
    return out;
  }

  // Another dtype of the operand would be other bytes.
  bool reads_bytes() const { return op_.schema.index_of("dtype") >= 0; }

  static reference::Element number(DType t, int64_t i) {
    return stored(t, {i, static_cast<double>(i), 0}, reference::Rounding::Exact);
  }

  static ArrayPtr array_of(const TensorType& t) {
    Shape shape;
    for (const Dim& d : t.shape) shape.push_back(d.constant());
    return reference::make_array(t.dtype, t.device, shape);
  }

  Datum evaluate(const Trace& trace, const std::vector<Datum>& more) {
    std::vector<Datum> inputs = data_;
    inputs.insert(inputs.end(), more.begin(), more.end());
    return reference::Evaluator().run(trace, inputs);
  }

  void check_map(const Args& args, const TensorType& type, const reference::Array& result) {
    const std::optional<IndexMap> map = op_.index_map(args, type);
    const reference::Array& operand = *data_.front().array;
    if (!map) return found("no map of constants");
    if (!map->row_major && map->places.size() != operand.shape.size()) return found("another number of places");
    size_t i = 0;
    reference::for_each_index(result.shape, [&](const Shape& index) {
      const size_t got = map->row_major ? i : flat_position(*map, operand.shape, index);
      if (static_cast<double>(got) != result.data[i].re)
        found(cat("element ", i, " comes from ", result.data[i].re, ", by the map from ", got));
      ++i;
    });
    if (op_.has(kView) && !map->row_major) check_strides(*map, args.tensor("a"), type);
  }

  static size_t flat_position(const IndexMap& map, const Shape& shape, const Shape& index) {
    Shape at;
    for (const IndexMap::Place& place : map.places) {
      at.push_back(place.offset.constant());
      for (const auto& [dim, factor] : place.terms) at.back() += factor.constant() * index[dim];
    }
    return static_cast<size_t>(reference::flat(shape, at));
  }

  // A step along a dimension of the view is the same step in memory by its stride and by the map.
  void check_strides(const IndexMap& map, const TensorType& operand, const TensorType& view) {
    for (size_t j = 0; j < view.shape.size(); ++j) {
      if (view.shape[j].constant() < 2) continue;
      int64_t step = 0;
      for (size_t i = 0; i < map.places.size(); ++i)
        for (const auto& [dim, factor] : map.places[i].terms)
          if (dim == j) step += factor.constant() * operand.strides[i].constant();
      if (!view.strides[j].same(step))
        found(cat("stride ", view.strides[j], " of dimension ", j, ", by the map ", step));
    }
  }

  // Written elements are what the view shows afterwards, and no other element of the base changes.
  void check_write(const TensorType& type, const reference::Array& shown) {
    std::set<double> places;
    for (const reference::Element& e : shown.data) places.insert(e.re);
    const bool overlaps = !reads_bytes() && places.size() < shown.data.size();
    Builder b(std::make_shared<Arena>());
    const ArgList args = inputs_of(b);
    const Expr base = b.expr(b.inputs().front()), written = b.expr(b.input(type));
    ArrayPtr numbers = array_of(type);
    for (size_t i = 0; i < numbers->data.size(); ++i)
      numbers->data[i] = number(type.dtype, -1 - static_cast<int64_t>(i));
    Arg after;
    try {
      after = op_.write_back(b, Args(op_, args), base, written, "test");
    } catch (const Error& e) {
      if (!may_overlap(type) || e.kind() != ErrorKind::Runtime) found(cat("refuses a write: ", e.what()));
      return;
    }
    ArgList again = args;
    for (Arg& a : again)
      if (a.is_tensor() && a.value() == base.value()) a = after;
    const Arg view = b.call(op_, again);
    const Datum got = evaluate(b.finish("write", Arg::list({after, view})), {Datum(numbers)});
    std::string why;
    if (!overlaps && !reference::same_array(*got.items[1].array, *numbers, &why)) found("the view afterwards: " + why);
    if (shown.dtype == DType::f64 && !reads_bytes()) check_others(places, *got.items[0].array);
  }

  // As far as sizes and strides tell: a dimension steps over all that those with smaller strides reach.
  static bool may_overlap(const TensorType& t) {
    std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (t.shape[i].constant() > 1) dims.emplace_back(t.strides[i].constant(), t.shape[i].constant());
    std::sort(dims.begin(), dims.end());
    int64_t last = 0;
    for (const auto& [stride, size] : dims) {
      if (stride <= last) return true;
      last += stride * (size - 1);
    }
    return false;
  }

  void check_others(const std::set<double>& places, const reference::Array& base) {
    for (size_t i = 0; i < base.data.size(); ++i)
      if (!places.count(static_cast<double>(i)) && base.data[i].re != static_cast<double>(i))
        found(cat("element ", i, " of the base, which the view does not show, is ", base.data[i].re));
  }

  const Op& op_;
  const ArgList& args_;
  std::vector<Datum> data_;  // of the inputs
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> check_view(const Op& op, const ArgList& args) {
  if (!op.index_map && !op.write_back) return {};
  return ViewCall(op, args).run();
}

}  // namespace thunder::fuzz
