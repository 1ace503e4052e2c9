// Random numbers in kernels: the generator against its published vectors, and what kernels draw against the evaluator.
#include <doctest.h>

#include <algorithm>
#include <map>

#include "core/parse.h"
#include "fuser/emit.h"
#include "fuser/kernel_checks.h"
#include "ops/families.h"
#include "reference/counted_random.h"
#include "runtime/kernels/host_compiler.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder::test {
namespace {

using fuser::Kernel;
using fuser::LowerOptions;
using reference::Words;

bool have_compiler() {
  std::string why_not;
  const bool have = !host_compiler_command(&why_not).empty();
  if (!have) MESSAGE("skipped: " << why_not);
  return have;
}

TEST_CASE("random: Philox 4x32-10 gives the vectors published with Random123") {
  struct Vector {
    Words counter;
    std::array<uint32_t, 2> key;
    Words expected;
  };
  const std::vector<Vector> vectors = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Vector& v : vectors) CHECK(reference::philox(v.counter, v.key) == v.expected);
  if (!have_compiler()) return;
  std::string error;
  const auto module = compile_host(
      fuser::host_prelude() +
          "extern \"C\" void words(uint64 seed, uint64 offset, uint64 block, uint32* out) { const th_words w "
          "= th_philox(seed, offset, block); for (int i = 0; i < 4; ++i) out[i] = w.at[i]; }\n",
      &error);
  REQUIRE_MESSAGE(module, error);
  auto* words = reinterpret_cast<void (*)(uint64_t, uint64_t, uint64_t, uint32_t*)>(module->symbol("words"));
  auto join = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
  for (const Vector& v : vectors) {
    Words got;
    words(join(v.key[0], v.key[1]), join(v.counter[2], v.counter[3]), join(v.counter[0], v.counter[1]), got.data());
    CHECK(got == v.expected);
  }
}

/// A program that reads one state.
struct Program {
  explicit Program(const std::string& body) {
    ops::register_all();
    trace = parse("import torch\nimport thunder.core.prims as prims\n\ndef f(s):\n  # s: \"cpu i64[2]\"\n" + body);
    for (const Call* c : trace.calls) maker[c->output.value().id()] = c;
  }
  std::optional<Kernel> lower(const LowerOptions& options) const {
    std::vector<fuser::Root> roots;
    std::vector<Value> returned;
    visit_values(trace.output, [&](Value v) { returned.push_back(v); });
    for (const Call* c : trace.calls) {
      const Value v = c->output.value();
      const bool stored = std::count(returned.begin(), returned.end(), v) > 0;
      if (stored || fuser::kind_of(*c) == fuser::Kind::Reduce) roots.push_back({v, stored});
    }
    auto producer = [this](Value v) {
      auto it = maker.find(v.id());
      return it == maker.end() ? nullptr : it->second;
    };
    return fuser::lower(
        roots, producer, [](Value) { return false; }, options);
  }
  Trace trace;
  std::map<ValueId, const Call*> maker;
};

size_t made_ahead(const Kernel& k) {
  size_t n = 0;
  for (const fuser::Phase& p : k.phases) n += p.ahead.size();
  return n;
}

std::string draw(const std::string& op, const std::string& dtype, const std::string& shape) {
  const std::string torch_name = dtype == "f64"    ? "float64"
                                 : dtype == "bf16" ? "bfloat16"
                                 : dtype == "f16"  ? "float16"
                                                   : "float32";
  return "  t1 = prims." + op + "(s, [" + shape + "], dtype=torch." + torch_name + ")  # t1: \"cpu " + dtype + "[" +
         shape + "]\"\n";
}

