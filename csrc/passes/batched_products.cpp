#include "passes/batched_products.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/common.h"
#include "ops/formula.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

constexpr int64_t kAlignment = 16;  // bytes

/// out[..., rows, columns] = a[..., rows, terms] times b[..., terms, columns].
enum ProductDim : uint8_t { kRows, kTerms, kColumns };
using ProductSizes = std::array<int64_t, 3>;

/// How the product reads a tensor of [..., rows, columns].
struct ProductOperand {
  Value base;               ///< the operand, or
  bool transposed = false;  ///< that with its last two dimensions swapped
  bool by_rows = true;      ///< in memory the base's columns lie next to each other, else its rows
  bool is_read = false;     ///< by BLAS as it is, ...
  bool aligned = true;      ///< ... and each row, or column, begins at a multiple of 16 bytes
};

struct BatchedProduct {
  ProductOperand a, b;
  Dims batch;
  ProductSizes sizes{};
  bool transposed = false;  ///< the result is read transposed
};

int64_t unit_of(DType t) { return is_16_bit(t) ? kAlignment / itemsize(t) : 1; }

int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

int64_t stride_of(const TensorType& t, int64_t from_end) {
  return t.strides[t.strides.size() - static_cast<size_t>(from_end)].constant();
}

int64_t size_of(const TensorType& t, int64_t from_end) {
  return t.shape[t.shape.size() - static_cast<size_t>(from_end)].constant();
}

/// The distance from one matrix to the next of a batch to which the tensor is broadcast, if it is one.
std::optional<int64_t> batch_stride(const TensorType& t, const Dims& batch) {
  const size_t own = t.shape.size() - 2;
  int64_t count = 1, stride = 0;
  for (size_t i = batch.size(); i-- > 0;) {
    const int64_t n = batch[i].constant();
    if (n == 1) continue;
    const size_t missing = batch.size() - own;
    const bool repeats = i < missing || t.shape[i - missing].same(1);
    const int64_t here = repeats ? 0 : t.strides[i - missing].constant();
    if (count == 1) stride = here;
    else if (here != stride * count) return std::nullopt;
    count *= n;
  }
  return stride;
}

bool is_swapped(const TensorType& t, const TensorType& of) {
  Dims shape = of.shape, strides = of.strides;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return same(t.shape, shape) && same(t.strides, strides);
}

bool is_batched_product(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name != "torch.matmul" && name != "torch.bmm" && name != "prims.matmul") return false;
  if (!call.args[0].is_tensor() || !call.args[1].is_tensor() || !call.output.is_value()) return false;
  const TensorType &a = call.args[0].value().tensor(), &b = call.args[1].value().tensor();
  return a.device.type == DeviceType::cuda && is_floating(a.dtype) && a.rank() >= 3 && b.rank() >= 3 &&
         is_constant(a) && is_constant(b) && call.output.value().tensor().numel().constant() > 0 &&
         a.shape.back().constant() > 0;
}

bool has_batched_product(const Call& call) {
  return is_batched_product(call) ||
         std::any_of(call.body.begin(), call.body.end(), [](const Call* c) { return has_batched_product(*c); });
}

class Batcher {
 public:
  Batcher(const Trace& trace, const ExecutorList& executors, const AlignmentCosts& costs)
      : trace_(trace), executors_(executors), costs_(costs), rewriter_(trace) {
    for (const Call* c : trace.calls) visit_all_inputs(*c, [&](Value v) { readers_[v.id()].push_back(c); });
    visit_values(trace.output, [&](Value v) { returned_.set(v, 1); });
  }

  Trace run(size_t& boundary) {
    for (size_t i = 0, before = boundary; i < trace_.calls.size(); ++i) {
      rewrite(trace_.calls[i]);
      if (i + 1 == before) boundary = rewriter_.builder.calls().size();
    }
    return without_dead_code(rewriter_.finish(), boundary);
  }

