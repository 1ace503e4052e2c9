#include "core/print.h"

#include <limits>

#include "core/parse.h"
#include "core/syntax.h"
#include "core/test_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::new_builder;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string body_of(const Trace& t) { return print(t, {.header = false}); }

TEST_CASE("print: floats, complex numbers and strings by repr") {
  CHECK(print(Arg(1e-5)) == syntax::repr(1e-5));
  CHECK(print(Arg(-kInf)) == syntax::repr(-kInf));
  CHECK(print(Arg(std::complex<double>(0, -2))) == syntax::repr(std::complex<double>(0, -2)));
  CHECK(print(Arg("it's")) == syntax::repr("it's"));
}

TEST_CASE("print: ints and bools are not floats") {
  CHECK(print(Arg(1)) == "1");
  CHECK(print(Arg(std::numeric_limits<int64_t>::min())) == "-9223372036854775808");
  CHECK(print(Arg(true)) == "True");
  CHECK(print(Arg(nullptr)) == "None");
}

TEST_CASE("print: what else may be an argument") {
  CHECK(print(Arg(DType::f32)) == "torch.float32");
  CHECK(print(Arg(DType::boolean)) == "torch.bool");
  CHECK(print(Arg(Device{DeviceType::cuda, 1})) == "torch.device('cuda:1')");
  CHECK(print(Arg(Device{})) == "torch.device('cpu')");
  CHECK(print(Arg(ConstantArg{"torch.contiguous_format"})) == "torch.contiguous_format");
  CHECK(print(Arg(ConstantArg{"..."})) == "...");
  CHECK(print(Arg(OpaqueArg{"group_0", nullptr})) == "group_0");
  CHECK(print(Arg::slice(nullptr, 2, nullptr)) == "slice(None, 2, None)");
  CHECK(print(Arg::tuple({})) == "()");
  CHECK(print(Arg::tuple({1})) == "(1,)");
  CHECK(print(Arg::tuple({1, Arg::list({})})) == "(1, [])");
  CHECK(print(Arg::list({1})) == "[1]");
  CHECK(print(Arg::dict({})) == "{}");
  CHECK(print(Arg::dict({{"a", 1}, {2, Arg::dict({{"b", 2.0}})}})) == "{'a': 1, 2: {'b': 2.0}}");
}

TEST_CASE("print: a plain trace with everything around it") {
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}), "a"), y = b.input(f32({}), "b");
  Expr s = b("test.add", x, y);
  test::del(b, {x, y});
  Trace t = b.finish("computation", s);
  t.provenance = {"Delete Last Used", 2.6};
  const char* expected = R"-(# Constructed by Delete Last Used (took 3 milliseconds)
import torch
from thunder.executors.torchex import no_autocast

@torch.no_grad()
@no_autocast
def computation(a, b):
  # a: "cpu f32[2, 3]"
  # b: "cpu f32[]"
  t2 = test.add(a, b)  # t2: "cpu f32[2, 3]"
  del a, b
  return t2
)-";
  CHECK(print(t) == expected);
}

TEST_CASE("print: a trace without inputs and calls") {
  Builder b = new_builder();
  CHECK(body_of(b.finish("f", nullptr)) == "def f():\n  return None\n");
}