TEST_CASE("random: every distribution, layout and way to make the numbers gives the evaluator's") {
  if (!have_compiler()) return;
  const std::string neg = "  t2 = prims.neg(t1)  # t2: \"cpu ";
  std::vector<std::string> programs;
  for (const char* op : {"uniform_at", "normal_at"})
    for (const char* dtype : {"f32", "f64", "bf16", "f16"})
      for (const char* shape : {"3, 8", "5, 7", "600"})
        programs.push_back(draw(op, dtype, shape) + neg + dtype + "[" + shape + "]\"\n  return t2\n");
  const std::string floats = draw("uniform_at", "f32", "6, 40");
  programs.push_back("  t1 = prims.randint_at(s, [3, 16], -5, 4294967291)  # t1: \"cpu i64[3, 16]\"\n  return t1\n");
  programs.push_back(floats +
                     "  t2 = prims.transpose(t1, [1, 0])  # t2: \"cpu f32[40, 6] strides=(1, 40)\"\n  t3 = "
                     "prims.restride(t2, [6, 1])  # t3: \"cpu f32[40, 6]\"\n  return t3\n");
  programs.push_back(floats +
                     "  t2 = prims.sum(t1, [1])  # t2: \"cpu f32[6]\"\n  t3 = prims.broadcast_in_dim(t2, [6, 40], "
                     "[0])  # t3: \"cpu f32[6, 40] strides=(1, 0)\"\n  t4 = prims.mul(t1, t3)  # t4: \"cpu "
                     "f32[6, 40]\"\n  return t4\n");
  programs.push_back(floats + "  t2 = prims.sum(t1, [0])  # t2: \"cpu f32[40]\"\n  return t2\n");
  programs.push_back(draw("normal_at", "f32", "6, 4") +
                     "  t2 = prims.broadcast_in_dim(t1, [6, 4, 8], [0, 1])  # t2: \"cpu f32[6, 4, 8] strides=(4, 1, "
                     "0)\"\n  t3 = prims.clone(t2)  # t3: \"cpu f32[6, 4, 8]\"\n  return t3\n");
  programs.push_back(floats +
                     "  t2 = prims.pad(t1, 1.5, [(1, 0, 0), (2, -1, 0)])  # t2: \"cpu f32[7, 41]\"\n  return t2\n");
  KernelChecks checks;
  size_t ahead = 0, in_vectors = 0;
  for (const std::string& text : programs) {
    CAPTURE(text);
    Program p(text);
    Fused f;
    f.calls = p.trace.calls;
    f.plain = p.lower({}).value();
    f.inputs = f.plain.inputs;
    f.outputs = f.plain.outputs;
    for (const LowerOptions& o : std::vector<LowerOptions>{{.draw_ahead = true, .name_distances = true},
                                                           {.split_rows = LowerOptions::SplitRows::Always,
                                                           .row_buffer = 4096,
                                                           .draw_ahead = true,
                                                           .name_distances = true},
                                                           {.lanes = 2},
                                                           {.lanes = 4, .cached = true},
                                                           {.lanes = 8, .cached = true},
                                                           {.lanes = 8, .cached = true, .draw_again = true},
                                                           {.lanes = 8}})
      if (auto variant = p.lower(o)) {
        ahead += made_ahead(*variant) > 0;
        for (const fuser::Phase& phase : variant->phases)
          for (const std::string& statement : phase.chunk)
            in_vectors += statement.find("th_random_vector<") != statement.npos;
        f.lowered.push_back(*variant);
      }
    auto state = reference::make_array(DType::i64, {}, {2});
    state->data = {reference::Element::integer(-81985529216486896), reference::Element::integer(77)};
    checks.add(f, expect(f, {reference::Datum(state)}, p.trace.arena, 1).value(), p.trace.arena, text);
  }
  CHECK(ahead > 50);
  CHECK(in_vectors > 50);
  for (const std::string& wrong : checks.run()) FAIL_CHECK(wrong);
  if (nvrtc_available())
    for (const std::string& wrong : checks.compile_cuda_texts()) FAIL_CHECK(wrong);
}

TEST_CASE("random: numbers are made ahead where columns are neighbours, and drawn one by one where they are not") {
  const LowerOptions host = {.split_rows = LowerOptions::SplitRows::Always, .draw_ahead = true, .name_distances = true};
  Program along(draw("uniform_at", "f32", "4, 8") + "  return t1\n");
  CHECK(made_ahead(along.lower(host).value()) == 1);
  CHECK(made_ahead(along.lower({}).value()) == 0);
  Program across(draw("uniform_at", "f32", "4, 8, 3") +
                 "  t2 = prims.transpose(t1, [2, 1, 0])  # t2: \"cpu f32[3, 8, 4] strides=(1, 3, 24)\"\n  t3 = "
                 "prims.restride(t2, [32, 4, 1])  # t3: \"cpu f32[3, 8, 4]\"\n  return t3\n");
  CHECK(made_ahead(across.lower(host).value()) == 0);
  Program computed(
      "  t0 = prims.neg(s)  # t0: \"cpu i64[2]\"\n  t1 = prims.uniform_at(t0, [4, 8], "
      "dtype=torch.float32)  # t1: \"cpu f32[4, 8]\"\n  return t1\n");
  CHECK(made_ahead(computed.lower(host).value()) == 1);
}

}  // namespace
}  // namespace thunder::test
