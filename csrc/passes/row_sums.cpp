#include "passes/row_sums.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/dim_algebra.h"
#include "ops/common.h"
#include "ops/shape_common.h"
#include "passes/rewriter.h"
#include "passes/row_index.h"

namespace thunder {
namespace {

constexpr const char* kSum = "prims.segment_sum";
constexpr const char* kGradient = "torch.embedding_backward";

constexpr int64_t kUsual = 4096;    // for a length that only the run knows
constexpr int64_t kLeastWidth = 8;  // elements of a row: one vector of a kernel
constexpr int64_t kFewRows = 4;     // rows for each entry up to which it pays to write all of them once more
// On a GPU a sum takes four launches more than PyTorch's, some 10 microseconds of the host, in which a GPU moves this many
// elements.
constexpr int64_t kLeastElements = int64_t{1} << 16;

int64_t usual(const Dim& d) { return usual_value(d, kUsual); }

/// base, with source added to its rows at index.
struct RowSum {
  Value base;  ///< none for zeros that are not in the program
  Value source;
  size_t dim = 0;
  RowIndex index;
  std::string kind = "sum";  ///< or "mean"
  bool include_self = true;
  bool by_frequency = false;  ///< divided by how many entries a row has
  bool sorts = false;         ///< PyTorch's operator sorts the index, too

