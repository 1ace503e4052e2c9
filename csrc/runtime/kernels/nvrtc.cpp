#include "runtime/kernels/nvrtc.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "runtime/kernels/disk_cache.h"
#include "runtime/kernels/fork.h"
#include "runtime/kernels/nvrtc_library.h"
#include "runtime/kernels/nvrtc_packs.h"
#include "runtime/kernels/shared_library.h"

namespace thunder {
namespace {

bool includes(const std::string& source) { return source.find("#include") != std::string::npos; }

/// What NVRTC and the cache key see of one source.
std::vector<std::string> options_for(const CudaSource& source, CudaArch arch) {
  std::vector<std::string> options = {cat("--gpu-architecture=sm_", arch.major, arch.minor, arch.specific ? "a" : ""),
                                      "--std=c++17", "-default-device", "--extra-device-vectorization",
                                      "--disable-warnings"};
  if (includes(source.prelude) || includes(source.source))
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

/// Jobs that are compiled in one program.
using Pack = std::vector<Job*>;

CacheKey key_of(const Job& job, const std::string& nvrtc) {
  CacheKeyBuilder builder("cubin");
  // The library by its file and not by its version: that need not be loaded, and two builds of one version differ.
  builder.add(nvrtc).add(job.source->prelude).add(job.source->source);
  for (const std::string& option : job.options) builder.add(option);
  return builder.key();
}

enum class In { Threads, ThisThread };

size_t threads_to_use(In in) { return in == In::ThisThread ? 1 : std::max(1u, std::thread::hardware_concurrency()); }

// A cubin of one job is stored under the key of the job.  One of several is stored once, under a key made of theirs; what
// is stored under theirs is then the list of all of them, which says where it is.
CacheKey key_of_pack(const std::vector<std::string>& keys) {
  CacheKeyBuilder builder("cubin of several");
  for (const std::string& key : keys) builder.add(key);
  return builder.key();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void store(const Pack& pack, const DiskCache& cache) {
  const std::string& cubin = *pack.front()->result.cubin;
  if (pack.size() == 1) {
    cache.store(pack.front()->key, cubin);
    return;
  }
  std::vector<std::string> keys;
  for (const Job* job : pack) keys.push_back(job->key.hex);
  if (!cache.store(key_of_pack(keys), cubin)) return;
  const std::string list = join(keys, "\n");
  for (const Job* job : pack) cache.store(job->key, list);
}

/// What the disk cache has, each cubin read once.
class StoredCubins {
 public:
  explicit StoredCubins(const DiskCache& cache) : cache_(cache) {}

  /// Null if it is not there.
  std::shared_ptr<const std::string> find(const CacheKey& key) {
    std::optional<std::string> entry = cache_.load(key);
    if (!entry) return nullptr;
    if (entry->compare(0, kElf.size(), kElf) == 0) return std::make_shared<const std::string>(std::move(*entry));
    auto [it, fresh] = packs_.try_emplace(*entry);
    if (fresh)
      if (auto cubin = cache_.load(key_of_pack(lines_of(*entry))))
        it->second = std::make_shared<const std::string>(std::move(*cubin));
    return it->second;
  }

 private:
  static constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  const DiskCache& cache_;
  std::map<std::string, std::shared_ptr<const std::string>> packs_;
};

/// The text that a pair of NVRTC's functions gives, a size and the bytes.
std::string bytes_of(NvrtcApi::Program program, int (*size)(NvrtcApi::Program, size_t*),
                     int (*get)(NvrtcApi::Program, char*)) {
  size_t n = 0;
  if (size(program, &n) != 0) return "";
  std::string out(n, '\0');
  return get(program, out.data()) == 0 ? out : "";
}

/// The cubin of a text, or the log.
CompiledCubin compile_text(const NvrtcApi& api, const std::string& name, const std::string& text,
                           const std::vector<std::string>& options) {
  CompiledCubin result;
  NvrtcApi::Program program = nullptr;
  std::string cubin;
  int status = api.create(&program, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  if (status == 0) {
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    status = api.compile(program, static_cast<int>(texts.size()), texts.data());
    if (status == 0) cubin = bytes_of(program, api.cubin_size, api.cubin);
    result.log = bytes_of(program, api.log_size, api.log);
    while (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
    api.destroy(&program);
  }
  if (cubin.empty())
    result.log = cat("NVRTC: ", status ? api.error_string(status) : "it gave no cubin", " (", join(options, " "), ")\n",
                     result.log);
  else result.cubin = std::make_shared<const std::string>(std::move(cubin));
  return result;
}

void compile(const NvrtcApi& api, const Pack& pack, const DiskCache& cache) {
  std::string text = pack.front()->source->prelude;
  for (const Job* job : pack) text += job->source->source;
  const CompiledCubin whole = compile_text(api, pack.front()->source->name, text, pack.front()->options);
  if (!whole.ok() && pack.size() > 1) {
    // One of them is wrong: by itself it has the messages, and the others have cubins.
    for (Job* job : pack) compile(api, {job}, cache);
    return;
  }
  for (Job* job : pack) job->result = whole;
  if (whole.ok()) store(pack, cache);
}

void compile_in_threads(const NvrtcApi& api, const std::vector<Pack>& packs, const DiskCache& cache, In in) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < packs.size();) {
      try {
        compile(api, packs[i], cache);
      } catch (const std::exception& e) {
        for (Job* job : packs[i]) job->result = {"", nullptr, cat("NVRTC: ", e.what())};
      }
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(threads_to_use(in), packs.size())) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those that run, and this one, do all of it.
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

/// Programs of the jobs: those without a prelude each by itself, the others with those that have the same and the same
/// options, in as many programs as the threads are best kept busy by.
std::vector<Pack> packs_of_jobs(const std::vector<Job*>& jobs, In in) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::vector<Job*>> alike;
  std::vector<Pack> packs;
  for (Job* job : jobs) {
    if (job->source->prelude.empty()) packs.push_back({job});
    else alike[{job->source->prelude, job->options}].push_back(job);
  }
  for (const auto& [what, members] : alike) {
    std::vector<size_t> lengths;
    if (in == In::ThisThread) {
      packs.push_back(members);
      continue;
    }
    for (const Job* job : members) lengths.push_back(job->source->source.size());
    for (const std::vector<size_t>& indices : packs_of(lengths, threads_to_use(in))) {
      Pack& pack = packs.emplace_back();
      for (size_t i : indices) pack.push_back(members[i]);
    }
  }
  return packs;
}

/// Fills the results of the jobs that the cache does not answer.
void compile_missing(const std::vector<Job*>& missing, const DiskCache& cache, In in) {
  if (missing.empty()) return;
  std::string why_not;
  const NvrtcApi* api = load_nvrtc(&why_not);
  if (!api) {
    for (Job* job : missing) job->result.log = why_not;
    return;
  }
  compile_in_threads(*api, packs_of_jobs(missing, in), cache, in);
}

std::vector<CompiledCubin> compile(In in, const std::vector<CudaSource>& sources, CudaArch arch) {
  const NoFork whole;
  std::string why_not;
  const std::string nvrtc = find_nvrtc(&why_not);
  const std::string identity = file_identity(nvrtc);
  const DiskCache cache = DiskCache::open();
  StoredCubins stored(cache);
  std::map<std::string, Job> jobs;
  std::vector<Job*> of_source, missing;
  for (const CudaSource& source : sources) {
    Job job{&source, options_for(source, arch), {}, {}};
    job.key = key_of(job, identity);
    const std::string hex = job.key.hex;
    const auto [it, fresh] = jobs.try_emplace(hex, std::move(job));
    of_source.push_back(&it->second);
    if (!fresh) continue;
    CompiledCubin& result = it->second.result;
    if (nvrtc.empty()) {
      result.log = why_not;
    } else if ((result.cubin = stored.find(it->second.key))) {
      result.from_cache = true;
    } else {
      missing.push_back(&it->second);
    }
  }
  compile_missing(missing, cache, in);
  cache.warn();

  std::vector<CompiledCubin> results;
  for (size_t i = 0; i < sources.size(); ++i) {
    results.push_back(of_source[i]->result);
    results.back().name = sources[i].name;
  }
  return results;
}

}  // namespace

std::vector<CompiledCubin> compile_cuda(const std::vector<CudaSource>& sources, CudaArch arch) {
  return compile(In::Threads, sources, arch);
}

std::vector<CompiledCubin> compile_cuda_here(const std::vector<CudaSource>& sources, CudaArch arch) {
  return compile(In::ThisThread, sources, arch);
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
