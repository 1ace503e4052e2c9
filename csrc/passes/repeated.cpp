#include "passes/repeated.h"

#include "core/builder.h"

namespace thunder {
namespace {

void count(const Call& call, ValueMap<int>& reads) {
  if (call.body.empty()) visit_all_inputs(call, [&](Value v) { reads.set(v, reads[v] + 1); });
  for (const Call* inner : call.body) count(*inner, reads);
}

bool is_short(Value v) { return v.type().is_tensor() && compute_type(v.dtype()) != v.dtype(); }

bool casts(const Call& call) {
  static const Op* convert = Registry::instance().find("prims.convert_element_type");
  if (call.body.empty()) return call.op == convert;
  return call.body.size() == 1 && casts(*call.body[0]);
}

bool jumps(const Call& call) {
  bool out = tags_within(call, kSteps) != 0;
  visit_outputs(call, [&](Value v) { out = out || (v.type().is_tensor() && !is_inexact(v.dtype())); });
  return out;
}

// What stands under another name of the same data (detach): executors take the one for the other.
void round_sources(const std::vector<const Call*>& calls, ValueSet& rounded) {
  for (size_t i = calls.size(); i-- > 0;) {
    round_sources(calls[i]->body, rounded);
    if (Value source = identity_source(*calls[i]); source && rounded[calls[i]->output.value()]) rounded.set(source, 1);
  }
}

}  // namespace

bool adds_up_as_eager(const Op& op) {
  const std::string& name = op.implements ? op.implements->full_name : op.full_name;
  return name == "torch.native_batch_norm" || name == "torch._native_batch_norm_legit_functional" ||
         name == "torch.native_batch_norm_backward";
}

Visible visible_values(const Trace& trace) {
  Visible out;
  for (const Call* c : trace.calls) {
    const bool cast = casts(*c);
    visit_outputs(*c, [&](Value v) {
      out.values.set(v, 1);
      if (cast && is_short(v)) out.rounded.set(v, 1);
    });
    bool of_short = false;
    visit_all_inputs(*c, [&](Value v) { of_short = of_short || is_short(v); });
    if (of_short && jumps(*c)) visit_all_inputs(*c, [&](Value v) { out.rounded.set(v, 1); });
  }
  return out;
}

Repeated repeated_values(const std::vector<const Trace*>& traces, const Visible& visible) {
  Repeated out;
  ValueMap<int> reads(0);
  ValueSet made;
  for (const Trace* t : traces) {
    ValueSet here;
    for (const Call* c : t->calls) count(*c, reads);
    visit_values(t->output, [&](Value v) { reads.set(v, reads[v] + 1); });
    for (const Call* c : t->calls)
      visit_all_outputs(*c, [&](Value v) {
        if (here[v]) return;
        here.set(v, 1);
        if (made[v]) out.made.set(v, 1);
        made.set(v, 1);
      });
  }
  for (const Trace* t : traces)
    for (const Call* c : t->calls)
      visit_all_outputs(*c, [&](Value v) {
        if (visible.rounded[v] || (visible.values[v] && (reads[v] > 1 || out.made[v]))) out.rounded.set(v, 1);
      });
  for (const Trace* t : traces) round_sources(t->calls, out.rounded);
  return out;
}

}  // namespace thunder
