// The small passes.
#pragma once

#include "passes/executor.h"

namespace thunder {

/// Dead code elimination: drops calls none of whose outputs is read and that have no effect (kWrite, kCollective, kInput;
/// a random call is dropped only if `keep_random` is false: eager's generator advances for it).
Trace dce(const Trace& trace, bool keep_random = true);

/// Common subexpression elimination: a call equal to an earlier one (same operator and arguments, no effect) reads the earlier's
/// outputs.  Outputs of the trace stay distinct values if they were (two outputs must not alias when eager's do not).
Trace cse(const Trace& trace);

/// Claim: replaces each call by the operator of the executor that takes it, opening those that no one takes.
/// Error (NotImplemented) names an operator that no executor can run.
Trace claim(const Trace& trace, const ExecutorList& executors);

/// Inserts `del` after the last use of every value that the trace's output does not hold; inputs too.
Trace delete_last_used(const Trace& trace);

}  // namespace thunder
