#include "runtime/kernels/host_compiler.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "runtime/kernels/disk_cache.h"
#include "runtime/kernels/files.h"
#include "runtime/kernels/fork.h"
#include "runtime/kernels/process.h"
#include "runtime/kernels/shared_library.h"

namespace thunder {

struct HostModuleMaker {
  static std::shared_ptr<HostModule> make(void* handle, bool from_cache) {
    return std::shared_ptr<HostModule>(new HostModule(handle, from_cache));
  }
};

HostModule::~HostModule() { ::dlclose(handle_); }

void* HostModule::symbol(const std::string& name) const {
  void* address = ::dlsym(handle_, name.c_str());
  THUNDER_ASSERT(address, "the compiled source has no function ", name);
  return address;
}

namespace {

struct HostCompiler {
  std::vector<std::string> command;  // a path, and what $CXX says after it
  std::string identity;              // changes whenever another compiler is behind the path
  std::string version;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// The first line of `--version`, kept on disk, so that a warm process starts no compiler at all.
std::optional<std::string> version_of(const HostCompiler& compiler, std::string* problem) {
  const DiskCache cache = DiskCache::open();
  const CacheKey key = CacheKeyBuilder("compiler version").add(compiler.identity).key();
  if (auto known = cache.load(key)) return known;
  const PrivateFolder folder;
  if (folder.problem()) {
    *problem = cat("no temporary folder (", folder.file(""), "): ", std::strerror(folder.problem()));
    return std::nullopt;
  }
  std::vector<std::string> command = compiler.command;
  command.push_back("--version");
  const int status = run_program(command, folder.file("log"), problem);
  const std::string out = folder.read("log").value_or("");
  const std::string version = out.substr(0, out.find('\n'));
  // -1: the status may be somebody else's; the output decides.
  if (status > 0 || version.empty()) {
    *problem = cat("--version gives exit status ", status, " and ", version.empty() ? "nothing" : version);
    return std::nullopt;
  }
  cache.store(key, version);
  return version;
}

std::optional<HostCompiler> compiler_from(const std::string& candidate, std::string* problem) {
  HostCompiler compiler{words_of(candidate), "", ""};
  if (compiler.command.empty()) return std::nullopt;
  compiler.command[0] = find_program(compiler.command[0]);
  struct stat info;
  if (compiler.command[0].empty() || ::stat(compiler.command[0].c_str(), &info) != 0) {
    *problem = "not found";
    return std::nullopt;
  }
  compiler.identity = cat(join(compiler.command, " "), " ", info.st_size, " ", info.st_mtime, " ", info.st_ino);
  auto version = version_of(compiler, problem);
  if (!version) return std::nullopt;
  compiler.version = *version;
  return compiler;
}

/// The system's compiler, found once for each value of the variables that decide.
std::optional<HostCompiler> find_compiler(std::string* why_not) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, HostCompiler>;
  const char* own = std::getenv("CXX");
  const char* path = std::getenv("PATH");
  const std::string environment = cat(own ? own : "", "\n", path ? path : "");
  {
    std::lock_guard lock(mutex);
    if (auto it = known->find(environment); it != known->end()) return it->second;
  }
  std::string problems;
  for (const char* candidate : {own ? own : "", "c++", "g++", "clang++"}) {
    std::string problem;
    if (auto compiler = compiler_from(candidate, &problem)) {
      std::lock_guard lock(mutex);
      return known->emplace(environment, *compiler).first->second;
    }
    if (*candidate) problems += cat(problems.empty() ? "" : "; ", candidate, ": ", problem);
  }
  if (why_not) *why_not = cat("no working C++ compiler by $CXX or on $PATH (", problems, ")");
  return std::nullopt;
}

bool is_clang(const HostCompiler& compiler) { return compiler.version.find("clang") != std::string::npos; }

std::vector<std::string> default_flags(const HostCompiler& compiler) {
#if defined(__aarch64__) || defined(__arm__)
  const char* this_cpu = "-mcpu=native";
#else
  const char* this_cpu = "-march=native";
#endif
  std::vector<std::string> flags = {"-O3",
                                    this_cpu,
                                    "-std=c++20",
                                    "-shared",
                                    "-fPIC",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fopenmp-simd",
                                    "-ffp-contract=off",
                                    "-fno-semantic-interposition",
                                    "-fno-exceptions",
                                    "-w",
                                    "-pipe"};
  if (is_clang(compiler)) return flags;
  // This pass of g++ makes branches of selects, which are not vectorised: some reductions take five times as long.
  flags.push_back("-fno-tree-pre");
  // Saves the linker the search through libstdc++, a tenth of the whole time.
  flags.push_back("-nostdlib");
  return flags;
}

/// Whether the source, or a header, declares functions that it does not define.
bool declares_functions(const std::string& source) {
  if (source.find("#include") != source.npos) return true;
  const std::string linkage = "extern \"C\"";
  for (size_t at = 0; (at = source.find(linkage, at)) != source.npos;) {
    at += linkage.size();
    const size_t stop = source.find_first_of(";{", at);
    const bool block = source.find_first_not_of(" \n", at) == stop;
    if (stop != source.npos && (block || source[stop] == ';')) return true;
  }
  return false;
}

/// After the input, because a linker takes from a library what it misses at that moment.  The linker spends a tenth of the
/// whole time on -lm and -lc.  What a compiler calls by itself (memset, floorf) is found in the global scope without them.
/// A declared function needs them: without a library, a name means its oldest version, such as lgamma() of glibc 2.2.5.
std::vector<std::string> libraries(const HostCompiler& compiler, const std::string& source) {
  if (is_clang(compiler)) return {"-lm"};
  if (declares_functions(source)) return {"-lm", "-lc", "-lgcc"};
  return {"-lgcc"};
}

/// In the global scope: most programs have it there from the start, and musl's libc has its functions.
void make_libm_global() { [[maybe_unused]] static void* const libm = ::dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL); }

/// What "native" means here: the lines of /proc/cpuinfo that name the first CPU's model and features.  Its other lines
/// (clock rates) change from read to read.
const std::string& cpu_features() {
  static const std::string features = [] {
    std::string out;
    struct utsname machine;
    if (::uname(&machine) == 0) out = machine.machine;
    // The first CPU's lines are enough, and reading all of them takes milliseconds on a large machine.
    std::istringstream in(read_file("/proc/cpuinfo", 8192).value_or(""));
    for (std::string line; std::getline(in, line) && !line.empty();)
      for (const char* name : {"vendor_id", "cpu family", "model", "flags", "Features", "CPU "})
        if (line.compare(0, std::strlen(name), name) == 0) out += "\n" + line;
    return out;
  }();
  return features;
}

/// The last lines of a compiler's messages are the least telling: an error repeats itself through templates.
std::string beginning(const std::string& text) {
  constexpr size_t kMost = 4000;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "\n...";
}

/// The bytes of the library, or nothing and why.
std::optional<std::string> run_compiler(const HostCompiler& compiler, const std::vector<std::string>& flags,
                                        const std::string& source, std::string* error) {
  const PrivateFolder folder;
  int problem = folder.problem();
  const std::string in = folder.file("kernels.cpp");
  if (!problem) problem = folder.write("kernels.cpp", source);
  if (problem) {
    *error = cat("cannot write a temporary file (", in, "): ", std::strerror(problem));
    return std::nullopt;
  }
  std::vector<std::string> command = compiler.command;
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {in, "-o", folder.file("kernels.so")});
  const std::vector<std::string> last = libraries(compiler, source);
  command.insert(command.end(), last.begin(), last.end());
  std::string why;
  const int status = run_program(command, folder.file("log"), &why);
  // A status that somebody else took says nothing; then the output must do.
  auto library = status <= 0 ? folder.read("kernels.so") : std::nullopt;
  if (library && !library->empty()) return library;
  *error = cat(join(command, " "), ": ", why.empty() ? cat("exit status ", status) : why, "\n",
               beginning(folder.read("log").value_or("")));
  return std::nullopt;
}

