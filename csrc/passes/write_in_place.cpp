#include "passes/write_in_place.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/rewrite.h"

namespace thunder {
namespace {

// Operators that give their first tensor with a part written anew, and what writes that part.
const Op* in_place_twin(const Op& op) {
  static const std::unordered_map<std::string_view, std::string_view> twins = {
      {"prims.index_copy", "prims.index_copy_"},
      {"torch.index_copy", "prims.index_copy_"},
      {"prims.index_put", "prims.index_put_"},
      {"prims.slice_scatter", "prims.slice_scatter_"},
  };
  auto it = twins.find((op.implements ? *op.implements : op).full_name);
  return it == twins.end() ? nullptr : &Registry::instance().get(it->second);
}

void flatten(const Arg& a, std::vector<Value>& out) {
  if (!a.is_sequence()) return out.push_back(a.is_value() ? a.value() : Value());
  for (const Arg& item : a.items()) flatten(item, out);
}

bool accumulates(const Call& call) {
  return call.args.size() > 3 && call.args[3].is_number() && call.args[3].number_kind() == NumberKind::Bool &&
         call.args[3].boolean();
}

class InPlaceRewrite {
 public:
  InPlaceRewrite(const Trace& trace, const ExecutorList& executors)
      : trace_(trace), executors_(executors), made_by_(producers(trace)), uses_(trace) {
    flatten(trace.output, outputs_);
  }

  // Replaces the calls that lead from the input to the output, if they may write in place.
  void write(size_t output, Value input) {
    Value v = outputs_[output];
    std::vector<size_t> writes;
    for (bool newest = true; !(v == input);) {
      auto at = v ? made_by_.find(v) : made_by_.end();
      if (at == made_by_.end()) return;
      const Call& call = *trace_.calls[at->second];
      Value from = source(call);
      if (!from) return;
      // What comes before a write has no other reader, and what comes after the last one is given once.
      if (in_place_twin(*call.op)) {
        if (!may_write(call)) return;
        writes.push_back(at->second);
        newest = false;
        if (readers(from) != 1) return;
      } else if (!newest && readers(from) != 1) {
        return;
      }
      if (given(v) != (v == outputs_[output] ? 1 : 0)) return;
      v = from;
    }
    for (size_t i : writes) in_place_.insert(i);
  }

  Trace result() const {
    Trace out = trace_;
    for (size_t i : in_place_) {
      Call call = *trace_.calls[i];
      call.op = claimed(call);
      call.body.clear();
      out.calls[i] = trace_.arena->make_call(std::move(call));
    }
    return out;
  }

 private:
  // The tensor that the call gives, or gives with a part written; none for other calls.
  static Value source(const Call& call) {
    const bool passes_on = call.op->has(kIdentity) && call.args.size() == 1;
    if ((!passes_on && !in_place_twin(*call.op)) || !call.output.is_value() || !call.args[0].is_value()) return {};
    return call.args[0].value();
  }

  // The operator of the same executor that writes in place.
  const Op* claimed(Call call) const {
    const std::string executor = call.op->executor;
    call.op = in_place_twin(*call.op);
    call.body.clear();
    for (const auto& e : executors_)
      if (const Implementation* found = e->name() == executor ? e->find(call) : nullptr) return found->op;
    return nullptr;
  }

  // The layout of the result is that of the input.
  bool may_write(const Call& call) const {
    if (accumulates(call) || !claimed(call)) return false;
    const TensorType &a = call.args[0].value().tensor(), &b = call.output.value().tensor();
    if (a.requires_grad || b.requires_grad || a.strides.size() != b.strides.size()) return false;
    for (size_t i = 0; i < a.strides.size(); ++i)
      if (!a.strides[i].same(b.strides[i])) return false;
    return true;
  }

  // Calls but `del`, and the output.
  size_t readers(Value v) const {
    const std::vector<size_t>& at = uses_.of(v);
    return static_cast<size_t>(std::count_if(at.begin(), at.end(), [&](size_t i) {
      return i >= trace_.calls.size() || trace_.calls[i]->op->name != "prims.python_del";
    }));
  }
  size_t given(Value v) const { return static_cast<size_t>(std::count(outputs_.begin(), outputs_.end(), v)); }

  const Trace& trace_;
  const ExecutorList& executors_;
  std::unordered_map<Value, size_t, ValueHash> made_by_;
  Uses uses_;
  std::vector<Value> outputs_;
  std::unordered_set<size_t> in_place_;
};

}  // namespace

Trace write_in_place(const Trace& trace, const std::vector<std::pair<size_t, size_t>>& copied,
                     const ExecutorList& executors) {
  InPlaceRewrite rewrite(trace, executors);
  for (const auto& [output, input] : copied) rewrite.write(output, trace.inputs[input]);
  return rewrite.result();
}

std::vector<size_t> written_in_place(const Trace& trace) {
  std::vector<size_t> out;
  for (const Call* c : trace.calls)
    if (c->op->has(kWrite) && !c->args.empty() && c->args[0].is_value())
      for (size_t i = 0; i < trace.inputs.size(); ++i)
        if (trace.inputs[i] == c->args[0].value()) out.push_back(i);
  return out;
}

}  // namespace thunder