 private:
  void rewrite(const Call* original) {
    for (const Call* call : rewriter_.current(original)) {
      if (opens(*call)) {
        for (const Call* inner : call->body) rewrite(inner);
        continue;
      }
      for (const Call* c : changed(*call)) {
        sources_.add(*c);
        rewriter_.builder.append(c);
      }
    }
  }

  // Whether a composite that nobody takes whole holds a product that changes, or that more than views lead to: einsum
  // copies its operands.
  bool opens(const Call& call) {
    if (call.body.empty() || is_batched_product(call) || effects(call) != 0 || !holds_change(call)) return false;
    return !find_specialist(executors_, call);
  }

  bool holds_change(const Call& call) {
    for (const Call* c : call.body) sources_.add(*c);
    const bool more = std::any_of(call.body.begin(), call.body.end(),
                                  [](const Call* c) { return !has_batched_product(*c) && !is_pure_view(*c); });
    return std::any_of(call.body.begin(), call.body.end(), [&](const Call* c) {
      const std::optional<BatchedProduct> p = product_of(*c);
      return p ? more || change_of(*p, c->output.value()).has_value() : holds_change(*c);
    });
  }

  // ---- what a product is --------------------------------------------------------------------------------------------

  // The tensor as it lies in memory: of views that only swap the last dimensions the first one.
  ProductOperand operand_of(Value v, const Dims& batch) const {
    ProductOperand out{.base = v};
    for (const Call* view = sources_.maker(v); view && is_pure_view(*view) && view->args[0].is_tensor();
         view = sources_.maker(v)) {
      const TensorType &t = v.tensor(), &before = view->args[0].value().tensor();
      if (before.rank() != t.rank() || before.dtype != t.dtype || !is_constant(before)) break;
      const bool same_type = same(t.shape, before.shape) && same(t.strides, before.strides);
      if (!same_type && !is_swapped(t, before)) break;
      out.transposed ^= !same_type;
      out.base = v = view->args[0].value();
    }
    const TensorType& t = out.base.tensor();
    const int64_t columns = size_of(t, 1), rows = size_of(t, 2), next = stride_of(t, 1), below = stride_of(t, 2);
    const bool by_rows = next == 1 && below >= columns, by_columns = below == 1 && next >= rows;
    const std::optional<int64_t> distance = batch_stride(t, batch);
    const int64_t unit = unit_of(t.dtype);
    out.by_rows = by_rows || (!by_columns && below != 1);
    out.is_read = distance && (by_rows || by_columns);
    out.aligned = out.is_read && *distance % unit == 0 && (by_rows ? below : next) % unit == 0;
    return out;
  }

  std::optional<BatchedProduct> product_of(const Call& call) const {
    if (!is_batched_product(call)) return std::nullopt;
    const Value a = call.args[0].value(), b = call.args[1].value(), out = call.output.value();
    BatchedProduct p;
    p.batch.assign(out.shape().begin(), out.shape().end() - 2);
    p.a = operand_of(a, p.batch);
    p.b = operand_of(b, p.batch);
    p.sizes = {size_of(a.tensor(), 2), size_of(a.tensor(), 1), size_of(b.tensor(), 1)};
    p.transposed = is_read_transposed(out);
    return p;
  }

  // By nothing but views that swap the last dimensions, of which no product is made.
  bool is_read_transposed(Value out) const {
    return all_readers(out, [&](const Call& reader) {
      if (!reader.output.is_value() || !is_pure_view(reader)) return false;
      const Value view = reader.output.value();
      return view.rank() == out.rank() && is_swapped(view.tensor(), out.tensor()) &&
             all_readers(view, [](const Call& r) { return !r.op->has(kMatmul); });
    });
  }

  template <class F>
  bool all_readers(Value v, F&& good) const {
    const auto it = readers_.find(v.id());
    return it != readers_.end() && !returned_[v] &&
           std::all_of(it->second.begin(), it->second.end(), [&](const Call* c) { return good(*c); });
  }

