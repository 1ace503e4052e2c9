#include "core/parse.h"

#include <bit>
#include <limits>
#include <random>

#include "core/rewrite.h"
#include "core/test_ops.h"
#include "core/verify.h"

namespace thunder {
namespace {

using test::check_round_trip;
using test::f32;
using test::new_builder;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The message of the error that parse gives; empty if it gives none.
std::string error_of(const std::string& text) {
  test::register_test_ops();
  try {
    parse(text);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Value);
    return e.what();
  }
  return "";
}

Arg round_trip(const Arg& a) {
  Builder b = new_builder();
  b("test.show", a);
  Trace t = b.finish("f", nullptr);
  return check_round_trip(t).calls.at(0)->args[0];
}

// ---- literals -------------------------------------------------------------------------------------------------------

TEST_CASE("parse: numbers come back bit by bit, and as what they were") {
  for (double x : {0.0, -0.0, 1.0, -1.0, 0.1, 1e-5, 1e15, 1e16, 1e17, 123456789.125, 5e-324, 2.2250738585072014e-308,
                   1.7976931348623157e308, kInf, -kInf, kNan}) {
    Arg back = round_trip(x);
    REQUIRE(back.kind() == Arg::Kind::Float);
    CHECK((x != x ? back.real() != back.real() : std::bit_cast<uint64_t>(back.real()) == std::bit_cast<uint64_t>(x)));
  }
  for (int64_t i : {int64_t{0}, int64_t{1}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
                    std::numeric_limits<int64_t>::max()}) {
    Arg back = round_trip(i);
    REQUIRE(back.kind() == Arg::Kind::Int);
    CHECK(back.dim().constant() == i);
  }
  CHECK(round_trip(true).kind() == Arg::Kind::Bool);
  CHECK(round_trip(false).boolean() == false);
}

TEST_CASE("parse: random doubles come back") {
  std::mt19937_64 random(7);
  Builder b = new_builder();
  ArgList list;
  for (int i = 0; i < 3000; ++i) list.push_back(std::bit_cast<double>(random()));
  for (int i = 0; i < 1000; ++i) list.push_back(static_cast<double>(random() % 100000) / 1000);
  b("test.show", Arg::list(list));
  Trace t = b.finish("f", nullptr);
  CHECK(parse(print(t)).calls[0]->args[0].same(Arg::list(list)));
}

TEST_CASE("parse: complex numbers with every kind of part") {
  double parts[] = {0.0, -0.0, 1.0, -1.5, 1e20, kInf, -kInf, kNan};
  for (double re : parts)
    for (double im : parts) CHECK(round_trip(std::complex<double>(re, im)).same(Arg(std::complex<double>(re, im))));
}

TEST_CASE("parse: strings come back byte by byte") {
  for (std::string s : {std::string(""), std::string("it's"), std::string("\"'\\"), std::string("a\n\r\t\0b", 6),
                        std::string("# no comment"), std::string("Grüße € 😀"),
                        std::string("t0 = f(x)  # t0: \"cpu f32[]\""), std::string("\\n \\x41"), std::string("a \\")})
    CHECK(round_trip(s).str() == s);
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(round_trip(all).str() == all);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string s;
    for (int n = 0; n < 12; ++n) s += static_cast<char>(random() % 4 ? 0x80 + random() % 0x80 : random());
    CHECK(round_trip(s).str() == s);
  }
}

TEST_CASE("parse: containers, types and constants") {
  Arg everything = Arg::list(
      {Arg::tuple({}), Arg::tuple({1}), Arg::tuple({1, 2}), Arg::list({}), Arg::list({Arg::list({})}), nullptr,
       Arg::dict({}), Arg::dict({{"a", 1}, {2, Arg::tuple({2.0})}}), Arg::slice(nullptr, -1, nullptr),
       Arg::slice(1, 2, 3), DType::bf16, DType::boolean, DType::c64, Device{DeviceType::cuda, 3}, Device{},
       ConstantArg{"torch.contiguous_format"}, ConstantArg{"..."}, ConstantArg{"torch.strided"}});
  CHECK(round_trip(everything).same(everything));
}

