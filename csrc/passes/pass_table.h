// The pipeline as data: which passes there are, in which order, when each runs, and why it stands where it does.
// pipeline.cpp runs them, docs/reference/passes.md lists them, and the fuzz tests leave some of them out.
#pragma once

#include <set>
#include <span>

#include "passes/autodiff.h"
#include "passes/distributed/comm_buckets.h"
#include "passes/distributed/distribute.h"
#include "passes/pipeline.h"
#include "passes/repeated.h"

namespace thunder {

enum class Half : uint8_t { Forward, Backward };

/// What the passes of one compilation know beside the trace, and leave to later ones.
struct PipelineState {
  PipelineState(const CompileOptions& options, const distributed::Distribution& distribution);

  const CompileOptions& options;
  const distributed::Distribution& distribution;
  bool fuses = false;  ///< an executor of the list fuses
  Compiled compiled;   ///< its traces are the pipeline's
  /// From autodiff on, but for `joint.trace`, which is the trace that a pass gets.  Without gradients only
  /// `forward_calls` counts, of all calls.
  JointTrace joint;
  Trace backward;  ///< from split on
  distributed::Collectives collectives;
  /// Of each program behind split:
  Half half = Half::Forward;
  Repeated repeated;
  distributed::Positions positions;
  const Executor* fusion = nullptr;  ///< the one that fuses now
  std::set<size_t> too_late;         ///< parameters that the backward must take from the forward
};

/// When a pass runs: all of the bits that are set have to hold.  What each means, condition_text() says.
enum PassCondition : unsigned {
  kAlways = 0,
  kFuses = 1 << 0,
  kOwnRounding = 1 << 1,
  kGradients = 1 << 2,
  kAlone = 1 << 3,
  kDistributed = 1 << 4,
  kFloat8Layers = 1 << 5,
  kFloat8History = 1 << 6,
  kReadsMasks = 1 << 7,
  kCountsRandom = 1 << 8,
  kRowSums = 1 << 9,
  kCommunicates = 1 << 10,
  kWaitsOnGpu = 1 << 11,
  kEachFusion = 1 << 12
};

struct Pass {
  const char* id;     ///< by which it is skipped, and its dump is called
  const char* title;  ///< that its traces carry
  bool optional;      ///< without it the program is right, too: it can be skipped and bisected
  unsigned when;      ///< Conditions
  Trace (*run)(const Trace&, PipelineState&);
  const char* gives;  ///< what it makes
  const char* why;    ///< why here; empty where any place would do
};

enum class Stage : uint8_t { Program, Joint, Parts, Each };
inline constexpr Stage kStages[] = {Stage::Program, Stage::Joint, Stage::Parts, Stage::Each};

std::span<const Pass> passes_of(Stage stage);
/// For people: "the acquired program".
const char* description(Stage stage);

bool holds(unsigned when, const Trace& trace, const PipelineState& state);
/// For people: "with a fusion executor; of distributed models".
std::string condition_text(unsigned when);

}  // namespace thunder