TEST_CASE("print: imports follow the names in use") {
  test::register_test_ops();
  auto arena = std::make_shared<Arena>();
  Value x = arena->make_value(f32({2}));
  Trace t;
  t.arena = arena;
  t.inputs = {x};
  for (const char* name : {"Tensor.expand", "ltorch.neg", "prims.neg", "clang.neg", "thunder.torch.neg"}) {
    auto op = std::make_unique<Op>("test", OpDef{.schema = "op(Tensor a) -> None", .doc = ""});
    op->print_name = name;
    Call c;
    c.op = &arena->own(std::move(op));
    c.args = {x};
    t.calls.push_back(arena->make_call(std::move(c)));
  }
  std::string text = print(t);
  for (const char* line :
       {"import torch\n", "from torch import Tensor\n", "import thunder\n", "import thunder.core.prims as prims\n",
        "import thunder.clang as clang\n", "import thunder.torch as ltorch\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
  t.calls.clear();
  text = print(t);
  for (const char* line : {"import thunder", "from torch import Tensor"}) CHECK(text.find(line) == std::string::npos);
}

TEST_CASE("print: star arguments are unpacked") {
  Builder b = new_builder();
  Value x = b.input(f32({2}, true));
  TensorType transposed = f32({2, 3});
  transposed.strides = {1, 2};
  transposed.device = Device{DeviceType::cuda, 0};
  b.input(transposed);
  Trace t = b.finish("augmented_forward_fn", Arg::tuple({x}));
  t.signature.kind = Signature::StarArgs;
  const char* expected = R"-(def augmented_forward_fn(*args):
  # args: "Collection"
  t0, \
  t1, \
  = args
  del args
  # t0: "cpu f32[2] requires_grad"
  # t1: "cuda:0 f32[2, 3] strides=(1, 2)"
  return (t0,)
)-";
  CHECK(body_of(t) == expected);
  t.inputs.clear();
  t.output = nullptr;
  CHECK(body_of(t) == "def augmented_forward_fn(*args):\n  # args: \"Collection\"\n  del args\n  return None\n");
}

TEST_CASE("print: a backward unpacks saved tensors, saved numbers and cotangents") {
  Builder b = new_builder();
  b.input(f32({2}));
  b.input(NumberType{NumberKind::Float, {}});
  b.input(NumberType{NumberKind::Bool, {}});
  Value g = b.input(f32({2}));
  Trace t = b.finish("backward_fn", Arg::tuple({nullptr, g}));
  t.signature = {Signature::Backward, 1, 2};
  CHECK(print(t).find("from thunder.executors.pythonex import clear_collection\n") != std::string::npos);
  const char* expected = R"-(def backward_fn(saved_for_backward, cotangents):
  # saved_for_backward: "Collection"
  # cotangents: "Collection"
  C0, \
  C1, \
  = saved_for_backward
  clear_collection(saved_for_backward)
  del saved_for_backward
  t3, \
  = cotangents
  clear_collection(cotangents)
  del cotangents
  t0, \
  = C0
  clear_collection(C0)
  del C0
  f1, \
  b2, \
  = C1
  clear_collection(C1)
  del C1
  # t0: "cpu f32[2]"
  # f1: "float"
  # b2: "bool"
  # t3: "cpu f32[2]"
  return (None, t3)
)-";
  CHECK(body_of(t) == expected);
  t.inputs = {g};
  t.signature = {Signature::Backward, 0, 0};
  const char* short_form = R"-(def backward_fn(saved_for_backward, cotangents):
  C0, \
  = saved_for_backward
  clear_collection(saved_for_backward)
  del saved_for_backward
  t3, \
  = cotangents
  clear_collection(cotangents)
  del cotangents
  clear_collection(C0)
  del C0
  return (None, t3)
)-";
  CHECK(print(t, {.header = false, .annotations = false}) == short_form);
}

TEST_CASE("print: keyword-only arguments only where they differ from their default") {
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}));
  b("test.sum", x, Arg::list({0, 1}));
  b("test.sum", x, Arg::list({}), kw("dtype", DType::f64), kw("keepdim", true));
  b("test.show", x, 2.0, kw("z", 1.0));
  Trace t = b.finish("f", nullptr);
  CHECK(print(*t.calls[0]) == "t1 = test.sum(t0, [0, 1])");
  CHECK(print(*t.calls[1]) == "t2 = test.sum(t0, [], keepdim=True, dtype=torch.float64)");
  CHECK(print(*t.calls[2]) == "test.show(t0, 2.0, z=1.0)");
}

TEST_CASE("print: several outputs, and bodies as comments") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  Expr list = b("test.split", x, 2);
  b("test.split", x, 0);
  Expr four = b("test.four_times", list[0]);
  b("test.max", x, 0);
  b("test.pair", four);
  Trace t = b.finish("f", nullptr);
  std::string full = body_of(t);
  const char* expected = R"-(def f(t0):
  # t0: "cpu f32[2]"
  [t1, t2] = test.split(t0, 2)
    # t1: "cpu f32[2]"
    # t2: "cpu f32[2]"
  [] = test.split(t0, 0)
  t4 = test.four_times(t1)  # t4: "cpu f32[2]"
    # t3 = test.twice(t1)  # t3: "cpu f32[2]"
      # t3 = test.add(t1, t1)  # t3: "cpu f32[2]"
    # t4 = test.twice(t3)  # t4: "cpu f32[2]"
      # t4 = test.add(t3, t3)  # t4: "cpu f32[2]"
  (t5, t6) = test.max(t0, 0)
    # t5: "cpu f32[]"
    # t6: "cpu i64[]"
  (t7, [t8]) = test.pair(t4)
    # t7 = test.neg(t4)  # t7: "cpu f32[2]"
    # t8 = test.twice(t7)  # t8: "cpu f32[2]"
      # t8 = test.add(t7, t7)  # t8: "cpu f32[2]"
  return None
)-";
  CHECK(full == expected);
  const char* short_form = R"-(def f(t0):
  [t1, t2] = test.split(t0, 2)
  [] = test.split(t0, 0)
  t4 = test.four_times(t1)
  (t5, t6) = test.max(t0, 0)
  (t7, [t8]) = test.pair(t4)
  return None
)-";
  CHECK(print(t, {.header = false, .annotations = false, .bodies = false}) == short_form);
}

