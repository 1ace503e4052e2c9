// torch: contractions of named or numbered dimensions (einsum, tensordot, bilinear), by batched matrix products.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

// A tensor whose dimensions have names; an ellipsis stands for dimensions named '0', '1', ... counted from its last.
struct Named {
  Expr tensor;
  std::string names;
};

bool has(const std::string& names, char c) { return names.find(c) != std::string::npos; }

// The tensor with its dimensions in the order of `names`; those that it lacks get size 1.
Expr arranged(const Named& x, const std::string& names) {
  Builder& b = x.tensor.builder();
  std::vector<int64_t> order;
  Dims shape;
  for (char c : names) {
    size_t at = x.names.find(c);
    if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
    shape.push_back(at == std::string::npos ? Dim(1) : x.tensor.shape()[at]);
  }
  Expr t = x.tensor;
  if (!std::is_sorted(order.begin(), order.end())) t = b("torch.permute", t, Arg(order));
  return torch_reshape(t, shape);
}

const Dim& size_of(const Named& x, char c) { return x.tensor.shape()[x.names.find(c)]; }

// Which of the dimensions of a product of two tensors both have, or only one of them.  A size of 1 counts as none.
struct Roles {
  std::vector<int64_t> both, first, second;
};

Roles roles(const Expr& x, const Expr& y, const std::vector<int64_t>& summed) {
  Roles r;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(summed.begin(), summed.end(), d) != summed.end()) continue;
    const bool in_x = x.shape()[static_cast<size_t>(d)] != 1, in_y = y.shape()[static_cast<size_t>(d)] != 1;
    (in_x && in_y ? r.both : in_x ? r.first : r.second).push_back(d);
  }
  return r;
}

std::vector<int64_t> joined(std::initializer_list<std::vector<int64_t>> parts) {
  std::vector<int64_t> out;
  for (const std::vector<int64_t>& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

Dims sizes_of(const Expr& x, const std::vector<int64_t>& dims) {
  Dims out;
  for (int64_t d : dims) out.push_back(x.shape()[static_cast<size_t>(d)]);
  return out;
}

// The product of two tensors of the same rank, in which sizes of 1 broadcast, summed over dimensions that both have;
// those get size 1.  It is a batched matrix product over [dimensions of both, of the first, summed ones] and [dimensions
// of both, summed ones, of the second], and so has eager's strides.
Expr sum_of_products(const Expr& x, const Expr& y, const std::vector<int64_t>& summed) {
  Builder& b = x.builder();
  if (summed.empty()) return x * y;
  const Roles r = roles(x, y, summed);
  // Where the second's come before the first's, the product of the two the other way round is already in order.
  if (!r.first.empty() && !r.second.empty() && r.second.back() < r.first.front()) return sum_of_products(y, x, summed);
  const Dims batch = sizes_of(x, r.both), rows = sizes_of(x, r.first), columns = sizes_of(y, r.second);
  const Dim k = product(sizes_of(x, summed));
  auto matrices = [&](const Expr& t, const std::vector<int64_t>& order, const Dim& m, const Dim& n) {
    const Dims shape = batch.empty() ? Dims{m, n} : Dims{product(batch), m, n};
    return torch_reshape(b("torch.permute", t, Arg(order)), shape);
  };
  Expr out = b("torch.matmul", matrices(x, joined({r.both, r.first, summed, r.second}), product(rows), k),
               matrices(y, joined({r.both, summed, r.second, r.first}), k, product(columns)));
  Dims shape = batch;
  shape.insert(shape.end(), rows.begin(), rows.end());
  shape.insert(shape.end(), summed.size(), Dim(1));
  shape.insert(shape.end(), columns.begin(), columns.end());
  const std::vector<int64_t> order = joined({r.both, r.first, summed, r.second});
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return b("torch.permute", torch_reshape(out, shape), Arg(back));
}

// ---- einsum ---------------------------------------------------------------------------------------------------------

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool explicit_output = false;
};

Equation parse_equation(std::string text) {
  std::erase(text, ' ');
  Equation e;
  size_t arrow = text.find("->");
  if (arrow != std::string::npos) {
    e.explicit_output = true;
    e.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, ',')) e.inputs.push_back(part);
  if (text.empty() || text.back() == ',') e.inputs.emplace_back();
  return e;
}