TEST_CASE("parse: arguments that a user would not write come back as they are") {
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}));
  const Registry& r = Registry::instance();
  b.call(r.get("test.sum"), {x, Arg::tuple({0, 1}), false, nullptr});
  b.call(r.get("test.permute"), {x, Arg::tuple({1, 0})});
  b.call(r.get("test.show"), {x, 2, 1, "a"});
  Trace t = b.finish("f", nullptr);
  Trace back = check_round_trip(t);
  CHECK(back.calls[0]->args[1].kind() == Arg::Kind::Tuple);
  CHECK(back.calls[1]->args[1].kind() == Arg::Kind::Tuple);
  CHECK(back.calls[2]->args[1].kind() == Arg::Kind::Int);
}

TEST_CASE("parse: opaque objects come from the context") {
  Builder b = new_builder();
  auto group = std::make_shared<int>(1);
  b("test.show", OpaqueArg{"group_0", group});
  Trace t = b.finish("f", nullptr);
  CHECK(check_round_trip(t).calls[0]->args[0].opaque().object == group);
  CHECK(error_of(print(t)).find("line 7: 'group_0'") != std::string::npos);
}

// ---- traces ---------------------------------------------------------------------------------------------------------

TEST_CASE("parse: ids, given names, types and provenance") {
  Builder b = new_builder();
  TensorType x = f32({2, 3}, true);
  x.strides = {1, 2};
  x.device = Device{DeviceType::cuda, 0};
  x.dtype = DType::bf16;
  Value a = b.input(x, "weight"), s = b.input(f32({}));
  Value p = b("test.permute", a, Arg::list({1, 0})).value();
  Trace t = b.finish("computation", Arg::dict({{"output", Arg::tuple({p, s})}}));
  t.provenance = {"Fusion (twice)", 12};
  Trace back = check_round_trip(t);
  CHECK(back.name == "computation");
  CHECK(back.provenance.pass == "Fusion (twice)");
  CHECK(back.provenance.milliseconds == 12);
  CHECK(back.inputs[0].given_name() == "weight");
  CHECK(back.inputs[0].id() == 0);
  CHECK(back.inputs[0].type().same(x));
  CHECK(back.inputs[1].given_name().empty());
  CHECK(back.inputs[1].id() == 1);
  CHECK(back.calls[0]->output.value().id() == p.id());
  CHECK(back.calls[0]->output.value().requires_grad());
  CHECK(back.arena->next_id() == 3);
  verify(back);
}

TEST_CASE("parse: given names that look like made ones") {
  Builder b = new_builder();
  Value x = b.input(f32({2}), "t7"), y = b.input(NumberType{NumberKind::Int, {}}, "t3"), z = b.input(f32({2}), "t4");
  b("test.add", x, y);
  b("test.add", z, y);
  b.input(f32({2}));
  b.input(f32({2}), "free");
  b.input(f32({2}), "t8");
  b.input(f32({2}));
  Value n = b.input(NumberType{NumberKind::Int, {}});
  CHECK(n.name() == "i9");
  b.input(f32({2}), "t9");
  check_round_trip(b.finish("f", nullptr));
}

TEST_CASE("parse: every kind of value") {
  Builder b = new_builder();
  for (NumberKind k : {NumberKind::Bool, NumberKind::Int, NumberKind::Float, NumberKind::Complex})
    b.input(NumberType{k, {}});
  b.input(NumberType{NumberKind::Int, Dim(4)});
  b.input(Type::opaque("a graph of 16"));
  b.input(Type::opaque(""));
  b.input(Type());
  Value x = b.input(f32({0}));
  Value y = b.input(f32({1, 0, 1}));
  b("test.graph", x);
  b("test.item", y);
  Trace back = check_round_trip(b.finish("f", nullptr));
  CHECK(back.inputs[5].type().opaque_name() == "a graph of 16");
  CHECK(back.inputs[4].type().number().dim->constant() == 4);
  CHECK(back.calls[0]->output.value().type().opaque_name() == "a \"graph\" \\ it's");
}

