#include "runtime/kernels/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/kernels/fork.h"

extern char** environ;

namespace thunder {
namespace {

bool executable(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& program) {
  if (program.empty()) return "";
  if (program.find('/') != std::string::npos) return executable(program) ? program : "";
  const char* variable = std::getenv("PATH");
  std::string_view path = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!path.empty()) {
    const size_t end = path.find(':');
    const std::string file = std::string(path.substr(0, end)) + "/" + program;
    if (file[0] == '/' && executable(file)) return file;
    path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  }
  return "";
}

int run_program(const std::vector<std::string>& command, const std::string& log, std::string* problem) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  // Not fork: it would copy the page tables of a process with gigabytes of weights.
  const int failed = ::posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    *problem = std::strerror(failed);
    return -1;
  }
  int status = 0;
  const MayFork waiting;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno == EINTR) continue;
    *problem = std::strerror(errno);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace thunder