// Replaces an ellipsis by one digit for each of the `count` dimensions that it stands for, of `most` in the equation.
std::string expand_ellipsis(const std::string& names, int64_t count, int64_t most) {
  size_t at = names.find("...");
  for (char c : names)
    THUNDER_CHECK(std::isalpha(static_cast<unsigned char>(c)) || c == '.', Runtime, "einsum",
                  "einsum(): invalid subscript given: '", c, "', subscripts must be in [a-zA-Z]");
  if (at == std::string::npos) {
    THUNDER_CHECK(!has(names, '.'), Runtime, "einsum", "einsum(): found '.' that is not part of any ellipsis");
    return names;
  }
  THUNDER_CHECK(most <= 10, NotImplemented, "einsum", "an ellipsis over more than 10 dimensions");
  std::string digits;
  for (int64_t i = most - count; i < most; ++i) digits += static_cast<char>('0' + i);
  return names.substr(0, at) + digits + names.substr(at + 3);
}

// Keeps the diagonal of dimensions that one operand names twice.
Named diagonals(Named x) {
  Builder& b = x.tensor.builder();
  for (size_t i = 0; i < x.names.size(); ++i) {
    size_t j = x.names.find(x.names[i], i + 1);
    if (j == std::string::npos) continue;
    THUNDER_CHECK(x.tensor.shape()[i] == x.tensor.shape()[j], Runtime, "einsum", "einsum(): subscript ", x.names[i],
                  " is repeated but the sizes don't match, ", x.tensor.shape()[j], " != ", x.tensor.shape()[i]);
    char c = x.names[i];
    x.tensor = b("torch.diagonal", x.tensor, 0, static_cast<int64_t>(i), static_cast<int64_t>(j));
    x.names.erase(j, 1);
    x.names.erase(i, 1);
    x.names += c;
    --i;
  }
  return x;
}

void check_sizes(const std::vector<Named>& operands) {
  std::map<char, Dim> sizes;
  for (const Named& x : operands)
    for (char c : x.names) {
      const Dim& d = size_of(x, c);
      auto [it, is_new] = sizes.emplace(c, d);
      if (is_new || it->second == d || d == 1) continue;
      THUNDER_CHECK(it->second == 1, Runtime, "einsum", "einsum(): subscript ", c, " has size ", d,
                    " for one operand which does not broadcast with previously seen size ", it->second);
      it->second = d;
    }
}

// A dimension is summed as soon as no later operand has it; with which one decides what eager computes as a matrix
// product, and so its dtype and strides.
Expr product_of(const std::vector<Named>& operands, const std::string& output, const std::string& contracted) {
  Builder& b = operands[0].tensor.builder();
  // Eager sums over a dimension of size 1, which gives integers another dtype.
  std::optional<ShapeEnv::Asking> scope;
  if (!is_inexact(operands[0].tensor.dtype())) scope.emplace();
  const std::vector<int64_t> inner =
      range(static_cast<int64_t>(output.size()), static_cast<int64_t>(output.size() + contracted.size()));
  std::vector<Expr> tensors;
  for (const Named& x : operands) tensors.push_back(arranged(x, output + contracted));
  auto has_dim = [](const Expr& x, int64_t d) { return x.shape()[static_cast<size_t>(d)] != 1; };
  std::vector<int64_t> left(output.size() + contracted.size());  // how many of the tensors have the dimension
  for (int64_t d : inner)
    left[static_cast<size_t>(d)] =
        std::count_if(tensors.begin(), tensors.end(), [&](const Expr& x) { return has_dim(x, d); });
  Expr r = tensors[0];
  if (tensors.size() == 1) return inner.empty() ? r : b("torch.sum", r, Arg(inner));
  for (size_t i = 1; i < tensors.size(); ++i) {
    Expr y = tensors[i];
    std::vector<int64_t> of_r, of_y, of_both;
    for (int64_t d : inner) {
      int64_t& n = left[static_cast<size_t>(d)];
      const bool in_r = has_dim(r, d), in_y = has_dim(y, d);
      if (in_r && in_y ? --n != 1 : n != 1 || (!in_r && !in_y)) continue;
      n = 0;
      (in_r && in_y ? of_both : in_r ? of_r : of_y).push_back(d);
    }
    if (!of_r.empty()) r = b("torch.sum", r, Arg(of_r), true);
    if (!of_y.empty()) y = b("torch.sum", y, Arg(of_y), true);
    r = sum_of_products(r, y, of_both);
  }
  return inner.empty() ? r : squeeze_dims(r, inner);
}