TEST_CASE("parse: nested bodies, several outputs, dels") {
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}));
  Expr four = b("test.four_times", x);
  Expr pair = b("test.pair", four);
  b("test.split", x, 3);
  b("test.split", x, 0);
  b("test.max", x, 1);
  b("test.max.again", x, 1);
  b("test.max", x);
  test::del(b, {four.value()});
  test::del(b, {x, pair[0].value()});
  test::del(b, {});
  Trace back = check_round_trip(b.finish("f", pair[1]));
  CHECK(back.calls[0]->body.size() == 2);
  CHECK(back.calls[0]->body[1]->body.size() == 1);
  CHECK(back.calls[1]->output.items()[1].kind() == Arg::Kind::List);
  CHECK(back.calls[4]->op->full_name == "test.max.dim");
  CHECK(back.calls[5]->op->full_name == "test.max.again");
  CHECK(back.calls[8]->args[0].items().size() == 2);
  verify(back);
}

TEST_CASE("parse: the signatures") {
  Builder b = new_builder();
  Value x = b.input(f32({2})), s = b.input(NumberType{NumberKind::Float, {}}), g = b.input(f32({2}));
  b("test.add", x, s);
  Trace t = b.finish("f", Arg::tuple({nullptr, g}));
  for (auto [kind, tensors, numbers] : {std::tuple{Signature::Plain, 0, 0},
                                        {Signature::StarArgs, 0, 0},
                                        {Signature::Backward, 1, 1},
                                        {Signature::Backward, 2, 0},
                                        {Signature::Backward, 0, 2},
                                        {Signature::Backward, 0, 3}}) {
    t.signature = {kind, static_cast<size_t>(tensors), static_cast<size_t>(numbers)};
    Trace back = check_round_trip(t);
    CHECK(back.signature.saved_tensors == static_cast<size_t>(tensors));
    CHECK(back.inputs.size() == 3);
  }
  t.calls.clear();
  t.inputs.clear();
  t.output = nullptr;
  for (auto kind : {Signature::Plain, Signature::StarArgs, Signature::Backward}) {
    t.signature = {kind, 0, 0};
    check_round_trip(t);
  }
}

TEST_CASE("parse: parameters with the names of the collections") {
  Builder b = new_builder();
  Value x = b.input(f32({2}), "saved_for_backward"), y = b.input(f32({2}), "cotangents"), z = b.input(f32({2}), "args");
  b("test.add", x, y);
  test::del(b, {x, z});
  Trace t = b.finish("f", y);
  CHECK(check_round_trip(t).signature.kind == Signature::Plain);
  t.signature.kind = Signature::StarArgs;
  check_round_trip(t);
  t.signature = {Signature::Backward, 1, 0};
  check_round_trip(t);
}

TEST_CASE("parse: a fusion region becomes an operator of the trace's own") {
  Builder b = new_builder();
  Value x = b.input(f32({2})), y = b.input(f32({2}));
  b.open_scope();
  Expr s = b("test.add", x, y);
  Expr n = b("test.neg", s);
  Call fusion;
  fusion.body = b.close_scope();
  auto op = std::make_unique<Op>("fuser", OpDef{.schema = "fusion0(any[] inputs) -> any[]", .doc = ""});
  op->schema = Schema::parse("fusion0(Tensor a, Tensor b) -> Tensor[]");
  op->print_name = "fusion0";
  fusion.op = &b.arena()->own(std::move(op));
  fusion.args = {x, y};
  fusion.output = Arg::list({n, s});
  b.append(b.arena()->make_call(fusion));
  b.append(b.arena()->make_call(fusion));
  Trace t = b.finish("f", n);
  Trace back = check_round_trip(t);
  CHECK(back.calls[0]->op->print_name == "fusion0");
  CHECK(back.calls[0]->op->schema.str() == "fusion0(any a0, any a1) -> any[]");
  CHECK(back.calls[0]->op == back.calls[1]->op);
  CHECK(back.calls[0]->body.size() == 2);

  std::string without_body = print(t, {.bodies = false});
  CHECK(error_of(without_body).find("no operator that prints as 'fusion0'") != std::string::npos);
}

