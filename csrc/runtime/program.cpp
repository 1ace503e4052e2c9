#include "runtime/program.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/rewrite.h"
#include "python/gil.h"
#include "runtime/convert.h"
#include "runtime/host_memory.h"
#include "runtime/instruction.h"
#include "runtime/watchers.h"

namespace thunder {

// What the trace says about a result, to be compared with what the operator gave.
struct Expectation {
  size_t instruction;
  int32_t reg;
  std::string value;
  Type type;
};

struct Program::Impl {
  std::vector<std::unique_ptr<Instruction>> instructions;
  std::vector<Expectation> expectations;  // in order; empty unless THUNDER_CHECK_RUN is set
  size_t num_registers = 0;
  std::vector<int32_t> input_registers;  // -1: nobody reads the input
  std::vector<Operand> outputs;
  std::vector<int64_t> output_inputs;
  std::vector<size_t> accumulable;
  std::vector<std::pair<Instruction*, Accumulation*>> summands;  // what makes them, and the sums of what reads them
  std::vector<std::unique_ptr<Accumulation>> counted_sums;
  bool needs_python = false;
  std::optional<c10::Device> device;  // the GPU that the program works on
};

namespace {

// ---- build ----------------------------------------------------------------------------------------------------------

void flatten(const Arg& a, std::vector<Arg>& out) {
  switch (a.kind()) {
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      for (const Arg& item : a.items()) flatten(item, out);
      break;
    case Arg::Kind::Dict:
      for (const auto& [key, item] : a.entries()) flatten(item, out);
      break;
    default: out.push_back(a);
  }
}

bool is_del(const Call& call) { return call.op->name == "prims.python_del"; }

bool checks_results() {
  static const bool checks = [] {
    const char* text = std::getenv("THUNDER_CHECK_RUN");
    return text && *text && std::string_view(text) != "0";
  }();
  return checks;
}

// Gives registers to values: a register is free again after the call that reads its value last.
class ProgramBuilder final : public Assembler {
 public:
  explicit ProgramBuilder(const Trace& trace) : trace_(trace), impl_(std::make_unique<Program::Impl>()) {
    flatten(trace.output, outputs_);
  }

  std::unique_ptr<Program::Impl> compile() {
    find_last_reads();
    find_device();
    for (Value v : trace_.inputs) impl_->input_registers.push_back(last_.count(v) ? static_cast<int32_t>(take(v)) : -1);
    for (position_ = 0; position_ < trace_.calls.size(); ++position_)
      if (!is_del(*trace_.calls[position_])) compile_call(*trace_.calls[position_]);
    compile_outputs();
    find_accumulable();
    impl_->num_registers = next_register_;
    return std::move(impl_);
  }

  uint32_t register_of(Value v) const override {
    auto it = registers_.find(v);
    THUNDER_ASSERT(it != registers_.end(), "'", v.name(), "' is read before it is computed");
    return it->second;
  }
  uint32_t register_of(SymbolId s) const override {
    for (const auto& [v, r] : registers_)
      if (std::optional<SymbolId> bound = bound_symbol(v); bound && *bound == s) return r;
    THUNDER_ASSERT(false, "a size depends on a symbol that no value binds");
  }

 private:
  void find_last_reads() {
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const Call& call = *trace_.calls[i];
      if (is_del(call)) continue;
      visit_own_inputs(call, [&](Value v) {
        last_[v] = i;
        ++reads_[v];
      });
    }
    for (const Arg& a : outputs_) {
      visit_values(a, [&](Value v) {
        last_[v] = trace_.calls.size();
        ++reads_[v];
      });
      for_each_symbol(a, [&](SymbolId s) {
        if (Value v = trace_.arena->symbol_value(s)) last_[v] = trace_.calls.size();
      });
    }
  }

  // Kernels and streams of our own run on the current device.  PyTorch's operators see to it themselves, so of several
  // GPUs the first is as good as any.
  void find_device() {
    auto look = [&](Value v) {
      if (!impl_->device && v.type().is_tensor() && v.tensor().device.type == DeviceType::cuda &&
          v.tensor().device.index >= 0)
        impl_->device = to_aten(v.tensor().device);
    };
    for (Value v : trace_.inputs) look(v);
    for (const Call* call : trace_.calls) visit_outputs(*call, look);
    if (!impl_->device) return;
    // PyTorch's Python side initialises CUDA with the first tensor that it makes there, and only then passes on seeds
    // that were set before; a program may make tensors of its own before anybody else does.
    const Gil gil;
    torch::utils::device_lazy_init(c10::DeviceType::CUDA);
  }

