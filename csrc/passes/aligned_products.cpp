#include "passes/aligned_products.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "passes/rewriter.h"

namespace thunder {
namespace {

constexpr int64_t kAlignment = 16;  // bytes

/// How a matrix lies in memory: [rows, columns] with columns next to each other, or that transposed.
enum class Lies : uint8_t { ByRows, ByColumns, Otherwise };

Lies lies(const TensorType& t) {
  if (is_contiguous(t)) return Lies::ByRows;
  const bool transposed = t.rank() == 2 && t.strides[0].same(1) && t.strides[1].same(t.shape[0]);
  return transposed ? Lies::ByColumns : Lies::Otherwise;
}

/// out[rows, columns] = a[rows, terms] times b[terms, columns]; a and out may have more dimensions in front.
enum ProductDim : uint8_t { kRows, kTerms, kColumns };
using ProductSizes = std::array<int64_t, 3>;

struct AlignedProduct {
  Value a, b;
  Arg bias;
  bool by_rows = false;  // b is given as [columns, terms]
  ProductSizes sizes{};

  Lies lies_a() const { return lies(a.tensor()); }
  double operations() const {
    return 2.0 * static_cast<double>(sizes[kRows]) * static_cast<double>(sizes[kTerms]) *
           static_cast<double>(sizes[kColumns]);
  }
};

bool is_16_bit_matrix_on_a_gpu(const TensorType& t) {
  return t.device.type == DeviceType::cuda && is_16_bit(t.dtype) && t.rank() >= 2 && is_constant(t) &&
         t.numel().constant() > 0 && lies(t) != Lies::Otherwise;
}

std::optional<AlignedProduct> product_of(const Call& call) {
  const std::string& name = call.op->full_name;
  const bool linear = name == "torch.linear";
  if (!linear && name != "torch.matmul" && name != "torch.mm" && name != "prims.matmul") return std::nullopt;
  if (!call.args[0].is_tensor() || !call.args[1].is_tensor() || !call.output.is_value()) return std::nullopt;
  AlignedProduct p{call.args[0].value(), call.args[1].value(), linear ? call.args[2] : Arg(), linear, {}};
  const TensorType &a = p.a.tensor(), &b = p.b.tensor(), &out = call.output.value().tensor();
  if (!is_16_bit_matrix_on_a_gpu(a) || !is_16_bit_matrix_on_a_gpu(b) || b.rank() != 2 || out.rank() != a.rank())
    return std::nullopt;
  p.sizes[kTerms] = a.shape.back().constant();
  p.sizes[kRows] = a.numel().constant() / p.sizes[kTerms];
  p.sizes[kColumns] = b.shape[linear ? 0 : 1].constant();
  if (p.bias.is_value() && !same(p.bias.value().shape(), {p.sizes[kColumns]})) return std::nullopt;
  return p;
}

// Those that lie along memory in an operand or the result, as multiples of the alignment.
ProductSizes aligned_sizes(const AlignedProduct& p) {
  const int64_t unit = kAlignment / itemsize(p.a.tensor().dtype);
  ProductSizes out = p.sizes;
  auto align = [&](ProductDim s) { out[s] = (p.sizes[s] + unit - 1) / unit * unit; };
  align(p.lies_a() == Lies::ByRows ? kTerms : kRows);
  align((lies(p.b.tensor()) == Lies::ByRows) != p.by_rows ? kColumns : kTerms);
  align(kColumns);
  return out;
}

class Aligner {
 public:
  Aligner(const Trace& trace, const AlignmentCosts& costs) : trace_(trace), costs_(costs), rewriter_(trace) {}

  Trace run(size_t& boundary) {
    size_t made = 0;
    for (size_t i = 0, before = boundary; i < trace_.calls.size(); ++i) {
      for (const Call* call : rewriter_.current(trace_.calls[i]))
        for (const Call* c : changed(*call)) {
          append(c);
          ++made;
        }
      if (i + 1 == before) boundary = made;
    }
    return rewriter_.finish();
  }

 private:
  void append(const Call* call) {
    sources_.add(*call);
    rewriter_.builder.append(call);
  }