std::shared_ptr<HostModule> load_or_compile(const HostCompiler& compiler, const std::vector<std::string>& flags,
                                            const std::string& source, const CacheKey& key, const DiskCache& cache,
                                            std::string* error) {
  make_libm_global();
  if (auto bytes = cache.load(key))
    if (void* handle = load_library(*bytes, error)) return HostModuleMaker::make(handle, true);
  auto bytes = run_compiler(compiler, flags, source, error);
  if (!bytes) return nullptr;
  cache.store(key, *bytes);
  void* handle = load_library(*bytes, error);
  return handle ? HostModuleMaker::make(handle, false) : nullptr;
}

/// One a key: who holds the lock compiles, the others wait for it and share the result.
struct Slot {
  std::mutex mutex;
  std::weak_ptr<HostModule> module;
};

std::unique_lock<std::mutex> lock_of(Slot& slot) {
  const MayFork waiting;
  return std::unique_lock(slot.mutex);
}

using Slots = std::map<std::string, std::shared_ptr<Slot>>;

std::shared_ptr<Slot> slot_for(const std::string& key) {
  static std::mutex mutex;
  static Slots* slots = nullptr;
  std::lock_guard lock(mutex);
  if (!slots) {
    slots = new Slots;
    // Who compiled when the process was forked holds a slot for ever there.
    in_forked_children([] { slots = new Slots; });
  }
  std::shared_ptr<Slot>& slot = (*slots)[key];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

}  // namespace

std::vector<std::string> host_compiler_command(std::string* why_not) {
  const auto compiler = find_compiler(why_not);
  if (!compiler) return {};
  std::vector<std::string> command = compiler->command;
  const std::vector<std::string> flags = default_flags(*compiler);
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

std::shared_ptr<HostModule> compile_host(const std::string& source, std::string* error,
                                         const std::vector<std::string>& extra_flags) {
  const NoFork whole;
  std::string ignored;
  if (!error) error = &ignored;
  const auto compiler = find_compiler(error);
  if (!compiler) return nullptr;
  std::vector<std::string> flags = default_flags(*compiler);
  flags.insert(flags.end(), extra_flags.begin(), extra_flags.end());

  CacheKeyBuilder builder("host library");
  builder.add(source).add(compiler->identity).add(compiler->version).add(cpu_features());
  for (const std::string& flag : flags) builder.add(flag);
  for (const std::string& library : libraries(*compiler, source)) builder.add(library);
  const CacheKey key = builder.key();

  const auto slot = slot_for(key.hex);
  const DiskCache cache = DiskCache::open();
  std::shared_ptr<HostModule> module;
  {
    const std::unique_lock lock = lock_of(*slot);
    if ((module = slot->module.lock())) return module;
    module = load_or_compile(*compiler, flags, source, key, cache, error);
    slot->module = module;
  }
  cache.warn();
  return module;
}

}  // namespace thunder
