#include "passes/reduce.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "core/rewrite.h"
#include "core/verify.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using TraceCheck = std::function<bool(const Trace&)>;

bool can_be_given(Value v) { return v.type().is_tensor() || v.type().is_number(); }

// Each once.
Arg tuple_of(const std::vector<Value>& values) {
  ValueMap<char> seen;
  ArgList items;
  for (Value v : values) {
    if (seen[v]) continue;
    seen.set(v, 1);
    items.emplace_back(v);
  }
  return Arg::tuple(std::move(items));
}

std::vector<Value> outputs_of(const Trace& t) {
  std::vector<Value> out;
  visit_values(t.output, [&](Value v) { out.push_back(v); });
  return out;
}

// Without what the output does not need.  `del` is left out too: its place depends on all of the calls.
Trace needed_part(Trace t) {
  const auto is_del = [](const Call* c) { return c->op->full_name == "prims.python_del"; };
  t.calls.erase(std::remove_if(t.calls.begin(), t.calls.end(), is_del), t.calls.end());
  t = dce(t, false);
  ValueMap<char> read;
  for (const Call* c : t.calls) visit_all_inputs(*c, [&](Value v) { read.set(v, 1); });
  visit_values(t.output, [&](Value v) { read.set(v, 1); });
  t.inputs.erase(std::remove_if(t.inputs.begin(), t.inputs.end(), [&](Value v) { return !read[v]; }), t.inputs.end());
  return t;
}

class Reducer {
 public:
  Reducer(const Trace& trace, const TraceCheck& check) : check_(check), best_(trace) {}

  Trace run() {
    THUNDER_CHECK(check_(best_), Value, "reduce", "the check does not hold for the whole trace, of ",
                  best_.calls.size(), " calls");
    Trace plain = best_;
    plain.signature = {};
    plain.output = tuple_of(outputs_of(plain));
    take(needed_part(std::move(plain)));
    while (fewer_outputs() + fewer_calls() > 0) {
    }
    return best_;
  }

 private:
  // Whether the candidate is smaller than what there is, and the check holds for it.
  bool take(Trace candidate) {
    const auto size = [](const Trace& t) {
      return std::tuple(t.calls.size(), outputs_of(t).size(), t.inputs.size(), t.signature.kind != Signature::Plain);
    };
    if (outputs_of(candidate).empty() || size(candidate) >= size(best_)) return false;
    try {
      verify(candidate);
    } catch (const Error&) {
      return false;
    }
    if (!check_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  // Runs of `best_`'s items, large ones first and the last ones first, for each of which `without(first, last)` may give
  // a candidate.  How many were taken.
  template <class Count, class Without>
  int shrink(Count&& count, Without&& without) {
    int taken = 0;
    for (size_t chunk = std::max<size_t>(count() / 2, 1);; chunk /= 2) {
      for (size_t last = count(); last > 0;) {
        const size_t first = last > chunk ? last - chunk : 0;
        std::optional<Trace> candidate = without(first, last);
        taken += candidate && take(std::move(*candidate));
        last = std::min(first, count());
      }
      if (chunk <= 1) return taken;
    }
  }

  int fewer_outputs() {
    return shrink([&] { return outputs_of(best_).size(); },
                  [&](size_t first, size_t last) -> std::optional<Trace> {
                    std::vector<Value> kept = outputs_of(best_);
                    kept.erase(kept.begin() + static_cast<ptrdiff_t>(first),
                               kept.begin() + static_cast<ptrdiff_t>(last));
                    Trace out = best_;
                    out.output = tuple_of(kept);
                    return needed_part(std::move(out));
                  });
  }

  // The program without some calls, whose results it is given.  It returns what they were given, lest the calls before
  // them are dead code.
  int fewer_calls() {
    return shrink([&] { return best_.calls.size(); },
                  [&](size_t first, size_t last) { return without_calls(first, last); });
  }

  std::optional<Trace> without_calls(size_t first, size_t last) const {
    Trace out = best_;
    out.calls.clear();
    ValueMap<char> made, kept;  // by the calls that go, and by those that stay
    for (size_t i = 0; i < best_.calls.size(); ++i) {
      const bool goes = i >= first && i < last;
      bool binds = false;
      visit_outputs(*best_.calls[i], [&](Value v) {
        binds = binds || bound_symbol(v);
        (goes ? made : kept).set(v, 1);
      });
      if (goes && binds) return std::nullopt;
    }
    std::vector<Value> results;
    for (Value v : outputs_of(best_))
      if (!made[v]) results.push_back(v);
    bool possible = true;
    for (size_t i = 0; i < best_.calls.size(); ++i) {
      const bool goes = i >= first && i < last;
      visit_all_inputs(*best_.calls[i], [&](Value v) {
        if (goes && kept[v] && v.type().is_tensor()) results.push_back(v);
        if (goes || !made[v]) return;
        possible = possible && can_be_given(v);
        made.set(v, 0);
        out.inputs.push_back(v);
      });
      if (!goes) out.calls.push_back(best_.calls[i]);
    }
    if (!possible) return std::nullopt;
    out.output = tuple_of(results);
    return needed_part(std::move(out));
  }

  const TraceCheck& check_;
  Trace best_;
};

}  // namespace

Trace reduce(const Trace& trace, const TraceCheck& check) { return Reducer(trace, check).run(); }

}  // namespace thunder
