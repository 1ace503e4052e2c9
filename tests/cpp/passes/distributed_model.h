// A small distributed program for the tests of the passes that communicate.
#pragma once

#include <string>

#include "passes/distributed/comm_buckets.h"
#include "passes/distributed/comm_schedule.h"
#include "passes/distributed/distribute.h"
#include "passes/pass_ops.h"

namespace thunder::test {

/// A plan for two processes, and a program that takes some of its parameters.
struct SmallModel {
  explicit SmallModel(int64_t world = 2) : b(pass_builder()) {
    d.plan = std::make_shared<distributed::CommunicationPlan>();
    d.plan->id = "m";
    d.plan->group = "g";
    d.plan->reduce_group = "r";
    d.plan->world = world;
  }

  /// A parameter of the plan, each in a bucket of its own.
  distributed::PlannedParameter& plan(TensorType full, bool sharded) {
    distributed::PlannedParameter p;
    p.name = cat("w", d.plan->parameters.size());
    p.sharded = sharded;
    p.trainable = full.requires_grad;
    p.full = p.local = std::move(full);
    if (sharded) {
      Dims shape = p.full.rank() == 0 ? Dims{1} : p.full.shape;
      shape[0] = (shape[0].constant() + d.plan->world - 1) / d.plan->world;
      p.local.strides = contiguous_strides(shape);
      p.local.shape = std::move(shape);
    }
    p.bucket = d.plan->parameters.size();
    d.plan->parameters.push_back(std::move(p));
    return d.plan->parameters.back();
  }

  /// The program takes the plan's parameter.
  Value take(size_t index) {
    const distributed::PlannedParameter& p = d.plan->parameters.at(index);
    Value v = b.input(p.full, p.name);
    d.inputs.emplace_back(v, index);
    return v;
  }
  /// The same, of a new parameter.
  Value parameter(TensorType full, bool sharded) {
    plan(std::move(full), sharded);
    return take(d.plan->parameters.size() - 1);
  }

  Builder b;
  distributed::Distribution d;
};

/// "x, t2"
inline std::string names(const std::vector<Value>& values) {
  std::vector<std::string> out;
  for (Value v : values) out.push_back(v.name());
  return join(out);
}

/// The text without the lines that hold `what`.
inline std::string without(const std::string& text, const std::string& what) {
  std::istringstream in(text);
  std::string out, line;
  while (std::getline(in, line))
    if (line.find(what) == std::string::npos) out += line + "\n";
  return out;
}

}  // namespace thunder::test
