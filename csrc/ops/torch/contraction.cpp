// torch: contractions of named or numbered dimensions (einsum, tensordot, bilinear), by batched matrix products.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/product_dtype.h"

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

// Sums over the dimensions that `keep` does not name.
Named summed(const Named& x, const std::string& keep) {
  std::vector<int64_t> dims;
  std::string names;
  for (size_t i = 0; i < x.names.size(); ++i) {
    if (has(keep, x.names[i])) names += x.names[i];
    else dims.push_back(static_cast<int64_t>(i));
  }
  if (dims.empty()) return x;
  return {x.tensor.builder()("torch.sum", x.tensor, Arg(dims)), names};
}

const Dim& size_of(const Named& x, char c) { return x.tensor.shape()[x.names.find(c)]; }

// The product of two tensors, summed over the dimensions that `keep` does not name: one batched matrix product over
// [dimensions of both that stay, those of the first, contracted ones].
Named contracted(Named x, Named y, const std::string& keep) {
  Builder& b = x.tensor.builder();
  x = summed(x, keep + y.names);
  y = summed(y, keep + x.names);
  std::string batch, first, second, inner;
  for (char c : x.names) {
    bool shared = has(y.names, c);
    // A size of 1 broadcasts, or has nothing to sum: such a dimension is not contracted with the other's.
    bool kept = shared && (has(keep, c) || size_of(x, c) == 1 || !same({size_of(x, c)}, {size_of(y, c)}));
    if (!shared) first += c;
    else if (kept) batch += c;
    else inner += c;
  }
  for (char c : y.names)
    if (!has(x.names, c)) second += c;
  auto sizes = [&](const Named& t, const std::string& names) {
    Dims out;
    for (char c : names) out.push_back(size_of(t, c));
    return out;
  };
  Dims bx = sizes(x, batch), by = sizes(y, batch), rows = sizes(x, first), columns = sizes(y, second),
       k = sizes(x, inner);
  auto shape = [](Dims lead, const Dims& p, const Dims& q) {
    lead.insert(lead.end(), {product(p), product(q)});
    return lead;
  };
  Expr r;
  if (inner.empty()) {  // nothing is summed: an elementwise product rounds as eager's does
    std::string all = batch + first + second;
    r = arranged(x, all) * arranged(y, all);
    return summed({r, all}, keep);
  }
  Expr left = torch_reshape(arranged(x, batch + first + inner), shape(bx, rows, k));
  Expr right = torch_reshape(arranged(y, batch + inner + second), shape(by, k, columns));
  r = b("torch.matmul", product_operand(left), product_operand(right));
  Dims out(r.shape().begin(), r.shape().end() - 2);
  out.insert(out.end(), rows.begin(), rows.end());
  out.insert(out.end(), columns.begin(), columns.end());
  return summed({torch_reshape(r, out), batch + first + second}, keep);
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
  Named r = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string keep = output;
    for (size_t j = i + 1; j < operands.size(); ++j) keep += operands[j].names;
    r = contracted(r, operands[i], keep);
  }
  r = summed(r, output);
  return arranged(r, output).arg();
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
  Expr r = b("torch.matmul", product_operand(p), product_operand(q));
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
