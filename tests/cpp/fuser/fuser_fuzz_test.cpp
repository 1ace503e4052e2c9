// Random programs through the fuser: partitioned, lowered, compiled and run against the reference evaluator.
// THUNDER_FUZZ=10000 makes more of them, THUNDER_FUZZ_SEED others.
#include <doctest.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "core/print.h"
#include "core/verify.h"
#include "fuser/graph.h"
#include "fuser/kernel_checks.h"
#include "fuzz/checks.h"
#include "fuzz/generator.h"
#include "passes/visit.h"
#include "runtime/kernels/host_compiler.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder::test {
namespace {

using fuzz::Program;
using reference::Datum;

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

class FuserFuzz {
 public:
  // Partitions the program; checks the new one, and collects its kernels.
  void program(const Program& p) {
    ShapeEnv::Scope scope(*p.environment);
    // Views that run outside of kernels may move behind a write to what they are a view of; in memory that is the same,
    // but the evaluator's views are copies.
    for (const Call* c : p.trace.calls)
      if (c->op->has(kWrite)) return;
    std::vector<Datum> written = p.fresh_inputs(), inputs = p.fresh_inputs();
    Datum expected;
    try {
      expected = reference::evaluate(p.trace, written);
    } catch (const reference::Undefined&) {
      return;
    }
    try {
      // What one operator would do is a kernel in every other program.
      Partitioned part = partitioned(p.trace, variants(), {}, p.seed % 2 == 0);
      ++programs;
      verify(part.trace);
      Datum result = evaluate(part, inputs, p);
      std::string why;
      if (!same_datum(expected, result, &why)) found(p, "gives another result: " + why + "\n" + print(part.trace));
      if (!same_datum(Datum::sequence(written), Datum::sequence(inputs), &why))
        found(p, "writes something else: " + why);
    } catch (const std::exception& e) {
      found(p, e.what());
    }
  }

  void run_kernels(bool cuda) {
    add(checks_.run());
    in_place += checks_.ran_in_place();
    if (cuda) add(checks_.compile_cuda_texts());
    checks_ = {};
  }
  size_t waiting() const { return checks_.size(); }

  int programs = 0, kernels = 0, wide_kernels = 0, sized_kernels = 0, numbered_kernels = 0, in_place = 0, wrong = 0;

 private:
  // As the executors ask for: the host's, and for CUDA the widest, kept in registers and not.
  static std::vector<fuser::LowerOptions> variants() {
    using Split = fuser::LowerOptions::SplitRows;
    std::vector<fuser::LowerOptions> out = {
        {.split_rows = Split::Always, .row_buffer = 1 << 16, .draw_ahead = true, .name_distances = true},
        {.split_rows = Split::Always, .in_outputs = true},
        {.section = 4},
        {.lanes = 2, .section = 4}};
    for (int lanes : {8, 4, 2})
      for (bool cached : {true, false})
        out.push_back({.lanes = lanes,
                       .cached = cached,
                       .keep_singles = lanes != 4,
                       .keep_costly = lanes != 2,
                       .online = cached && lanes != 8,
                       .split_rows = cached ? Split::Always : Split::Never,
                       .few_rows = lanes == 4 ? 0 : 64});
    out.push_back({.cached = true, .keep_singles = true, .keep_costly = true});
    return out;
  }

  static void keep_widest(Fused& f) {
    const int most =
        f.lowered.empty() ? 1 : std::max_element(f.lowered.begin(), f.lowered.end(), [](const auto& a, const auto& b) {
                                  return a.lanes < b.lanes;
                                })->lanes;
    std::erase_if(f.lowered, [&](const fuser::Kernel& k) { return k.lanes > 1 && k.lanes != most; });
  }

  Datum evaluate(Partitioned& part, const std::vector<Datum>& inputs, const Program& p) {
    reference::Evaluator e;
    for (size_t i = 0; i < inputs.size(); ++i) e.define(part.trace.inputs[i], inputs[i]);
    for (const Call* c : part.trace.calls) {
      if (const Fused* f = part.find(c->op)) collect(*f, e, p);
      e.run(*c, part.trace.arena);
    }
    return e.argument(part.trace.output);
  }

