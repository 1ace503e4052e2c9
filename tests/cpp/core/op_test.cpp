// Operators' records, the registry, and a call's arguments by name.
#include "core/op.h"

#include <doctest.h>

#include <algorithm>

#include "core/error.h"
#include "core/errors.h"
#include "core/number.h"
#include "core/trace.h"

namespace thunder {
namespace {

using test::error_of;

Types no_types(const Args&) { return {}; }

/// A registered operator of this test's own level.
const Op& add(std::string_view schema, bool replace = false) {
  return Registry::instance().add("op_test", {.schema = schema, .doc = "", .meta = no_types}, replace);
}

// ---- records --------------------------------------------------------------------------------------------------------

TEST_CASE("Op: names of a record with an overload") {
  const Op op("prims", {.schema = "max.dim(Tensor a, int dim) -> (Tensor, Tensor)", .doc = "largest", .tags = kView});
  CHECK(op.name == "prims.max");
  CHECK(op.full_name == "prims.max.dim");
  CHECK(op.print_name == "prims.max");
  CHECK(op.schema.params.size() == 2);
  CHECK(op.doc == "largest");
  CHECK(op.is_prim());
}

TEST_CASE("Op: a user's language prints with an l, other levels as they are") {
  const auto print_name = [](const char* level) { return Op(level, {.schema = "f() -> None", .doc = ""}).print_name; };
  CHECK(print_name("torch") == "ltorch.f");
  CHECK(print_name("numpy") == "lnumpy.f");
  CHECK(print_name("clang") == "clang.f");
  CHECK(print_name("my_executor") == "my_executor.f");
  CHECK_FALSE(Op("torch", {.schema = "f() -> None", .doc = ""}).is_prim());
  CHECK(Op("torch", {.schema = "f() -> None", .doc = ""}).full_name == "torch.f");
}

TEST_CASE("Op: public names are words, tags are asked for by any of several") {
  const Op op("torch", {.schema = "add(Scalar a) -> Tensor",
                        .doc = "",
                        .tags = kPointwise | kCommutative,
                        .python = " torch.add  torch.Tensor.add\ntorch.Tensor.__add__"});
  CHECK(op.python == std::vector<std::string>{"torch.add", "torch.Tensor.add", "torch.Tensor.__add__"});
  CHECK(op.has(kPointwise));
  CHECK(op.has(kView | kCommutative));
  CHECK_FALSE(op.has(kView | kRandom));
  CHECK_FALSE(op.has(kNoTag));
  CHECK(Op("torch", {.schema = "f() -> None", .doc = ""}).python.empty());
}

TEST_CASE("Op: the classes of effects") {
  for (uint64_t tag : {kRandom, kCollective, kWrite, kHostSync, kState}) CHECK((kEffects & tag) != 0);
  for (uint64_t tag : {kPointwise, kView, kCreation, kNoGrad, kDataDependent, kComm, kWaits})
    CHECK((kEffects & tag) == 0);
}

// ---- the registry ---------------------------------------------------------------------------------------------------

TEST_CASE("Registry: finds what was added by its full name") {
  const Op& op = add("found(Tensor a) -> Tensor");
  const Registry& r = Registry::instance();
  CHECK(r.find("op_test.found") == &op);
  CHECK(&r.get("op_test.found") == &op);
  CHECK(r.all().back() == &op);
  CHECK(r.find("found") == nullptr);
  CHECK(r.find("op_test.foun") == nullptr);
  CHECK(r.find("") == nullptr);
  CHECK(error_of(ErrorKind::Internal, [&] { r.get("op_test.lost"); }).find("there is no operator 'op_test.lost'") !=
        std::string::npos);
}

TEST_CASE("Registry: overloads in order of registration") {
  const Op& plain = add("many(Tensor a) -> Tensor");
  const Op& second = add("many.second(Tensor a, int dim) -> Tensor");
  const Op& first = add("many.first(Tensor a, Tensor b) -> Tensor");
  const Registry& r = Registry::instance();
  CHECK(r.overloads("op_test.many") == std::vector<const Op*>{&plain, &second, &first});
  CHECK(r.by_print_name("op_test.many") == std::vector<const Op*>{&plain, &second, &first});
  CHECK(r.find("op_test.many") == &plain);
  CHECK(r.find("op_test.many.first") == &first);
  CHECK(r.overloads("op_test.many.first").empty());
  CHECK(r.overloads("op_test.none").empty());
  CHECK(r.by_print_name("op_test.none").empty());
}

TEST_CASE("Registry: a name is taken once, unless the operator is to be replaced") {
  const Op& old = add("taken(Tensor a) -> Tensor");
  CHECK(error_of(ErrorKind::Value, [] { add("taken(int b) -> Tensor"); }) ==
        "[op_test.taken] an operator of this name is registered already");
  const Registry& r = Registry::instance();
  CHECK(r.find("op_test.taken") == &old);
  const Op& other = add("taken(int b) -> Tensor", true);
  CHECK(r.find("op_test.taken") == &other);
  CHECK(r.overloads("op_test.taken") == std::vector<const Op*>{&other});
  CHECK(r.by_print_name("op_test.taken") == std::vector<const Op*>{&other});
  CHECK(std::count(r.all().begin(), r.all().end(), &old) == 0);
  CHECK(old.schema.params[0].name == "a");  // traces may still hold it
  const Op& fresh = add("not_taken(int b) -> Tensor", true);
  CHECK(r.find("op_test.not_taken") == &fresh);
}

TEST_CASE("Registry: an operator is found by the name that it prints as") {
  auto op = std::make_unique<Op>("op_test", OpDef{.schema = "renamed() -> None", .doc = "", .meta = no_types});
  op->print_name = "op_test_module.shown";
  const Op& added = Registry::instance().add(std::move(op));
  CHECK(Registry::instance().by_print_name("op_test_module.shown") == std::vector<const Op*>{&added});
  CHECK(Registry::instance().by_print_name("op_test.renamed").empty());
  CHECK(Registry::instance().find("op_test.renamed") == &added);
}

// ---- arguments ------------------------------------------------------------------------------------------------------

/// A call of one operator with a parameter of every kind, all None until they are set.
struct OneCall {
  Op op{"op_test", {.schema = "f(any a, any b) -> None", .doc = ""}};
  Arena arena;
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Dim s = env.make_symbol(6, "s");
  Value x = arena.make_value(TensorType{DType::f32, Device{}, {2, 3}, {3, 1}});
  Value size = arena.make_value(NumberType{NumberKind::Int, s});
  Value item = arena.make_value(NumberType{NumberKind::Float, {}});
  ArgList list = {nullptr, nullptr};

