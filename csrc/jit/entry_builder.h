// From what was acquired to the programs of an entry.
//
// An EntryBuilder owns the record of one compilation.  While it lives, the sizes of its program are current, and gradients
// are recorded as the program's rules need it.
#pragma once

#include <c10/core/GradMode.h>

#include <chrono>
#include <memory>

#include "jit/acquirer.h"
#include "jit/distribution.h"
#include "jit/inspection.h"
#include "jit/user_function.h"

namespace thunder {

class EntryBuilder {
 public:
  EntryBuilder(UserFunction& function, AcquiredProgram& program);
  EntryBuilder(const EntryBuilder&) = delete;
  EntryBuilder& operator=(const EntryBuilder&) = delete;

  /// The traces, and nothing that runs or is agreed upon with other processes.
  std::shared_ptr<const CompileRecord> traces();
  /// Builds the programs of the program's entry.  `again`: the program may be acquired a second time.
  std::shared_ptr<const CompileRecord> build(bool again);

 private:
  Compiled compile() const;
  void read_masks();
  void run_passes();
  void write_in_place();
  void build_programs();

  UserFunction& function_;
  AcquiredProgram& program_;
  std::shared_ptr<CompileRecord> record_ = std::make_shared<CompileRecord>();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  ShapeEnv::Scope scope_;
  // Where the caller has switched gradients off the program may have switched them on for a part.
  const bool grad_enabled_, with_grad_;
  c10::AutoGradMode mode_of_rules_;
  DistributedInputs distributed_;
  CompileOptions options_;  // of this program
};

}  // namespace thunder