  void collect(Fused f, const reference::Evaluator& e, const Program& p) {
    std::vector<Datum> inputs;
    for (Value v : f.inputs) inputs.push_back(Datum(std::make_shared<reference::Array>(*e.get(v).array)));
    Numbers numbers;
    ValueSet seen;
    for (const Call* c : f.calls)
      visit_all_inputs(*c, [&](Value v) {
        if (v.type().is_number() && !seen[v]) numbers.emplace_back(v, e.get(v));
        seen.set(v, 1);
      });
    std::optional<Expectation> expected = expect(f, inputs, p.trace.arena, p.seed, numbers);
    if (!expected) return;
    keep_widest(f);
    ++kernels;
    sized_kernels += !f.plain.sizes.empty();
    numbered_kernels += !f.plain.numbers.empty();
    wide_kernels += std::any_of(f.lowered.begin(), f.lowered.end(), [](const auto& k) { return k.lanes > 1; });
    checks_.add(
        f, std::move(*expected), p.trace.arena,
        cat("seed ", p.seed, ", ", f.op->print_name, "\n", print(program_of(f, p.trace.arena), {.strides = true})));
  }

  void found(const Program& p, const std::string& what) {
    add({cat("seed ", p.seed, ": ", what, "\n", print(p.trace))});
  }
  void add(const std::vector<std::string>& findings) {
    for (const std::string& f : findings)
      if (++wrong <= from_environment("THUNDER_FUZZ_SHOW", 4)) MESSAGE(f);
  }

  KernelChecks checks_;
};

bool have_compiler() {
  std::string why_not;
  const bool have = !host_compiler_command(&why_not).empty();
  if (!have) MESSAGE("skipped: " << why_not);
  return have;
}

bool is_fusible(const Op& op) { return fuser::may_fuse(op); }
bool opens(const Op& op) { return fuser::may_fuse(op) || (op.body && op.executor.empty()); }

}  // namespace

TEST_CASE("fuser: random programs give the same through partition and kernels") {
  if (!have_compiler()) return;
  const bool cuda = nvrtc_available();
  const int64_t n = from_environment("THUNDER_FUZZ", 60);
  const auto first = static_cast<uint64_t>(from_environment("THUNDER_FUZZ_SEED", 0)) + 5000000;
  fuzz::Coverage prims(is_fusible), all(opens);
  std::vector<fuzz::Finding> findings;
  fuzz::Generator of_prims(prims, findings), of_all(all, findings);
  FuserFuzz fuzz;
  for (int64_t i = 0; i < n; ++i) {
    fuzz::GeneratorOptions options;
    options.calls = i % 3 == 0 ? 8 : 14;
    options.wide = true;
    const fuzz::Program p = (i % 3 == 0 ? of_all : of_prims).make(first + static_cast<uint64_t>(i), options);
    fuzz.program(p);
    if (const std::optional<fuzz::Program> symbolic = fuzz::with_symbols(p)) fuzz.program(*symbolic);
    if (fuzz.waiting() > 600) fuzz.run_kernels(cuda);
  }
  fuzz.run_kernels(cuda);
  MESSAGE(fuzz.kernels << " kernels in " << fuzz.programs << " programs, " << fuzz.wide_kernels << " with vectors, "
                       << fuzz.sized_kernels << " with sizes as arguments, " << fuzz.numbered_kernels
                       << " with other numbers; " << fuzz.in_place << " runs in place");
  CHECK(fuzz.wrong == 0);
  CHECK(fuzz.kernels > n / 3);
  CHECK(fuzz.wide_kernels * 20 > fuzz.kernels);
  CHECK(fuzz.sized_kernels > n / 4);
  CHECK(fuzz.numbered_kernels >= n / 40);  // few programs have such numbers
  CHECK(fuzz.in_place > n / 2);
}

}  // namespace thunder::test
