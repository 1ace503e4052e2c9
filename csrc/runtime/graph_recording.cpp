#include "runtime/graph_recording.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Device.h>

#include "core/error.h"
#include "runtime/interop.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/python_error.h"

namespace thunder {
namespace {

using Values = std::vector<c10::IValue>;

size_t failures = 0;  // of recordings in this process

PyObject* checked(PyObject* owned) {
  if (!owned) throw_python_error();
  return owned;
}

// Takes the reference.
std::shared_ptr<void> hold(PyObject* owned) {
  std::shared_ptr<void> held = hold_python(checked(owned));
  Py_DECREF(owned);
  return held;
}

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

bool is_plain(const at::Tensor& t) { return at::has_internal_overlap(t) == at::MemOverlap::No; }

at::Tensor range_of(const at::Tensor& t) {
  int64_t extent = t.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; extent > 0 && i < t.dim(); ++i) extent += (t.size(i) - 1) * t.stride(i);
  return t.as_strided({extent}, {1}, t.storage_offset());
}

}  // namespace

// ---- GraphSettings --------------------------------------------------------------------------------------------------

GraphSettings::GraphSettings(std::string name_of_function, PyObject* object)
    : function(std::move(name_of_function)), recorder(hold_python(object)) {
  std::shared_ptr<void> name = hold(PyObject_GetAttrString(object, "device"));
  const char* text = PyUnicode_AsUTF8(get(name));
  if (!text) throw_python_error();
  device = c10::Device(text).type();
  warm_up = PyObject_IsTrue(get(hold(PyObject_GetAttrString(object, "warm_up")))) == 1;
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
  return at::Tensor(
      t.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true));
}

at::Tensor memory_of(const at::Tensor& t) { return is_plain(t) ? t : range_of(t); }

void copy_tensors(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  if (to.size() == 1) to[0].copy_(from[0]);
  else if (!to.empty()) at::_foreach_copy_(to, from);
}

void GraphRecording::Body::run() {
  BelowAutograd guard;
  Values values = program->run(inputs);
  if (!ran) {
    results = std::move(values);
    ran = true;
    return;
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (const at::Tensor* t = defined_tensor(values[i])) memory_of(results[i].toTensor()).copy_(memory_of(*t));
}

at::Tensor GraphRecording::buffer_for(size_t i, const at::Tensor& t) {
  inputs_[i].flat = !is_plain(t);
  return at::empty_strided(t.sizes(), t.strides(), t.options());
}

std::shared_ptr<GraphRecording> GraphRecording::record(GraphSettings& settings, std::shared_ptr<const Program> program,
                                                       const Values& inputs, std::vector<Place> places, int index,
                                                       bool shared) {
  auto r = std::make_shared<GraphRecording>();
  r->stream_ = settings.stream(index);
  r->body_ = std::make_shared<Body>();
  r->body_->program = std::move(program);
  r->inputs_.resize(inputs.size());
  r->body_->inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    r->inputs_[i].place = places[i];
    if (places[i] == Place::Unread) continue;
    const at::Tensor& t = inputs[i].toTensor();
    r->inputs_[i].address = t.const_data_ptr();
    r->body_->inputs[i] = places[i] == Place::Buffer ? r->buffer_for(i, t) : alias_without_history(t);
  }
  r->copy_in(inputs);
  std::shared_ptr<void> run = callable(r->body_);
  settings.recording = true;
  PyObject* replay =
      PyObject_CallMethod(get(settings.recorder), "record", "OiO", get(run), index, shared ? Py_True : Py_False);
  settings.recording = false;
  if (!replay) ++failures;
  r->replay_ = hold(replay);
  r->epoch_ = failures;
  ++settings.captures;
  return r;
}

bool GraphRecording::outdated() const { return epoch_ != failures; }

bool GraphRecording::fits(const Values& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs_[i].place == Place::Address && inputs[i].toTensor().const_data_ptr() != inputs_[i].address) return false;
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

void GraphRecording::replay(GraphSettings& settings, const Values& inputs) const {
  copy_in(inputs);
  Py_DECREF(checked(PyObject_CallNoArgs(get(replay_))));
  ++settings.replays;
  ++count;
}

}  // namespace thunder