TEST_CASE("print: the operator is named where its printed form means another one") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  b("test.max.again", x, 0);
  b("test.max.dim", x, 0);
  b("test.max", x);
  std::string text = body_of(b.finish("f", nullptr));
  CHECK(text.find("(t1, t2) = test.max(t0, 0)  # op: test.max.again\n") != std::string::npos);
  CHECK(text.find("(t3, t4) = test.max(t0, 0)\n") != std::string::npos);
  CHECK(text.find("t5 = test.max(t0)  # t5: \"cpu f32[2]\"\n") != std::string::npos);
}

TEST_CASE("print: given names stay apart from all others") {
  Builder b = new_builder();
  Value x = b.input(f32({2}), "t4"), y = b.input(f32({2}), "test"), z = b.input(f32({2}), "lambda");
  Value w = b.input(f32({2}), "blocks.0.weight");
  b("test.add", x, y);
  b("test.add", z, w);
  const char* expected = R"-(def f(t4_, test_, lambda_, blocks_0_weight):
  # t4_: "cpu f32[2]"
  # test_: "cpu f32[2]"
  # lambda_: "cpu f32[2]"
  # blocks_0_weight: "cpu f32[2]"
  t4 = test.add(t4_, test_)  # t4: "cpu f32[2]"
  t5 = test.add(lambda_, blocks_0_weight)  # t5: "cpu f32[2]"
  return None
)-";
  CHECK(body_of(b.finish("f", nullptr)) == expected);
}

TEST_CASE("print: symbolic sizes go by the value that binds them") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}));
  Expr nz = b("test.nonzero", x);
  Dim n = nz.shape()[0];
  b("test.reshape", nz, Arg::list({2 * n + 1 - 1}));
  Trace t = b.finish("f", nz);
  const char* expected = R"-(def f(t0):
  # t0: "cpu f32[2, 3]"
  t1 = test.nonzero(t0)  # t1: "cpu i64[i2, 2]"
  i2 = prims.size(t1, 0)  # i2: "int u0"
  t3 = test.reshape(t1, [2*i2])  # t3: "cpu i64[2*i2]"
  return t1
)-";
  CHECK(body_of(t) == expected);
  t.calls.resize(1);
  CHECK(body_of(t).find("t1: \"cpu i64[u0, 2]\"") != std::string::npos);
}

TEST_CASE("print: short types for the eye") {
  Builder b = new_builder();
  TensorType x = f32({2, 3}, true);
  x.strides = {1, 2};
  b.input(x);
  Trace t = b.finish("f", nullptr);
  CHECK(print(t, {.header = false}).find("# t0: \"cpu f32[2, 3] strides=(1, 2) requires_grad\"") != std::string::npos);
  CHECK(print(t, {.header = false, .strides = false}).find("# t0: \"cpu f32[2, 3]\"\n") != std::string::npos);
}

TEST_CASE("print and parse: layouts that are not strided") {
  Builder b = new_builder();
  TensorType x = f32({2, 3}, true);
  x.strides.clear();
  x.layout = Layout::SparseCsr;
  b.input(x);
  x.layout = Layout::SparseCoo;
  x.dense_dims = 1;
  b.input(x);
  Trace t = b.finish("f", nullptr);
  std::string text = print(t, {.header = false});
  CHECK(text.find("# t0: \"cpu f32[2, 3] sparse_csr requires_grad\"") != std::string::npos);
  CHECK(text.find("# t1: \"cpu f32[2, 3] sparse_coo dense=1 requires_grad\"") != std::string::npos);
  Trace read = parse(print(t));
  for (size_t i = 0; i < 2; ++i) CHECK(read.inputs[i].type().same(t.inputs[i].type()));
  CHECK(!t.inputs[0].type().same(t.inputs[1].type()));
}

TEST_CASE("print: a size of 1 or 0 with other strides than row-major ones shows them") {
  Builder b = new_builder();
  TensorType x = f32({1, 0, 4});
  b.input(x);
  x.strides = {7, 4, 1};
  b.input(x);
  std::string text = body_of(b.finish("f", nullptr));
  CHECK(text.find("# t0: \"cpu f32[1, 0, 4]\"\n") != std::string::npos);
  CHECK(text.find("# t1: \"cpu f32[1, 0, 4] strides=(7, 4, 1)\"\n") != std::string::npos);
}

TEST_CASE("print: the context holds every opaque object, however deep") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  auto group = std::make_shared<int>(1), hook = std::make_shared<int>(2);
  b("test.show", Arg::list({Arg::dict({{"g", OpaqueArg{"group_0", group}}})}), kw("z", OpaqueArg{"group_0", group}));
  Trace t = b.finish("f", Arg::tuple({x, Arg::slice(OpaqueArg{"hook", hook}, nullptr, nullptr)}));
  auto context = python_context(t);
  CHECK(context.size() == 2);
  CHECK(context["group_0"] == group);
  CHECK(context["hook"] == hook);
  b("test.show", OpaqueArg{"hook", group});
  Trace clash = b.finish("f", OpaqueArg{"hook", hook});
  CHECK_THROWS_AS(python_context(clash), Error);
}

}  // namespace
}  // namespace thunder
