// Calls as the builder makes them, and what a gradient rule sees.
#include "core/builder.h"

#include "core/errors.h"
#include "core/test_ops.h"

namespace thunder {
namespace {

using test::error_of;
using test::f32;
using test::new_builder;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The operators' names, and in brackets those of their bodies.
std::string names(const std::vector<const Call*>& calls) {
  std::string out;
  for (const Call* c : calls) {
    out += (out.empty() ? "" : " ") + c->op->full_name;
    if (!c->body.empty()) out += "(" + names(c->body) + ")";
  }
  return out;
}

Types two_meta(const Args& a) { return {test::like_a(a)[0], test::like_a(a)[0]}; }
Types nothing_meta(const Args&) { return {}; }
Types with_none_meta(const Args& a) { return {test::like_a(a)[0], Type()}; }

Arg same_body(Builder&, const Args& a) { return a["a"]; }
Arg throwing_body(Builder& b, const Args& a) {
  b("test.neg", a["a"]);
  throw Error(ErrorKind::Value, "from the body");
}
Arg nonzero_body(Builder& b, const Args& a) { return b("test.nonzero", b("test.neg", a["a"])); }
Arg two_body(Builder& b, const Args& a) { return Arg::tuple({b("test.neg", a["a"]).arg(), a["a"]}); }
Arg refusing_body(Builder& b, const Args& a) {
  b("test.neg", a["a"]);
  return nullptr;
}

/// Registers operators for the builder's cases once, beside the test operators.
Builder builder() {
  Builder b = new_builder();
  Registry& r = Registry::instance();
  if (r.find("builder_test.same")) return b;
  const auto add = [&](std::string_view schema, MetaFn meta, BodyFn body, uint64_t tags = kNoTag) {
    r.add("builder_test", {.schema = schema, .doc = "", .tags = tags, .meta = meta, .body = body});
  };
  add("same(Tensor a) -> Tensor", nullptr, same_body);
  add("throwing(Tensor a) -> Tensor", nullptr, throwing_body);
  add("find(Tensor a) -> Tensor", nullptr, nonzero_body);
  add("two(Tensor a) -> (Tensor, Tensor)", two_meta, nullptr);
  add("list(Tensor a) -> Tensor[]", two_meta, nullptr);
  add("any_two(Tensor a) -> any", two_meta, nullptr);
  add("any_one(Tensor a) -> any", test::like_a, nullptr);
  add("any_none(Tensor a) -> any", nothing_meta, nullptr);
  add("some(Tensor a) -> (Tensor, Tensor)", with_none_meta, nullptr);
  add("wrong(Tensor a) -> Tensor", two_meta, nullptr);
  add("detached(Tensor a) -> Tensor", test::like_a, nullptr, kNoGrad);
  add("nothing(Tensor a) -> Tensor", nullptr, nullptr);
  add("both(Tensor a) -> Tensor", test::like_a, test::four_times_body);
  add("whole(Tensor a) -> Tensor", test::like_a, refusing_body);
  add("uneven(Tensor a) -> Tensor", test::like_a, two_body);
  add("sum(Tensor[] a) -> None", test::none_meta, nullptr);
  return b;
}

// ---- primitives -----------------------------------------------------------------------------------------------------

TEST_CASE("Builder: inputs are new values or existing ones, in order") {
  Builder b = builder();
  const Value x = b.input(f32({2}), "x"), other = b.arena()->make_value(f32({3})), y = b.input(f32({}));
  b.add_input(other);
  CHECK(b.inputs() == std::vector<Value>{x, y, other});
  CHECK(x.name() == "x");
  CHECK(x.tensor().shape.size() == 1);
  CHECK(b.finish("f", nullptr).inputs == b.inputs());
}

TEST_CASE("Builder: a primitive is a call with new values of the types that its meta gives") {
  Builder b = builder();
  const Value x = b.input(f32({2, 3}));
  const Expr y = b("test.neg", x), z = b("test.add", y, 2.0);
  REQUIRE(b.calls().size() == 2);
  const Call& call = *b.calls()[1];
  CHECK(call.op->full_name == "test.add");
  CHECK(Arg::list(call.args).same(Arg::list({y, 2.0})));
  CHECK(call.output.same(z));
  CHECK(call.body.empty());
  CHECK(z.value().type().same(f32({2, 3})));
  CHECK_FALSE(z.value() == y.value());
  CHECK(str(z.shape()) == "[2, 3]");
  CHECK((z.dtype() == DType::f32 && z.rank() == 2));
}

TEST_CASE("Builder: results as the schema declares them") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  const auto kind = [&](const char* op) { return b(op, x).arg().kind(); };
  CHECK(kind("test.neg") == Arg::Kind::Value);
  CHECK(kind("builder_test.two") == Arg::Kind::Tuple);
  CHECK(kind("builder_test.list") == Arg::Kind::List);
  CHECK(kind("builder_test.any_one") == Arg::Kind::Value);
  CHECK(kind("builder_test.any_two") == Arg::Kind::Tuple);
  CHECK(kind("builder_test.any_none") == Arg::Kind::None);
  CHECK(b("test.show", x).is_none());
  CHECK(b("test.split", x, 0).arg().same(Arg::list({})));
  const Expr some = b("builder_test.some", x);
  CHECK((some[0].arg().is_tensor() && some[1].is_none()));
  CHECK_THROWS(some[2]);
  CHECK(contains(error_of(ErrorKind::Internal, [&] { b("builder_test.wrong", x); }),
                 "builder_test.wrong declares one result, its meta gives 2"));
}

TEST_CASE("Builder: results require grad if a tensor argument does, and their type can") {
  Builder b = builder();
  const Value x = b.input(f32({2}, true)), y = b.input(f32({2}));
  CHECK(b("test.add", y, x).value().requires_grad());
  CHECK_FALSE(b("test.add", y, y).value().requires_grad());
  CHECK_FALSE(b("builder_test.detached", x).value().requires_grad());
  const Expr largest = b("test.max", x, 0);
  CHECK(largest[0].value().requires_grad());
  CHECK_FALSE(largest[1].value().requires_grad());
  b.set_grad_enabled(false);
  CHECK_FALSE(b.grad_enabled());
  CHECK_FALSE(b("test.add", y, x).value().requires_grad());
  b.set_grad_enabled(true);
  CHECK(b("test.neg", x).value().requires_grad());
}

TEST_CASE("Builder: an operator needs a meta or a body, and one argument per parameter") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  CHECK(contains(error_of(ErrorKind::Internal, [&] { b("builder_test.nothing", x); }),
                 "builder_test.nothing has neither meta nor body"));
  CHECK(contains(error_of(ErrorKind::Internal,
                          [&] {
                            b.call(Registry::instance().get("test.neg"), {x, 1});
                          }),
                 "test.neg takes 1 arguments, got 2"));
  CHECK(b.calls().empty());
}

