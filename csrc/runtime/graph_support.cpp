#include "runtime/graph_support.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/rewrite.h"
#include "passes/visit.h"
#include "runtime/generators.h"
#include "runtime/instruction.h"

namespace thunder {
namespace {

bool is_del(const Call& call) { return call.op->name == "prims.python_del"; }

bool any_within(const Call& call, bool (*holds)(const Call&)) {
  return holds(call) || (!call.op->has(kOnce) && std::any_of(call.body.begin(), call.body.end(),
                                                             [&](const Call* c) { return any_within(*c, holds); }));
}

bool has_parameter(const Op& op, std::string_view name) {
  return std::any_of(op.schema.params.begin(), op.schema.params.end(), [&](const Param& p) { return p.name == name; });
}

// PyTorch makes indices of a mask, whose number the host asks for.
bool puts_by_mask(const Call& call) {
  if (!has_parameter(*call.op, "indices")) return false;
  bool found = false;
  visit_values(call.arguments()["indices"], [&](Value v) {
    found |= v.type().is_tensor() && (v.dtype() == DType::boolean || v.dtype() == DType::u8);
  });
  return found;
}

// Only the device's own generator has states for graphs.
bool takes_generator(const Call& call) {
  return std::any_of(call.args.begin(), call.args.end(), [](const Arg& a) {
    return a.kind() == Arg::Kind::Opaque && a.opaque().object &&
           is_generator(static_cast<PyObject*>(a.opaque().object.get()));
  });
}

class SupportCheck {
 public:
  SupportCheck(DeviceType type, Device& device) : type_(type), device_(device) {}

  std::string run(const Trace& trace) {
    std::unordered_set<Value, ValueHash> read;
    given_.insert(trace.inputs.begin(), trace.inputs.end());
    for (const Call* c : trace.calls) {
      if (is_del(*c)) continue;
      check(*c);
      visit_own_inputs(*c, [&](Value v) { read.insert(v); });
    }
    for (Value v : trace.inputs)
      if (read.count(v)) check_edge(v, "reads");
    visit_values(trace.output, [&](Value v) {
      if (!given_.count(v)) check_edge(v, "gives");
    });
    return why_;
  }

 private:
  template <class... A>
  void refuse(const A&... parts) {
    if (why_.empty()) why_ = cat(parts...);
  }

  // A number is one of the call, or follows from those: it belongs to the specialization that is recorded.
  void check_edge(Value v, const char* does) {
    if (!v.type().is_tensor()) return;
    const TensorType& t = v.tensor();
    if (t.device.type == type_) return check_place(v);
    // The random state of attention kernels, which lies where the kernel's tensors do while a graph is recorded.
    const bool state = t.device.type == DeviceType::cpu && t.shape.empty() && is_integral(t.dtype);
    if (!state) refuse("it ", does, " '", v.name(), "', which is on ", t.device.str());
  }

  void check_place(Value v) {
    const TensorType& t = v.tensor();
    if (!t.strided()) return refuse("'", v.name(), "' is sparse");
    if (device_.index >= 0 && t.device.index >= 0 && t.device.index != device_.index)
      return refuse("it works on ", device_.str(), " and ", t.device.str());
    device_ = t.device;
  }

  // Into an input itself, which is read where it lies then.
  bool writes_in_place(const Call& call) const {
    return call.body.empty() && !call.args.empty() && call.args[0].is_value() &&
           given_.count(call.args[0].value()) != 0;
  }

  void check(const Call& call) {
    const uint64_t tags = tags_within(call, kHostSync | kDataDependent | kCollective | kWrite | kRandom | kWaits);
    const std::string where = call.op->print_name + user_line(call);
    if (tags & (kHostSync | kDataDependent)) refuse("the host waits for a result of ", where);
    if ((tags & kWaits) || any_within(call, puts_by_mask)) refuse("the host may wait for the device in ", where);
    if ((tags & kRandom) && any_within(call, takes_generator)) refuse(where, " draws from a generator of its own");
    if (tags & kCollective) refuse(where, " communicates");
    if ((tags & kWrite) && !writes_in_place(call)) refuse(where, " writes to the caller's memory");
    if (!find_lowering(call.op->executor)) refuse(where, " is Python code");
    visit_outputs(call, [&](Value v) {
      if (!v.type().is_tensor()) return;
      if (v.tensor().device.type == type_) return check_place(v);
      if (tags & kRandom) refuse(where, " draws numbers on ", v.tensor().device.str());
    });
  }

  DeviceType type_;
  Device& device_;
  std::unordered_set<Value, ValueHash> given_;
  std::string why_;
};

}  // namespace

bool computes(const Trace& trace) {
  return !std::all_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return is_del(*c); });
}

bool saves_no(const Compiled& c, const std::vector<size_t>& inputs) {
  const Aliases aliases(c.forward.calls);
  return std::none_of(c.saved.begin(), c.saved.end(), [&](Value saved) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](size_t i) { return aliases.root(saved) == c.forward.inputs[i]; });
  });
}

int64_t most_live_bytes(const Trace& trace) {
  const Aliases aliases(trace.calls);
  auto bytes_of = [](Value v) -> int64_t {
    if (!v.type().is_tensor()) return 0;
    int64_t n = itemsize(v.dtype());
    for (const Dim& d : v.tensor().shape) n *= d.is_constant() ? d.constant() : 0;
    return n;
  };
  ValueSet made;
  int64_t live = 0, most = 0;
  for (const Call* c : trace.calls) {
    if (is_del(*c)) {
      for (const Arg& a : c->args) visit_values(a, [&](Value v) { live -= made[v] ? bytes_of(v) : 0; });
      continue;
    }
    visit_outputs(*c, [&](Value v) {
      if (!(aliases.root(v) == v) || made[v]) return;
      made.set(v, 1);
      live += bytes_of(v);
    });
    most = std::max(most, live);
  }
  return most;
}

std::string why_not_recorded(const Trace& trace, DeviceType type, Device& device) {
  return SupportCheck(type, device).run(trace);
}

}  // namespace thunder
