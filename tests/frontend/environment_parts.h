// The environment's parts up to those that a test needs, each made with the parts before it and with nothing else.
#pragma once

#include "frontend/argument_uses.h"
#include "frontend/attribute_reads.h"
#include "frontend/class_reads.h"
#include "frontend/container_reads.h"
#include "frontend/environment_writes.h"
#include "frontend/fresh_objects.h"
#include "frontend/not_kept.h"
#include "frontend/object_names.h"
#include "frontend/touched_states.h"
#include "frontend/write_log.h"
#include "tracer_parts.h"

namespace thunder::frontend::test {

struct UpToClasses {
  FakeTorch torch;
  NotKept not_kept;
  FreshObjects fresh{not_kept};
  WriteLog log;
  ClassReads classes{fresh, log};
};

struct UpToStates : UpToDraws {
  NotKept not_kept;
  ObjectNames names;
  FreshObjects fresh{not_kept};
  ArgumentUses uses;
  WriteLog log;
  TouchedStates states{acquisition, draws, not_kept, fresh};
};

struct UpToContainers : UpToStates {
  ClassReads classes{fresh, log};
  ContainerReads containers{draws, names, fresh, uses, log, states, classes};

  /// The guard that the reads become.
  EnvironmentGuard guard() {
    EnvironmentGuard out;
    containers.watch(out);
    return out;
  }
};

/// The guard that the reads of these parts become, without the tensors themselves.
inline EnvironmentGuard guard_of(ContainerReads& containers, const ClassReads& classes, AttributeReads& attributes) {
  EnvironmentGuard out;
  attributes.watch_tensors(out);
  containers.watch(out);
  classes.watch_types(out);
  classes.watch_classes(out);
  classes.watch_own_entries(out);
  attributes.watch_attributes(out);
  return out;
}

struct UpToAttributes : UpToContainers {
  AttributeReads attributes{names, fresh, uses, log, states, classes, containers};

  EnvironmentGuard guard() {
    EnvironmentGuard out = guard_of(containers, classes, attributes);
    attributes.add_tensors(out);
    return out;
  }
};

struct UpToWrites : UpToAttributes {
  EnvironmentWrites writes{acquisition, draws, fresh, uses, log, states, classes, containers, attributes};

  std::vector<Effect> finish() {
    log.take_back();
    return writes.finish();
  }
};

}  // namespace thunder::frontend::test