  /// Elements that are added to a row.
  int64_t width() const { return usual(source.tensor().numel()) / std::max<int64_t>(usual(index.count()), 1); }
};

bool may_be_sum(const Op& op) {
  const std::string& name = op.full_name;
  return name == "prims.index_add" || name == "prims.scatter_add" || name == "prims.scatter_reduce" ||
         name == "prims.index_put" || name == kGradient;
}

bool holds_sum(const Call& call) {
  return may_be_sum(*call.op) ||
         std::any_of(call.body.begin(), call.body.end(), [](const Call* c) { return holds_sum(*c); });
}

// ---- which sums there are -------------------------------------------------------------------------------------------

// index_add, scatter_add and scatter_reduce of whole rows.
std::optional<RowSum> along_one_dimension(const Producers& producers, const Call& call) {
  const Args a = call.arguments();
  RowSum sum;
  sum.base = a.value("a");
  sum.source = call.args[3].value();
  const Value index = a.value("index");
  const int64_t rank = sum.base.rank();
  if (rank == 0 || sum.source.rank() != rank || index.rank() == 0) return std::nullopt;
  sum.dim = static_cast<size_t>(ops::canonical_dim("scatter", a.integer("dim"), rank));
  const bool whole_rows = is_call(&call, "prims.index_add");
  if (!whole_rows && !same(index.shape(), sum.source.shape())) return std::nullopt;
  for (size_t i = 0; i < sum.base.shape().size(); ++i)
    if (i != sum.dim && !sum.source.shape()[i].same(sum.base.shape()[i])) return std::nullopt;
  if (is_call(&call, "prims.scatter_reduce")) {
    sum.kind = a.str("reduce");
    sum.include_self = a.flag("include_self");
    if (sum.kind != "sum" && !(sum.kind == "mean" && is_floating(sum.base.dtype()))) return std::nullopt;
  }
  auto found = index_along(producers, index, whole_rows ? 0 : sum.dim, sum.base.shape()[sum.dim]);
  if (!found) return std::nullopt;
  sum.index = std::move(*found);
  return sum;
}

std::optional<RowSum> of_index_put(const Producers& producers, const Call& call) {
  const Args a = call.arguments();
  if (!a.flag("accumulate")) return std::nullopt;
  RowSum sum;
  sum.base = a.value("a");
  sum.source = a.value("values");
  auto found = index_of_list(producers, a["indices"], sum.base.shape(), sum.dim);
  if (!found) return std::nullopt;
  Dims shape = sum.base.shape();
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(sum.dim);
  shape.erase(at, at + static_cast<std::ptrdiff_t>(found->parts.size()));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(sum.dim), found->shape.begin(), found->shape.end());
  if (!same(shape, sum.source.shape())) return std::nullopt;
  sum.index = std::move(*found);
  sum.sorts = sum.source.tensor().device.type == DeviceType::cuda;
  return sum;
}

std::optional<RowSum> of_embedding(const Producers& producers, const Call& call) {
  const Args a = call.arguments();
  const Arg &rows = a["num_weights"], &padding = a["padding_idx"];
  if (rows.is_value() || padding.is_value() || !padding.dim().is_constant() || a.flag("sparse")) return std::nullopt;
  RowSum sum;
  sum.source = a.value("grad");
  const Value indices = a.value("indices");
  if (!producers.is_visible(indices)) return std::nullopt;
  sum.index = {{indices}, {rows.dim()}, indices.shape()};
  if (padding.dim().constant() >= 0) sum.index.skipped = padding.dim();
  sum.by_frequency = a.flag("scale_grad_by_freq");
  return sum;
}

std::optional<RowSum> sum_of(const Producers& producers, const Call& call) {
  const std::string& name = call.op->full_name;
  if (name == kGradient) return of_embedding(producers, call);
  if (name == "prims.index_put") return of_index_put(producers, call);
  return along_one_dimension(producers, call);
}

// The number that all elements are.
std::optional<Arg> constant_of(const Producers& producers, Value v) {
  const Call* maker = producers[v];
  if (is_call(maker, "prims.broadcast_in_dim")) maker = producers[maker->args[0].value()];
  if (!is_call(maker, "prims.full")) return std::nullopt;
  const Arg number = maker->arguments()["fill_value"];
  return number.is_real_literal() ? std::optional<Arg>(number) : std::nullopt;
}

bool are_zeros(const Producers& producers, Value v) {
  if (!v) return true;
  const std::optional<Arg> number = constant_of(producers, v);
  return number && number->real() == 0;
}

bool sums_rows(const Executor& e) { return e.implementations().contains(kSum); }

bool adds_up(DType t, bool eager) {
  if (is_bool(t) || is_complex(t)) return false;
  return !eager || (t != DType::bf16 && t != DType::f16);
}

bool costs_less(const Producers& producers, const RowSum& sum, const TensorType& out) {
  const int64_t entries = usual(sum.index.count());
  if (entries == 0) return false;
  if (!are_zeros(producers, sum.base) && usual(sum.index.rows()) > kFewRows * entries) return false;
  return out.device.type == DeviceType::cpu || out.device.type == DeviceType::cuda;
}

// The grouping of its index pays for this sum alone.
bool stands_alone(const RowSum& sum) {
  if (sum.sorts && usual(sum.index.rows()) <= kFewRows * usual(sum.index.count())) return true;
  if (sum.width() < kLeastWidth) return false;
  return sum.source.tensor().device.type == DeviceType::cpu || usual(sum.index.count()) * sum.width() >= kLeastElements;
}

// ---- sums in their place --------------------------------------------------------------------------------------------

class RowSums {
 public:
  RowSums(const Trace& trace, const ExecutorList& executors, const RowSumOptions& options)
      : trace_(trace), executors_(executors), options_(options), rewriter_(trace), b_(rewriter_.builder) {}

  Trace run(size_t& boundary) {
    forget();
    for (const Call* call : trace_.calls) {
      producers_.add(*call);
      find_wide(*call);
    }
    for (RowIndex& index : alone_) wide_.insert(key_of(index));
    if (wide_.empty()) return trace_;
    forget();
    size_t made = 0;
    for (size_t i = 0, before = boundary; i < trace_.calls.size(); ++i) {
      for (const Call* call : rewriter_.current(trace_.calls[i])) made += put(*call);
      if (i + 1 == before) boundary = made;
    }
    return rewriter_.finish();
  }

 private:
  void forget() {
    producers_ = Producers();
    for (Value v : trace_.inputs) producers_.add_input(v);
  }

  void find_wide(const Call& call) {
    if (!holds_sum(call) || is_taken(call)) return;
    if (may_be_sum(*call.op)) {
      std::optional<RowSum> sum = found(call);
      if (!sum) return;
      if (!sum->index.wraps) unwrapped_.insert(sum->index.key());
      if (stands_alone(*sum)) alone_.push_back(std::move(sum->index));
      return;
    }
    producers_.show(call, true);
    for (const Call* inner : call.body) find_wide(*inner);
    producers_.show(call, false);
  }

