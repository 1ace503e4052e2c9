#include "runtime/generators.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <mutex>

#include "runtime/convert.h"

namespace thunder {

std::function<void()> remember_generators(const std::vector<Device>& devices) {
  std::vector<std::pair<at::Generator, at::Tensor>> states;
  for (Device d : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(to_aten(d));
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

}  // namespace thunder