  uint32_t take(Value v) {
    uint32_t r;
    if (free_.empty()) {
      r = next_register_++;
    } else {
      r = free_.back();
      free_.pop_back();
    }
    registers_[v] = r;
    return r;
  }

  void compile_call(const Call& call) {
    std::unique_ptr<Instruction> instruction = lower(call);
    if (call.location) instruction->where = cat(call.location->file, ":", call.location->line);
    release_inputs(call, *instruction);
    for (Value v : flat_results(call.output))
      instruction->outputs.push_back(v && last_.count(v) ? static_cast<int32_t>(take(v)) : -1);
    if (call.output.is_value()) makers_[call.output.value()] = instruction.get();
    if (Accumulation* sums = instruction->sums())
      if (Instruction* maker = adding_maker(call.args[0])) impl_->summands.emplace_back(maker, sums);
    if (checks_results()) expect(call, *instruction);
    impl_->needs_python |= instruction->needs_python();
    impl_->instructions.push_back(std::move(instruction));
  }

  void expect(const Call& call, const Instruction& instruction) {
    std::vector<Value> results = flat_results(call.output);
    const size_t known = results.size() - (call.op->has(kOwnSize) ? 1 : 0);
    for (size_t i = 0; i < known; ++i)
      if (instruction.outputs[i] >= 0)
        impl_->expectations.push_back({impl_->instructions.size(), instruction.outputs[i],
                                       cat(results[i].name(), " = ", call.op->full_name), results[i].type()});
  }

  std::unique_ptr<Instruction> lower(const Call& call) const {
    THUNDER_CHECK(!call.op->executor.empty(), NotImplemented, call.op->full_name,
                  "no executor claimed this call, so it cannot run");
    if (const LowerFn* fn = find_lowering(call.op->executor)) return (*fn)(call, *this);
    return lower_python_call(call, *this);
  }

  // Marks the last operand that reads the register; false if that one cannot be moved from.
  static bool mark_last(std::vector<Operand>& operands, uint32_t r, bool& found) {
    for (size_t i = operands.size(); i-- > 0 && !found;) {
      Operand& o = operands[i];
      if (o.kind == Operand::Kind::List) {
        if (mark_last(o.items, r, found)) return true;
      } else if (o.kind == Operand::Kind::Register && o.reg == r) {
        found = true;
        o.last = o.convert == Operand::Convert::None;
        return o.last;
      }
    }
    return false;
  }

  void release_inputs(const Call& call, Instruction& instruction) {
    std::vector<uint32_t> freed;
    visit_own_inputs(call, [&](Value v) {
      auto it = registers_.find(v);
      if (it == registers_.end() || last_.at(v) != position_) return;
      uint32_t r = it->second;
      registers_.erase(it);
      bool found = false;
      bool moved = instruction.moves_operands && mark_last(instruction.operands, r, found);
      if (!moved) instruction.drops.push_back(r);
      freed.push_back(r);
    });
    free_.insert(free_.end(), freed.begin(), freed.end());
  }

  void compile_outputs() {
    for (const Arg& a : outputs_) {
      impl_->outputs.push_back(natural(a));
      int64_t input = -1;
      if (a.is_value())
        for (size_t i = 0; i < trace_.inputs.size(); ++i)
          if (trace_.inputs[i] == a.value()) input = static_cast<int64_t>(i);
      impl_->output_inputs.push_back(input);
    }
    for (const auto& [v, r] : registers_) {
      bool found = false;
      mark_last(impl_->outputs, r, found);
    }
  }

