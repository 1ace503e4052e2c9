// Pointwise operators of the core language: operands of different dtypes are promoted, those of different shapes
// broadcast; numbers count as PyTorch counts them.
//
// Each is made of a primitive's record, so that a new pointwise primitive has its operator here.  The records of torch
// and numpy call the same functions of ops/common.h: an operator of this level inside of theirs would be one more line
// in each body of a trace.
#include <algorithm>
#include <deque>

#include "core/builder.h"
#include "ops/common.h"
#include "ops/elementwise_rules.h"
#include "ops/prims/elementwise.h"

namespace thunder::ops {

namespace prims {
Records elementwise();
}

namespace clang {
namespace {

// Of one or two tensors or numbers, and of nothing else.
bool is_arithmetic(const OpDef& primitive) {
  if (!(primitive.tags & kPointwise)) return false;
  const std::vector<Param> params = Schema::parse(primitive.schema).params;
  return params.size() <= 2 && std::all_of(params.begin(), params.end(), [](const Param& p) {
           return !p.list && (p.kind == Param::Kind::Tensor || p.kind == Param::Kind::Scalar);
         });
}

OpDef operator_of(const OpDef& primitive, std::deque<std::string>& texts) {
  const bool to_float = prims::refuses_integers(primitive);
  const bool two = Schema::parse(primitive.schema).params.size() == 2;
  std::string& doc = texts.emplace_back(primitive.doc);
  if (two) doc += "  Operands are promoted to one dtype and broadcast.";
  if (to_float) doc += "  Integers and booleans become the default dtype.";
  OpDef out = primitive;
  out.doc = doc;
  out.meta = nullptr;
  out.body = to_float ? same_primitive<Promotion::IntToFloat> : same_primitive<Promotion::Default>;
  out.aten = out.python = out.scalar = {};
  return out;
}

std::vector<OpDef> make_records() {
  static std::deque<std::string> texts;  // records hold views of them
  std::vector<OpDef> out;
  for (const OpDef& primitive : prims::elementwise())
    if (is_arithmetic(primitive)) out.push_back(operator_of(primitive, texts));
  out.push_back({.schema = "where(Tensor pred, Scalar a, Scalar b) -> Tensor",
                 .doc = "a where pred holds, else b; the three are broadcast, a and b promoted.",
                 .tags = kPointwise | kCheap,
                 .body = where,
                 .vjp = where_vjp});
  return out;
}

}  // namespace

Records elementwise() {
  static const std::vector<OpDef> records = make_records();
  return records;
}

}  // namespace clang
}  // namespace thunder::ops
