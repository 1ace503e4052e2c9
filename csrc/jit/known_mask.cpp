#include "jit/known_mask.h"

#include <ATen/ATen.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/dim_algebra.h"
#include "core/error.h"
#include "core/rewrite.h"
#include "jit/evaluate.h"
#include "passes/visit.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

// A score to which that is added, or less, has no weight beside one to which zero is added.
double hidden_from(at::ScalarType t) {
  return t == at::kHalf ? static_cast<double>(std::numeric_limits<c10::Half>::lowest()) : -1e9;
}

// Where the greatest number of a row is farther from 0, a kernel's log-sum-exp of the row is not exact enough for
// gradients.
constexpr double kFarthest = 1e3;

constexpr int64_t kMostPlaces = int64_t{1} << 27;  // of a mask that is made while compiling

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
  for (Value v : t.inputs) made.replace(v, b.input(v.type()));
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

at::Tensor window(int64_t rows, int64_t columns, const KnownMask& known, at::Device device) {
  const at::Tensor column = at::arange(columns, device), row = at::arange(columns - rows, columns, device).unsqueeze(1);
  at::Tensor out = at::ones({rows, columns}, at::TensorOptions().dtype(at::kBool).device(device));
  if (known.left >= 0) out.logical_and_(column.ge(row - known.left));
  if (known.right >= 0) out.logical_and_(column.le(row + known.right));
  return out;
}

KnownMask window_of(const at::Tensor& seen) {
  const int64_t rows = seen.size(0), columns = seen.size(1);
  if (!holds(seen.any(1))) return MaskKind::Other;
  const at::Tensor bytes = seen.to(at::kByte);
  const at::Tensor first = bytes.argmax(1), last = columns - 1 - bytes.flip(1).argmax(1);
  const at::Tensor row = at::arange(columns - rows, columns, seen.device());
  const bool left_cut = first.gt(0).any().item<bool>(), right_cut = last.lt(columns - 1).any().item<bool>();
  const int64_t left = distance(row - first, first.gt(0)), right = distance(last - row, last.lt(columns - 1));
  if ((left_cut && left < 0) || (right_cut && right < 0)) return MaskKind::Other;
  const KnownMask known(MaskKind::Window, left_cut ? left : -1, right_cut ? right : -1);
  return at::equal(seen, window(rows, columns, known, seen.device())) ? known : MaskKind::Other;
}

bool is_causal(const at::Tensor& seen) {
  const at::Tensor row = at::arange(seen.size(0), seen.device()).unsqueeze(1);
  return holds(seen.eq(row.ge(at::arange(seen.size(1), seen.device()))));
}

// Where places are seen, one for all if all are alike; nothing where numbers say something else.
std::optional<at::Tensor> seen_by(at::Tensor mask) {
  if (mask.scalar_type() != at::kBool) {
    const at::Tensor numbers = mask;
    mask = numbers.eq(0);
    if (!holds(mask.logical_or(numbers.le(hidden_from(numbers.scalar_type()))))) return std::nullopt;
  }
  if (mask.dim() == 2) return mask;
  const at::Tensor all = mask.flatten(0, -3);
  if (all.size(0) == 0 || !holds(all.eq(all[0]))) return std::nullopt;
  return all[0];
}

bool rows_see(const at::Tensor& mask) {
  if (mask.size(-1) == 0) return true;
  return holds(mask.scalar_type() == at::kBool ? mask.any(-1) : mask.amax(-1).abs().le(kFarthest));
}

KnownMask kind_of(const at::Tensor& mask) {
  const std::optional<at::Tensor> seen = seen_by(mask);
  KnownMask out = !seen              ? MaskKind::Other
                  : holds(*seen)     ? MaskKind::Full
                  : is_causal(*seen) ? MaskKind::Causal
                                     : window_of(*seen);
  out.rows_see = out.kind != MaskKind::Other || rows_see(mask);
  return out;
}

