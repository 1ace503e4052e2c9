// Small operators for the tests of core, which stand below the real ones.
#pragma once

#include <doctest.h>

#include <map>
#include <string>

#include "core/builder.h"
#include "core/error.h"
#include "core/parse.h"
#include "core/print.h"

namespace thunder::ops {
void register_all() __attribute__((weak));  // absent as long as nothing in the test program uses the real operators
}

namespace thunder::test {

inline TensorType f32(Dims shape, bool requires_grad = false) {
  Dims strides = contiguous_strides(shape);
  return TensorType{DType::f32, Device{}, std::move(shape), std::move(strides), requires_grad};
}

inline Types like_a(const Args& args) {
  TensorType t = args.tensor("a");
  t.requires_grad = false;
  return {t};
}

inline Types sum_meta(const Args& args) {
  TensorType t = f32({});
  t.device = args.tensor("a").device;
  if (args.has("dtype")) t.dtype = args.dtype("dtype");
  return {t};
}

inline Types permute_meta(const Args& args) {
  TensorType t = args.tensor("a"), out = t;
  std::vector<int64_t> dims = args.integers("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    out.shape[i] = t.shape[static_cast<size_t>(dims[i])];
    out.strides[i] = t.strides[static_cast<size_t>(dims[i])];
  }
  out.requires_grad = false;
  return {out};
}

inline Types reshape_meta(const Args& args) {
  TensorType t = args.tensor("a");
  t.shape = args.dims("shape");
  t.strides = contiguous_strides(t.shape);
  t.requires_grad = false;
  return {t};
}

inline Types split_meta(const Args& args) {
  Types out;
  for (int64_t i = 0; i < args.integer("n"); ++i) out.push_back(like_a(args)[0]);
  return out;
}

inline Types max_dim_meta(const Args& args) {
  TensorType values = f32({}), indices = values;
  indices.dtype = DType::i64;
  return {values, indices};
}

inline Types nonzero_meta(const Args& args) {
  Dim n = ShapeEnv::current()->make_symbol(std::nullopt);
  TensorType t = f32({n, args.tensor("a").rank()});
  t.dtype = DType::i64;
  return {t};
}

inline Types size_meta(const Args& args) {
  return {NumberType{NumberKind::Int, args.tensor("a").shape[static_cast<size_t>(args.integer("dim"))]}};
}

inline Types item_meta(const Args&) { return {NumberType{NumberKind::Float, std::nullopt}}; }
inline Types graph_meta(const Args&) { return {Type::opaque("a \"graph\" \\ it's")}; }
inline Types none_meta(const Args&) { return {}; }

inline Arg twice_body(Builder& b, const Args& args) { return b("test.add", args["a"], args["a"]); }
inline Arg four_times_body(Builder& b, const Args& args) { return b("test.twice", b("test.twice", args["a"])); }
inline Arg pair_body(Builder& b, const Args& args) {
  Expr x = b("test.neg", args["a"]);
  return Arg::tuple({x.arg(), Arg::list({b("test.twice", x).arg()})});
}

/// Registers them once: `test.neg`, `test.add`, ...
inline void register_test_ops() {
  Registry& r = Registry::instance();
  if (r.find("test.neg")) return;
  if (ops::register_all) ops::register_all();
  if (!r.find("prims.python_del")) {
    auto del = std::make_unique<Op>("prims",
                                    OpDef{.schema = "python_del(any[] values) -> None", .doc = "", .meta = none_meta});
    del->print_name = "del";
    r.add(std::move(del));
  }
  if (!r.find("prims.size")) r.add("prims", {.schema = "size(Tensor a, int dim) -> any", .doc = "", .meta = size_meta});
  r.add("test", {.schema = "neg(Tensor a) -> Tensor", .doc = "", .meta = like_a});
  r.add("test", {.schema = "add(Tensor a, Scalar b) -> Tensor", .doc = "", .meta = like_a});
  r.add("test", {.schema = "sum(Tensor a, int[] dims, *, bool keepdim=False, dtype? dtype=None) -> Tensor",
                 .doc = "",
                 .meta = sum_meta});
  r.add("test", {.schema = "permute(Tensor a, int[] ...dims) -> Tensor", .doc = "", .meta = permute_meta});
  r.add("test", {.schema = "reshape(Tensor a, int[] shape) -> Tensor", .doc = "", .meta = reshape_meta});
  r.add("test", {.schema = "split(Tensor a, int n) -> Tensor[]", .doc = "", .meta = split_meta});
  r.add("test", {.schema = "max(Tensor a) -> Tensor", .doc = "", .meta = like_a});
  r.add("test", {.schema = "max.dim(Tensor a, int dim) -> (Tensor, Tensor)", .doc = "", .meta = max_dim_meta});
  r.add("test", {.schema = "max.again(Tensor a, int dim) -> (Tensor, Tensor)", .doc = "", .meta = max_dim_meta});
  r.add("test",
        {.schema = "nonzero(Tensor a) -> Tensor", .doc = "", .tags = kDataDependent | kNoGrad, .meta = nonzero_meta});
  r.add("test", {.schema = "item(Tensor a) -> any", .doc = "", .tags = kHostSync, .meta = item_meta});
  r.add("test", {.schema = "graph(Tensor a) -> any", .doc = "", .meta = graph_meta});
  r.add("test", {.schema = "show(any x, float y=1.0, *, any z=1, any w='a') -> None", .doc = "", .meta = none_meta});
  r.add("test", {.schema = "twice(Tensor a) -> Tensor", .doc = "", .body = twice_body});
  r.add("test", {.schema = "four_times(Tensor a) -> Tensor", .doc = "", .body = four_times_body});
  r.add("test", {.schema = "pair(Tensor a) -> (Tensor, Tensor[])", .doc = "", .body = pair_body});
}

/// A builder over an arena of its own, with the operators registered.
inline Builder new_builder() {
  register_test_ops();
  return Builder(std::make_shared<Arena>());
}

inline void del(Builder& b, ArgList values) {
  b.call(Registry::instance().get("prims.python_del"), {Arg::list(std::move(values))});
}

/// Reads the printed trace back, checks that nothing got lost, and returns what was read.
inline Trace check_round_trip(const Trace& t) {
  std::string text = print(t), why;
  CAPTURE(text);
  Trace back = parse(text, python_context(t));
  bool equal = structurally_equal(t, back, &why);
  CHECK_MESSAGE(equal, why);
  CHECK(print(back) == text);
  std::map<ValueId, Value> by_id;
  auto check_id = [&](Value v) { CHECK(by_id.emplace(v.id(), v).first->second == v); };
  for (Value v : back.inputs) check_id(v);
  for (const Call* c : back.calls) visit_outputs(*c, check_id);
  return back;
}

}  // namespace thunder::test
