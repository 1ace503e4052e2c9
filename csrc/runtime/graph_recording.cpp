#include "runtime/graph_recording.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "python/text.h"
#include "runtime/interop.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/python_error.h"

namespace thunder {
namespace {

using Values = std::vector<c10::IValue>;

size_t failures = 0;                // of recordings in this process
std::atomic<int64_t> kept_here{0};  // bytes, by all recordings of the process

// Of the device's memory, all recordings together keep at most a quarter, those of one program an eighth, and a new one
// half of what is free: a recording's memory is what a step has anyway, but only it can use that between steps.
constexpr int64_t kShareOfAll = 4, kShareOfProgram = 8, kShareOfFree = 2;

// How operators compute that are not told so by their arguments.
uint64_t operator_settings() {
  const at::Context& c = at::globalContext();
  uint64_t word = 0;
  for (bool on : {c.userEnabledCuDNN(), c.benchmarkCuDNN(), c.deterministicCuDNN(), c.userEnabledMathSDP(),
                  c.allowFP16AccumulationCuBLAS(), c.deterministicFillUninitializedMemory()})
    word = word << 1 | static_cast<uint64_t>(on);
  for (at::CuBLASReductionOption o : {c.allowFP16ReductionCuBLAS(), c.allowBF16ReductionCuBLAS()})
    word = word << 4 | static_cast<uint64_t>(o);
  for (at::Float32Op op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN})
    word = word << 4 | static_cast<uint64_t>(c.float32Precision(at::Float32Backend::CUDA, op));
  return word;
}

// Takes the reference.
std::shared_ptr<void> hold(PyObject* owned) { return hold_python(checked(owned).get()); }

PyObject* get(const std::shared_ptr<void>& object) { return static_cast<PyObject*>(object.get()); }

// ---- a Body as a Python callable ------------------------------------------------------------------------------------

constexpr const char* kCapsule = "thunder.GraphRecording";

PyObject* run_body(PyObject* self, PyObject*) {
  auto* body = static_cast<std::shared_ptr<GraphRecording::Body>*>(PyCapsule_GetPointer(self, kCapsule));
  if (!body) return nullptr;
  try {
    (*body)->run();
  } catch (...) {
    if (!set_python_error(std::current_exception()))
      PyErr_SetString(PyExc_RuntimeError, "a program failed while it was recorded");
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef run_method = {"run", run_body, METH_NOARGS, nullptr};

std::shared_ptr<void> callable(std::shared_ptr<GraphRecording::Body> body) {
  auto* owned = new std::shared_ptr<GraphRecording::Body>(std::move(body));
  PyObject* capsule = PyCapsule_New(owned, kCapsule, [](PyObject* c) {
    delete static_cast<std::shared_ptr<GraphRecording::Body>*>(PyCapsule_GetPointer(c, kCapsule));
  });
  if (!capsule) delete owned;
  std::shared_ptr<void> held = hold(capsule);
  return hold(PyCFunction_New(&run_method, get(held)));
}

bool has_no_overlap(const at::Tensor& t) { return at::has_internal_overlap(t) == at::MemOverlap::No; }

}  // namespace

// ---- GraphSettings --------------------------------------------------------------------------------------------------

GraphSettings::GraphSettings(std::string name_of_function, PyObject* object, bool by_itself)
    : function(std::move(name_of_function)), recorder(hold_python(object)), automatic(by_itself) {
  std::shared_ptr<void> name = hold(PyObject_GetAttrString(object, "device"));
  device = c10::Device(printable(get(name))).type();
  warm_up = PyObject_IsTrue(get(hold(PyObject_GetAttrString(object, "warm_up")))) == 1;
  has_timer = PyObject_HasAttrString(object, "timer") == 1;
  THUNDER_CHECK(has_timer || device == c10::DeviceType::CUDA, Type, "graphs", "a recorder for ", printable(get(name)),
                " has no method timer()");
}

std::string GraphSettings::refusal() const {
  if (!automatic) return {};
  std::shared_ptr<void> why = hold(PyObject_CallMethod(get(recorder), "refuses", nullptr));
  if (get(why) == Py_None) return {};
  return printable(get(why));
}

std::pair<int64_t, int64_t> GraphSettings::memory(int index) const {
  std::shared_ptr<void> memory = hold(PyObject_CallMethod(get(recorder), "memory", "i", index));
  long long total = 0, free = 0;
  if (!PyArg_ParseTuple(get(memory), "LL", &total, &free)) throw_python_error();
  return {total, free};
}

bool GraphSettings::others_have_streams(int index) const {
  return PyObject_IsTrue(get(hold(PyObject_CallMethod(get(recorder), "others_have_streams", "i", index)))) == 1;
}

int64_t GraphSettings::most_bytes(int index, int64_t kept) const {
  if (!automatic) return std::numeric_limits<int64_t>::max();
  const auto [total, free] = memory(index);
  return std::min({total / kShareOfProgram - kept, total / kShareOfAll - kept_here, free / kShareOfFree});
}

void* GraphSettings::stream(int index) const {
  if (device == c10::DeviceType::CUDA) return current_cuda_stream(index);
  std::shared_ptr<void> number = hold(PyObject_CallMethod(get(recorder), "stream", "i", index));
  return PyLong_AsVoidPtr(get(number));
}

bool GraphSettings::somebody_records() const {
  return PyObject_IsTrue(get(hold(PyObject_CallMethod(get(recorder), "capturing", nullptr)))) == 1;
}

// ---- GraphRecording -------------------------------------------------------------------------------------------------

at::Tensor alias_without_history(const at::Tensor& t) {
  // The tensors of inference mode count no versions.
  return at::Tensor(t.unsafeGetTensorImpl()->shallow_copy_and_detach(
      t.is_inference() ? c10::VariableVersion(c10::VariableVersion::DISABLED) : c10::VariableVersion(0),
      /*allow_tensor_metadata_change=*/true));
}

at::Tensor range_of(const at::Tensor& t) {
  int64_t extent = t.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; extent > 0 && i < t.dim(); ++i) extent += (t.size(i) - 1) * t.stride(i);
  return t.as_strided({extent}, {1}, t.storage_offset());
}

at::Tensor memory_of(const at::Tensor& t) { return has_no_overlap(t) ? t : range_of(t); }

void copy_tensors(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  // PyTorch copies those of one type by one kernel.
  std::vector<char> done(to.size(), 0);
  for (size_t i = 0; i < to.size(); ++i) {
    std::vector<at::Tensor> targets, sources;
    for (size_t j = i; j < to.size(); ++j) {
      if (done[j] || to[j].scalar_type() != to[i].scalar_type()) continue;
      targets.push_back(to[j]);
      sources.push_back(from[j]);
      done[j] = 1;
    }
    if (targets.size() == 1) targets[0].copy_(sources[0]);
    else if (!targets.empty()) at::_foreach_copy_(targets, sources);
  }
}

void write_results(const Values& inputs, const Values& results, const GraphRecording::Writes& writes) {
  std::vector<at::Tensor> to, from;
  for (const auto& [result, input] : writes) {
    const at::Tensor &source = results[result].toTensor(), &target = inputs[input].toTensor();
    if (source.const_data_ptr() == target.const_data_ptr() && source.strides() == target.strides()) continue;
    to.push_back(target);
    from.push_back(source);
  }
  copy_tensors(to, from);
}

void GraphRecording::Body::run() {
  BelowAutograd guard;
  Values given = inputs;
  for (size_t i : freed) inputs[i] = {};
  Values values = program->run(std::move(given));
  if (!ran) results = std::move(values);
  else
    for (size_t i = 0; i < values.size(); ++i)
      if (const at::Tensor* t = defined_tensor(values[i])) memory_of(results[i].toTensor()).copy_(memory_of(*t));
  ran = true;
  write_results(inputs, results, writes);
}

// With the alignment that kernels were chosen for.
at::Tensor GraphRecording::buffer_for(size_t i, const at::Tensor& t) {
  inputs_[i].flat = !has_no_overlap(t);
  const auto item = static_cast<int64_t>(t.itemsize());
  const auto off = static_cast<int64_t>(reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16);
  bytes_ += static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
  if (off == 0 || off % item != 0) return at::empty_strided(t.sizes(), t.strides(), t.options());
  const at::Tensor range = range_of(t);
  return at::empty({range.numel() + off / item}, t.options()).as_strided(t.sizes(), t.strides(), off / item);
}

// What the program is to read in place of the caller's.
c10::IValue GraphRecording::given(size_t i, const c10::IValue& value) {
  Input& in = inputs_[i];
  if (in.place == Place::Unread) return {};
  if (in.place == Place::Number || in.place == Place::Missing) return value;
  const at::Tensor& t = value.toTensor();
  in.address = t.const_data_ptr();
  if (in.place == Place::Buffer || in.place == Place::Learned) {
    in.sizes = t.sizes().vec();
    in.strides = t.strides().vec();
  }
  return in.place == Place::Buffer ? buffer_for(i, t) : alias_without_history(t);
}

std::shared_ptr<GraphRecording> GraphRecording::record(std::shared_ptr<GraphSettings> settings,
                                                       std::shared_ptr<const Program> program, Values inputs,
                                                       std::vector<Place> places, Writes writes, int index,
                                                       Memory memory) {
  auto r = std::make_shared<GraphRecording>();
  r->stream_ = settings->stream(index);
  r->operators_ = operator_settings();
  r->body_ = std::make_shared<Body>();
  r->body_->program = std::move(program);
  // What stands for a recorder elsewhere really runs the program once more, which must not be seen.
  const bool captures = settings->device == c10::DeviceType::CUDA;
  if (captures) r->body_->writes = writes;
  r->inputs_.resize(inputs.size());
  r->body_->inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    r->inputs_[i].place = places[i];
    r->body_->inputs[i] = r->given(i, inputs[i]);
    if (memory.after && places[i] == Place::Held) r->body_->freed.push_back(i);
  }
  r->copy_in(inputs);
  inputs.clear();
  std::shared_ptr<void> run = callable(r->body_);
  GraphSettings::recording = true;
  PyObject* made =
      PyObject_CallMethod(get(settings->recorder), "record", "OiOO", get(run), index,
                          memory.shared ? Py_True : Py_False, memory.after ? get(memory.after->pool_) : Py_None);
  GraphSettings::recording = false;
  if (!made) ++failures;
  const std::shared_ptr<void> held = hold(made);
  PyObject *replay = nullptr, *pool = nullptr;
  long long kept = 0;
  if (!PyArg_ParseTuple(get(held), "OLO", &replay, &kept, &pool)) throw_python_error();
  r->replay_ = hold_python(replay);
  r->pool_ = hold_python(pool);
  r->body_->writes = std::move(writes);
  r->epoch_ = failures;
  r->bytes_ += kept;
  kept_here += r->bytes_;
  settings->bytes += r->bytes_;
  ++settings->captures;
  r->settings_ = std::move(settings);
  return r;
}