  std::optional<RowSum> found(const Call& call) {
    const TensorType& out = call.output.value().tensor();
    if (!adds_up(out.dtype, options_.eager_numerics) || !is_contiguous(out)) return std::nullopt;
    std::optional<RowSum> sum = sum_of(producers_, call);
    if (!sum || sum->source.rank() == 0) return std::nullopt;
    // What is added to has its own layout then.
    if (sum->base && !is_contiguous(sum->base.tensor())) return std::nullopt;
    if (!costs_less(producers_, *sum, out) || !runs_as_kernel(call, *sum)) return std::nullopt;
    return sum;
  }

  // By an executor before the one that sums rows, as it is.
  bool is_taken(const Call& call) const {
    for (const auto& e : executors_) {
      if (sums_rows(*e)) return false;
      if (!e->is_fusion() && e->find(call)) return true;
    }
    return true;
  }

  // That executor takes a sum of this type.
  bool runs_as_kernel(const Call& call, const RowSum& sum) {
    const std::vector<const Call*> trial = rewriter_.collect(call, [&] {
      Expr places = b_("prims.iota", sum.source.shape()[0], 0, 1, kw("dtype", DType::i64),
                       kw("device", sum.source.tensor().device));
      b_(kSum, sum.source, places, nullptr, nullptr, 0, 1, false);
    });
    return std::any_of(executors_.begin(), executors_.end(),
                       [&](const auto& e) { return sums_rows(*e) && e->find(*trial.back()); });
  }

  // A sum that stands alone, or beside one of the same index that does.
  std::optional<RowSum> wanted(const Call& call) {
    std::optional<RowSum> sum = found(call);
    return sum && wide_.contains(key_of(sum->index)) ? sum : std::nullopt;
  }

  // Where another sum takes the same numbers for places, none is negative in a run that ends.
  std::string key_of(RowIndex& index) const {
    if (index.wraps) {
      index.wraps = false;
      if (const std::string key = index.key(); unwrapped_.contains(key)) return key;
      index.wraps = true;
    }
    return index.key();
  }

  bool holds_wanted(const Call& call) {
    if (!holds_sum(call) || is_taken(call)) return false;
    if (may_be_sum(*call.op)) return wanted(call).has_value();
    return std::any_of(call.body.begin(), call.body.end(), [&](const Call* c) { return holds_wanted(*c); });
  }

  // Appends the call, or what stands for it; how many calls that are.
  size_t put(const Call& call) {
    producers_.add(call);
    if (!holds_sum(call) || is_taken(call)) return append(call);
    if (may_be_sum(*call.op)) {
      const std::optional<RowSum> sum = wanted(call);
      return sum ? replace(call, *sum) : append(call);
    }
    producers_.show(call, true);
    const bool opens = holds_wanted(call);
    producers_.show(call, false);
    if (!opens) return append(call);
    size_t made = 0;
    for (const Call* inner : call.body)
      for (const Call* c : rewriter_.current(inner)) made += put(*c);
    return made;
  }

  size_t append(const Call& call) {
    producers_.add(call);
    b_.append(&call);
    return 1;
  }

  size_t replace(const Call& call, const RowSum& sum) {
    Arg result;
    const std::vector<const Call*> made = rewriter_.collect(call, [&] { result = summed(sum, call.output.value()); });
    rewriter_.replace_outputs(call, result, "row_sums");
    for (const Call* c : made) append(*c);
    return made.size();
  }

  struct Grouped {
    Expr order, starts;
    Expr counts;                           // of the entries of each row, once it is asked for
    std::map<std::string, Expr> gathered;  // other indices in this order
  };

  Grouped& grouped(const RowIndex& index) {
    auto [it, is_new] = grouped_.try_emplace(index.key());
    if (is_new) {
      Expr both = b_("prims.group_index", index.flat(b_), index.rows(), index.skipped.has_value());
      it->second.order = both[0];
      it->second.starts = both[1];
    }
    return it->second;
  }

  const Expr& counts(Grouped& g) {
    if (!g.counts.arg().is_none()) return g.counts;
    const Dim& n = g.starts.shape()[0];
    return g.counts = b_("torch.sub", ops::slice_dim(g.starts, 0, 1, n), ops::slice_dim(g.starts, 0, 0, n - 1));
  }