Arg einsum_body(Builder& b, const Args& a) {
  Equation e = parse_equation(a.str("equation"));
  std::vector<Value> tensors = a.values("operands");
  THUNDER_CHECK(!tensors.empty(), Runtime, "einsum", "einsum(): must provide at least one operand");
  THUNDER_CHECK(tensors.size() == e.inputs.size(), Runtime, "einsum",
                "einsum(): ", tensors.size() > e.inputs.size() ? "more" : "fewer",
                " operands were provided than specified in the equation");
  auto named = [](const std::string& s) {
    return static_cast<int64_t>(s.size()) - (s.find("...") == std::string::npos ? 0 : 3);
  };
  int64_t most = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool ellipsis = e.inputs[i].find("...") != std::string::npos;
    THUNDER_CHECK(ellipsis ? tensors[i].rank() >= named(e.inputs[i]) : tensors[i].rank() == named(e.inputs[i]), Runtime,
                  "einsum", "einsum(): the number of subscripts in the equation (", named(e.inputs[i]),
                  ellipsis ? ") is more than" : ") does not match", " the number of dimensions (", tensors[i].rank(),
                  ") for operand ", i);
    if (ellipsis) most = std::max(most, tensors[i].rank() - named(e.inputs[i]));
  }
  std::vector<Named> operands;
  std::array<int, 256> count{};
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string names = expand_ellipsis(e.inputs[i], tensors[i].rank() - named(e.inputs[i]), most);
    for (char c : names) ++count[static_cast<unsigned char>(c)];
    operands.push_back(diagonals({b.expr(tensors[i]), names}));
  }
  check_sizes(operands);
  std::string output = expand_ellipsis(e.output, most, most);
  if (!e.explicit_output) {
    for (int64_t i = 0; i < most; ++i) output += static_cast<char>('0' + i);
    for (const char* from : {"AZ", "az"})
      for (char c = from[0]; c <= from[1]; ++c)
        if (count[static_cast<unsigned char>(c)] == 1) output += c;
  }
  for (char c : output) {
    THUNDER_CHECK(count[static_cast<unsigned char>(c)] > 0 || std::isdigit(static_cast<unsigned char>(c)), Runtime,
                  "einsum", "einsum(): output subscript ", c, " does not appear in the equation for any input operand");
    THUNDER_CHECK(std::count(output.begin(), output.end(), c) == 1, Runtime, "einsum", "einsum(): output subscript ", c,
                  " appears more than once in the output");
  }
  std::string contracted;
  for (const Named& x : operands)
    for (char c : x.names)
      if (!has(output + contracted, c)) contracted += c;
  return product_of(operands, output, contracted).arg();
}

// ---- tensordot, bilinear --------------------------------------------------------------------------------------------

