#include "runtime/kernels/nvrtc.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "runtime/kernels/disk_cache.h"
#include "runtime/kernels/fork.h"
#include "runtime/kernels/nvrtc_library.h"
#include "runtime/kernels/shared_library.h"

namespace thunder {
namespace {

bool includes(const std::string& source) { return source.find("#include") != std::string::npos; }

/// What NVRTC and the cache key see of one source.
std::vector<std::string> options_for(const CudaSource& source, CudaArch arch) {
  std::vector<std::string> options = {cat("--gpu-architecture=sm_", arch.major, arch.minor, arch.specific ? "a" : ""),
                                      "--std=c++17", "-default-device", "--extra-device-vectorization",
                                      "--disable-warnings"};
  if (includes(source.source))
    if (const std::string folder = cuda_include_folder(); !folder.empty()) options.push_back("-I" + folder);
  options.insert(options.end(), source.options.begin(), source.options.end());
  return options;
}

struct Job {
  const CudaSource* source = nullptr;
  std::vector<std::string> options;
  CacheKey key;
  CompiledCubin result;
};

CacheKey key_of(const Job& job, const std::string& nvrtc) {
  CacheKeyBuilder builder("cubin");
  // The library by its file and not by its version: that need not be loaded, and two builds of one version differ.
  builder.add(nvrtc).add(job.source->source);
  for (const std::string& option : job.options) builder.add(option);
  return builder.key();
}

/// The text that a pair of NVRTC's functions gives, a size and the bytes.
std::string bytes_of(NvrtcApi::Program program, int (*size)(NvrtcApi::Program, size_t*),
                     int (*get)(NvrtcApi::Program, char*)) {
  size_t n = 0;
  if (size(program, &n) != 0) return "";
  std::string out(n, '\0');
  return get(program, out.data()) == 0 ? out : "";
}

void compile(const NvrtcApi& api, Job& job) {
  CompiledCubin& result = job.result;
  NvrtcApi::Program program = nullptr;
  const std::string name = job.source->name + ".cu";
  int status = api.create(&program, job.source->source.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (status == 0) {
    std::vector<const char*> options;
    for (const std::string& option : job.options) options.push_back(option.c_str());
    status = api.compile(program, static_cast<int>(options.size()), options.data());
    if (status == 0) result.cubin = bytes_of(program, api.cubin_size, api.cubin);
    result.log = bytes_of(program, api.log_size, api.log);
    while (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
    api.destroy(&program);
  }
  if (result.cubin.empty())
    result.log = cat("NVRTC: ", status ? api.error_string(status) : "it gave no cubin", " (", join(job.options, " "),
                     ")\n", result.log);
}

void compile_in_threads(const NvrtcApi& api, const std::vector<Job*>& jobs) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < jobs.size();) {
      try {
        compile(api, *jobs[i]);
      } catch (const std::exception& e) {
        jobs[i]->result.cubin.clear();
        jobs[i]->result.log = cat("NVRTC: ", e.what());
      }
    }
  };
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(most, jobs.size())) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those that run, and this one, do all of it.
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

/// Fills the results of the jobs that the cache does not answer.
void compile_missing(const std::vector<Job*>& missing, const DiskCache& cache) {
  if (missing.empty()) return;
  std::string why_not;
  const NvrtcApi* api = load_nvrtc(&why_not);
  if (!api) {
    for (Job* job : missing) job->result.log = why_not;
    return;
  }
  compile_in_threads(*api, missing);
  for (const Job* job : missing)
    if (job->result.ok()) cache.store(job->key, job->result.cubin);
}

}  // namespace

std::vector<CompiledCubin> compile_cuda(const std::vector<CudaSource>& sources, CudaArch arch) {
  const NoFork whole;
  std::string why_not;
  const std::string nvrtc = find_nvrtc(&why_not);
  const std::string identity = file_identity(nvrtc);
  const DiskCache cache = DiskCache::open();
  std::map<std::string, Job> jobs;
  std::vector<Job*> of_source, missing;
  for (const CudaSource& source : sources) {
    Job job{&source, options_for(source, arch), {}, {}};
    job.key = key_of(job, identity);
    const std::string hex = job.key.hex;
    const auto [it, fresh] = jobs.try_emplace(hex, std::move(job));
    of_source.push_back(&it->second);
    if (!fresh) continue;
    if (nvrtc.empty()) {
      it->second.result.log = why_not;
    } else if (auto cubin = cache.load(it->second.key)) {
      it->second.result.cubin = std::move(*cubin);
      it->second.result.from_cache = true;
    } else {
      missing.push_back(&it->second);
    }
  }
  compile_missing(missing, cache);
  cache.warn();

  std::vector<CompiledCubin> results;
  for (size_t i = 0; i < sources.size(); ++i) {
    results.push_back(of_source[i]->result);
    results.back().name = sources[i].name;
  }
  return results;
}

bool nvrtc_available(std::string* why_not) {
  std::string ignored;
  return !find_nvrtc(why_not ? why_not : &ignored).empty();
}

NvrtcVersion nvrtc_version() {
  std::string why_not;
  NvrtcVersion version;
  if (const NvrtcApi* api = load_nvrtc(&why_not)) api->version(&version.major, &version.minor);
  return version;
}

std::string cuda_include_folder() {
  std::string why_not;
  const std::string nvrtc = find_nvrtc(&why_not);
  if (nvrtc.empty()) return "";
  // A toolkit and the wheels of CUDA 13 have one folder for all headers, those of CUDA 12 one for each library.
  const std::string lib = folder_of(nvrtc);
  for (const char* relative : {"/../include", "/../../cuda_runtime/include"})
    if (file_exists(lib + relative + "/cuda_bf16.h")) return lib + relative;
  return "";
}

}  // namespace thunder