  // Whether kernels read the value, in any layout, through views.
  bool is_read_by_kernels(Value v) const {
    return all_readers(v, [&](const Call& reader) {
      if (is_pure_view(reader) && reader.output.is_value()) return is_read_by_kernels(reader.output.value());
      return reader.op->executor.empty() && !reader.op->has(kMatmul | kEffects);
    });
  }

  // ---- whether it pays ----------------------------------------------------------------------------------------------

  static ProductDim along_memory(const ProductOperand& x, ProductDim rows, ProductDim columns) {
    return x.by_rows != x.transposed ? columns : rows;
  }

  // Those that lie along memory in an operand or in the result, as multiples of 16 bytes.
  static ProductSizes aligned_sizes(const BatchedProduct& p) {
    ProductSizes out = p.sizes;
    const int64_t unit = unit_of(p.a.base.dtype());
    for (ProductDim s :
         {along_memory(p.a, kRows, kTerms), along_memory(p.b, kTerms, kColumns), p.transposed ? kRows : kColumns})
      out[s] = rounded_up(p.sizes[s], unit);
    return out;
  }

  double seconds_of_padding(const ProductOperand& x, bool changed) const {
    if (!x.is_read || !(changed || !x.aligned) || sources_.is_computed(x.base)) return 0;
    return seconds_of_copy(x.base.tensor(), costs_);
  }

  bool pays(const BatchedProduct& p, const ProductSizes& sizes, Value out) const {
    const auto grows = [&](ProductDim s) { return sizes[s] != p.sizes[s]; };
    const bool is_wider = grows(kRows) || grows(kColumns);
    const double copied = seconds_of_padding(p.a, grows(kRows) || grows(kTerms)) +
                          seconds_of_padding(p.b, grows(kTerms) || grows(kColumns)) +
                          (is_wider && !is_read_by_kernels(out) ? seconds_of_copy(out.tensor(), costs_) : 0);
    const double operations = 2 * static_cast<double>(out.tensor().numel().constant() * p.sizes[kTerms]),
                 moved = bytes(p.a.base.tensor()) + bytes(p.b.base.tensor()) + bytes(out.tensor());
    return std::max(operations * costs_.operation, moved * costs_.batch_byte) > copied + costs_.launch;
  }

  struct Change {
    ProductSizes sizes;
    bool aligns;
  };

  std::optional<Change> change_of(const BatchedProduct& p, Value out) const {
    const ProductSizes wanted = aligned_sizes(p);
    const bool is_uneven = wanted != p.sizes || (p.a.is_read && !p.a.aligned) || (p.b.is_read && !p.b.aligned);
    const bool aligns = is_uneven && pays(p, wanted, out);
    if (!aligns && p.a.is_read && p.b.is_read) return std::nullopt;
    return Change{aligns ? wanted : p.sizes, aligns};
  }

  // ---- what stands in its place -------------------------------------------------------------------------------------

  std::vector<const Call*> changed(const Call& call) {
    const std::optional<BatchedProduct> p = product_of(call);
    const std::optional<Change> change = p ? change_of(*p, call.output.value()) : std::nullopt;
    if (!change) return {&call};
    const TensorType& out = call.output.value().tensor();
    Arg result;
    std::vector<const Call*> made = rewriter_.collect(call, [&] {
      const Expr a = matrices(p->a, p->batch, change->sizes[kRows], change->sizes[kTerms], change->aligns),
                 b = matrices(p->b, p->batch, change->sizes[kTerms], change->sizes[kColumns], change->aligns);
      result = p->transposed ? transposed_product(*p, a, b, out) : product(*p, a, b, out);
    });
    rewriter_.replace_outputs(call, result, "batched_products");
    return made;
  }

  static Expr swapped(const Expr& x) {
    std::vector<int64_t> order = ops::range(0, x.rank());
    std::swap(order.back(), order.end()[-2]);
    return x.builder()("prims.transpose", x, Arg(order));
  }