TEST_CASE("parse: an operator of the trace's own that has no body, or the name of a registered one") {
  Builder b = new_builder();
  Value x = b.input(f32({2}));
  for (const char* name : {"alone", "test.neg"}) {
    Call c;
    auto op = std::make_unique<Op>("mine", OpDef{.schema = "neg(Tensor a, *, int k=1) -> Tensor", .doc = ""});
    op->print_name = name;
    c.op = &b.arena()->own(std::move(op));
    c.args = {x, 1};
    c.output = b.arena()->make_value(f32({2}));
    b.append(b.arena()->make_call(std::move(c)));
  }
  Trace back = check_round_trip(b.finish("f", nullptr));
  CHECK(back.calls[1]->op->level == "local");
}

TEST_CASE("parse: symbolic sizes are bound as before") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Value x = b.input(f32({2, 3}));
  Dim n = b("test.nonzero", x).shape()[0];
  Expr r = b("test.reshape", b("test.nonzero", x),
             Arg::list({b("test.nonzero", x).shape()[0] * 2 + n, floordiv(n, 3), mod(n, 4), max(n, 7)}));
  Trace t = b.finish("f", Arg::tuple({r, n, n + 1}));
  Trace back = check_round_trip(t);
  const Dims& shape = back.calls.back()->output.value().shape();
  CHECK(shape[0].symbols().size() == 2);
  CHECK(back.calls.back()->symbols.size() == 2);
  Value size = back.calls[1]->output.value();
  CHECK(back.arena->symbol_value(*bound_symbol(size)) == size);
  verify(back);
}

TEST_CASE("parse: symbolic inputs, with labels where nothing binds a symbol") {
  ShapeEnv env;
  Builder b = new_builder();
  Dim s = env.make_symbol(5), u = env.make_symbol(std::nullopt), w = env.make_symbol(6);
  b.input(f32({w, s, 4}));
  b.input(NumberType{NumberKind::Int, s}, "n");
  b.input(NumberType{NumberKind::Int, 2 * s + u});
  TensorType x = f32({s, u});
  x.strides = {3 * u, Dim(1)};
  b.input(x);
  b.input(f32({u}), "u1");
  Trace t = b.finish("f", nullptr);
  CHECK(print(t).find("# u1: \"cpu f32[u2]\"") != std::string::npos);
  check_round_trip(t);
  ShapeEnv::Scope scope(env);
  check_round_trip(t);
}

TEST_CASE("parse: a number that is a size, and that size") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Dim s = env.make_symbol(5);
  Value n = b.input(NumberType{NumberKind::Int, s}), x = b.input(f32({s}));
  b("test.add", x, n);
  b("test.add", x, s);
  b("test.reshape", x, Arg::list({s, n}));
  Trace back = check_round_trip(b.finish("f", Arg::tuple({n, s})));
  CHECK(back.calls[2]->args[1].items()[0].kind() == Arg::Kind::Int);
  CHECK(back.calls[2]->args[1].items()[1].kind() == Arg::Kind::Int);
}

TEST_CASE("parse: two values bind one symbol, and a call reads the one that is alive") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = new_builder();
  Expr nz = b("test.nonzero", b.input(f32({2})));
  Dim n = nz.shape()[0];
  test::del(b, {b.calls().back()->output});
  Value second = b("prims.size", nz, 0).value();
  b("test.reshape", nz, Arg::list({n}));
  Trace t = b.finish("f", nullptr);
  CHECK(print(*t.calls.back()) == "t4 = test.reshape(t1, [" + second.name() + "])");
  Trace back = check_round_trip(t);
  CHECK(back.calls.back()->symbols.at(0).id() == second.id());
  verify(back);
}