TEST_CASE("Builder: a tensor that is not strided is refused by operators that do not take it") {
  Builder b = builder();
  TensorType sparse = f32({2, 3});
  sparse.layout = Layout::SparseCoo;
  sparse.strides = {};
  const Value x = b.input(sparse);
  CHECK(error_of(ErrorKind::Type, [&] { b("test.neg", x); }) ==
        "[neg] this operator takes dense tensors here, got cpu f32[2, 3] sparse_coo; use to_dense()");
  CHECK(error_of(ErrorKind::Type, [&] { b("builder_test.sum", Arg::list({x})); }).starts_with("[sum] "));
  CHECK(b.calls().empty());
}

// ---- composites -----------------------------------------------------------------------------------------------------

TEST_CASE("Builder: a composite's calls become its body") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  const Expr y = b("test.four_times", x);
  CHECK(names(b.calls()) == "test.four_times(test.twice(test.add) test.twice(test.add))");
  const Call& call = *b.calls()[0];
  CHECK(call.args[0].value() == x);
  CHECK(call.output.value() == y.value());
  CHECK(call.body[1]->output.value() == y.value());
}

TEST_CASE("Builder: a composite that made no call leaves none") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  CHECK(b("builder_test.same", x).value() == x);
  CHECK(b.calls().empty());
}

TEST_CASE("Builder: an error in a body leaves the builder as it was") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  b("test.neg", x);
  CHECK(error_of(ErrorKind::Value, [&] { b("builder_test.throwing", x); }) == "from the body");
  CHECK(names(b.calls()) == "test.neg");
  CHECK_NOTHROW(b.finish("f", nullptr));
}

TEST_CASE("Builder: with a meta and a body the meta gives the results, and the body computes them") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  const Expr y = b("builder_test.both", x);
  CHECK(names(b.calls()) == "builder_test.both(test.twice(test.add) test.twice(test.add))");
  const Call& call = *b.calls()[0];
  CHECK(call.output.value() == y.value());
  CHECK(call.body[1]->output.value() == y.value());
  CHECK(call.body[1]->body[0]->output.value() == y.value());
}

TEST_CASE("Builder: a body beside a meta may leave the call whole, and gives as many values otherwise") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  CHECK(b("builder_test.whole", x).arg().is_tensor());
  CHECK(names(b.calls()) == "builder_test.whole");
  CHECK(contains(error_of(ErrorKind::Internal, [&] { b("builder_test.uneven", x); }),
                 "builder_test.uneven: the body returns 2 values, the meta 1"));
}

// ---- symbols --------------------------------------------------------------------------------------------------------

