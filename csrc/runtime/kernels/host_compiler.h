// C++ source text to functions in this process, by the system's own compiler.
//
// The compiler is found at run time ($CXX, c++, g++, clang++).  Its output is kept in the disk cache, by source, flags,
// compiler and the CPU's features, and shared within the process while somebody holds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace thunder {

/// A loaded library.  Its functions may be called as long as it lives.
class HostModule {
 public:
  ~HostModule();
  HostModule(const HostModule&) = delete;
  HostModule& operator=(const HostModule&) = delete;

  /// The address of an `extern "C"` function of the source; Error (Internal) if there is none of that name.
  void* symbol(const std::string& name) const;
  /// Whether it came from the disk cache, without a compiler.
  bool from_cache() const { return from_cache_; }

 private:
  friend struct HostModuleMaker;
  HostModule(void* handle, bool from_cache) : handle_(handle), from_cache_(from_cache) {}
  void* handle_;
  bool from_cache_;
};

/// Compiles and loads `source`, which should include no header (each costs more than the kernel) and may call the
/// functions of libm that it declares, but not the C++ library, which is not linked.  Null if there is no compiler or it
/// refuses, and then `error` says why, with the compiler's own messages.  `extra_flags` follow the default ones.  May be
/// called from several threads; the same source is compiled once.
std::shared_ptr<HostModule> compile_host(const std::string& source, std::string* error,
                                         const std::vector<std::string>& extra_flags = {});

/// The command that compile_host() would run, without input and output; empty if there is no compiler, and then
/// `why_not` says what was looked for.
std::vector<std::string> host_compiler_command(std::string* why_not = nullptr);

}  // namespace thunder
