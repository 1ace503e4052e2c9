#include "executors/c10d/shadow.h"

#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>

#include "core/error.h"
#include "executors/c10d/communicator.h"
#include "runtime/convert.h"
#include "runtime/distributed/kept_gradients.h"
#include "runtime/distributed/placements.h"
#include "runtime/program.h"

namespace thunder {
namespace {

using distributed::Bucket;
using distributed::CommunicationPlan;
using distributed::PlannedParameter;

std::vector<int64_t> sizes_of(const TensorType& t) {
  std::vector<int64_t> out;
  for (const Dim& d : t.shape) out.push_back(d.constant());
  return out;
}

class Shadow {
 public:
  explicit Shadow(const CommunicationPlan& plan)
      : plan_(plan),
        placements_(distributed::placements_of(plan)),
        gathering_(plan.group),
        reducing_(plan.reduce_group),
        replicas_(plan.copies > 1 ? std::optional<Communicator>(plan.replicas) : std::nullopt),
        used_(at::zeros({static_cast<int64_t>(plan.parameters.size())},
                        placements_.at(0)->local.options().dtype(at::kFloat).requires_grad(false))) {
    for (size_t i : distributed::parameters_with_kept_gradients(plan.id)) used_[static_cast<int64_t>(i)] = 1;
  }

  // One bucket after the other: whole parameters take memory.
  void gather(const Bucket& bucket) const {
    const std::string what = "all_gather of " + plan_.bucket_name(bucket);
    auto c = gathering_.begin(what);
    for (size_t i : bucket) c->inputs.push_back(placements_[i]->local.to(to_aten(plan_.parameters[i].full.dtype)));
    gathering_.all_gather(*c, what);
    c->wait();
  }

  // Waiting is safe behind the gathers that the plan says come before: others start the reduction without later ones.
  void reduce(const Bucket& bucket) {
    const bool of_used = bucket[0] == plan_.used_index(), sharded = !of_used && plan_.parameters[bucket[0]].sharded;
    const char* name = sharded ? "reduce_scatter" : "all_reduce";
    const std::string what = cat(name, replicas_ ? "_replicas of " : " of ", plan_.bucket_name(bucket));
    auto c = reducing_.begin(what);
    for (size_t i : bucket) c->inputs.push_back(of_used ? used_ : mine(i));
    const char* op = of_used ? "max" : "avg";
    if (sharded) reducing_.reduce_scatter(*c, op, what);
    else reducing_.all_reduce(*c, op, what);
    if (replicas_) replicas_->reduce_further(*c, op, what);
    c->wait();
    if (of_used) used_ = c->outputs[0];
    else
      for (size_t k = 0; k < bucket.size(); ++k) means_.emplace_back(bucket[k], c->outputs[k]);
  }

  void drop_means() { means_.clear(); }

  std::vector<std::pair<size_t, at::Tensor>> used_means() {
    const at::Tensor used = used_.cpu();
    std::erase_if(means_, [&](const auto& mean) { return used.const_data_ptr<float>()[mean.first] == 0; });
    for (auto& [i, mean] : means_) mean = mean.to(to_aten(plan_.parameters[i].local.dtype));
    return std::move(means_);
  }

 private:
  // The whole gradient here: zeros, or what was kept.
  at::Tensor mine(size_t index) const {
    const PlannedParameter& p = plan_.parameters[index];
    const at::TensorOptions options =
        placements_[index]->local.options().dtype(to_aten(plan_.reduce_dtype.value_or(p.full.dtype)));
    std::vector<int64_t> sizes = sizes_of(p.full);
    if (p.sharded) {
      if (sizes.empty()) sizes.push_back(1);
      sizes[0] = p.local.shape[0].constant() * plan_.world;
    }
    at::Tensor out = at::zeros(sizes, options.requires_grad(false));
    const at::Tensor kept = plan_.regather ? at::Tensor() : distributed::take_kept_gradient(plan_.id, index);
    if (kept.defined()) (p.sharded ? out.narrow(0, 0, kept.size(0)) : out).copy_(kept);
    return out;
  }

  const CommunicationPlan& plan_;
  const std::vector<std::shared_ptr<const distributed::Placement>> placements_;
  const Communicator gathering_, reducing_;
  const std::optional<Communicator> replicas_;
  at::Tensor used_;
  std::vector<std::pair<size_t, at::Tensor>> means_;
};

}  // namespace

at::Tensor all_reduced(const std::string& group, const at::Tensor& t, const std::string& op, const std::string& what) {
  const BelowAutograd guard;
  const Communicator communicator(group);
  auto c = communicator.begin(what);
  c->inputs.push_back(t);
  communicator.all_reduce(*c, op, what);
  c->wait();
  return c->outputs[0];
}

void shadow_forward(const CommunicationPlan& plan) {
  const BelowAutograd guard;
  const Shadow shadow(plan);
  for (const Bucket& b : *plan.order.gathers) shadow.gather(b);
}

std::vector<std::pair<size_t, at::Tensor>> shadow_backward(const CommunicationPlan& plan, bool gradients) {
  const BelowAutograd guard;
  Shadow shadow(plan);
  const std::vector<Bucket>&regathers = *plan.order.regathers, &reductions = *plan.order.reductions;
  size_t gathered = 0;
  for (size_t k = 0; k < reductions.size(); ++k) {
    while (gathered < plan.order.regathers_before->at(k)) shadow.gather(regathers[gathered++]);
    shadow.reduce(reductions[k]);
    if (!gradients) shadow.drop_means();
  }
  while (gathered < regathers.size()) shadow.gather(regathers[gathered++]);
  return gradients ? shadow.used_means() : std::vector<std::pair<size_t, at::Tensor>>();
}

}  // namespace thunder
