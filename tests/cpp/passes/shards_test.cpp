// shards: a program on shards gives shards of what it gives on the whole, as the reference evaluator finds, or is refused.
#include "passes/distributed/shards.h"

#include <doctest.h>

#include <functional>

#include "core/builder.h"
#include "core/error.h"
#include "ops/families.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using distributed::Shards;
using reference::ArrayPtr;
using reference::Datum;
using reference::Shape;

constexpr int64_t kProcesses = 2;

struct Input {
  Shape shape;
  std::optional<int64_t> dim = {};  ///< along which a process has a shard
};
using Function = std::function<Expr(Builder&, const std::vector<Expr>&)>;

TensorType type_of(const Shape& shape) {
  TensorType t;
  t.dtype = DType::f64;
  for (int64_t n : shape) t.shape.emplace_back(n);
  t.strides = contiguous_strides(t.shape);
  return t;
}

Shape shape_of_shard(const Input& i) {
  Shape out = i.shape;
  if (i.dim) out[static_cast<size_t>(*i.dim)] /= kProcesses;
  return out;
}

// The elements of a process, of the whole in row-major order.
ArrayPtr shard_of(const ArrayPtr& whole, std::optional<int64_t> dim, int64_t process) {
  if (!dim) return whole;
  Shape shape = whole->shape;
  const auto d = static_cast<size_t>(*dim);
  int64_t inner = 1;
  for (size_t i = d + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t all = shape[d] * inner, mine = all / kProcesses;
  shape[d] /= kProcesses;
  ArrayPtr out = reference::make_array(whole->dtype, Device{}, shape);
  for (size_t i = 0; i < out->data.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    out->data[i] = whole->data[static_cast<size_t>(at / mine * all + process * mine + at % mine)];
  }
  return out;
}

std::vector<ArrayPtr> values_of(const std::vector<Input>& inputs) {
  std::vector<ArrayPtr> out;
  double next = -2.75;
  for (const Input& i : inputs) {
    out.push_back(reference::make_array(DType::f64, Device{}, i.shape));
    for (auto& e : out.back()->data) e = reference::Element::real(next = next > 3 ? -3 : next + 0.375);
  }
  return out;
}

struct Program {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::vector<Value> inputs;
  Trace trace;

  Program(const std::vector<Input>& given, bool shards, const Function& f) {
    ops::register_all();
    Builder b(arena);
    std::vector<Expr> args;
    for (const Input& i : given) {
      inputs.push_back(b.input(type_of(shards ? shape_of_shard(i) : i.shape)));
      args.push_back(b.expr(inputs.back()));
    }
    const Expr out = f(b, args);
    trace = b.finish("f", Arg::tuple({out}));
  }

  /// Error where it is refused.
  std::optional<int64_t> dim_of_result(const std::vector<Input>& given) const {
    Shards shards;
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i].dim) shards.set_shard(inputs[i], *given[i].dim);
    for (const Call* c : trace.calls) shards.add(*c);
    return shards.dim_of(trace.output.items()[0].value());
  }

  ArrayPtr run(const std::vector<ArrayPtr>& values) const {
    std::vector<Datum> data(values.begin(), values.end());
    return reference::evaluate(trace, data).items.at(0).array;
  }
};

// What the function gives of shards is this process's shard, along `dim`, of what it gives of the whole.
void check_shards(const char* what, const std::vector<Input>& inputs, const Function& f, int64_t dim) {
  CAPTURE(what);
  const Program whole(inputs, false, f), shards(inputs, true, f);
  REQUIRE(shards.dim_of_result(inputs) == dim);
  const std::vector<ArrayPtr> values = values_of(inputs);
  const ArrayPtr expected = whole.run(values);
  for (int64_t process = 0; process < kProcesses; ++process) {
    std::vector<ArrayPtr> own;
    for (size_t i = 0; i < inputs.size(); ++i) own.push_back(shard_of(values[i], inputs[i].dim, process));
    CHECK(reference::same_datum(Datum(shards.run(own)), Datum(shard_of(expected, dim, process))));
  }
}

void check_refused(const char* what, const std::vector<Input>& inputs, const Function& f) {
  CAPTURE(what);
  const Program shards(inputs, true, f);
  CHECK_THROWS_AS((void)shards.dim_of_result(inputs), Error);
}

Function call(const std::string& op, const std::vector<Arg>& more = {}) {
  return [=](Builder& b, const std::vector<Expr>& x) {
    ArgList args;
    for (const Expr& e : x) args.push_back(e.arg());
    args.insert(args.end(), more.begin(), more.end());
    return b.expr(b.call_named(op, args, {}));
  };
}

Arg ints(const std::vector<int64_t>& n) { return Arg(n); }