Arg tensordot_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["a"]), y = b.expr(a["b"]);
  std::vector<int64_t> dx, dy;
  const Arg& dims = a["dims"];
  if (dims.is_sequence()) {
    THUNDER_CHECK(dims.items().size() == 2, Runtime, "tensordot",
                  "tensordot expects dims to be int or two lists of int, got ", dims.items().size(), " items");
    auto list = [&](const Arg& d, int64_t rank) {
      std::vector<int64_t> out;
      for (const Arg& i : d.is_sequence() ? d.items() : ArgList{d})
        out.push_back(canonical_dim("tensordot", as_dim(i).constant(), rank));
      return out;
    };
    dx = list(dims.items()[0], x.rank());
    dy = list(dims.items()[1], y.rank());
  } else {
    int64_t n = as_dim(dims).constant();
    THUNDER_CHECK(n >= 0, Runtime, "tensordot", "tensordot expects dims >= 0, but got dims=", n);
    THUNDER_CHECK(n <= std::min(x.rank(), y.rank()), Runtime, "tensordot",
                  "tensordot expects dims < ndim_a or ndim_b, but got dims=", n);
    dx = range(x.rank() - n, x.rank());
    dy = range(0, n);
  }
  THUNDER_CHECK(dx.size() == dy.size(), Runtime, "tensordot", "both dimension lists should have same length");
  Dims k, rows, columns;
  for (size_t i = 0; i < dx.size(); ++i) {
    // A size of 1 is broadcast against the other's, so the other can be summed at once.
    if (y.shape()[dy[i]] == 1) x = b("torch.sum", x, dx[i], true, kw("dtype", x.dtype()));
    else if (x.shape()[dx[i]] == 1) y = b("torch.sum", y, dy[i], true, kw("dtype", y.dtype()));
    THUNDER_CHECK(x.shape()[dx[i]] == y.shape()[dy[i]], Runtime, "tensordot",
                  "contracted dimensions need to match, but first has size ", x.shape()[dx[i]], " in dim ", dx[i],
                  " and second has size ", y.shape()[dy[i]], " in dim ", dy[i]);
    k.push_back(x.shape()[dx[i]]);
  }
  std::vector<int64_t> left = other_dims(x.rank(), dx), right = dy, last = other_dims(y.rank(), dy);
  for (int64_t d : left) rows.push_back(x.shape()[d]);
  for (int64_t d : last) columns.push_back(y.shape()[d]);
  left.insert(left.end(), dx.begin(), dx.end());
  right.insert(right.end(), last.begin(), last.end());
  Expr p = torch_reshape(b("torch.permute", x, Arg(left)), {product(rows), product(k)});
  Expr q = torch_reshape(b("torch.permute", y, Arg(right)), {product(k), product(columns)});
  Expr r = b("torch.matmul", p, q);
  rows.insert(rows.end(), columns.begin(), columns.end());
  return torch_reshape(r, rows).arg();
}

// out[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j]
Arg bilinear_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input1"]), y = b.expr(a["input2"]), w = b.expr(a["weight"]);
  THUNDER_CHECK(x.rank() == y.rank(), Runtime, "bilinear", "bilinear(): input dimensions do not match: got ", x.rank(),
                " and ", y.rank());
  THUNDER_CHECK(w.rank() == 3 && x.shape().back() == w.shape()[1] && y.shape().back() == w.shape()[2], Runtime,
                "bilinear", "bilinear(): weights size ", str(w.shape()), " does not match input sizes ", str(x.shape()),
                " and ", str(y.shape()));
  Dims out(x.shape().begin(), x.shape().end() - 1);
  Dim rows = product(out);
  Expr flat_x = torch_reshape(x, {rows, w.shape()[1]}), flat_y = torch_reshape(y, {rows, w.shape()[2]});
  Expr pairs = torch_reshape(b("torch.unsqueeze", flat_x, 2) * b("torch.unsqueeze", flat_y, 1),
                             {rows, w.shape()[1] * w.shape()[2]});
  Expr r = b("torch.linear", pairs, torch_reshape(w, {w.shape()[0], w.shape()[1] * w.shape()[2]}), a["bias"]);
  out.push_back(w.shape()[0]);
  return torch_reshape(r, out).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "einsum(str equation, Tensor[] ...operands) -> Tensor", .doc = "Sums of products over named dimensions.",
     .tags = kMatmul, .body = einsum_body, .python = "torch.einsum"},
    {.schema = "tensordot(Tensor a, Tensor b, any dims=2) -> Tensor",
     .doc = "Product of two tensors summed over pairs of dimensions.", .tags = kMatmul, .body = tensordot_body,
     .python = "torch.tensordot"},
    {.schema = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
     .doc = "input1 @ weight[o] @ input2 for each o, plus bias.", .tags = kMatmul, .body = bilinear_body,
     .aten = "bilinear", .python = "torch.nn.functional.bilinear torch.bilinear"},
};
// clang-format on

}  // namespace

Records contraction() { return kRecords; }

}  // namespace thunder::ops::torch
