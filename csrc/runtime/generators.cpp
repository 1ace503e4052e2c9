#include "runtime/generators.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/Generator.h>

#include <mutex>

#include "runtime/convert.h"

namespace thunder {

std::function<void()> remember_generators(const std::vector<Device>& devices) {
  return remember_generators(devices, {});
}

std::function<void()> remember_generators(const std::vector<Device>& devices, const std::vector<PyObject*>& objects) {
  std::vector<at::Generator> generators;
  for (Device d : devices) generators.push_back(at::globalContext().defaultGenerator(to_aten(d)));
  for (PyObject* o : objects) generators.push_back(reinterpret_cast<THPGenerator*>(o)->cdata);
  std::vector<std::pair<at::Generator, at::Tensor>> states;
  for (at::Generator& generator : generators) {
    std::lock_guard<std::mutex> lock(generator.mutex());
    states.emplace_back(generator, generator.get_state());
  }
  return [states = std::move(states)]() mutable {
    for (auto& [generator, state] : states) {
      std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(state);
    }
  };
}

bool is_generator(PyObject* object) { return THPGenerator_Check(object); }

bool is_cpu_generator(PyObject* object) {
  return is_generator(object) && reinterpret_cast<THPGenerator*>(object)->cdata.device().is_cpu();
}

}  // namespace thunder