  void find_accumulable() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Instruction* maker = adding_maker(outputs_[i]);
      if (!maker) continue;
      maker->adds_to = static_cast<int32_t>(i);
      impl_->accumulable.push_back(i);
    }
  }

  // The instruction that makes a value for one reader and can add it to something; else null.
  Instruction* adding_maker(const Arg& a) const {
    auto maker = a.is_value() ? makers_.find(a.value()) : makers_.end();
    if (maker == makers_.end() || reads_.at(maker->first) != 1 || !maker->second->can_accumulate()) return nullptr;
    return maker->second;
  }

  const Trace& trace_;
  std::unique_ptr<Program::Impl> impl_;
  std::vector<Arg> outputs_;
  std::unordered_map<Value, size_t, ValueHash> last_, reads_;
  std::unordered_map<Value, Instruction*, ValueHash> makers_;  // of calls with one result
  std::unordered_map<Value, uint32_t, ValueHash> registers_;
  std::vector<uint32_t> free_;
  uint32_t next_register_ = 0;
  size_t position_ = 0;
};

// ---- where the host's time goes -------------------------------------------------------------------------------------

// With THUNDER_HOST_TIMES=1: how long instructions take to issue, by what they print as, shown when the process ends.
// On a GPU that is the host's share, as nothing waits.
class HostTimes {
 public:
  static HostTimes* active() {
    static HostTimes* times = [] {
      const char* text = std::getenv("THUNDER_HOST_TIMES");
      return text && *text && std::string_view(text) != "0" ? new HostTimes : nullptr;
    }();
    return times;
  }
  void add(const std::string& name, std::chrono::nanoseconds t) {
    std::lock_guard lock(mutex_);
    if (rows_.empty()) std::atexit([] { active()->print(); });
    Row& row = rows_[name];
    ++row.count;
    row.total += t;
    row.least = std::min(row.least, t);
  }

 private:
  void print() {
    std::vector<std::pair<std::string, Row>> rows(rows_.begin(), rows_.end());
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
    auto us = [](std::chrono::nanoseconds t) { return static_cast<double>(t.count()) / 1e3; };
    for (const auto& [name, row] : rows)
      std::fprintf(stderr, "%10.1f us x%-8lld %8.2f us each, %8.2f at least  %s\n", us(row.total),
                   static_cast<long long>(row.count), us(row.total) / static_cast<double>(row.count), us(row.least),
                   name.c_str());
  }
  struct Row {
    int64_t count = 0;
    std::chrono::nanoseconds total{0}, least = std::chrono::nanoseconds::max();
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Row> rows_;
};

// ---- run ------------------------------------------------------------------------------------------------------------

// Frames that are not in use, kept with their buffers: a run allocates nothing.  Recursion takes another frame.
thread_local std::vector<std::unique_ptr<Frame>> idle_frames;

class FrameLease {
 public:
  explicit FrameLease(size_t registers) {
    if (idle_frames.empty()) {
      frame_ = std::make_unique<Frame>();
    } else {
      frame_ = std::move(idle_frames.back());
      idle_frames.pop_back();
    }
    frame_->registers.resize(registers);
  }
  ~FrameLease() {
    frame_->registers.clear();
    frame_->stack.clear();
    frame_->accumulation = nullptr;
    if (idle_frames.size() < 8) idle_frames.push_back(std::move(frame_));
  }
  Frame& operator*() { return *frame_; }

 private:
  std::unique_ptr<Frame> frame_;
};

// Sizes and strides that are not constant are not compared; nor are strides of dimensions that have at most one
// element.
void compare(const Expectation& e, const c10::IValue& result) {
  if (!e.type.is_tensor() || !result.isTensor() || !result.toTensor().defined()) return;
  const at::Tensor& t = result.toTensor();
  const TensorType& want = e.type.tensor();
  TensorType got = type_of(t);
  // Kernels keep their random state on the CPU, or on the GPU while a graph is captured.
  bool anywhere = want.shape.empty() && is_integral(want.dtype);
  // A sparse tensor's gradient may be of another layout.
  bool ok = got.dtype == want.dtype && (got.strided() || !want.strided()) &&
            (anywhere || got.device.type == want.device.type) && got.shape.size() == want.shape.size();
  for (size_t i = 0; ok && i < want.shape.size(); ++i) {
    int64_t n = t.size(static_cast<int64_t>(i));
    ok = !want.shape[i].is_constant() || want.shape[i].constant() == n;
    if (n > 1 && want.strided() && t.numel() > 0 && want.strides[i].is_constant())
      ok = ok && want.strides[i].constant() == t.stride(static_cast<int64_t>(i));
  }
  THUNDER_ASSERT(ok, e.value, ": the trace says ", e.type.str(), " with strides ", str(want.strides),
                 ", the operator gave ", Type(got).str(), " with strides ", str(got.strides));
}

class Counted final : public Accumulation {
 public:
  Counted(Accumulation& sums, std::shared_ptr<std::atomic<size_t>> count) : sums_(sums), count_(std::move(count)) {}
  bool add(size_t i, Add add) override {
    if (!sums_.add(i, add)) return false;
    ++*count_;
    return true;
  }