  static Expr unfolded(const Expr& x, const Dims& batch) {
    Dims shape = batch;
    shape.insert(shape.end(), x.shape().end() - 2, x.shape().end());
    return ops::reshape(x.builder(), x, shape);
  }

  Arg product(const BatchedProduct& p, const Expr& a, const Expr& b, const TensorType& out) {
    return narrowed(unfolded(rewriter_.builder("torch.bmm", a, b), p.batch), out);
  }

  Arg transposed_product(const BatchedProduct& p, const Expr& a, const Expr& b, const TensorType& out) {
    return narrowed(swapped(unfolded(rewriter_.builder("torch.bmm", swapped(b), swapped(a)), p.batch)), out);
  }

  // The operand as [matrices, rows, columns].
  Expr matrices(const ProductOperand& x, const Dims& batch, int64_t rows, int64_t columns, bool align) {
    const std::pair<int64_t, int64_t> own{x.transposed ? columns : rows, x.transposed ? rows : columns};
    const TensorType& t = x.base.tensor();
    const bool padded = own != std::pair(size_of(t, 2), size_of(t, 1));
    const bool as_it_is = x.is_read && !padded && (x.aligned || !align);
    const Expr base = as_it_is ? folded(expanded(x.base, batch)) : copied(x, batch, own);
    return x.transposed ? swapped(base) : base;
  }

  Expr expanded(Value v, const Dims& batch) {
    Dims shape = batch;
    shape.insert(shape.end(), v.shape().end() - 2, v.shape().end());
    return Expr(rewriter_.builder, ops::expand_to(rewriter_.builder, v, shape));
  }

  static Expr folded(const Expr& x) {
    Dim count = 1;
    for (size_t i = 0; i + 2 < x.shape().size(); ++i) count *= x.shape()[i];
    return ops::reshape(x.builder(), x, Dims{count, x.shape().end()[-2], x.shape().back()});
  }

  /// A copy, kept for the next product that reads the same tensor.
  struct Copy {
    Value of;
    Dims batch;
    std::pair<int64_t, int64_t> sizes;
    Value made;
  };

  // Of the base in these sizes, at one distance, next to each other what is so in the base.
  Expr copied(const ProductOperand& x, const Dims& batch, const std::pair<int64_t, int64_t>& sizes) {
    for (const Copy& c : copies_)
      if (c.of == x.base && same(c.batch, batch) && c.sizes == sizes) return Expr(rewriter_.builder, c.made);
    Expr source = expanded(x.base, batch);
    if (!x.by_rows) source = swapped(source);
    const Dims own = source.shape();
    std::vector<int64_t> wide;
    for (size_t i = 0; i + 2 < own.size(); ++i) wide.push_back(own[i].constant());
    wide.push_back(x.by_rows ? sizes.first : sizes.second);
    wide.push_back(x.by_rows ? sizes.second : sizes.first);
    const bool is_wider = wide.end()[-2] != own.end()[-2].constant() || wide.back() != own.back().constant();
    const Expr copy = is_wider ? padded_to(rewriter_.builder, source.value(), wide)
                               : rewriter_.builder("prims.restride", source, contiguous_strides(own));
    const Expr made = x.by_rows ? folded(copy) : swapped(folded(copy));
    copies_.push_back({x.base, batch, sizes, made.value()});
    return made;
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  const AlignmentCosts& costs_;
  Rewriter rewriter_;
  ValueMakers sources_;
  std::unordered_map<ValueId, std::vector<const Call*>> readers_;
  ValueSet returned_;
  std::vector<Copy> copies_;
};

}  // namespace

Trace batched_products(const Trace& trace, size_t& boundary, const ExecutorList& executors,
                       const AlignmentCosts& costs) {
  const bool any =
      std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return has_batched_product(*c); });
  return any ? Batcher(trace, executors, costs).run(boundary) : trace;
}

}  // namespace thunder
