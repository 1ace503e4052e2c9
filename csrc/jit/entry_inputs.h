// Where an entry's inputs come from in a call, and what it asks of values before it runs.
#pragma once

#include "core/dim.h"
#include "frontend/tracer.h"
#include "jit/cache_entry.h"
#include "jit/learned.h"

namespace thunder {

/// Turns what the program read into checks, and gives the guards of `env` to those who know what they are about.
void add_inputs(CacheEntry& e, const CallKey& key, const frontend::Acquired& acquired, const ShapeEnv& env,
                SharedSteps& steps, Learned& learned);

}  // namespace thunder
