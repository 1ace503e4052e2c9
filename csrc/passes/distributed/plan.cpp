#include "passes/distributed/plan.h"

#include <sstream>
#include <utility>

#include "core/error.h"

namespace thunder::distributed {
namespace {

constexpr const char* kBefore = "regathers_before";

// Calls `fn(name, list)` for each of the lists.
template <class Order, class F>
void for_each_list(Order& order, F&& fn) {
  fn("gathers", order.gathers);
  fn("regathers", order.regathers);
  fn("reductions", order.reductions);
}

}  // namespace

std::string CommunicationOrder::str() const {
  std::string out;
  for_each_list(*this, [&](const char* name, const std::optional<std::vector<Bucket>>& buckets) {
    if (!buckets) return;
    out += name;
    for (const Bucket& b : *buckets) {
      for (size_t i : b) out += cat(" ", i);
      out += " ;";
    }
    out += "\n";
  });
  if (!regathers_before) return out;
  out += kBefore;
  for (size_t n : *regathers_before) out += cat(" ", n);
  return out + "\n";
}

CommunicationOrder CommunicationOrder::parse(const std::string& text) {
  CommunicationOrder out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == kBefore) {
      out.regathers_before.emplace();
      while (words >> word) out.regathers_before->push_back(std::stoul(word));
      continue;
    }
    for_each_list(out, [&](const char* name, std::optional<std::vector<Bucket>>& buckets) {
      if (word != name) return;
      buckets.emplace();
      Bucket bucket;
      while (words >> word) {
        if (word != ";") bucket.push_back(std::stoul(word));
        else buckets->push_back(std::exchange(bucket, {}));
      }
    });
  }
  return out;
}

std::string CommunicationOrder::known() const {
  std::string out;
  for_each_list(*this, [&](const char* name, const std::optional<std::vector<Bucket>>& buckets) {
    if (buckets) out += cat(name, " ");
  });
  return out;
}

std::string CommunicationPlan::bucket_name(const Bucket& bucket) const {
  if (bucket.empty()) return "nothing";
  const std::string first = name_of(bucket[0]);
  return bucket.size() == 1 ? first : cat(first, " and ", bucket.size() - 1, " more");
}

std::string CommunicationPlan::text() const {
  std::string out = cat("plan ", id, ": ", world, " processes", copies > 1 ? cat(", ", copies, " times") : "",
                        regather ? ", gathered again in the backward" : "",
                        reduce_dtype ? cat(", reduced in ", *reduce_dtype) : "", "\n");
  for (const PlannedParameter& p : parameters)
    out += cat("parameter ", p.name, ": ", Type(p.full).str(), p.sharded ? " in shards of " + Type(p.local).str() : "",
               p.trainable ? "" : " frozen", ", bucket ", p.bucket, p.kept ? ", gathered once" : "", "\n");
  auto list = [&](const char* what, const std::optional<std::vector<Bucket>>& buckets) {
    if (!buckets) return;
    for (const Bucket& b : *buckets) {
      out += cat(what, ":");
      for (size_t i : b) out += " " + name_of(i);
      out += "\n";
    }
  };
  list("gather", order.gathers);
  list("gather again", order.regathers);
  list("reduce", order.reductions);
  return out;
}

}  // namespace thunder::distributed