TEST_CASE("shards: what computes element by element, and along other dimensions") {
  check_shards("gelu", {{{4, 6}, 0}}, call("torch.gelu"), 0);
  check_shards("add of shards", {{{2, 4, 6}, 1}, {{2, 4, 6}, 1}}, call("torch.add"), 1);
  check_shards("add of a vector", {{{2, 4, 6}, 1}, {{6}}}, call("torch.add"), 1);
  check_shards("add of a column", {{{2, 4, 6}, 2}, {{2, 4, 1}}}, call("torch.mul"), 2);
  check_shards("add of a shard of a vector", {{{2, 3, 4}, 2}, {{4}, 0}}, call("torch.mul"), 2);
  check_shards("softmax", {{{4, 6}, 0}}, call("torch.softmax", {Arg(1)}), 0);
  check_shards(
      "layer norm", {{{4, 2, 6}, 0}},
      [](Builder& b, const std::vector<Expr>& x) { return b("torch.layer_norm", x[0], ints({6})); }, 0);
  check_shards("mean", {{{4, 6}, 0}}, call("torch.mean", {ints({1}), Arg(true)}), 0);
  check_shards("mean of an outer dimension", {{{3, 4, 6}, 1}}, call("torch.mean", {ints({0})}), 0);
  check_shards("cumsum", {{{4, 6}, 0}}, call("torch.cumsum", {Arg(1)}), 0);
  check_shards("argmax", {{{4, 6}, 0}}, call("torch.argmax", {Arg(1)}), 0);
  check_shards(
      "zeros where", {{{4, 6}, 1}},
      [](Builder& b, const std::vector<Expr>& x) {
        return b("torch.where", b("torch.gt", x[0], 0.5), x[0], b("torch.zeros_like", x[0]));
      },
      1);
}

TEST_CASE("shards: what moves dimensions") {
  check_shards("transpose", {{{2, 4, 6}, 1}}, call("torch.permute", {ints({2, 1, 0})}), 1);
  check_shards("unsqueeze", {{{4, 6}, 1}}, call("torch.unsqueeze", {Arg(0)}), 2);
  check_shards("squeeze", {{{1, 4, 6}, 2}}, call("torch.squeeze", {Arg(0)}), 1);
  check_shards("reshape of others", {{{2, 4, 6}, 1}}, call("torch.reshape", {ints({1, 2, -1, 3, 2})}), 2);
  check_shards("slice", {{{4, 6}, 0}}, call("torch.narrow", {Arg(1), Arg(2), Arg(3)}), 0);
  check_shards("flip", {{{4, 6}, 0}}, call("torch.flip", {ints({1})}), 0);
  check_shards("pad", {{{4, 6}, 0}}, call("torch.pad", {ints({1, 2})}), 0);
  check_shards(
      "cat", {{{4, 6}, 0}, {{4, 2}, 0}},
      [](Builder& b, const std::vector<Expr>& x) {
        return b("torch.cat", Arg::list({x[0].arg(), x[1].arg()}), 1);
      },
      0);
}

TEST_CASE("shards: products") {
  check_shards("rows", {{{4, 6}, 0}, {{6, 5}}}, call("torch.matmul"), 0);
  check_shards("columns", {{{3, 6}}, {{6, 4}, 1}}, call("torch.matmul"), 1);
  check_shards("batches", {{{4, 3, 6}, 0}, {{4, 6, 5}, 0}}, call("torch.matmul"), 0);
  check_shards("linear by its weight", {{{2, 3, 6}}, {{4, 6}, 0}, {{4}, 0}}, call("torch.linear"), 2);
  check_shards("linear by its input", {{{2, 4, 6}, 1}, {{5, 6}}, {{5}}}, call("torch.linear"), 1);
}

TEST_CASE("shards: what needs other processes' shards is refused") {
  check_refused("sum", {{{4, 6}, 0}}, call("torch.sum", {ints({0})}));
  check_refused("softmax", {{{4, 6}, 1}}, call("torch.softmax", {Arg(1)}));
  check_refused("layer norm", {{{4, 6}, 1}},
                [](Builder& b, const std::vector<Expr>& x) { return b("torch.layer_norm", x[0], ints({3})); });
  check_refused("cumsum", {{{4, 6}, 0}}, call("torch.cumsum", {Arg(0)}));
  check_refused("argmax of all", {{{4, 6}, 0}}, call("torch.argmax"));
  check_refused("products over a shard", {{{3, 4}, 1}, {{4, 5}, 0}}, call("torch.matmul"));
  check_refused("linear of features", {{{3, 4}, 1}, {{5, 4}, 1}},
                [](Builder& b, const std::vector<Expr>& x) { return b("torch.linear", x[0], x[1], Arg()); });
  check_refused("a bias of which all have the whole", {{{3, 6}}, {{4, 6}, 0}, {{2}}}, call("torch.linear"));
  check_refused("slice", {{{8, 6}, 0}}, call("torch.narrow", {Arg(0), Arg(1), Arg(2)}));
  check_refused("flip", {{{4, 6}, 0}}, call("torch.flip", {ints({0})}));
  check_refused("cat", {{{4, 6}, 0}, {{4, 6}, 0}}, [](Builder& b, const std::vector<Expr>& x) {
    return b("torch.cat", Arg::list({x[0].arg(), x[1].arg()}), 0);
  });
  check_refused("another dimension's size", {{{4, 6}, 0}}, call("torch.reshape", {ints({3, -1})}));
  check_refused("squeeze of one's only element", {{{2, 6}, 0}}, call("torch.squeeze", {Arg(0)}));
  check_refused("a shard and as many of the whole", {{{4, 6}, 0}, {{2, 6}}}, call("torch.add"));
  check_refused("two dimensions", {{{4, 6}, 0}, {{2, 12}, 1}},
                [](Builder& b, const std::vector<Expr>& x) { return b("torch.add", x[0], x[1]); });
  check_refused("positions", {{{4, 6}, 0}}, [](Builder& b, const std::vector<Expr>& x) {
    Expr places = b("prims.iota", 2, 0.0, 1.0, kw("dtype", DType::f64), kw("device", Device{}));
    return b("torch.add", x[0], b("torch.unsqueeze", places, 1));
  });
}

}  // namespace
}  // namespace thunder
