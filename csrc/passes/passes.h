// The small passes.
#pragma once

#include "passes/executor.h"
#include "passes/visit.h"

namespace thunder {

/// Dead code elimination: drops calls none of whose outputs is read and that have no effect (kWrite, kState, kCollective,
/// kInput, the start of a communication; a random call is dropped only if `keep_random` is false: eager's generator
/// advances for it).
Trace dce(const Trace& trace, bool keep_random = true);

/// Common subexpression elimination: a call equal to an earlier one (same operator and arguments, no effect) reads the
/// earlier's outputs.  What the trace returns keeps storage of its own: the caller may write to it.  The first `keep`
/// calls stay as they are: later ones are merged into them, but they are not merged themselves; that is for a joint
/// trace, where nothing is differentiated any more and requires_grad tells no two values apart.
/// With `from`, only calls that make one of these values, or read what was merged, are merged.
Trace cse(const Trace& trace, size_t keep = 0, const ValueSet* from = nullptr);

/// Claim: replaces each call by the operator of the executor that takes it, opening those that no one takes.
/// A claimed call keeps its body, so that readers and fusion executors see what it computes.  Calls tagged kIdentity
/// (detach) vanish where nobody can tell, which is so below autograd; `drop_identities` false keeps them, for programs
/// that run above it.  Error (NotImplemented) names an operator that no executor can run.
Trace claim(const Trace& trace, const ExecutorList& executors, bool drop_identities = true);

/// Inserts `del` after the last use of every value that the trace's output does not hold; inputs too.
Trace delete_last_used(const Trace& trace);

}  // namespace thunder
