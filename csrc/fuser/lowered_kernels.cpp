#include "fuser/lowered_kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/print.h"
#include "passes/visit.h"

namespace thunder::fuser {
namespace {

// A text that two groups of calls have in common where lower() cannot tell them apart: the calls and types that it may
// reach from the roots, and the order of their values in the program.
class GroupText {
 public:
  GroupText(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
            const ValueSet* exact)
      : producer_(producer), materialized_(materialized), exact_(exact) {
    for (const Root& r : roots) {
      add(place_of(r.value));
      add(r.stored);
    }
    for (size_t i = 0; i < values_.size() && describable_; ++i) describe(values_[i]);
    if (describable_) describe_order();
  }

  /// Whether the text says everything: numbers of a call and symbolic sizes are not described.
  bool describable() const { return describable_; }
  const std::string& text() const { return text_; }
  Value value(size_t place) const { return values_[place]; }
  const Call* call(size_t place) const { return producer_(values_[place]); }
  size_t place(Value v) const { return places_.at(v.id()); }

 private:
  template <class T>
  void add(T number) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &number, sizeof(T));
    text_.append(bytes, sizeof(T));
  }

  size_t place_of(Value v) {
    const auto [it, is_new] = places_.emplace(v.id(), values_.size());
    if (is_new) values_.push_back(v);
    return it->second;
  }

  void describe(Value v) {
    describe_type(v);
    const bool stops = materialized_(v);
    const Call* call = producer_(v);
    add(static_cast<char>((stops ? 1 : 0) | (call ? 2 : 0) | (exact_ && (*exact_)[v] ? 4 : 0)));
    if (!call) return;
    add(call->op);
    // Behind a value in memory lower() looks through views at what is there.
    if (stops && !call->op->has(kView)) return;
    for (const Arg& a : call->args) describe(a);
  }

  void describe_type(Value v) {
    if (!v.type().is_tensor()) {
      describable_ = false;
      return;
    }
    const TensorType& t = v.tensor();
    add(t.dtype);
    add(t.device.type);
    add(t.device.index);
    describable_ = describable_ && t.strided();
    for (const Dims* dims : {&t.shape, &t.strides}) {
      add(dims->size());
      for (const Dim& d : *dims) describe(d);
    }
  }

  void describe(const Dim& d) {
    if (d.is_constant()) add(d.constant());
    else describable_ = false;
  }

  void describe(const Arg& a) {
    add(a.kind());
    switch (a.kind()) {
      case Arg::Kind::Value: return add(place_of(a.value()));
      case Arg::Kind::Int: return describe(a.dim());
      case Arg::Kind::Float: return add(a.real());
      case Arg::Kind::List:
      case Arg::Kind::Tuple:
        add(a.items().size());
        for (const Arg& item : a.items()) describe(item);
        return;
      case Arg::Kind::Dict:
      case Arg::Kind::Slice:
      case Arg::Kind::Opaque: describable_ = false; return;
      default: {
        const std::string printed = print(a);
        add(printed.size());
        text_ += printed;
      }
    }
  }

  void describe_order() {
    std::vector<size_t> order(values_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values_[a].id() < values_[b].id(); });
    for (size_t i : order) add(i);
  }

  const Producer& producer_;
  const Materialized& materialized_;
  const ValueSet* exact_;
  std::unordered_map<ValueId, size_t> places_;
  std::vector<Value> values_;
  std::string text_;
  bool describable_ = true;
};

}  // namespace

std::optional<Kernel> LoweredKernels::lower(const std::vector<Root>& roots, const Producer& producer,
                                            const Materialized& materialized, const LowerOptions& options) {
  const GroupText group(roots, producer, materialized, options.exact);
  if (!group.describable()) {
    ++made_;
    return fuser::lower(roots, producer, materialized, options);
  }
  std::vector<Known>& all = known_[group.text()];
  const auto known = std::find_if(all.begin(), all.end(), [&](const Known& k) { return k.options == options; });
  if (known != all.end()) {
    ++found_;
    std::optional<Kernel> kernel = known->kernel;
    if (!kernel) return kernel;
    for (size_t i = 0; i < known->inputs.size(); ++i) kernel->inputs[i] = group.value(known->inputs[i]);
    for (size_t i = 0; i < known->outputs.size(); ++i) kernel->outputs[i] = group.value(known->outputs[i]);
    for (size_t i = 0; i < known->calls.size(); ++i) kernel->calls[i] = group.call(known->calls[i]);
    return kernel;
  }
  ++made_;
  Known& made = all.emplace_back(Known{options, fuser::lower(roots, producer, materialized, options), {}, {}, {}});
  if (!made.kernel) return std::nullopt;
  for (Value v : made.kernel->inputs) made.inputs.push_back(group.place(v));
  for (Value v : made.kernel->outputs) made.outputs.push_back(group.place(v));
  for (const Call* c : made.kernel->calls) made.calls.push_back(group.place(c->output.value()));
  return made.kernel;
}

}  // namespace thunder::fuser
