#include "fuzz/checks.h"

#include <numeric>

#include "core/error.h"
#include "core/parse.h"
#include "core/verify.h"
#include "passes/constants.h"
#include "passes/conversions.h"
#include "passes/rerunnable.h"

namespace thunder::fuzz {

using reference::Datum;

Passes Passes::real() {
  return {[](const Trace& t) { return thunder::print(t, PrintOptions{.strides = true}); },
          [](const Trace& t) { return thunder::dce(t); },
          [](const Trace& t) { return thunder::cse(t); },
          [](const Trace& t, const ExecutorList& e) { return thunder::claim(t, e); },
          [](const Trace& t) { return thunder::delete_last_used(t); },
          [](const Trace& t) { return thunder::autodiff(t); },
          [](const JointTrace& j, const SplitOptions& o) { return thunder::split(j, o); }};
}

// ---- executors ------------------------------------------------------------------------------------------------------

namespace {

// Takes what `wants` says, by an operator that implements the record.
class TestExecutor : public Executor {
 public:
  TestExecutor(std::string name, std::function<bool(const Op&)> wants)
      : Executor(std::move(name)), wants_(std::move(wants)) {}

  const Implementation* find(const Call& call) const override {
    if (!wants_(*call.op)) return nullptr;
    auto [it, fresh] = implementations_of_.try_emplace(call.op);
    if (fresh) it->second.op = &operator_for(*call.op);
    return &it->second;
  }

 private:
  const Op& operator_for(const Op& record) const {
    std::string full_name = name() + "." + record.full_name;
    if (const Op* known = Registry::instance().find(full_name)) return *known;
    auto op = std::make_unique<Op>(record);
    op->level = name();
    op->name = name() + "." + record.name;
    op->full_name = full_name;
    op->print_name = name() + "_" + record.level + "." + record.schema.name;
    op->executor = name();
    op->implements = &record;
    return Registry::instance().add(std::move(op));
  }

  std::function<bool(const Op&)> wants_;
  mutable std::map<const Op*, Implementation> implementations_of_;
};

}  // namespace

ExecutorList test_executors(uint64_t seed) {
  auto some = [seed](const Op& op) {
    uint64_t h = seed;
    for (char c : op.full_name) h = (h ^ static_cast<uint64_t>(c)) * 0x100000001B3ull;
    return (h >> 20) % 3 == 0;
  };
  // A variance is not opened: its parts round otherwise than the whole.  What has a meta above the primitives may be
  // without a body.
  auto whole = [](const Op& op) { return op.meta != nullptr && (!op.body || !op.is_prim() || op.name == "prims.var"); };
  return {std::make_shared<TestExecutor>("fuzzpart", some), std::make_shared<TestExecutor>("fuzzall", whole)};
}

// ---- the small passes -----------------------------------------------------------------------------------------------

namespace {

class Checker {
 public:
  Checker(const Program& program, const Passes& passes) : program_(program), passes_(passes) {}

  // Runs a step; what it throws is a finding.
  void step(const std::string& name, const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& e) {
      found(name, e.what());
    }
  }

  void found(const std::string& pass, const std::string& what) {
    findings.push_back(cat("seed ", program_.seed, ", ", pass, ": ", what, "\n", thunder::print(program_.trace)));
  }

  void check_text(const std::string& pass, const Trace& t) {
    Trace back = thunder::parse(passes_.print(t), python_context(t));
    std::string why;
    if (!structurally_equal(t, back, &why)) found(pass, "parsed text differs: " + why + "\n" + passes_.print(t));
  }

  // Verified, printed, evaluated: `t` must give what the program gives.
  void check_trace(const std::string& pass, const Trace& t) {
    step(pass + " (verify)", [&] { verify(t); });
    step(pass + " (parse)", [&] { check_text(pass, t); });
    step(pass + " (evaluate)", [&] {
      std::vector<Datum> inputs = program_.fresh_inputs();
      Datum result = reference::evaluate(t, inputs);
      std::string why;
      if (!same_datum(expected_, result, &why)) found(pass, "gives another result: " + why + "\n" + thunder::print(t));
      if (!same_datum(Datum::sequence(written_), Datum::sequence(inputs), &why))
        found(pass, "writes something else: " + why);
    });
  }

  bool evaluate_original() {
    written_ = program_.fresh_inputs();
    try {
      expected_ = reference::evaluate(program_.trace, written_);
      return true;
    } catch (const reference::Undefined&) {
      return false;  // random numbers fell otherwise than when the program was made
    }
  }

  std::vector<std::string> findings;

 private:
  const Program& program_;
  const Passes& passes_;
  Datum expected_;
  std::vector<Datum> written_;
};

}  // namespace

std::vector<std::string> check_passes(const Program& program, const Passes& passes) {
  ShapeEnv::Scope scope(*program.environment);
  Checker c(program, passes);
  bool evaluated = false;
  c.step("the program", [&] { evaluated = c.evaluate_original(); });
  if (!evaluated) return c.findings;
  const Trace& t = program.trace;
  ExecutorList executors = test_executors(program.seed);
  c.check_trace("acquisition", t);
  c.step("dce", [&] { c.check_trace("dce", passes.dce(t)); });
  c.step("cse", [&] { c.check_trace("cse", passes.cse(t)); });
  c.step("claim", [&] { c.check_trace("claim", passes.claim(t, {executors[1]})); });
  c.step("delete_last_used", [&] { c.check_trace("delete_last_used", passes.delete_last_used(t)); });
  c.step("conversions", [&] {
    const auto converts = [](const Op& op) {
      return op.name.starts_with("prims.convert_element_type") || op.name.starts_with("prims.matmul");
    };
    const ExecutorList list = {std::make_shared<TestExecutor>("fuzzconverts", converts), executors[1]};
    const Trace products = converted_products(passes.claim(t, list), list);
    c.check_trace("converted_products", products);
    c.check_trace("joined_conversions", joined_conversions(products, list, {.device = DeviceType::cpu}));
  });
  c.step("constants", [&] { c.check_trace("constants", constants_once(passes.claim(t, executors), t.output)); });
  c.step("rerunnable", [&] {
    std::vector<size_t> outputs(t.output.items().size());
    std::iota(outputs.begin(), outputs.end(), 0);
    const Rerunnable r = rerunnable(t, outputs);
    if (r.problem.empty()) c.check_trace("rerunnable", r.trace);
  });
  c.step("all passes", [&] {
    Trace all = passes.delete_last_used(passes.claim(passes.cse(passes.dce(t)), executors));
    c.check_trace("all passes", all);
  });
  return c.findings;
}

}  // namespace thunder::fuzz