  // A number for each row, for each of the row's elements.
  Expr spread(const Expr& each, const Dims& shape, size_t dim) {
    return b_("prims.broadcast_in_dim", each, shape, Arg(std::vector<int64_t>{static_cast<int64_t>(dim)}));
  }

  Arg summed(const RowSum& sum, Value out) {
    Grouped& g = grouped(sum.index);
    Dims shape = out.shape();  // with one dimension of rows
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(sum.dim);
    shape.erase(at, at + static_cast<std::ptrdiff_t>(sum.index.parts.size()));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(sum.dim), sum.index.rows());
    Expr total = total_of(sum, g, shape);
    if (sum.by_frequency) total = divided(total, counts(g), sum.dim);
    return ops::reshape(joined(sum, g, total, shape), out.shape());
  }

  Expr total_of(const RowSum& sum, Grouped& g, const Dims& shape) {
    if (const std::optional<Arg> number = constant_of(producers_, sum.source)) {
      Expr each = b_("prims.convert_element_type", counts(g), sum.source.dtype());
      return spread(number->real() == 1 ? each : b_("torch.mul", each, *number), shape, sum.dim);
    }
    if (sum.index.shape.size() == 1)
      if (const std::optional<Gather> from = gather_of(producers_, sum.source, sum.dim); from && reads_less(sum, *from))
        return b_(kSum, from->rows, in_order(from->index, g), g.starts, nullptr, sum.dim, 0, false);
    Dims entries = shape;
    entries[sum.dim] = sum.index.count();
    return b_(kSum, ops::reshape(b_.expr(sum.source), entries), g.order, g.starts, nullptr, sum.dim, 0, false);
  }

  // What rows are taken from must be there before the sum: where it is computed, it should not be more than is taken.
  bool reads_less(const RowSum& sum, const Gather& from) const {
    return producers_.is_input(from.rows) || usual(from.rows.shape()[sum.dim]) <= usual(sum.index.count());
  }

  const Expr& in_order(const RowIndex& index, Grouped& g) {
    auto [it, is_new] = g.gathered.try_emplace(index.key());
    if (is_new) it->second = b_("prims.take", index.flat(b_), g.order, 0);
    if (it->second.dtype() != DType::i64) it->second = b_("prims.convert_element_type", it->second, DType::i64);
    return it->second;
  }

  Expr divided(const Expr& total, const Expr& by, size_t dim) {
    const DType t = total.dtype() == DType::f64 ? DType::f64 : DType::f32;
    Expr least = b_("torch.clamp", by, kw("min", 1));
    Expr divisor = spread(b_("prims.convert_element_type", least, t), total.shape(), dim);
    return ops::to_dtype(b_("torch.div", ops::to_dtype(total, t), divisor), total.dtype());
  }

  // With what the rows were before.
  Expr joined(const RowSum& sum, Grouped& g, const Expr& total, const Dims& shape) {
    const bool mean = sum.kind == "mean";
    if (sum.include_self) {
      const bool zeros = are_zeros(producers_, sum.base);
      Expr whole = zeros ? total : b_("torch.add", ops::reshape(b_.expr(sum.base), shape), total);
      return mean ? divided(whole, b_("torch.add", counts(g), 1), sum.dim) : whole;
    }
    Expr any = spread(b_("torch.gt", counts(g), 0), shape, sum.dim);
    return b_("torch.where", any, mean ? divided(total, counts(g), sum.dim) : total, sum.base);
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  const RowSumOptions& options_;
  Rewriter rewriter_;
  Builder& b_;
  Producers producers_;
  std::vector<RowIndex> alone_;  // of sums that their grouping pays for
  std::set<std::string> wide_, unwrapped_;
  std::map<std::string, Grouped> grouped_;
};

}  // namespace

bool any_sums_rows(const ExecutorList& executors) {
  return std::any_of(executors.begin(), executors.end(), [](const auto& e) { return sums_rows(*e); });
}

Trace row_sums(const Trace& trace, const ExecutorList& executors, size_t& boundary, const RowSumOptions& options) {
  const bool any = std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return holds_sum(*c); });
  return any ? RowSums(trace, executors, options).run(boundary) : trace;
}

}  // namespace thunder
