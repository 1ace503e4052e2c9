#include "passes/constants.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/rewrite.h"
#include "passes/region.h"
#include "passes/visit.h"

namespace thunder {
namespace {

int64_t bytes_of(Value v) { return itemsize(v.dtype()) * v.tensor().numel().constant(); }

bool has_known_sizes(const Call& call) {
  bool known = call.symbols.empty();
  visit_outputs(call, [&](Value v) {
    if (!v.type().is_tensor() || !v.tensor().strided()) return void(known = false);
    const Dims& shape = v.tensor().shape;
    known = known && std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
  });
  return known;
}

// Whether a result may be an argument, or lie in its memory.  A kernel's results do not, whatever it reads.
bool may_give_argument(const Call& call) {
  if (meant_by(call).has(kView | kReturnsInput | kIdentity | kAutograd)) return true;
  ValueSet given;
  bool strided = true;
  visit_outputs(call, [&](Value v) {
    given.set(v, 1);
    strided = strided && (!v.type().is_tensor() || v.tensor().strided());
  });
  if (!strided) return true;  // it keeps the tensors of its indices and elements
  return std::any_of(call.body.begin(), call.body.end(), [&](const Call* inner) {
    bool makes_result = false;
    visit_outputs(*inner, [&](Value v) { makes_result = makes_result || given[v]; });
    return makes_result && may_give_argument(*inner);
  });
}

class ConstantCalls {
 public:
  ConstantCalls(const Trace& trace, const Arg& given, const std::function<bool(const Call&)>& is_opaque,
                const ConstantLimits& limits)
      : trace_(trace), is_opaque_(is_opaque), limits_(limits), aliases_(trace.calls) {
    visit_values(given, [&](Value v) { keep_out(v); });
    for (const Call* c : trace.calls)
      if (opaque(*c) || tags_within(*c, kWrite | kCollective | kComm | kState))
        visit_all_inputs(*c, [&](Value v) { keep_out(v); });
  }

  std::vector<const Call*> find() {
    // What a value that is kept out may lie in the memory of.
    for (auto c = trace_.calls.rbegin(); c != trace_.calls.rend(); ++c)
      if (may_give_argument(**c) && gives_kept_out(**c)) visit_all_inputs(**c, [&](Value v) { keep_out(v); });
    std::vector<const Call*> found;
    for (const Call* c : trace_.calls) {
      if (!is_constant(*c)) continue;
      visit_outputs(*c, [&](Value v) { constant_.set(v, 1); });
      found.push_back(c);
    }
    while (kept_bytes(found) > limits_.program) found.pop_back();
    return found;
  }

 private:
  bool opaque(const Call& call) const { return is_opaque_ && is_opaque_(call); }

  void keep_out(Value v) {
    kept_out_.set(v, 1);
    kept_out_.set(aliases_.root(v), 1);
  }

  bool gives_kept_out(const Call& call) const {
    bool any = false;
    visit_outputs(call, [&](Value v) { any = any || kept_out_[v] || kept_out_[aliases_.root(v)]; });
    return any;
  }

  bool is_constant(const Call& call) const {
    constexpr uint64_t kNot = kEffects | kInput | kComm | kDataDependent | kMatmul | kAutograd;
    if (opaque(call) || tags_within(call, kNot) || !has_known_sizes(call) || gives_kept_out(call)) return false;
    bool constant = true;
    visit_outputs(call, [&](Value v) { constant = constant && (!owns_memory(v) || bytes_of(v) <= limits_.value); });
    visit_all_inputs(call, [&](Value v) { constant = constant && constant_[v]; });
    return constant;
  }

  bool owns_memory(Value v) const { return aliases_.root(v) == v; }

  int64_t kept_bytes(const std::vector<const Call*>& calls) const {
    ValueSet counted;
    int64_t bytes = 0;
    for (Value v : region_values(trace_, calls).outputs) {
      const Value root = aliases_.root(v);
      if (!counted[root]) bytes += bytes_of(root);
      counted.set(root, 1);
    }
    return bytes;
  }

  const Trace& trace_;
  const std::function<bool(const Call&)>& is_opaque_;
  const ConstantLimits& limits_;
  Aliases aliases_;
  ValueSet kept_out_, constant_;
};

}  // namespace

Trace constants_once(const Trace& trace, const Arg& given, const std::function<bool(const Call&)>& is_opaque,
                     ConstantLimits limits) {
  const std::vector<const Call*> calls = ConstantCalls(trace, given, is_opaque, limits).find();
  if (calls.empty() || region_values(trace, calls).outputs.empty()) return trace;
  const std::string name = cat("constants", trace.arena->unique("constants"));
  const std::string schema = name + "() -> any";
  OpDef def;
  def.schema = schema;
  auto op = std::make_unique<Op>("constants", def);
  op->print_name = name;
  op->executor = "constants";
  op->tags = kOnce;
  return replace_region(trace, calls, std::move(op));
}

}  // namespace thunder