  Args args(Arg a) {
    list[0] = std::move(a);
    return Args(op, list);
  }
};

constexpr const char* kUnknown =
    "[f] 'a' must be known when the program is compiled, got f2, a number that only the run knows";

TEST_CASE("Args: by schema name") {
  OneCall c;
  const Args args = c.args(c.x);
  CHECK(args["a"].value() == c.x);
  CHECK(args["b"].is_none());
  CHECK(args.has("a"));
  CHECK_FALSE(args.has("b"));
  CHECK(&args.op() == &c.op);
  CHECK(args.list().size() == 2);
  CHECK(args.value("a") == c.x);
  CHECK(args.tensor("a").rank() == 2);
  CHECK(error_of(ErrorKind::Internal, [&] { args["c"]; }).find("op_test.f has no parameter 'c'") != std::string::npos);
}

TEST_CASE("Args: literals of their kind") {
  OneCall c;
  CHECK(c.args("sum").str("a") == "sum");
  CHECK(c.args(DType::i8).dtype("a") == DType::i8);
  CHECK(c.args(Device{DeviceType::cuda, 1}).device("a") == Device{DeviceType::cuda, 1});
  CHECK(c.args(true).flag("a"));
  CHECK_FALSE(c.args(false).flag("a"));
  CHECK(c.args(-3).integer("a") == -3);
  CHECK(c.args(Arg::list({c.x, c.x})).values("a") == std::vector<Value>{c.x, c.x});
  CHECK(c.args(Arg::list({})).values("a").empty());
}

TEST_CASE("Args: what is of another kind cannot be read") {
  OneCall c;
  const Args args = c.args(nullptr);
  CHECK_THROWS(args.value("a"));
  CHECK_THROWS(args.tensor("a"));
  CHECK_THROWS(args.dim("a"));
  CHECK_THROWS(args.flag("a"));
  CHECK_THROWS(args.real("a"));
  CHECK_THROWS(args.str("a"));
  CHECK_THROWS(args.dtype("a"));
  CHECK_THROWS(args.device("a"));
  CHECK_THROWS(args.dims("a"));
  CHECK_THROWS(args.values("a"));
  CHECK_THROWS(c.args(c.item).tensor("a"));
}

TEST_CASE("Args: sizes are literals, or the symbols that number values bind") {
  OneCall c;
  CHECK(c.args(c.s + 1).dim("a").same(c.s + 1));
  CHECK(c.args(c.size).dim("a").same(c.s));
  CHECK(same(c.args(Arg::list({2, c.size, c.s * 2})).dims("a"), {2, c.s, 2 * c.s}));
  CHECK(c.args(Arg::tuple({})).dims("a").empty());
  CHECK(c.env.guards().empty());
  CHECK(c.args(c.size).integer("a") == 6);
  CHECK(c.args(Arg::list({-1, c.size})).integers("a") == std::vector<int64_t>{-1, 6});
  CHECK(c.env.guards().size() == 1);
}

TEST_CASE("Args: a number that only the run knows is an error that says so") {
  OneCall c;
  CHECK(error_of(ErrorKind::Runtime, [&] { c.args(c.item).dim("a"); }) == kUnknown);
  CHECK(error_of(ErrorKind::Runtime, [&] { c.args(c.item).integer("a"); }) == kUnknown);
  CHECK(error_of(ErrorKind::Runtime, [&] { c.args(c.item).flag("a"); }) == kUnknown);
  CHECK(error_of(ErrorKind::Runtime, [&] { c.args(c.item).real("a"); }) == kUnknown);
  CHECK(error_of(ErrorKind::Runtime, [&] { c.args(Arg::list({1, c.item})).dims("a"); }) == kUnknown);
}

TEST_CASE("Args: a real number of any literal without an imaginary part") {
  using C = std::complex<double>;
  OneCall c;
  CHECK(c.args(2.5).real("a") == 2.5);
  CHECK(c.args(-2).real("a") == -2);
  CHECK(c.args(true).real("a") == 1);
  CHECK(c.args(C(2.5, 0)).real("a") == 2.5);
  CHECK(error_of(ErrorKind::Runtime, [&] { c.args(C(1, 2)).real("a"); }) ==
        "[f] 'a': value cannot be converted to type double without overflow, got (1,2)");
}

TEST_CASE("Args: a symbolic real number is taken at its hint") {
  OneCall c;
  CHECK(c.args(c.s + 1).real("a") == 7);
  CHECK(c.args(c.size).real("a") == 6);
  CHECK(c.env.guards().size() == 2);
  const Value scale = c.arena.make_value(NumberType{NumberKind::Float, {}, c.env.make_number(0.5)});
  CHECK(c.args(scale).real("a") == 0.5);
  CHECK(c.env.number_guards().size() == 1);
}

}  // namespace
}  // namespace thunder
