#include "runtime/graph_support.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/rewrite.h"
#include "passes/visit.h"
#include "runtime/instruction.h"

namespace thunder {
namespace {

bool is_del(const Call& call) { return call.op->name == "prims.python_del"; }

class Check {
 public:
  Check(DeviceType type, Device& device) : type_(type), device_(device) {}

  std::string run(const Trace& trace) {
    std::unordered_set<Value, ValueHash> read, given(trace.inputs.begin(), trace.inputs.end());
    for (const Call* c : trace.calls) {
      if (is_del(*c)) continue;
      check(*c);
      for_each_input(*c, [&](Value v) { read.insert(v); });
    }
    for (Value v : trace.inputs)
      if (read.count(v)) check_edge(v, "reads");
    for_each_value(trace.output, [&](Value v) {
      if (!given.count(v)) check_edge(v, "gives");
    });
    return why_;
  }

 private:
  template <class... A>
  void refuse(const A&... parts) {
    if (why_.empty()) why_ = cat(parts...);
  }

  void check_edge(Value v, const char* does) {
    if (!v.type().is_tensor()) return refuse("it ", does, " '", v.name(), "', a number that the host computes");
    const TensorType& t = v.tensor();
    if (t.device.type == type_) return check_place(v);
    // The random state of attention kernels, which lies where the kernel's tensors do while a graph is recorded.
    const bool state = t.device.type == DeviceType::cpu && t.shape.empty() && is_integral(t.dtype);
    if (!state) refuse("it ", does, " '", v.name(), "', which is on ", t.device.str());
  }

  void check_place(Value v) {
    const TensorType& t = v.tensor();
    if (!t.strided()) return refuse("'", v.name(), "' is sparse");
    for (const Dim& d : t.shape)
      if (!d.is_constant()) return refuse("the size of '", v.name(), "' depends on data");
    if (device_.index >= 0 && t.device.index >= 0 && t.device.index != device_.index)
      return refuse("it works on ", device_.str(), " and ", t.device.str());
    device_ = t.device;
  }

  void check(const Call& call) {
    const uint64_t tags = tags_within(call, kHostSync | kDataDependent | kCollective | kWrite | kRandom);
    const std::string where = call.op->print_name + user_line(call);
    if (tags & (kHostSync | kDataDependent)) refuse("the host waits for a result of ", where);
    if (tags & kCollective) refuse(where, " communicates");
    if (tags & kWrite) refuse(where, " writes to the caller's memory");
    if (!find_lowering(call.op->executor)) refuse(where, " is Python code");
    for_each_output(call, [&](Value v) {
      if (!v.type().is_tensor()) return;
      if (v.tensor().device.type == type_) return check_place(v);
      if (tags & kRandom) refuse(where, " draws numbers on ", v.tensor().device.str());
    });
  }

  DeviceType type_;
  Device& device_;
  std::string why_;
};

}  // namespace

bool computes(const Trace& trace) {
  return !std::all_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return is_del(*c); });
}

std::string why_not_recorded(const Trace& trace, DeviceType type, Device& device) {
  return Check(type, device).run(trace);
}

}  // namespace thunder
