// Running another program: the system's compiler.
#pragma once

#include <string>
#include <vector>

namespace thunder {

/// Where `program` is, by $PATH unless it has a slash; empty if there is no such executable file.
std::string find_program(const std::string& program);

/// Runs `command` (its first word is a path) with nothing to read, and waits.  Standard output and error go to the file
/// `log`.  Returns the exit status, 128 + n after signal n, -1 if it could not be started (`problem` says why) or if
/// somebody else in this process took the status (SIGCHLD ignored).
int run_program(const std::vector<std::string>& command, const std::string& log, std::string* problem);

}  // namespace thunder
