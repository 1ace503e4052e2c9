#include "fuser/kernel_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "core/error.h"
#include "core/print.h"
#include "fuser/emit.h"
#include "fuser/emulated_cuda.h"
#include "fuser/loops.h"
#include "fuzz/random.h"
#include "runtime/kernels/host_compiler.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder::test {

using reference::Array;
using reference::Datum;
using reference::Element;

namespace {

constexpr int kPerturbed = 8;

// The unit roundoff of what kernels compute in.
double roundoff(DType t) { return t == DType::f64 ? 0x1p-52 : 0x1p-23; }
double storage_roundoff(DType t) {
  switch (t) {
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-10;
    case DType::f8e4m3fn: return 0x1p-6;  // eight of them are an eighth, one last digit
    case DType::f8e5m2: return 0x1p-5;
    default: return roundoff(t);
  }
}
double smallest(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-24;
    case DType::f8e4m3fn: return 0x1p-9;
    case DType::f8e5m2: return 0x1p-16;
    default: return t == DType::f64 ? 1e-300 : 1e-37;
  }
}

bool ordinary(double x, DType t) {
  if (t == DType::f64 || !std::isfinite(x) || x == 0) return true;
  return std::fabs(x) < 1e30 && std::fabs(x) > 1e-30;
}

// Runs the calls without rounding; what each makes is moved by up to `moved` roundoffs, and what it reads by one, as a
// number that becomes a float is.  The order in which terms are added up is free: there the error is one of the terms,
// however small the sum.
struct Walk {
  std::vector<Array> outputs;
  bool is_ordinary = true;
};

Walk walk(const Fused& fusion, const std::vector<Datum>& inputs, const Numbers& numbers,
          const std::shared_ptr<Arena>& arena, double moved, uint64_t seed) {
  fuzz::Random random(seed);
  reference::EvaluatorOptions options;
  options.rounding = reference::Rounding::None;
  reference::Evaluator e(options);
  Walk out;
  auto moved_copy = [&](const Datum& d, double roundoffs, double of_one = 0) {
    auto a = std::make_shared<Array>(*d.array);
    if (!is_floating(a->dtype)) return Datum(a);
    for (Element& x : a->data) {
      out.is_ordinary = out.is_ordinary && ordinary(x.re, a->dtype);
      x.re *= 1 + roundoffs * roundoff(a->dtype) * random.uniform(-1, 1);
      if (of_one != 0) x.re += of_one * roundoff(a->dtype) * random.uniform(-1, 1);
    }
    return Datum(a);
  };
  for (const auto& [v, d] : numbers) e.define(v, d);
  for (size_t i = 0; i < inputs.size(); ++i)
    e.define(fusion.inputs[i], Datum(std::make_shared<Array>(*inputs[i].array)));
  for (const Call* c : fusion.calls) {
    if (moved == 0) {
      e.run(*c, arena);
      if (is_floating(c->output.value().dtype())) moved_copy(e.get(c->output.value()), 0);
      continue;
    }
    const bool adds_up = c->op->full_name == "prims.sum" || c->op->full_name == "prims.prod";
    std::vector<std::pair<Value, Datum>> exact;
    visit_own_inputs(*c, [&](Value v) {
      if (v.type().is_tensor()) exact.emplace_back(v, e.get(v));
    });
    for (const auto& [v, d] : exact) e.define(v, moved_copy(d, adds_up ? moved : 1));
    e.run(*c, arena);
    for (const auto& [v, d] : exact) e.define(v, d);
    // Computed as 0.5 and a part of it: near 0 the error is one of 0.5.
    const bool from_a_half = c->op->full_name == "prims.gelu_slope" || c->op->full_name == "prims.normal_cdf";
    e.define(c->output.value(), moved_copy(e.get(c->output.value()), moved, from_a_half ? moved : 0));
  }
  for (Value v : fusion.outputs) out.outputs.push_back(*e.get(v).array);
  return out;
}

}  // namespace

std::optional<Expectation> expect(const Fused& fusion, const std::vector<Datum>& inputs,
                                  const std::shared_ptr<Arena>& arena, uint64_t seed, const Numbers& numbers) {
  Expectation out;
  out.inputs = inputs;
  out.numbers = numbers;
  Walk exact = walk(fusion, inputs, numbers, arena, 0, seed);
  if (!exact.is_ordinary) return std::nullopt;
  out.outputs = std::move(exact.outputs);
  for (const Array& a : out.outputs) out.spread.emplace_back(a.data.size(), 0.0);
  for (int i = 1; i <= kPerturbed; ++i) {
    Walk other = walk(fusion, inputs, numbers, arena, 4, seed + static_cast<uint64_t>(i) * 7919);
    for (size_t o = 0; o < out.outputs.size(); ++o)
      for (size_t k = 0; k < out.spread[o].size(); ++k) {
        const DType t = out.outputs[o].dtype;
        const double x = reference::to_double(out.outputs[o].data[k], t),
                     y = reference::to_double(other.outputs[o].data[k], t);
        double& s = out.spread[o][k];
        if (std::isfinite(x) != std::isfinite(y) || std::isnan(x) != std::isnan(y)) s = NAN;
        else if (std::isfinite(x) && is_floating(t)) s = std::max(s, std::fabs(x - y));
        else if (x != y && !std::isnan(x)) s = NAN;
      }
  }
  return out;
}