GraphRecording::~GraphRecording() {
  if (!settings_) return;
  kept_here -= bytes_;
  settings_->bytes -= bytes_;
}

bool GraphRecording::reads_learned() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& in) { return in.place == Place::Learned; });
}

bool GraphRecording::outdated() const { return epoch_ != failures; }

bool GraphRecording::fits(const Values& inputs) const {
  if (operators_ != operator_settings()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& in = inputs_[i];
    if (in.place == Place::Number && !(body_->inputs[i] == inputs[i])) return false;
    if (in.place == Place::Unread || in.place == Place::Held || in.place == Place::Number) continue;
    const at::Tensor* t = defined_tensor(inputs[i]);
    if (in.place == Place::Missing && t) return false;
    if (!t) continue;
    if (in.place != Place::Buffer && t->const_data_ptr() != in.address) return false;
    const bool read_as_it_lies = in.place == Place::Learned || in.flat;
    if (read_as_it_lies && (t->sizes() != at::IntArrayRef(in.sizes) || t->strides() != at::IntArrayRef(in.strides)))
      return false;
  }
  return true;
}

void GraphRecording::copy_in(const Values& inputs) const {
  std::vector<at::Tensor> to, from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i].place != Place::Buffer) continue;
    const at::Tensor& memory = body_->inputs[i].toTensor();
    const at::Tensor* t = defined_tensor(inputs[i]);
    if (!t) {
      (inputs_[i].flat ? range_of(memory) : memory).zero_();
      continue;
    }
    to.push_back(inputs_[i].flat ? range_of(memory) : memory);
    from.push_back(inputs_[i].flat ? range_of(*t) : *t);
  }
  copy_tensors(to, from);
}

void GraphRecording::replay(const Values& inputs) const {
  copy_in(inputs);
  checked(PyObject_CallNoArgs(get(replay_)));
  ++settings_->replays;
  ++count;
}

}  // namespace thunder
