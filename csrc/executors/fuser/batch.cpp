#include "executors/fuser/batch.h"

#include <algorithm>
#include <thread>

#include "runtime/kernels/nvrtc.h"
#include "runtime/kernels/nvrtc_packs.h"

namespace thunder {
namespace {

// Of the text of a unit: a compiler takes a third of a second for it, and a tenth of that for what all units share.
constexpr size_t kUnit = 24 << 10;

// A finishing kernel lives in the text of its main one.
std::string main_of(const std::string& name) {
  const std::string suffix = "_finish";
  const bool finish = name.size() > suffix.size() && name.ends_with(suffix);
  return finish ? name.substr(0, name.size() - suffix.size()) : name;
}

}  // namespace

// A program may go while its kernels are compiled.
KernelBatch::~KernelBatch() {
  for (auto& [name, result] : host_results_) result.finish();
  for (auto& [device, programs] : cuda_programs_)
    for (auto& [name, results] : programs) results.finish();
}

std::string KernelBatch::add(std::map<std::string, std::string>& names, const std::string& anonymous,
                             const std::string& name) {
  return names.emplace(anonymous, name).first->second;
}

std::string KernelBatch::add_host(const fuser::Kernel& kernel, const std::string& name) {
  std::string known = add(host_names_, fuser::emit_host(kernel, ""), name);
  if (known == name) {
    texts_[name] = fuser::emit_host(kernel, name);
    host_.push_back(name);
  }
  return known;
}

std::string KernelBatch::add_cuda(const fuser::Kernel& kernel, const std::string& name) {
  std::string known = add(cuda_names_, fuser::emit_cuda(kernel, ""), name);
  if (known == name) {
    texts_[name] = fuser::emit_cuda(kernel, name);
    cuda_.push_back(name);
  }
  return known;
}

std::string KernelBatch::text(const std::string& name) const {
  auto it = texts_.find(name);
  return it == texts_.end() ? "" : it->second;
}

void KernelBatch::start(const std::vector<std::string>& order) {
  size_t left = 0;
  for (const std::string& name : host_) left += texts_[name].size();
  size_t units = std::clamp<size_t>(left / kUnit, 1, std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 0; i < host_.size(); --units) {
    // An equal part of what is left, of whole kernels.
    std::string source;
    const size_t first = i, most = left / units;
    while (i < host_.size() && (units == 1 || source.size() < most)) source += texts_[host_[i++]];
    left -= source.size();
    const auto unit = in_background([source] {
      HostResult r;
      r.module = compile_host(fuser::host_source(source), &r.error);
      return r;
    });
    for (size_t k = first; k < i; ++k) host_results_[host_[k]] = unit;
  }
  if (cuda_.empty() || !cuda_available()) return;
  std::map<std::string, size_t> place;
  for (const std::string& name : order) place.emplace(name, place.size());
  auto place_of = [&](const std::string& name) {
    const auto it = place.find(name);
    return it == place.end() ? place.size() : it->second;
  };
  std::stable_sort(cuda_.begin(), cuda_.end(),
                   [&](const std::string& a, const std::string& b) { return place_of(a) < place_of(b); });
  std::lock_guard lock(mutex_);
  cuda_programs_[0] = compile_programs(0);
}

KernelBatch::CudaPrograms KernelBatch::compile_programs(int device) const {
  std::vector<size_t> lengths;
  for (const std::string& name : cuda_) lengths.push_back(texts_.at(name).size());
  CudaPrograms out;
  for (const std::vector<size_t>& kernels : packs_of(lengths, std::thread::hardware_concurrency())) {
    const auto program = in_background([this, kernels, device, number = number_of_compilation()] {
      const CompilesNow now(number);
      return compile_program(kernels, device);
    });
    for (size_t i : kernels) out[cuda_[i]] = program;
  }
  return out;
}

KernelBatch::CudaResults KernelBatch::compile_program(const std::vector<size_t>& kernels, int device) const {
  const CudaDeviceProperties& p = cuda_device_properties(device);
  std::vector<CudaSource> sources;
  for (size_t i : kernels) sources.push_back({cuda_[i], texts_.at(cuda_[i]), {"--fmad=false"}, fuser::cuda_prelude()});
  CudaResults out;
  for (CompiledCubin& c : compile_cuda_here(sources, {p.major, p.minor}))
    out[c.name] = {std::move(c.cubin), std::move(c.log)};
  return out;
}

void* KernelBatch::host_function(const std::string& name, std::string* why) {
  const HostResult& r = host_results_.at(main_of(name)).get();
  if (!r.module) {
    *why = r.error;
    return nullptr;
  }
  return r.module->symbol(name);
}

std::shared_ptr<CudaKernel> KernelBatch::cuda_kernel(const std::string& name, int device, std::string* why) {
  const std::string main = main_of(name);
  Compilation<CudaResults> program;
  {
    std::lock_guard lock(mutex_);
    CudaPrograms& programs = cuda_programs_[device];
    if (programs.empty()) programs = compile_programs(device);
    program = programs.at(main);
  }
  const CudaResult& r = program.get().at(main);
  if (!r.cubin) {
    *why = r.log;
    return nullptr;
  }
  return std::make_shared<CudaKernel>(r.cubin, name);
}

}  // namespace thunder
