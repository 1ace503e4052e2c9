#include "jit/known_mask.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>
#include <vector>

#include "core/rewrite.h"
#include "jit/evaluate.h"
#include "passes/visit.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

double lowest(at::ScalarType t) {
  switch (t) {
    case at::kHalf: return std::numeric_limits<c10::Half>::lowest();
    case at::kBFloat16: return std::numeric_limits<c10::BFloat16>::lowest();
    case at::kFloat: return std::numeric_limits<float>::lowest();
    default: return std::numeric_limits<double>::lowest();
  }
}

Arg on_cpu(const Arg& a) {
  if (a.kind() == Arg::Kind::Device) return Device{};
  if (a.kind() != Arg::Kind::List && a.kind() != Arg::Kind::Tuple) return a;
  ArgList items;
  for (const Arg& item : a.items()) items.push_back(on_cpu(item));
  return a.kind() == Arg::Kind::List ? Arg::list(std::move(items)) : Arg::tuple(std::move(items));
}

Trace on_cpu(const Trace& t) {
  Builder b(t.arena);
  Substitution made;
  for (const Call* c : t.calls) {
    ArgList args;
    for (const Arg& a : made(c->args)) args.push_back(on_cpu(a));
    const Arg result = b.call(*c->op, std::move(args));
    std::vector<Value> before, after;
    visit_values(c->output, [&](Value v) { before.push_back(v); });
    visit_values(result, [&](Value v) { after.push_back(v); });
    for (size_t i = 0; i < before.size(); ++i) made.replace(before[i], after.at(i));
  }
  return b.finish(t.name, made(t.output));
}

bool holds(const at::Tensor& t) { return t.all().item<bool>(); }

// The one distance of a side's ends from the diagonal, in the rows where it does not reach the edge; -1 if it does in
// all.  Rows that differ are found out by comparing all places.
int64_t distance(const at::Tensor& ends, const at::Tensor& is_inside) {
  const at::Tensor inside = ends.masked_select(is_inside);
  return inside.numel() == 0 ? -1 : inside.max().item<int64_t>();
}

KnownMask window_of(const at::Tensor& seen) {
  const int64_t rows = seen.size(0), columns = seen.size(1);
  if (!holds(seen.any(1))) return MaskKind::Other;
  const at::Tensor bytes = seen.to(at::kByte), column = at::arange(columns, seen.device());
  const at::Tensor first = bytes.argmax(1), last = columns - 1 - bytes.flip(1).argmax(1);
  const at::Tensor row = at::arange(columns - rows, columns, seen.device());
  const bool left_cut = first.gt(0).any().item<bool>(), right_cut = last.lt(columns - 1).any().item<bool>();
  const int64_t left = distance(row - first, first.gt(0)), right = distance(last - row, last.lt(columns - 1));
  if ((left_cut && left < 0) || (right_cut && right < 0)) return MaskKind::Other;
  const at::Tensor own = row.unsqueeze(1);
  at::Tensor expected = at::ones_like(seen);
  if (left_cut) expected.logical_and_(column.ge(own - left));
  if (right_cut) expected.logical_and_(column.le(own + right));
  return at::equal(seen, expected) ? KnownMask(MaskKind::Window, left, right) : MaskKind::Other;
}

KnownMask kind_of(at::Tensor seen) {
  if (seen.scalar_type() != at::kBool) {
    const at::Tensor numbers = seen;
    seen = numbers.eq(0);
    if (!holds(seen.logical_or(numbers.le(lowest(numbers.scalar_type()))))) return MaskKind::Other;
  }
  if (holds(seen)) return MaskKind::Full;
  if (seen.dim() > 2) {  // all alike
    const at::Tensor all = seen.flatten(0, -3);
    if (!holds(all.eq(all[0]))) return MaskKind::Other;
    seen = all[0];
  }
  const at::Tensor row = at::arange(seen.size(0), seen.device()).unsqueeze(1);
  if (holds(seen.eq(row.ge(at::arange(seen.size(1), seen.device()))))) return MaskKind::Causal;
  return window_of(seen);
}

}  // namespace

KnownMask classify_mask(const Trace& mask) {
  const TensorType& type = mask.output.value().tensor();
  if (type.rank() < 2 || (!is_floating(type.dtype) && type.dtype != DType::boolean)) return MaskKind::Other;
  const bool elsewhere = type.device.type == DeviceType::cuda && !at::globalContext().hasCUDA();
  try {
    const frontend::Ref result = evaluate(elsewhere ? on_cpu(mask) : mask);
    const BelowAutograd below;
    return kind_of(torch_py::tensor(result.get()));
  } catch (const c10::OutOfMemoryError&) {  // a kernel of the program's may not need all of it at a time
    return MaskKind::Other;
  }
}

}  // namespace thunder
