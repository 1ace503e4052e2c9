// What forwards within no_sync() have gathered, kept for the micro-batches that follow, by plan and bucket.
//
// A plan that keeps whole parameters until the backward (ZeRO2) keeps them until the next forward at no price in peak
// memory.  All processes keep and take the same buckets, in the plan's order.  What is kept is dropped where a parameter
// was written to, which all processes do.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/distributed/placements.h"

namespace thunder::distributed {

/// Before the forward of a program that takes these parameters.
void check_kept_gathers(const std::vector<std::shared_ptr<const Placement>>& inputs);
/// The bucket's communication, which stays kept if `keep`; None where there is none.
c10::IValue kept_gather(const std::string& plan, const std::string& bucket, bool keep);
void keep_gather(const std::string& plan, const std::string& bucket, c10::IValue communication);
/// Forgets all of a plan's.
void forget_kept_gathers(const std::string& plan);

}  // namespace thunder::distributed
