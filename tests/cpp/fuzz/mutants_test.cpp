// A bug seeded by hand in each pass: the checks that the real passes satisfy must catch it.
#include <doctest.h>

#include "core/builder.h"
#include "core/error.h"
#include "core/rewrite.h"
#include "fuzz/checks.h"

namespace thunder::fuzz {
namespace {

// Runs up to `programs` random programs; how many findings the checks make.
int findings(const Passes& passes, bool smooth, int programs = 150) {
  Coverage coverage;
  std::vector<Finding> of_generator;
  Generator generator(coverage, of_generator);
  GradientStatistics statistics;
  size_t found = 0;
  for (int i = 0; i < programs && found == 0; ++i) {
    GeneratorOptions options;
    options.calls = smooth ? 5 : 8;
    options.smooth = smooth;
    Program p = generator.make(5000000 + static_cast<uint64_t>(i), options);
    found += smooth ? check_gradients(p, passes, statistics).size() : check_passes(p, passes).size();
  }
  return static_cast<int>(found);
}

// A call with other arguments.
const Call* with_arguments(Arena& arena, const Call& call, ArgList args) {
  Call copy = call;
  copy.args = std::move(args);
  return arena.make_call(std::move(copy));
}

// The trace with every read of `from` reading `to`.
Trace redirected(const Trace& t, Value from, Value to) {
  Substitution map;
  map.replace(from, to);
  Trace out = t.derived();
  for (const Call* c : t.calls) out.calls.push_back(substitute(*t.arena, c, map));
  out.output = map(t.output);
  return out;
}

Trace drop_used_call(const Trace& t) {
  Trace out = dce(t);
  if (!out.calls.empty()) out.calls.pop_back();
  return out;
}

Trace drop_random_call(const Trace& t) {
  Trace out = dce(t);
  std::erase_if(out.calls, [](const Call* c) { return c->op->has(kRandom | kWrite); });
  return out;
}

// Merges calls of one operator on one first argument, whatever the others are.
Trace merge_too_much(const Trace& t) {
  for (size_t i = 0; i < t.calls.size(); ++i)
    for (size_t j = i + 1; j < t.calls.size(); ++j) {
      const Call &a = *t.calls[i], &b = *t.calls[j];
      if (a.op != b.op || a.args.size() < 2 || !a.args[0].same(b.args[0]) || !a.output.is_value() ||
          !b.output.is_value())
        continue;
      if (a.output.value().type().same(b.output.value().type()))
        return redirected(t, b.output.value(), a.output.value());
    }
  return cse(t);
}

Trace merge_random(const Trace& t) {
  for (size_t i = 0; i < t.calls.size(); ++i)
    for (size_t j = i + 1; j < t.calls.size(); ++j) {
      const Call &a = *t.calls[i], &b = *t.calls[j];
      bool same = a.op == b.op && a.op->has(kRandom) && a.output.is_value();
      for (size_t k = 0; same && k < a.args.size(); ++k) same = a.args[k].same(b.args[k]);
      if (!same) continue;
      Trace out = redirected(t, b.output.value(), a.output.value());
      out.calls.erase(out.calls.begin() + static_cast<long>(j));
      return out;
    }
  return cse(t);
}

Trace swap_arguments(const Trace& t, const ExecutorList& executors) {
  Trace out = claim(t, executors);
  for (const Call*& c : out.calls) {
    if (c->args.size() < 2 || !c->args[0].is_tensor() || !c->args[1].is_tensor()) continue;
    ArgList args = c->args;
    std::swap(args[0], args[1]);
    c = with_arguments(*t.arena, *c, std::move(args));
  }
  return out;
}

Trace reverse_effects(const Trace& t, const ExecutorList& executors) {
  Trace out = claim(t, executors);
  std::vector<size_t> random;
  for (size_t i = 0; i < out.calls.size(); ++i) {
    const Op* op = out.calls[i]->op->implements;
    if (op && op->has(kRandom)) random.push_back(i);
  }
  // Two draws in a row change places.
  for (size_t i = 1; i < random.size(); ++i)
    if (random[i] == random[i - 1] + 1) std::swap(out.calls[random[i]], out.calls[random[i - 1]]);
  return out;
}

// Every `del` stands one call too early.
Trace delete_early(const Trace& t) {
  Trace out = delete_last_used(t);
  for (size_t i = 1; i < out.calls.size(); ++i)
    if (out.calls[i]->op->name == "prims.python_del" && out.calls[i - 1]->op->name != "prims.python_del") {
      std::swap(out.calls[i], out.calls[i - 1]);
      ++i;
    }
  return out;
}

// The last addition of the backward gives its first summand only.
JointTrace drop_accumulation(const Trace& t) {
  JointTrace joint = autodiff(t);
  for (size_t i = joint.trace.calls.size(); i-- > joint.forward_calls;) {
    const Call& c = *joint.trace.calls[i];
    if (c.op->name != "torch.add" || !c.args[0].is_tensor()) continue;
    joint.trace = redirected(joint.trace, c.output.value(), c.args[0].value());
    return joint;
  }
  return joint;
}

JointTrace wrong_sign(const Trace& t) {
  JointTrace joint = autodiff(t);
  for (size_t i = joint.forward_calls; i < joint.trace.calls.size(); ++i) {
    const Call& c = *joint.trace.calls[i];
    if (c.op->name != "torch.mul" || !c.args[0].is_tensor() || !c.args[1].is_tensor()) continue;
    ArgList args = c.args;
    args[1] = args[0];
    if (!args[0].value().type().same(c.args[1].value().type(), false)) continue;
    // A body of the old arguments would still be evaluated.
    Builder b(t.arena);
    Arg made = b.call(*c.op, args);
    std::vector<const Call*> calls = joint.trace.calls;
    calls[i] = b.calls().back();
    joint.trace.calls = calls;
    joint.trace = redirected(joint.trace, c.output.value(), made.value());
    return joint;
  }
  return joint;
}

// The first saved tensor is another input of the same type.
ForwardBackward save_wrong(const JointTrace& joint, const SplitOptions& options) {
  ForwardBackward fb = split(joint, options);
  for (Value saved : fb.saved)
    for (Value v : fb.forward.inputs) {
      if (v == saved || !v.type().same(saved.type())) continue;
      Substitution map;
      map.replace(saved, v);
      ArgList parts = fb.forward.output.items();
      parts[1] = map(parts[1]);
      fb.forward.output = Arg::tuple(std::move(parts));
      return fb;
    }
  return fb;
}

// A value is computed again in the backward with its first two arguments exchanged.
ForwardBackward recompute_wrong(const JointTrace& joint, const SplitOptions& options) {
  ForwardBackward fb = split(joint, options);
  for (const Call*& c : fb.backward.calls) {
    if (c->args.size() < 2 || !c->args[0].is_tensor() || !c->args[1].is_tensor() || c->args[0].same(c->args[1]))
      continue;
    if (!c->args[0].value().type().same(c->args[1].value().type(), false) || c->op->has(kCommutative) ||
        !c->body.empty())
      continue;
    ArgList args = c->args;
    std::swap(args[0], args[1]);
    c = with_arguments(*joint.trace.arena, *c, std::move(args));
    return fb;
  }
  return fb;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

Passes with(const std::function<void(Passes&)>& change) {
  Passes p = Passes::real();
  change(p);
  return p;
}

std::string print_full(const Trace& t) { return print(t, PrintOptions{.strides = true}); }

}  // namespace

TEST_CASE("fuzz: the real passes have no finding on the mutants' programs") {
  CHECK(findings(Passes::real(), false, 40) == 0);
  CHECK(findings(Passes::real(), true, 40) == 0);
}

TEST_CASE("fuzz: a bug in dce is caught") {
  CHECK(findings(with([](Passes& p) { p.dce = drop_used_call; }), false) > 0);
  CHECK(findings(with([](Passes& p) { p.dce = drop_random_call; }), false) > 0);
}

TEST_CASE("fuzz: a bug in cse is caught") {
  CHECK(findings(with([](Passes& p) { p.cse = merge_too_much; }), false) > 0);
  CHECK(findings(with([](Passes& p) { p.cse = merge_random; }), false, 600) > 0);
}

TEST_CASE("fuzz: a bug in claim is caught") {
  CHECK(findings(with([](Passes& p) { p.claim = swap_arguments; }), false) > 0);
  CHECK(findings(with([](Passes& p) { p.claim = reverse_effects; }), false, 600) > 0);
}

TEST_CASE("fuzz: a bug in delete_last_used is caught") {
  CHECK(findings(with([](Passes& p) { p.delete_last_used = delete_early; }), false) > 0);
}

TEST_CASE("fuzz: a bug in autodiff is caught") {
  CHECK(findings(with([](Passes& p) { p.autodiff = drop_accumulation; }), true) > 0);
  CHECK(findings(with([](Passes& p) { p.autodiff = wrong_sign; }), true) > 0);
}

TEST_CASE("fuzz: a bug in split is caught") {
  CHECK(findings(with([](Passes& p) { p.split = save_wrong; }), true) > 0);
  CHECK(findings(with([](Passes& p) { p.split = recompute_wrong; }), true) > 0);
}

TEST_CASE("fuzz: a bug in print is caught") {
  CHECK(findings(with([](Passes& p) {
                   p.print = [](const Trace& t) { return replaced(print_full(t), " requires_grad", ""); };
                 }),
                 false) > 0);
  CHECK(findings(with([](Passes& p) {
                   p.print = [](const Trace& t) { return print(t, PrintOptions{.bodies = false, .strides = true}); };
                 }),
                 false) > 0);
  CHECK(findings(
            with([](Passes& p) { p.print = [](const Trace& t) { return replaced(print_full(t), "True", "False"); }; }),
            false) > 0);
  CHECK(findings(with([](Passes& p) {
                   p.print = [](const Trace& t) { return replaced(print_full(t), " strides=(0,", " strides=(1,"); };
                 }),
                 false) > 0);
}

}  // namespace thunder::fuzz