TEST_CASE("Builder: a number value binds each symbol that a data-dependent call makes") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = builder();
  const Expr y = b("test.nonzero", b.input(f32({2, 3})));
  CHECK(names(b.calls()) == "test.nonzero prims.size");
  const Value n = b.calls()[1]->output.value();
  const SymbolId s = y.shape()[0].symbols().at(0);
  CHECK(n.type().number().dim->same(y.shape()[0]));
  CHECK(b.arena()->symbol_value(s) == n);
  b("test.reshape", y, Arg::list({y.shape()[0] * 2}));
  CHECK(b.calls()[2]->symbols == std::vector<Value>{n});
}

TEST_CASE("Builder: the symbol is bound beside a composite too, for the calls that follow it") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = builder();
  const Expr y = b("builder_test.find", b.input(f32({2, 3})));
  CHECK(names(b.calls()) == "builder_test.find(test.neg test.nonzero prims.size) prims.size");
  CHECK(b.arena()->symbol_value(y.shape()[0].symbols().at(0)) == b.calls()[1]->output.value());
}

// ---- calls by name --------------------------------------------------------------------------------------------------

TEST_CASE("Builder: by name, the first overload that binds; by full name, that one") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  b("test.max", x);
  b("test.max", x, 0);
  b("test.max.again", x, 0);
  b("test.sum", x, kw("dims", Arg::list({0})), kw("keepdim", true));
  CHECK(names(b.calls()) == "test.max test.max.dim test.max.again test.sum");
  CHECK(Arg::list(b.calls()[3]->args).same(Arg::list({x, Arg::list({0}), true, nullptr})));
}

TEST_CASE("Builder: arguments that do not bind are a type error with the reason") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  CHECK(error_of(ErrorKind::Type, [&] { b("test.neg", 1); }) ==
        "[neg] neg(): argument 'a' (position 1) has the wrong type");
  CHECK(error_of(ErrorKind::Type, [&] { b("test.max.dim", x, "0"); }) ==
        "[max] max(): argument 'dim' (position 2) has the wrong type");
  const std::string message = error_of(ErrorKind::Type, [&] { b("test.max", x, 0, 0); });
  CHECK(message.starts_with("[test.max] no overload takes these arguments:\n"));
  CHECK(contains(message, "max(Tensor a) -> Tensor: max() takes 1 positional arguments but 3 were given"));
  CHECK(contains(message, "max.dim(Tensor a, int dim) -> (Tensor, Tensor): max() takes 2"));
  CHECK(contains(error_of(ErrorKind::Internal, [&] { b("test.none", x); }), "there is no operator 'test.none'"));
}

// ---- scopes and the trace -------------------------------------------------------------------------------------------

TEST_CASE("Builder: an open scope collects its calls apart") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  b("test.neg", x);
  b.open_scope();
  b("test.add", x, x);
  CHECK(names(b.calls()) == "test.add");
  CHECK(names(b.outermost_calls()) == "test.neg");
  CHECK(contains(error_of(ErrorKind::Internal, [&] { b.finish("f", nullptr); }), "a scope was left open"));
  const std::vector<const Call*> apart = b.close_scope();
  CHECK(names(apart) == "test.add");
  CHECK(names(b.calls()) == "test.neg");
  b.append(apart[0]);
  CHECK(names(b.calls()) == "test.neg test.add");
  b.replace_calls(apart);
  CHECK(names(b.calls()) == "test.add");
}

TEST_CASE("Builder: outermost calls are told, those of bodies and scopes are not") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  std::vector<const Call*> told;
  b.on_call = [&](const Call& c) { told.push_back(&c); };
  b("test.four_times", x);
  b.open_scope();
  b("test.neg", x);
  const Call* apart = b.close_scope()[0];
  CHECK(told == b.calls());
  b.append(apart);
  CHECK(told == b.calls());
}

TEST_CASE("Builder: calls carry the line that was set, in bodies too") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  b("test.neg", x);
  const SourceLocation* line = b.arena()->make_location({"model.py", 3, "forward"});
  b.set_location(line);
  CHECK(b.location() == line);
  b("test.twice", x);
  b.set_location(nullptr);
  b("test.neg", x);
  CHECK(b.calls()[0]->location == nullptr);
  CHECK(b.calls()[1]->location == line);
  CHECK(b.calls()[1]->body[0]->location == line);
  CHECK(b.calls()[2]->location == nullptr);
}

TEST_CASE("Builder: finish gives the trace, and takes the calls out of the builder") {
  Builder b = builder();
  const Value x = b.input(f32({2}));
  const Expr y = b("test.neg", x);
  const Trace t = b.finish("computation", Arg::tuple({y, x}));
  CHECK(t.name == "computation");
  CHECK(t.arena == b.arena());
  CHECK(names(t.calls) == "test.neg");
  CHECK(t.output.same(Arg::tuple({y, x})));
  CHECK(t.signature.kind == Signature::Plain);
  CHECK(b.calls().empty());
}