namespace {

std::vector<int64_t> values(const fuser::Sizes& sizes) {
  std::vector<int64_t> out;
  for (const fuser::Size& n : sizes) out.push_back(fuser::usual(n));
  return out;
}

std::vector<double> values(const std::vector<Value>& of, const Numbers& known) {
  std::vector<double> out;
  for (Value v : of)
    for (const auto& [number, d] : known)
      if (number == v) out.push_back(d.number.re);
  THUNDER_ASSERT(out.size() == of.size(), "a number that a kernel reads is not known");
  return out;
}

// As they are in the call at hand.
std::vector<TensorType> plain_types(const std::vector<Value>& of) {
  std::vector<TensorType> out;
  for (Value v : of) {
    out.push_back(v.tensor());
    for (Dims* dims : {&out.back().shape, &out.back().strides})
      for (Dim& d : *dims) d = fuser::usual(d);
  }
  return out;
}

// What only the host's printer knows.
bool for_host(const fuser::Kernel& k) {
  return !k.row_buffers.empty() ||
         std::any_of(k.phases.begin(), k.phases.end(), [](const fuser::Phase& p) { return !p.ahead.empty(); });
}

}  // namespace

void KernelChecks::add(const Fused& fusion, Expectation expected, std::shared_ptr<Arena> arena,
                       const std::string& where) {
  auto shared = std::make_shared<const Expectation>(std::move(expected));
  auto one = [&](const fuser::Kernel& kernel, How how) {
    Run r{.kernel = kernel,
          .how = how,
          .name = cat("k", runs_.size()),
          .text = "",
          .where = where,
          .expected = shared,
          .inputs = fusion.inputs,
          .outputs = fusion.outputs,
          .arena = arena,
          .sizes = values(kernel.sizes.all()),
          .offsets = values(kernel.offsets),
          .numbers = values(kernel.numbers, shared->numbers),
          .rows = fuser::usual(kernel.rows),
          .cols = fuser::usual(kernel.cols),
          .input_types = plain_types(kernel.inputs),
          .output_types = plain_types(kernel.outputs)};
    r.text = how == How::Host    ? fuser::emit_host(kernel, r.name)
             : how == How::Loops ? loops(kernel, r.name)
                                 : emulated(kernel, r.name);
    runs_.push_back(std::move(r));
  };
  one(fusion.plain, How::Host);
  for (const fuser::Kernel& k : fusion.lowered) {
    one(k, k.lanes > 1 || k.cached ? How::Loops : How::Host);
    if (!for_host(k)) one(k, How::Cuda);
  }
}

std::vector<std::string> KernelChecks::run() {
  if (runs_.empty()) return {};
  std::string source = loops_prelude(), cuda = emulation_prelude(), error;
  for (const Run& r : runs_) (r.how == How::Cuda ? cuda : source) += r.text;
  std::shared_ptr<HostModule> module = compile_host(fuser::host_source(source), &error);
  if (!module) return {"the kernels do not compile: " + error.substr(0, 4000)};
  std::shared_ptr<HostModule> emulation = compile_host(cuda, &error, {"-O1"});
  if (!emulation) return {"the emulated kernels do not compile: " + error.substr(0, 4000)};
  int* misaligned = static_cast<int*>(module->symbol("th_misaligned"));
  std::vector<std::string> out;
  for (const Run& r : runs_) {
    const std::shared_ptr<HostModule>& of = r.how == How::Cuda ? emulation : module;
    const std::string suffix = r.how == How::Cuda ? "_grid" : "";
    const bool finishes =
        r.how == How::Cuda ? fuser::finishes_apart(r.kernel) : r.how == How::Host && !r.kernel.columns.empty();
    void* finish = finishes ? of->symbol(r.name + "_finish" + suffix) : nullptr;
    const char* const how[] = {"on the host", "as loops", "as emulated threads"};
    for (const std::string& what : run_one(r, {of->symbol(r.name + suffix), finish, misaligned}))
      out.push_back(cat(r.where, ", ", how[static_cast<size_t>(r.how)], ": ", what, "\n", r.text));
  }
  return out;
}