TEST_CASE("parse: a hint in hand-written text") {
  test::register_test_ops();
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Trace t = parse(R"-(
def f(n, x):
  # n: "int batch=5"
  # x: "cpu f32[n, 2*n + 1]"
  return x
)-");
  const Dims& shape = t.inputs[1].shape();
  CHECK(shape[0] < Dim(6));
  CHECK(shape[1].specialize() == 11);
  CHECK(shape[0].str() == "batch");
}

// Random programs over all the test operators.
Trace random_trace(std::mt19937& random) {
  Builder b = new_builder();
  std::vector<Value> tensors;
  auto pick = [&] { return tensors[random() % tensors.size()]; };
  for (int i = 0; i < 3; ++i) {
    TensorType t = f32(Dims(random() % 4, Dim(3)), random() % 2);
    if (random() % 3 == 0) std::reverse(t.strides.begin(), t.strides.end());
    tensors.push_back(b.input(t, random() % 2 ? "" : "arg" + std::to_string(i)));
  }
  static constexpr const char* kUnary[] = {"test.neg",     "test.twice", "test.four_times", "test.pair",
                                           "test.nonzero", "test.item",  "test.max"};
  for (int i = 0; i < 20; ++i) {
    switch (random() % 5) {
      case 0: b("test.add", pick(), pick()); break;
      case 1: b("test.add", pick(), static_cast<double>(random()) / 1e6); break;
      case 2: b("test.split", pick(), static_cast<int64_t>(random() % 3)); break;
      case 3: b("test.show", Arg::tuple({pick(), Arg::list({pick()})}), kw("w", random() % 2 ? "a" : "b")); break;
      default: b(kUnary[random() % 7], pick()); break;
    }
    for (Value v : outputs_of(*b.calls().back()))
      if (v.type().is_tensor()) tensors.push_back(v);
  }
  Trace t = b.finish("f", Arg::tuple({pick(), Arg::dict({{"x", pick()}}), 1.5}));
  if (random() % 2) t.signature.kind = Signature::StarArgs;
  return t;
}

TEST_CASE("parse: random traces come back, and pass the verifier as before") {
  std::mt19937 random(11);
  for (int i = 0; i < 100; ++i) {
    ShapeEnv env;
    ShapeEnv::Scope scope(env);
    Trace t = random_trace(random);
    verify(t);
    verify(check_round_trip(t));
  }
}

// ---- text that print does not make ----------------------------------------------------------------------------------

TEST_CASE("parse: what a person writes is bound as a call would be") {
  test::register_test_ops();
  Trace t = parse(R"-(
import torch

def f(x):  # anything may stand here, it's free
  # x: "cpu f32[2, 3]"
  ## so may this
  t1 = test.sum(a=x, dims=1)  # t1: "cpu f32[]"
  t2 = test.permute(x, 1, 0)   # t2: "cpu f32[3, 2] strides=(1, 3,)"

  t3, t4 = test.max(x, 0)  # t3: "cpu f32[]"  # t4: "cpu i64[]"
  _, t6 = test.max(x, 0)  # t6: "cpu i64[]"
  return t1, t2
)-");
  CHECK(print(*t.calls[0]) == "t1 = test.sum(x, [1])");
  CHECK(print(*t.calls[1]) == "t2 = test.permute(x, [1, 0])");
  CHECK(t.calls[2]->output.kind() == Arg::Kind::Tuple);
  CHECK(t.calls[3]->output.items()[0].is_none());
  CHECK(t.output.kind() == Arg::Kind::Tuple);
  CHECK(t.provenance.pass.empty());
}

