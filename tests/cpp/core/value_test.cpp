// Values, and arguments: what a call may take.
#include "core/value.h"

#include <doctest.h>

#include <limits>

#include "core/error.h"
#include "core/trace.h"

namespace thunder {
namespace {

using Kind = Arg::Kind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorType tensor(bool requires_grad = false) { return {DType::f32, Device{}, {2, 3}, {3, 1}, requires_grad}; }

/// Three tensors, and an environment with a symbol.
struct Some {
  Arena arena;
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Value x = arena.make_value(tensor()), y = arena.make_value(tensor()), z = arena.make_value(tensor());
  Dim s = env.make_symbol(6, "s");
};

// ---- values ---------------------------------------------------------------------------------------------------------

TEST_CASE("Value: a handle, equal to another one of the same node alone") {
  Some d;
  CHECK_FALSE(Value());
  CHECK(Value() == Value());
  CHECK(d.x);
  const Value copy = d.x;
  CHECK(copy == d.x);
  CHECK_FALSE(d.x == d.y);
  CHECK_FALSE(d.x == Value());
  CHECK(d.x.rank() == 2);
  CHECK(d.x.dtype() == DType::f32);
  CHECK(str(d.x.shape()) == "[2, 3]");
}

TEST_CASE("Value: a letter for the type and the id, or the name that was given") {
  Arena arena;
  const auto name_of = [&](Type t, std::string given = {}) { return arena.make_value(std::move(t), given).name(); };
  CHECK(name_of(tensor()) == "t0");
  CHECK(name_of(NumberType{NumberKind::Int, {}}) == "i1");
  CHECK(name_of(NumberType{NumberKind::Float, {}}) == "f2");
  CHECK(name_of(NumberType{NumberKind::Bool, {}}) == "b3");
  CHECK(name_of(NumberType{NumberKind::Complex, {}}) == "c4");
  CHECK(name_of(Type::future({tensor()})) == "p5");
  CHECK(name_of(Type::opaque("graph")) == "o6");
  CHECK(name_of(tensor(), "logits") == "logits");
  CHECK(arena.make_value(tensor(), "logits").given_name() == "logits");
  CHECK(arena.make_value(tensor()).given_name() == "");
}

TEST_CASE("Value: tensors alone require grad") {
  Arena arena;
  CHECK(arena.make_value(tensor(true)).requires_grad());
  CHECK_FALSE(arena.make_value(tensor()).requires_grad());
  CHECK_FALSE(arena.make_value(NumberType{NumberKind::Float, {}}).requires_grad());
  CHECK_FALSE(arena.make_value(Type::future({tensor(true)})).requires_grad());
}

// ---- what an argument is --------------------------------------------------------------------------------------------

TEST_CASE("Arg: C++ values become the kind that a reader expects") {
  Some d;
  CHECK(Arg().kind() == Kind::None);
  CHECK(Arg(nullptr).kind() == Kind::None);
  CHECK(Arg(true).kind() == Kind::Bool);
  CHECK(Arg(1).kind() == Kind::Int);
  CHECK(Arg(size_t{1}).kind() == Kind::Int);
  CHECK(Arg(d.s).kind() == Kind::Int);
  CHECK(Arg(1.0).kind() == Kind::Float);
  CHECK(Arg(std::complex<double>(1, 2)).kind() == Kind::Complex);
  CHECK(Arg("text").kind() == Kind::Str);  // and no bool
  CHECK(Arg(std::string()).kind() == Kind::Str);
  CHECK(Arg(DType::f32).kind() == Kind::DType);
  CHECK(Arg(Device{}).kind() == Kind::Device);
  CHECK(Arg(d.x).kind() == Kind::Value);
  CHECK(Arg(ConstantArg{"..."}).kind() == Kind::Constant);
  CHECK(Arg(OpaqueArg{"group", nullptr}).kind() == Kind::Opaque);
  CHECK(Arg::list({}).kind() == Kind::List);
  CHECK(Arg::tuple({}).kind() == Kind::Tuple);
  CHECK(Arg::dict({}).kind() == Kind::Dict);
  CHECK(Arg::slice(nullptr, 2, nullptr).kind() == Kind::Slice);
}

TEST_CASE("Arg: an optional is what it holds, or None; vectors are lists") {
  Some d;
  CHECK(Arg(std::optional<int>()).is_none());
  CHECK(Arg(std::optional<int>(0)).dim().same(0));
  CHECK(Arg(std::optional<DType>(DType::i8)).dtype() == DType::i8);
  CHECK(Arg(Dims{2, d.s}).same(Arg::list({2, d.s})));
  CHECK(Arg(Dims{}).same(Arg::list({})));
  CHECK(Arg(std::vector<int64_t>{-1, 5}).same(Arg::list({-1, 5})));
  CHECK(Arg(std::vector<Value>{d.x, d.y}).same(Arg::list({d.x, d.y})));
}

TEST_CASE("Arg: numbers, literal ones and values") {
  Some d;
  const Value n = d.arena.make_value(NumberType{NumberKind::Float, {}});
  for (const Arg& a : {Arg(true), Arg(3), Arg(-0.5)}) {
    CHECK(a.is_number());
    CHECK(a.is_literal_number());
    CHECK(a.is_real_literal());
  }
  CHECK(Arg(d.s).is_literal_number());
  CHECK_FALSE(Arg(d.s).is_real_literal());
  CHECK(Arg(std::complex<double>(1)).is_literal_number());
  CHECK_FALSE(Arg(std::complex<double>(1)).is_real_literal());
  CHECK(Arg(n).is_number());
  CHECK_FALSE(Arg(n).is_literal_number());
  for (const Arg& a : {Arg(), Arg("1"), Arg(d.x), Arg::list({1}), Arg(DType::f32)}) CHECK_FALSE(a.is_number());
  CHECK((Arg(d.x).is_tensor() && Arg(d.x).is_value()));
  CHECK((!Arg(n).is_tensor() && Arg(n).is_value()));
  CHECK(Arg::list({}).is_sequence());
  CHECK(Arg::tuple({}).is_sequence());
  CHECK_FALSE(Arg::dict({}).is_sequence());
}

TEST_CASE("Arg: the kind of a number") {
  Some d;
  CHECK(Arg(true).number_kind() == NumberKind::Bool);
  CHECK(Arg(d.s).number_kind() == NumberKind::Int);
  CHECK(Arg(1.0).number_kind() == NumberKind::Float);
  CHECK(Arg(std::complex<double>(1)).number_kind() == NumberKind::Complex);
  CHECK(Arg(d.arena.make_value(NumberType{NumberKind::Bool, {}})).number_kind() == NumberKind::Bool);
  CHECK_THROWS(Arg("1").number_kind());
  CHECK_THROWS(Arg(d.x).number_kind());
}

TEST_CASE("Arg: real numbers as double, all numbers as complex") {
  Some d;
  CHECK(Arg(true).real() == 1);
  CHECK(Arg(false).real() == 0);
  CHECK(Arg(-7).real() == -7);
  CHECK(Arg(0.25).real() == 0.25);
  CHECK(Arg(-7).complex() == std::complex<double>(-7, 0));
  CHECK(Arg(std::complex<double>(1, -2)).complex() == std::complex<double>(1, -2));
  for (const Arg& a : {Arg(std::complex<double>(1)), Arg("1"), Arg(), Arg(d.x)})
    CHECK_THROWS_WITH_AS(a.real(), doctest::Contains("a real number was expected"), Error);
  CHECK(d.env.guards().empty());
  CHECK(Arg(d.s).real() == 6);
  CHECK(d.env.guards().size() == 1);
}

TEST_CASE("Arg: a number of the call's is specialized where it is needed as double") {
  Some d;
  const Value n = d.arena.make_value(NumberType{NumberKind::Float, {}, d.env.make_number(2.5)});
  CHECK(Arg(n).real() == 2.5);
  CHECK(d.env.number_guards().size() == 1);
  CHECK_THROWS_AS(Arg(d.arena.make_value(NumberType{NumberKind::Float, {}})).real(), Error);
}

TEST_CASE("Arg: what is of another kind cannot be read") {
  Some d;
  const Arg a = 1.5;
  CHECK_THROWS(a.value());
  CHECK_THROWS(a.boolean());
  CHECK_THROWS(a.dim());
  CHECK_THROWS(a.str());
  CHECK_THROWS(a.dtype());
  CHECK_THROWS(a.device());
  CHECK_THROWS(a.constant());
  CHECK_THROWS(a.opaque());
  CHECK_THROWS(a.entries());
  CHECK_THROWS(a.slice());
  CHECK_THROWS_WITH_AS(Arg::dict({}).items(), doctest::Contains("a list was expected"), Error);
  CHECK_THROWS(Arg(1).boolean());
  CHECK_THROWS(Arg(true).dim());
}

// ---- equality -------------------------------------------------------------------------------------------------------

TEST_CASE("Arg: floats are the same bit by bit, but NaN is NaN") {
  using C = std::complex<double>;
  CHECK(Arg(kNan).same(-kNan));
  CHECK(Arg(0.1).same(0.1));
  CHECK_FALSE(Arg(0.0).same(-0.0));
  CHECK_FALSE(Arg(kNan).same(0.0));
  CHECK(Arg(C(kNan, 1)).same(C(kNan, 1)));
  CHECK_FALSE(Arg(C(0.0, 1)).same(C(-0.0, 1)));
  CHECK_FALSE(Arg(C(1, 0.0)).same(C(1, -0.0)));
}

TEST_CASE("Arg: each is the same as itself, and as no other") {
  Some d;
  const auto object = std::make_shared<int>(1);
  const std::vector<Arg> all = {nullptr,
                                true,
                                false,
                                0,
                                1,
                                d.s,
                                d.s + 1,
                                1.0,
                                std::complex<double>(1),
                                "1",
                                "",
                                DType::f32,
                                DType::f64,
                                Device{},
                                Device{DeviceType::cuda, 0},
                                d.x,
                                d.y,
                                ConstantArg{"..."},
                                ConstantArg{"torch.strided"},
                                OpaqueArg{"a", object},
                                OpaqueArg{"b", object},
                                OpaqueArg{"a", nullptr},
                                Arg::list({}),
                                Arg::tuple({}),
                                Arg::dict({}),
                                Arg::list({1}),
                                Arg::tuple({1}),
                                Arg::list({1, 2}),
                                Arg::list({2, 1}),
                                Arg::list({Arg::list({1})}),
                                Arg::dict({{"a", 1}}),
                                Arg::dict({{"b", 1}}),
                                Arg::dict({{"a", 2}}),
                                Arg::slice(1, 2, 3),
                                Arg::slice(0, 2, 3),
                                Arg::slice(1, 0, 3),
                                Arg::slice(1, 2, nullptr)};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j) {
      CAPTURE(i);
      CAPTURE(j);
      CHECK(all[i].same(all[j]) == (i == j));
    }
  CHECK(Arg::list({d.s + 1, d.x}).same(Arg::list({1 + d.s, d.x})));
  CHECK(d.env.guards().empty());
}

// ---- walks ----------------------------------------------------------------------------------------------------------

/// x, y and z in containers of every kind, among what is no value.
Arg nested(const Some& d) {
  return Arg::list({d.x, 1, Arg::tuple({d.y, "a", Arg::dict({{"k", d.z}, {2, d.s}})}), Arg::slice(d.x, nullptr, d.y)});
}

TEST_CASE("visit_values: in order, containers included, as often as a value stands there") {
  Some d;
  CHECK(values_in(nested(d)) == std::vector<Value>{d.x, d.y, d.z, d.x, d.y});
  CHECK(values_in(d.x) == std::vector<Value>{d.x});
  CHECK(values_in(Arg::list({})).empty());
  CHECK(values_in(1).empty());
  CHECK(values_in(nullptr).empty());
  std::vector<Value> seen;
  visit_values(Arg::tuple({d.z, d.x}), [&](Value v) { seen.push_back(v); });
  CHECK(seen == std::vector<Value>{d.z, d.x});
}

TEST_CASE("for_each_symbol: those of sizes, however deep") {
  Some d;
  const Dim t = d.env.make_symbol(5, "t");
  const auto symbols = [](const Arg& a) {
    std::vector<SymbolId> out;
    for_each_symbol(a, [&](SymbolId s) { out.push_back(s); });
    return out;
  };
  const SymbolId s_id = d.s.symbols()[0], t_id = t.symbols()[0];
  CHECK(symbols(nested(d)) == std::vector<SymbolId>{s_id});
  CHECK(symbols(Arg::list({t * 2, Arg::slice(nullptr, d.s + 1, 1)})) == std::vector<SymbolId>{t_id, s_id});
  CHECK(symbols(7).empty());
  CHECK(symbols("s").empty());
}

TEST_CASE("map_values: values are replaced, all else stays") {
  Some d;
  const auto swapped = [&](Value v) -> Arg { return v == d.x ? Arg(d.y) : v == d.y ? Arg(d.x) : Arg(5); };
  const Arg expected =
      Arg::list({d.y, 1, Arg::tuple({d.x, "a", Arg::dict({{"k", 5}, {2, d.s}})}), Arg::slice(d.y, nullptr, d.x)});
  CHECK(map_values(nested(d), swapped).same(expected));
  CHECK(map_values(d.x, [&](Value) { return Arg::list({d.y, d.z}); }).same(Arg::list({d.y, d.z})));
  CHECK(map_values(nested(d), [](Value v) { return v; }).same(nested(d)));
  CHECK(map_values("text", swapped).same("text"));
  CHECK(map_values(Arg::tuple({}), swapped).same(Arg::tuple({})));
}

}  // namespace
}  // namespace thunder