namespace {

std::string compare(const Array& got, const Array& want, const std::vector<double>& spread) {
  for (size_t k = 0; k < want.data.size(); ++k) {
    const DType t = want.dtype;
    const double x = reference::to_double(want.data[k], t), y = reference::to_double(got.data[k], t), s = spread[k];
    if (std::isnan(s)) continue;
    bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (!is_floating(t)) same = want.data[k].i == got.data[k].i;
    else if (!same && std::isfinite(x) && std::isfinite(y))
      same = std::fabs(x - y) <= 16 * s + 8 * storage_roundoff(t) * std::fabs(x) + smallest(t);
    // What does not fit the type, or nearly so.
    else if (!same && std::isfinite(x) && t == DType::f16) same = std::fabs(x) + 16 * s > 65000;
    if (!same)
      return cat("element ", k, " of ", want.data.size(), " is ", y, ", expected ", x, " within ", s, " (", t, ")");
  }
  return "";
}

using Memories = std::vector<std::unique_ptr<Memory>>;

Memories memories(const std::vector<TensorType>& types) {
  Memories out;
  for (const TensorType& t : types) out.push_back(std::make_unique<Memory>(t));
  return out;
}

std::vector<void*> pointers(const Memories& of) {
  std::vector<void*> out;
  for (const auto& m : of) out.push_back(m->data());
  return out;
}

// Where a value of the kernel stands in the expectation.
size_t place(const std::vector<Value>& in, Value v) {
  const auto at = std::find(in.begin(), in.end(), v);
  THUNDER_ASSERT(at != in.end(), "the variant has another input or output");
  return static_cast<size_t>(at - in.begin());
}

}  // namespace

// Rows in two parts, as two threads do.
int KernelChecks::call_host(const Run& r, const Functions& f, const void* const* in, void* const* out) {
  const fuser::Kernel& k = r.kernel;
  auto* kernel = reinterpret_cast<int (*)(const void* const*, void* const*, char*, int64_t, int64_t, const int64_t*,
                                          const double*)>(f.kernel);
  auto* finish =
      reinterpret_cast<int (*)(const void* const*, void* const*, char*, int64_t, const int64_t*, const double*)>(
          f.finish);
  const int64_t n = fuser::host_splits_columns(k) ? r.cols : r.rows, half = n / 2,
                bytes = fuser::partial_bytes(k, fuser::Target::Host, r.cols);
  std::vector<double> partial(static_cast<size_t>(2 * bytes) / 8 + 16);
  char* base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(partial.data()) + 63) / 64 * 64);
  // A kernel without numbers ignores the arguments behind its own.
  int status = kernel(in, out, base, 0, half, r.sizes.data(), r.numbers.data()) |
               kernel(in, out, base + bytes, half, n, r.sizes.data(), r.numbers.data());
  if (finish) status |= finish(in, out, base, 2, r.sizes.data(), r.numbers.data());
  return status;
}

// As FusionCall launches it, on a GPU of two multiprocessors.
int KernelChecks::call_cuda(const Run& r, const Functions& f, const void* const* in, void* const* out, bool backwards) {
  using Grid =
      int (*)(const void* const*, void* const*, char*, const int64_t*, const double*, const int*, const int*, int, int);
  const fuser::Kernel& k = r.kernel;
  const fuser::CudaShape s = fuser::cuda_shape(k);
  const fuser::CudaBlocks blocks = fuser::cuda_blocks(k, r.rows, r.cols);
  int grid[] = {static_cast<int>(blocks.x), static_cast<int>(blocks.y)};
  if (s.persistent && grid[1] > 0)
    grid[0] = std::clamp(grid[0], 1, std::max(1, 2 * s.blocks_per_multiprocessor / grid[1]));
  if (grid[0] == 0 || grid[1] == 0) return 0;
  const int64_t bytes = f.finish ? fuser::partial_bytes(k, fuser::Target::Cuda, r.cols) : 0;
  const bool extrema = !k.extrema.empty();
  const int parts = extrema ? grid[0] * grid[1] : grid[0];
  std::vector<double> partial(static_cast<size_t>(parts * bytes) / 8 + 1, std::nan(""));
  char* sums = reinterpret_cast<char*>(partial.data());
  const int block[] = {s.width(), s.height()};
  const int status =
      reinterpret_cast<Grid>(f.kernel)(in, out, sums, r.sizes.data(), r.numbers.data(), grid, block, parts, backwards);
  if (status || !f.finish) return status;
  const int finish_grid[] = {extrema ? 1 : static_cast<int>((r.cols + 31) / 32), 1},
            finish_block[] = {32, fuser::kFinishRows};
  return reinterpret_cast<Grid>(f.finish)(in, out, sums, r.sizes.data(), r.numbers.data(), finish_grid, finish_block,
                                          parts, backwards);
}