TEST_CASE("parse: carriage returns and a missing last newline") {
  test::register_test_ops();
  Trace t = parse("def f(*args):\r\n  x, \\\r\n  = args\r\n  del args\r\n  # x: \"cpu f32[2]\"\r\n  return x");
  CHECK(t.inputs.size() == 1);
  CHECK(t.signature.kind == Signature::StarArgs);
  CHECK(error_of("def f(*args):\n  return \\") != "");
}

TEST_CASE("parse: errors name the line") {
  auto program = [](const std::string& line) {
    return "def f(x):\n  # x: \"cpu f32[2]\"\n  " + line + "\n  return x\n";
  };
  auto expect = [&](const std::string& line, const std::string& what) {
    std::string message = error_of(program(line));
    CHECK_MESSAGE(message.starts_with("[parse] line 3: "), message);
    CHECK_MESSAGE(message.find(what) != std::string::npos, message);
  };
  expect("t1 = test.neg(x)", "what 't1' is");
  expect("t1 = test.neg(y)  # t1: \"cpu f32[2]\"", "'y'");
  expect("t1 = test.nonsense(x)  # t1: \"cpu f32[2]\"", "test.nonsense");
  expect("t1 = test.neg(x, 1, 2, 3)  # t1: \"cpu f32[2]\"", "positional");
  expect("t1 = test.neg(b=x)  # t1: \"cpu f32[2]\"", "unexpected keyword");
  expect("t1 = test.neg(x  # t1: \"cpu f32[2]\"", "found the end of the line");
  expect("t1 = test.neg(x))  # t1: \"cpu f32[2]\"", "expected the end of the line");
  expect("t1 = test.neg(test.neg(x))  # t1: \"cpu f32[2]\"", "test.neg");
  expect("t1 = x  # t1: \"cpu f32[2]\"", "expected '('");
  expect("5 = test.neg(x)", "names");
  expect("test.show('open)", "not closed");
  expect("test.show('\\q')", "escape");
  expect("test.show('\\xg1')", "escape");
  expect("test.show(1 2)", "expected ','");
  expect("test.show(1x)", "not a number");
  expect("test.show(9223372036854775808)", "64 bits");
  expect("test.show(1e999)", "1e999");
  expect("test.show(1 // 0)", "zero");
  expect("test.show(-9223372036854775808 // -1)", "too large");
  expect("test.show(1.0 * 2)", "expected an int");
  expect("test.show(x + 1)", "expected an int");
  expect("test.show(torch.device('gpu'))", "gpu");
  expect("test.show(float('big'))", "float");
  expect("test.show({1: 2)", "'}'");
  expect("test.show(z=1, 2)", "without a name");
  expect("test.show(x)?", "unexpected character");
  expect("test.show(x)  # op: test.missing", "test.missing");
  expect("# a remark", "##");
  expect("  # test.neg(x)", "##");
}

TEST_CASE("parse: a device that there cannot be is an error that names the line, as an argument's text too") {
  test::register_test_ops();
  if (!Registry::instance().find("test.put"))
    Registry::instance().add("test",
                             {.schema = "put(Tensor a, device device) -> Tensor", .doc = "", .meta = test::like_a});
  for (const char* device : {"'gpu'", "'cuda:01'", "-1", "70000"}) {
    const std::string message = error_of(
        cat("def f(x):\n  # x: \"cpu f32[2]\"\n  t1 = test.put(x, ", device, ")  # t1: \"cpu f32[2]\"\n  return t1\n"));
    CHECK_MESSAGE(message.starts_with("[parse] line 3: [device] "), message);
  }
}