// ---- formulas -------------------------------------------------------------------------------------------------------

TEST_CASE("Expr: formulas are calls of the torch language") {
  Builder b = builder();
  const Expr x = b.expr(b.input(f32({2}))), y = b.expr(b.input(f32({2})));
  const auto called = [&](auto make) {
    const size_t before = b.calls().size();
    make();
    REQUIRE(b.calls().size() == before + 1);
    const Call& c = *b.calls().back();
    return c.op->name + " of " + print(c.args[0]) + (c.args.size() > 1 ? " and " + print(c.args[1]) : "");
  };
  CHECK(called([&] { x + y; }) == "torch.add of t0 and t1");
  CHECK(called([&] { x - y; }) == "torch.sub of t0 and t1");
  CHECK(called([&] { (void)(x * y); }) == "torch.mul of t0 and t1");
  CHECK(called([&] { x / y; }) == "torch.div of t0 and t1");
  CHECK(called([&] { -x; }) == "torch.neg of t0");
  CHECK(called([&] { x - 2; }) == "torch.sub of t0 and 2.0");
  CHECK(called([&] { 2 - x; }) == "torch.sub of 2.0 and t0");
  CHECK(called([&] { x / 2; }) == "torch.div of t0 and 2.0");
  CHECK(called([&] { 2 / x; }) == "torch.div of 2.0 and t0");
  CHECK(called([&] { 0.5 * x; }) == "torch.mul of 0.5 and t0");
  CHECK(called([&] { x + 1; }) == "torch.add of t0 and 1.0");
  CHECK(called([&] { 1 + x; }) == "torch.add of 1.0 and t0");
  CHECK(called([&] { x * 3; }) == "torch.mul of t0 and 3.0");
}

// ---- gradient rules -------------------------------------------------------------------------------------------------

/// A call of add(x, y), where x requires grad, with gradients of its output.
struct Rule {
  Builder b = builder();
  Value x = b.input(f32({2}, true)), y = b.input(f32({2})), g = b.input(f32({2}));
  Expr sum = b("test.add", x, y);
  const Call& call = *b.calls()[0];
};

TEST_CASE("VjpContext: the call's inputs, outputs and gradients") {
  Rule r;
  VjpContext c(r.b, r.call, {r.g});
  CHECK(c.in("a").value() == r.x);
  CHECK(c.in("b").value() == r.y);
  CHECK(c.out().value() == r.sum.value());
  CHECK(c.grad().value() == r.g);
  CHECK(c.has_grad());
  CHECK(c.grad_or_zeros().value() == r.g);
  CHECK(&c.in("a").builder() == &r.b);
  CHECK(c.needs("a"));
  CHECK_FALSE(c.needs("b"));
  CHECK_THROWS(c.grad(1));
}

TEST_CASE("VjpContext: only gradients of inputs that need one are put") {
  Rule r;
  VjpContext c(r.b, r.call, {r.g});
  c.put("a", nullptr);
  c.put("b", r.g);
  CHECK(c.result().empty());
  c.put("a", r.g);
  REQUIRE(c.result().size() == 1);
  CHECK((c.result()[0].first == r.x && c.result()[0].second == r.g));
}

TEST_CASE("VjpContext: an output without a gradient has None, or zeros like it") {
  Builder b = builder();
  const Value x = b.input(f32({2, 3}, true)), g = b.input(f32({2, 3}));
  const Expr two = b("builder_test.two", x);
  VjpContext c(b, *b.calls()[0], {nullptr, g});
  CHECK_FALSE(c.has_grad(0));
  CHECK(c.grad(0).is_none());
  CHECK(c.has_grad(1));
  CHECK(c.out(1).value() == two[1].value());
  const Expr zeros = c.grad_or_zeros(0);
  CHECK(b.calls().back()->op->name == "torch.zeros_like");
  CHECK(str(zeros.shape()) == "[2, 3]");
}

TEST_CASE("VjpContext: lists of tensors, one by one") {
  Builder b = builder();
  const Value x = b.input(f32({2}, true)), y = b.input(f32({2})), g = b.input(f32({2}));
  b("builder_test.sum", Arg::list({y, x}));
  b("builder_test.sum", Arg::list({y}));
  VjpContext c(b, *b.calls()[0], {});
  CHECK(c.needs("a"));
  CHECK_FALSE(VjpContext(b, *b.calls()[1], {}).needs("a"));
  c.put("a", 0, g);
  c.put("a", 1, g);
  REQUIRE(c.result().size() == 1);
  CHECK(c.result()[0].first == x);
  CHECK_THROWS(c.put("a", 2, g));
}

}  // namespace
}  // namespace thunder