  // The calls in the place of a product; itself if it is left alone.
  std::vector<const Call*> changed(const Call& call) {
    const std::optional<AlignedProduct> p = product_of(call);
    if (!p) return {&call};
    const ProductSizes sizes = aligned_sizes(*p);
    if (sizes == p->sizes) return {&call};
    const TensorType& out = call.output.value().tensor();
    const bool narrowed = sizes[kColumns] != p->sizes[kColumns];
    const double copied = seconds_of_padding(p->a, sizes[kRows] != p->sizes[kRows], sizes[kTerms] != p->sizes[kTerms]) +
                          seconds_of_padding(p->b, sizes[kTerms] != p->sizes[kTerms], narrowed) +
                          (narrowed ? seconds_of_copy(out, costs_) + (p->bias.is_value() ? costs_.launch : 0) : 0);
    if (p->operations() * costs_.operation <= copied) return {&call};
    Arg result;
    std::vector<const Call*> made = rewriter_.collect(call, [&] { result = aligned(*p, sizes, out); });
    rewriter_.replace_outputs(call, result, "aligned_products");
    return made;
  }

  Arg aligned(const AlignedProduct& p, const ProductSizes& sizes, const TensorType& out) {
    Builder& b = rewriter_.builder;
    const Value first = padded(p.a, sizes[kRows], sizes[kTerms]);
    const Value second =
        p.by_rows ? padded(p.b, sizes[kColumns], sizes[kTerms]) : padded(p.b, sizes[kTerms], sizes[kColumns]);
    if (!p.by_rows) return narrowed(b("torch.matmul", first, second), out);
    Arg bias = p.bias;
    if (bias.is_value()) bias = padded_to(b, bias.value(), {sizes[kColumns]}).arg();
    return narrowed(b("torch.linear", first, second, bias), out);
  }

  /// A padded matrix, kept for the next product that reads the same memory.
  struct Padded {
    Value of;
    Dims shape;
    int64_t rows, columns;
    Value matrix;
  };

  // [..., rows, columns] in the sizes given, the leading dimensions as they are.
  Value padded(Value v, int64_t rows, int64_t columns) {
    const TensorType& t = v.tensor();
    const int64_t have = t.shape.back().constant(), lead = t.numel().constant() / have;
    if (rows == lead && columns == have) return v;
    Builder& b = rewriter_.builder;
    if (lies(t) == Lies::ByColumns)
      return b("torch.transpose", padded_matrix(v, {have, lead}, columns, rows), 0, 1).value();
    const Value matrix = padded_matrix(v, {lead, have}, rows, columns);
    if (t.rank() == 2) return matrix;
    Dims shape = t.shape;
    shape.back() = columns;
    return b("torch.reshape", matrix, shape).value();
  }

  // Of the matrix of this shape that lies by rows in the value's memory.
  Value padded_matrix(Value v, const Dims& shape, int64_t rows, int64_t columns) {
    const Value of = root(v);
    for (const Padded& p : padded_)
      if (p.of == of && same(p.shape, shape) && p.rows == rows && p.columns == columns) return p.matrix;
    Builder& b = rewriter_.builder;
    const Expr flat = is_contiguous(of.tensor()) ? b("torch.reshape", of, shape) : b("torch.transpose", of, 0, 1);
    const Value matrix = padded_to(b, flat.value(), {rows, columns}).value();
    padded_.push_back({of, shape, rows, columns, matrix});
    return matrix;
  }

  // The first value in the same memory, if its elements are the value's and lie by rows: what all its views share.
  Value root(Value v) const {
    Value out = v;
    for (const Call* view = sources_.maker(v); view && is_pure_view(*view) && view->args[0].is_tensor();
         view = sources_.maker(v)) {
      v = view->args[0].value();
      const TensorType& t = v.tensor();
      if (t.dtype != out.dtype()) break;
      if (is_constant(t) && is_contiguous(t) && t.numel() == out.tensor().numel()) out = v;
    }
    return out;
  }

  double seconds_of_padding(Value v, bool rows, bool columns) const {
    if ((!rows && !columns) || sources_.is_computed(v)) return 0;
    return seconds_of_copy(sources_.behind_views(v).tensor(), costs_);
  }

  const Trace& trace_;
  const AlignmentCosts& costs_;
  Rewriter rewriter_;
  ValueMakers sources_;
  std::vector<Padded> padded_;
};

}  // namespace

Trace aligned_products(const Trace& trace, size_t& boundary, const AlignmentCosts& costs) {
  const bool any =
      std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return product_of(*c).has_value(); });
  return any ? Aligner(trace, costs).run(boundary) : trace;
}

}  // namespace thunder