TEST_CASE("parse: errors in types name the line of the annotation") {
  auto expect = [&](const std::string& type, const std::string& what) {
    std::string message = error_of("def f(x):\n  # x: \"" + type + "\"\n  return x\n");
    CHECK_MESSAGE(message.starts_with("[parse] line 2: "), message);
    CHECK_MESSAGE(message.find(what) != std::string::npos, message);
  };
  expect("cpu f32[2", "expected ','");
  expect("cpu f32[2] strides=(1, 2)", "stride");
  expect("cpu f32[2] requires_gard", "end of the line");
  expect("cpu f32['a']", "expected an int");
  expect("cpu f32[x]", "refers to itself");
  expect("int x + 1", "refers to itself");
  CHECK(error_of("def f(x):\n  # x: \"float\"\n  # y: \"cpu f32[x]\"\n  return y\n")
            .find("line 3: 'x' is no symbolic size") != std::string::npos);
  CHECK(error_of("def f(x):\n  # x: \"float\"\n  # x: \"int\"\n  return x\n")
            .find("line 3: 'x' is \"int\" here and \"float\" on line 2") != std::string::npos);
}

TEST_CASE("parse: what is nested deeper than the stack holds is an error that names the line") {
  std::string program = "def f(x):\n  # x: \"cpu f32[2]\"\n", brackets(300000, '[');
  const std::string what = ": more than 500 levels are nested here";
  CHECK(error_of(program + "  test.show(" + brackets + ")\n  return x\n") == "[parse] line 3" + what);
  CHECK(error_of(program + "  return " + brackets + "\n") == "[parse] line 3" + what);
  // Bodies, and types that name others.
  std::string bodies = program + "  test.neg(x)\n", types = "def f(i0):\n";
  for (int i = 0; i < 1000; ++i) {
    bodies += std::string(4 + static_cast<size_t>(i), ' ') + "# test.neg(x)\n";
    types += cat("  # i", i, ": \"int i", i + 1, " + 1\"\n");
  }
  CHECK(error_of(bodies + "  return x\n") == "[parse] line 503" + what);
  CHECK(error_of(types + "  return i0\n").find(what) != std::string::npos);
}

TEST_CASE("parse: any number of notes on a line") {
  std::string text = "def f(x):\n  # x: \"cpu f32[2]\"";
  for (int i = 0; i < 2000; ++i) text += cat("  # t", i, ": \"cpu f32[]\"");
  CHECK(error_of(text + "\n  return x\n") == "");
  CHECK(error_of(text + "  # t1: \"int\"\n  return x\n").find("'t1' is \"int\" here") != std::string::npos);
}

TEST_CASE("parse: text that is no function") {
  CHECK(error_of("").find("no 'def'") != std::string::npos);
  CHECK(error_of("import torch\n").find("no 'def'") != std::string::npos);
  CHECK(error_of("def f():\n").find("no return") != std::string::npos);
  CHECK(error_of("def f():\n  return None\n  return None\n").find("line 3: nothing may follow") != std::string::npos);
  CHECK(error_of("def f():\n  return None\ndef g():\n  return None\n").find("line 3: only the lines of one function") !=
        std::string::npos);
  CHECK(error_of("def f(x):\n  return None\n").find("line 1: no line says what 'x' is") != std::string::npos);
  CHECK(error_of("def f(*a, b):\n  return None\n").find("line 1") != std::string::npos);
  CHECK(error_of("def f(x:\n  return None\n").find("line 1") != std::string::npos);
  CHECK(error_of("def f():\n  # x: \"cpu f32[2]\"\n  return None, x y\n")
            .find("line 3: expected the end of the line, found 'y'") != std::string::npos);
}

TEST_CASE("parse: mutilated text gives an error or a trace, nothing else") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  std::mt19937 random(5);
  std::string text = print(random_trace(random));
  for (int i = 0; i < 3000; ++i) {
    std::string broken = text;
    for (int n = 0; n < 3; ++n) {
      size_t at = random() % broken.size();
      if (random() % 2) broken.erase(at, random() % 5);
      else broken[at] = "()[]{}'\",=:.#\\ \nt19-"[random() % 20];
    }
    try {
      Trace t = parse(broken);
      print(t);
    } catch (const Error& e) {
      CHECK_MESSAGE(e.kind() == ErrorKind::Value, e.what());
    }
  }
}

}  // namespace
}  // namespace thunder
