#include "passes/distributed/call_cost.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "passes/visit.h"

namespace thunder::distributed {
namespace {

int64_t constant(const Dim& d, const Type& type) {
  THUNDER_CHECK(d.is_constant(), NotImplemented, "simulate", "the size of a tensor ", type.str(),
                " is known only when the program runs");
  return d.constant();
}

int64_t elements(const TensorType& t, bool stored) {
  int64_t n = 1;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const int64_t size = constant(t.shape[i], t);
    const bool repeated = stored && t.strided() && t.strides[i].is_constant() && t.strides[i].constant() == 0;
    if (!repeated || size == 0) n *= size;
  }
  return n;
}

double numel(const TensorType& t) { return static_cast<double>(elements(t, false)); }
double size(const TensorType& t, int64_t dim) {
  return static_cast<double>(constant(t.shape.at(static_cast<size_t>(dim < 0 ? t.rank() + dim : dim)), t));
}

bool has_param(const Op& op, std::string_view name) {
  return std::any_of(op.schema.params.begin(), op.schema.params.end(), [&](const Param& p) { return p.name == name; });
}

bool is_tensor(const Call& c, std::string_view param) {
  return has_param(*c.op, param) && c.arguments()[param].is_value() && c.arguments().value(param).type().is_tensor();
}

const TensorType* first_tensor(const Call& c) {
  const TensorType* out = nullptr;
  for (const Arg& a : c.args)
    visit_values(a, [&](Value v) {
      if (!out && v.type().is_tensor()) out = &v.tensor();
    });
  return out;
}

double numel_of_outputs(const Call& c) {
  double n = 0;
  visit_outputs(c, [&](Value v) {
    if (v.type().is_tensor()) n += numel(v.tensor());
  });
  return n;
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

bool is_attention(const Call& c) {
  return c.op->has(kMatmul) && is_tensor(c, "query") && is_tensor(c, "key") && is_tensor(c, "value");
}

// How many keys a row of a window sees; all of them without one.
double keys_seen(const Call& c, double keys) {
  const bool backward = has_param(*c.op, "window_size_left");
  if (!backward && !has_param(*c.op, "left")) return keys;
  auto side = [&](const char* name) {
    const int64_t n = c.arguments().integer(name);
    return n < 0 ? keys : static_cast<double>(n);
  };
  const double left = side(backward ? "window_size_left" : "left"),
               right = side(backward ? "window_size_right" : "right");
  return std::min(keys, left + right + 1);
}

// Two products, five in the gradient, which computes the weights again; half of each where later keys do not count.
Work attention(const Call& c) {
  const TensorType &q = c.arguments().tensor("query"), &k = c.arguments().tensor("key"),
                   &v = c.arguments().tensor("value");
  const bool backward = has_param(*c.op, "grad_out");
  const bool causal = has_param(*c.op, "is_causal") && c.arguments().flag("is_causal");
  // A kernel of windows has the heads inside of the sequence.
  const bool heads_inside =
      !c.op->executor.empty() && (has_param(*c.op, "left") || has_param(*c.op, "window_size_left"));
  double flops =
      2 * numel(q) * keys_seen(c, size(k, heads_inside ? -3 : -2)) * (1 + size(v, -1) / std::max(1.0, size(q, -1)));
  if (causal) flops /= 2;
  return {backward ? 2.5 * flops : flops, backward ? Arithmetic::AttentionBackward : Arithmetic::Attention, q.dtype};
}

double convolution(const TensorType& many, const TensorType& weight) {
  return 2 * numel(many) * numel(weight) / std::max(1.0, size(weight, 0));
}

Work convolution(const Call& c) {
  const Args a = c.arguments();
  const bool backward = has_param(*c.op, "grad_output"), transposed = a.flag("transposed");
  const TensorType& weight = a.tensor("weight");
  const TensorType& given = a.tensor("input");
  Work out{0, Arithmetic::Convolution, given.dtype};
  if (!backward) {
    out.flops = transposed ? convolution(given, weight)
                           : 2 * numel_of_outputs(c) * numel(weight) / std::max(1.0, size(weight, 0));
    return out;
  }
  const double one = convolution(transposed ? given : a.tensor("grad_output"), weight);
  for (size_t i = 0; i < 2; ++i) out.flops += a["output_mask"].items()[i].boolean() ? one : 0;
  return out;
}

// By the length of what is summed.
Work product(const Call& c) {
  const TensorType* a = first_tensor(c);
  for (const char* name : {"mat1", "batch1", "mat"})
    if (is_tensor(c, name)) a = &c.arguments().tensor(name);
  if (!a || a->rank() == 0) return {};
  return {2 * numel_of_outputs(c) * size(*a, -1), Arithmetic::Product, a->dtype};
}

constexpr std::array kProducts = {"prims.matmul", "prims.linear",  "torch.matmul",    "torch.linear", "torch.mm",
                                  "torch.bmm",    "torch.mv",      "torch.dot",       "torch.vdot",   "torch.addmm",
                                  "torch.addmv",  "torch.baddbmm", "torch._scaled_mm"};

bool is_one_of(const auto& names, const std::string& name) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

Work arithmetic(const Call& c) {
  const std::string& name = meant_by(c).full_name;
  if (is_attention(c)) return attention(c);
  if (is_one_of(kProducts, name)) return product(c);
  const bool convolves = name == "prims.convolution" || name == "torch.convolution_backward";
  if (convolves && is_tensor(c, "input") && is_tensor(c, "weight")) return convolution(c);
  Work out;
  for (const Call* inner : c.body) {
    const Work part = arithmetic(*inner);
    if (part.flops > 0) out = {out.flops + part.flops, part.kind, part.dtype};
  }
  return out;
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

constexpr std::array kRows = {"torch.embedding", "prims.take", "prims.take_along_axis", "torch.index_select",
                              "torch.gather"};

int64_t bytes_of_outputs(const Call& c) {
  int64_t n = 0;
  visit_outputs(c, [&](Value v) { n += bytes_of(v.type()); });
  return n;
}

// Of what a call reads of an operand; a kernel reads it once, and of a table, or through a view, what it needs.
int64_t bytes_read(const Call& c, Value v) {
  const int64_t all = bytes_of(v.type());
  const bool some = is_pure_view(c) || is_one_of(kRows, meant_by(c).full_name);
  if (some) return std::min(all, bytes_of_outputs(c));
  if (c.body.empty()) return all;
  int64_t n = 0;
  bool inside = false;
  for (const Call* inner : c.body)
    for (Value read : inputs_of(*inner))
      if (read == v) {
        inside = true;
        n += bytes_read(*inner, v);
        break;
      }
  return inside ? std::min(all, n) : all;
}

}  // namespace

int64_t bytes_of(const Type& type) {
  if (type.is_tensor()) return elements(type.tensor(), true) * itemsize(type.tensor().dtype);
  int64_t n = 0;
  if (type.is_future())
    for (const TensorType& t : type.future()) n += elements(t, false) * itemsize(t.dtype);
  return n;
}

bool runs_nothing(const Call& call) {
  const Op& op = meant_by(call);
  if (op.has(kComm) || op.has(kIdentity) || op.full_name == "prims.python_del") return true;
  if (op.full_name == "prims.gradient_if_used") return true;
  return is_pure_view(call);
}

Work work_of(const Call& call) {
  if (runs_nothing(call)) return {};
  Work out = arithmetic(call);
  ValueSet seen;
  for (const Arg& a : call.args)
    visit_values(a, [&](Value v) {
      if (seen[v]) return;
      seen.set(v, 1);
      out.bytes += bytes_read(call, v);
    });
  out.bytes += bytes_of_outputs(call);
  return out;
}

}  // namespace thunder::distributed
