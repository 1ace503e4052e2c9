// What the tests of the kernel runtime share: a cache folder of their own, and processes of their own.
#pragma once

#include <doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "runtime/kernels/process.h"

namespace kernel_test {

/// An environment variable has another value (or none) for the length of a scope.
class Environment {
 public:
  Environment(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ~Environment() { set(before_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) ::setenv(name_.c_str(), value->c_str(), 1);
    else ::unsetenv(name_.c_str());
  }
  std::string name_;
  std::optional<std::string> before_;
};

/// An empty folder, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "thunder-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  // A compiler whose parent was killed may write here meanwhile.
  ~Folder() {
    std::error_code error;
    for (int tries = 0; tries < 1000; ++tries) {
      std::filesystem::remove_all(path_, error);
      if (!error) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Thunder's cache is an empty folder for the length of a scope.
struct OwnCache {
  Folder folder;
  Environment variable{"THUNDER_CACHE_DIR", folder.path()};
};

inline std::string contents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A compiler that waits: each compilation makes the file `begun`, and goes on once there is the file `go`.
struct WaitingCompiler {
  Folder folder;
  std::string path = folder.path() + "/cxx", begun = folder.path() + "/begun", go = folder.path() + "/go";

  explicit WaitingCompiler(const std::string& program) {
    write_file(path, "#!/bin/sh\ncase $* in *--version*) ;; *) : > " + begun + "; while [ ! -e " + go +
                         " ]; do sleep 0.02; done;; esac\nexec " + program + " \"$@\"\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
};

inline size_t count_files(const std::string& folder) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) n += entry.is_regular_file();
  return n;
}

/// Files with the names of a cache's entries: it counts its bytes in another one.
inline size_t count_entries(const std::string& folder) {
  size_t n = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    n += file.is_regular_file() && file.path().filename().string().size() == 62;
  return n;
}

/// Waits until `condition` holds; false after a minute without it.
template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Starts `body` in a forked child, which exits with what it returns.
template <class Body>
pid_t start_child(Body body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    ::_exit(status);
  }
  return pid;
}

/// The exit status of a child; -1 for a signal, with which a child that takes more than a minute is ended.
inline int wait_for(pid_t pid) {
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid, &status, WNOHANG) != 0; })) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class Body>
int in_child(Body body) {
  return wait_for(start_child(body));
}

/// Whether this process runs nothing but the test case at hand.  If not, starts one that does, checks that the case
/// passes there, and leaves its caller nothing to do.  A forked child would inherit what other cases loaded and
/// remembered.
inline bool in_own_process() {
  if (std::getenv("THUNDER_TEST_ALONE")) return true;
  const Environment alone("THUNDER_TEST_ALONE", "1");
  const Folder folder;
  const std::string log = folder.path() + "/log", self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string name = doctest::getContextOptions()->currentTest->m_name;
  std::string problem;
  const int status = thunder::run_program({self, "--test-case=" + name}, log, &problem);
  const std::string said = problem + contents(log);
  REQUIRE_MESSAGE(status == 0, said);
  CHECK_MESSAGE(said.find("1 passed") != std::string::npos, said);
  return false;
}

}  // namespace kernel_test