 private:
  Accumulation& sums_;
  const std::shared_ptr<std::atomic<size_t>> count_;
};

[[noreturn]] void rethrow_with_line(const Instruction& instruction) {
  try {
    throw;
  } catch (c10::Error& e) {
    std::string context = "in " + instruction.str();
    if (!instruction.where.empty()) context += ", called at " + instruction.where;
    e.add_context(std::move(context));
    throw;
  }
}

}  // namespace

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;

std::shared_ptr<Program> Program::build(const Trace& trace) {
  return std::make_shared<Program>(ProgramBuilder(trace).compile());
}

std::vector<c10::IValue> Program::run(std::vector<c10::IValue> inputs, Accumulation* accumulation) const {
  THUNDER_ASSERT(inputs.size() == impl_->input_registers.size(), "a program of ", impl_->input_registers.size(),
                 " inputs was given ", inputs.size());
  HostMemoryScope memory;
  c10::OptionalDeviceGuard device;
  if (impl_->device) device.reset_device(*impl_->device);
  FrameLease lease(impl_->num_registers);
  Frame& frame = *lease;
  frame.accumulation = accumulation;
  // Autograd, too, sees what operators do and nothing else.
  frame.watched = operators_are_watched() || c10::GradMode::is_enabled();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (int32_t r = impl_->input_registers[i]; r >= 0) frame.registers[r] = std::move(inputs[i]);
  inputs.clear();
  auto expectation = impl_->expectations.begin();
  HostTimes* times = HostTimes::active();
  for (const auto& instruction : impl_->instructions) {
    try {
      const auto start = times ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
      instruction->run(frame);
      if (times) times->add(instruction->str(), std::chrono::steady_clock::now() - start);
    } catch (...) {
      rethrow_with_line(*instruction);
    }
    if (expectation == impl_->expectations.end()) continue;
    auto index = static_cast<size_t>(&instruction - impl_->instructions.data());
    for (; expectation != impl_->expectations.end() && expectation->instruction == index; ++expectation)
      compare(*expectation, frame.registers[expectation->reg]);
  }
  std::vector<c10::IValue> results;
  results.reserve(impl_->outputs.size());
  for (const Operand& o : impl_->outputs) results.push_back(o.load(frame));
  return results;
}

bool Program::uses_gpu() const { return impl_->device.has_value(); }
size_t Program::num_inputs() const { return impl_->input_registers.size(); }
size_t Program::num_outputs() const { return impl_->outputs.size(); }
bool Program::reads_input(size_t i) const { return impl_->input_registers.at(i) >= 0; }
int64_t Program::output_is_input(size_t i) const { return impl_->output_inputs.at(i); }
const std::vector<size_t>& Program::accumulable() const { return impl_->accumulable; }

void Program::add_to_sums(std::shared_ptr<std::atomic<size_t>> count) {
  for (const auto& [maker, sums] : impl_->summands) {
    impl_->counted_sums.push_back(std::make_unique<Counted>(*sums, count));
    maker->reader_sums = impl_->counted_sums.back().get();
  }
}
bool Program::needs_python() const { return impl_->needs_python; }

std::string Program::str() const {
  std::string out;
  for (const auto& i : impl_->instructions) out += i->str() + "\n";
  return out;
}

// ---- BelowAutograd --------------------------------------------------------------------------------------------------

namespace {
struct Guards {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
  c10::AutoGradMode no_grad{false};
};
}  // namespace

BelowAutograd::BelowAutograd() {
  static_assert(sizeof(Guards) <= sizeof(guards_) && alignof(Guards) <= 8);
  new (guards_) Guards;
}
BelowAutograd::~BelowAutograd() { std::launder(reinterpret_cast<Guards*>(guards_))->~Guards(); }

}  // namespace thunder
