// What the folder of an executor exports.
//
// csrc/executors/<name>/<name>.h declares `ExecutorDefinition <name>_executor();`.  CMake lists the folders whose header
// does, and register_executors() makes the executors of the list.  No other file lists the executors.
//
//   ExecutorDefinition scan_executor() { return {.place = ExecutorPlace::Default, .rank = 30, .make = make_scan}; }
#pragma once

#include <memory>
#include <vector>

#include "passes/executor.h"

namespace thunder {

enum class ExecutorPlace : uint8_t {
  Default,  ///< in the list that stands where the user gives none
  Last,     ///< at the end of every list
  NoList,   ///< in none: passes put its operators into the program
};

struct ExecutorDefinition {
  ExecutorPlace place = ExecutorPlace::Default;
  /// An executor of a smaller rank is offered a call before those of the same place.  The ranks of the folders are
  /// multiples of ten, so that others fit between.
  int rank = 0;
  /// Makes the executor, and registers how its operators run (register_lowering).  Null of a folder of operators that no
  /// executor claims.
  std::shared_ptr<Executor> (*make)() = nullptr;
};

/// The definitions of all folders, in the order of their names.
std::vector<ExecutorDefinition> executor_definitions();
/// Adds what the definition made to the lists (Executors), by its place and rank.  Error (Import) if it has the name of
/// one of Thunder's own.
void register_executor(const std::shared_ptr<Executor>& made, const ExecutorDefinition& definition);
/// Makes every executor of a folder and registers it.  Called once, when the extension is loaded.
void register_executors();

}  // namespace thunder