// A mask of one place is causal, too.
bool is(const at::Tensor& mask, const KnownMask& known) {
  if (known.kind == MaskKind::Other) return rows_see(mask);
  const std::optional<at::Tensor> seen = seen_by(mask);
  if (!seen) return false;
  switch (known.kind) {
    case MaskKind::Full: return holds(*seen);
    case MaskKind::Causal: return is_causal(*seen);
    case MaskKind::Window: return at::equal(*seen, window(seen->size(0), seen->size(1), known, seen->device()));
    default: return false;
  }
}

using SizeOf = std::function<int64_t(SymbolId)>;

std::vector<c10::IValue> values(const std::vector<Value>& inputs, const SizeOf& size, const FixedTensors& tensors) {
  std::vector<c10::IValue> out;
  for (Value v : inputs) {
    if (v.type().is_tensor()) out.emplace_back(tensors.at(v.id()));
    else out.emplace_back(size(*bound_symbol(v)));
  }
  return out;
}

/// A mask's program, and what it was when the program was compiled.
struct Known {
  std::shared_ptr<Program> program;
  std::shared_ptr<Arena> arena;  // of its inputs
  std::vector<Value> inputs;
  KnownMask mask;

  bool holds(const SizeOf& size, const FixedTensors& tensors) const {
    try {
      const c10::IValue result = run_below_autograd(*program, values(inputs, size, tensors)).at(0);
      const BelowAutograd below;
      return is(result.toTensor(), mask);
    } catch (const c10::Error&) {  // sizes for which there is no such mask, or no memory
      return false;
    }
  }
};

KnownMask classify(const Trace& mask, const FixedTensors& tensors, bool on_cpu_alone) {
  const TensorType& type = mask.output.value().tensor();
  KnownMask unknown = MaskKind::Other;
  unknown.rows_see = false;
  if (type.rank() < 2 || (!is_floating(type.dtype) && type.dtype != DType::boolean) ||
      usual_value(type.numel(), 0) > kMostPlaces)
    return unknown;
  const bool is_here = type.device.type != DeviceType::cuda || at::globalContext().hasCUDA();
  const bool elsewhere = on_cpu_alone || !is_here;
  const auto hint = [](SymbolId s) { return ShapeEnv::current()->hint(s).value(); };
  try {
    const c10::IValue result =
        run_below_autograd(*plain_program(elsewhere ? on_cpu(mask) : mask), values(mask.inputs, hint, tensors)).at(0);
    const BelowAutograd below;
    return kind_of(result.toTensor());
  } catch (const c10::OutOfMemoryError&) {  // a kernel of the program's may not need all of it at a time
    return unknown;
  }
}

const char* name_of(const KnownMask& known) {
  switch (known.kind) {
    case MaskKind::Full: return "hides nothing";
    case MaskKind::Causal: return "is causal";
    case MaskKind::Window: return "is a window";
    default: return "hides no row";
  }
}

}  // namespace

MaskReader mask_reader(std::shared_ptr<const FixedTensors> tensors, FixedGuard guard_tensors, bool on_cpu) {
  MaskReader out;
  out.classify = [tensors, on_cpu](const Trace& mask) { return classify(mask, *tensors, on_cpu); };
  out.is_fixed = [tensors](Value v) { return tensors->count(v.id()) != 0; };
  out.guard = [tensors, guard_tensors](const Trace& mask, const KnownMask& known) {
    const Known was{plain_program(mask), mask.arena, mask.inputs, known};
    std::vector<ValueId> fixed;
    FixedTensors read;
    for (Value v : mask.inputs)
      if (v.type().is_tensor()) fixed.push_back(v.id()), read.emplace(v.id(), tensors->at(v.id()));
    const bool sized = fixed.size() < mask.inputs.size();
    if (!fixed.empty())
      guard_tensors(fixed, [was, sized](const FixedTensors& now) { return !sized && was.holds(nullptr, now); });
    if (!sized) return;
    const auto holds = [was, read](const SizeOf& size) { return was.holds(size, read); };
    ShapeEnv::current()->guard(SizeCheck{holds, cat("a mask of attention ", name_of(known))});
  };
  return out;
}

}  // namespace thunder