int KernelChecks::call(const Run& r, const Functions& f, const std::vector<void*>& tensors,
                       const std::vector<void*>& out, bool backwards) {
  std::vector<void*> in = tensors;
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<char*>(in[i]) + r.offsets[i] * itemsize(r.kernel.inputs[i].dtype());
  *f.misaligned = 0;
  if (r.how == How::Host) return call_host(r, f, in.data(), out.data());
  if (r.how == How::Cuda) return call_cuda(r, f, in.data(), out.data(), backwards);
  return reinterpret_cast<int (*)(const void* const*, void* const*, const int64_t*, const double*)>(f.kernel)(
      in.data(), out.data(), r.sizes.data(), r.numbers.data());
}

std::vector<std::unique_ptr<Memory>> KernelChecks::inputs_of(const Run& r) {
  Memories in = memories(r.input_types);
  for (size_t i = 0; i < in.size(); ++i) in[i]->write(*r.expected->inputs[place(r.inputs, r.kernel.inputs[i])].array);
  return in;
}

std::vector<std::string> KernelChecks::run_one(const Run& r, const Functions& functions) {
  const Memories in = inputs_of(r), out = memories(r.output_types);
  if (r.kernel.outputs.size() != r.outputs.size()) return {"the variant has other outputs"};
  const int status = call(r, functions, pointers(in), pointers(out));
  if (status != 0) return {status == 2 ? "threads wait without end" : "reports an index outside of its tensor"};
  std::vector<std::string> wrong;
  if (*functions.misaligned) wrong.push_back("a vector at an address that is not a multiple of its size");
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t at = place(r.outputs, r.kernel.outputs[i]);
    if (!out[i]->margin_intact()) wrong.push_back(cat("writes behind output ", i));
    if (std::string what = compare(*out[i]->read(), r.expected->outputs[at], r.expected->spread[at]); !what.empty())
      wrong.push_back(cat("output ", i, ": ", what));
  }
  if (r.how == How::Cuda) {
    for (const std::string& what : run_backwards(r, functions, out)) wrong.push_back(what);
    return wrong;
  }
  for (bool last_first : {false, true})
    for (const std::string& what : run_in_place(r, functions, last_first, out)) wrong.push_back(what);
  return wrong;
}

std::vector<std::string> KernelChecks::run_backwards(const Run& r, const Functions& functions,
                                                     const Memories& expected) {
  const Memories in = inputs_of(r), out = memories(r.output_types);
  if (call(r, functions, pointers(in), pointers(out), true) != 0) return {"fails with threads in another order"};
  std::vector<std::string> wrong;
  for (size_t i = 0; i < out.size(); ++i)
    if (std::memcmp(out[i]->data(), expected[i]->data(), expected[i]->size()) != 0)
      wrong.push_back(cat("output ", i, " depends on the order of threads"));
  return wrong;
}

std::vector<std::string> KernelChecks::run_in_place(const Run& r, const Functions& functions, bool last_first,
                                                    const Memories& expected) {
  std::vector<fuser::InPlace> pairs = r.kernel.in_place;
  if (last_first) std::reverse(pairs.begin(), pairs.end());
  const Memories in = inputs_of(r), out = memories(r.output_types);
  std::vector<void*> in_pointers = pointers(in), out_pointers = pointers(out);
  std::vector<char> taken(in.size());
  for (const fuser::InPlace& p : pairs) {
    if (taken[p.input] || out_pointers[p.output] != out[p.output]->data()) continue;
    if (in[p.input]->size() != out[p.output]->size()) continue;
    taken[p.input] = 1;
    out_pointers[p.output] = in_pointers[p.input];
  }
  if (out_pointers == pointers(out)) return {};
  ++in_place_;
  if (call(r, functions, in_pointers, out_pointers) != 0) return {"in place: reports an index outside of its tensor"};
  std::vector<std::string> wrong;
  for (size_t i = 0; i < out.size(); ++i)
    if (std::memcmp(out_pointers[i], expected[i]->data(), expected[i]->size()) != 0)
      wrong.push_back(cat("in place: output ", i, " differs"));
  return wrong;
}

std::vector<std::string> KernelChecks::compile_cuda_texts() {
  constexpr size_t kTogether = 40;
  std::vector<CudaSource> sources;
  std::vector<std::string> where;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const fuser::Kernel& k = runs_[i].kernel;
    if (i % kTogether == 0) {
      sources.push_back({cat("kernels", i), fuser::cuda_prelude()});
      where.emplace_back();
    }
    if (runs_[i].how == How::Cuda || for_host(k)) continue;
    sources.back().source += fuser::emit_cuda(k, runs_[i].name);
    where.back() += " " + runs_[i].name;
  }
  std::vector<std::string> out;
  for (const CompiledCubin& c : compile_cuda(sources, 9, 0))
    if (!c.ok()) out.push_back(c.name + ": " + c.log.substr(0, 3000));
  return out;
}

}  // namespace thunder::test
