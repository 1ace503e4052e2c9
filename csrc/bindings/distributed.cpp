// thunder.distributed's view of the communication plan.
#include <nanobind/stl/optional.h>

#include <tuple>

#include "bindings/bind.h"
#include "bindings/types.h"
#include "executors/c10d/peers.h"
#include "executors/c10d/shadow.h"
#include "jit/distribution.h"
#include "passes/distributed/plan.h"
#include "runtime/convert.h"
#include "runtime/distributed/kept_gathers.h"
#include "runtime/distributed/kept_gradients.h"
#include "runtime/distributed/placements.h"
#include "runtime/distributed/watch.h"
#include "runtime/interop.h"
#include "runtime/torch_py.h"

namespace thunder::bindings {
namespace {

using namespace thunder::distributed;

DType dtype_named(const std::string& name) {
  std::optional<DType> t = dtype_from_torch_name(name);
  THUNDER_CHECK(t, Type, "distributed", "there is no dtype torch.", name);
  return *t;
}

nb::object python(at::Tensor t) { return nb::steal(THPVariable_Wrap(std::move(t))); }

class Plan {
 public:
  // Dicts, and their keys, where modules hold a parameter.
  using Holders = std::vector<std::pair<nb::dict, nb::str>>;

  Plan(std::string id, std::string group, std::string reduce_group, int64_t world, bool regather,
       const std::optional<std::string>& reduce_dtype, int64_t bytes_in_flight, std::string replicas, int64_t copies)
      : plan_(std::make_shared<CommunicationPlan>()) {
    plan_->id = std::move(id);
    plan_->group = std::move(group);
    plan_->reduce_group = std::move(reduce_group);
    plan_->world = world;
    plan_->regather = regather;
    if (reduce_dtype) plan_->reduce_dtype = dtype_named(*reduce_dtype);
    plan_->bytes_in_flight = bytes_in_flight;
    plan_->replicas = std::move(replicas);
    plan_->copies = copies;
  }
  ~Plan() { distributed::forget(*plan_); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // A parameter that every process has as a whole.
  void add_replicated(const std::string& name, nb::handle parameter, size_t bucket, const Holders& holders) {
    const TensorType t = type_of(torch_py::tensor(parameter.ptr()));
    add({name, false, t.requires_grad, t, t, bucket}, parameter, parameter, nb::none(), holders, false);
  }

  // `local`: this process's rows, padded, a plain tensor in the parameter's memory.
  void add_sharded(const std::string& name, nb::handle parameter, nb::handle local, const std::vector<int64_t>& shape,
                   const std::string& dtype, size_t bucket, nb::handle wrap, const Holders& holders, bool kept,
                   bool dtensor) {
    PlannedParameter p{name, true, torch_py::tensor(parameter.ptr()).requires_grad(), {}, {}, bucket, kept};
    p.local = type_of(torch_py::tensor(local.ptr()));
    p.local.requires_grad = p.trainable;
    p.full = p.local;
    p.full.dtype = dtype_named(dtype);
    p.full.shape = Dims(shape.begin(), shape.end());
    p.full.strides = contiguous_strides(p.full.shape);
    add(std::move(p), parameter, local, wrap, holders, dtensor);
  }

  void forget() { distributed::forget(*plan_); }
  std::string text() const { return plan_->text(); }
  bool synchronizes() const { return plan_->synchronizes; }
  void set_synchronizes(bool on) {
    plan_->synchronizes = on;
    plan_->keeps = plan_->keeps || !on;
  }
  // Names and whole gradients, not yet reduced; they are this caller's to reduce.
  std::vector<std::pair<std::string, nb::object>> take_kept_gradients() {
    std::vector<std::pair<std::string, nb::object>> out;
    forget_kept_gathers(plan_->id);  // a step ends here
    for (size_t i : parameters_with_kept_gradients(plan_->id)) {
      if (at::Tensor g = take_kept_gradient(plan_->id, i); g.defined())
        out.emplace_back(plan_->parameters[i].name, python(std::move(g)));
    }
    return out;
  }

  std::pair<int, int> first() const { return {plan_->first, plan_->first_copy}; }
  void set_first(std::pair<int, int> ranks) { std::tie(plan_->first, plan_->first_copy) = ranks; }
  double scale() const { return plan_->scale; }
  void set_scale(double factor) { plan_->scale = factor; }
  bool joining() const { return plan_->joining; }
  void set_joining(bool on) {
    plan_->joining = on;
    plan_->told = false;
  }
  void tell() { plan_->told = true; }
  size_t backwards() const { return plan_->backwards; }
  bool knows_order(bool differentiates, bool reduces) const {
    return thunder::knows_order(*plan_, {.differentiates = differentiates, .reduces = reduces});
  }
  // Names and gradients as the parameters' own backwards give them.
  std::vector<std::pair<std::string, nb::object>> shadow(bool differentiates, bool reduces, bool gradients) {
    await_order(*plan_, {.differentiates = differentiates, .reduces = reduces});
    shadow_forward(*plan_);
    std::vector<std::pair<std::string, nb::object>> out;
    if (!reduces) return out;
    const auto placements = placements_of(*plan_);
    for (auto& [index, mean] : shadow_backward(*plan_, gradients))
      out.emplace_back(plan_->parameters[index].name, python(placements[index]->gradient(std::move(mean))));
    return out;
  }

 private:
  void add(PlannedParameter p, nb::handle parameter, nb::handle local, nb::handle wrap, const Holders& holders,
           bool dtensor) {
    const size_t index = plan_->parameters.size();
    plan_->parameters.push_back(std::move(p));
    Placement placement;
    placement.plan = plan_;
    placement.index = index;
    placement.dtensor = dtensor;
    placement.parameter = torch_py::tensor(parameter.ptr());
    placement.local = torch_py::tensor(local.ptr());
    placement.local_object = hold_python(local.ptr());
    for (const auto& [dict, key] : holders)
      placement.holders.emplace_back(hold_python(dict.ptr()), hold_python(key.ptr()));
    if (!wrap.is_none()) placement.wrap = hold_python(wrap.ptr());
    distributed::place(parameter.ptr(), std::move(placement));
  }

  std::shared_ptr<CommunicationPlan> plan_;
};

// How a model is distributed.
void bind_plan(nb::module_& m) {
  nb::class_<Plan>(m, "CommunicationPlan", "How a model's parameters lie on processes, and what they communicate.")
      .def(nb::init<std::string, std::string, std::string, int64_t, bool, std::optional<std::string>, int64_t,
                    std::string, int64_t>(),
           nb::arg("id"), nb::arg("group"), nb::arg("reduce_group"), nb::arg("world"), nb::arg("regather"),
           nb::arg("reduce_dtype").none(), nb::arg("bytes_in_flight"), nb::arg("replicas") = "", nb::arg("copies") = 1)
      .def("add_replicated", &Plan::add_replicated, nb::arg("name"), nb::arg("parameter"), nb::arg("bucket"),
           nb::arg("holders"))
      .def("add_sharded", &Plan::add_sharded, nb::arg("name"), nb::arg("parameter"), nb::arg("local"), nb::arg("shape"),
           nb::arg("dtype"), nb::arg("bucket"), nb::arg("wrap").none(), nb::arg("holders"), nb::arg("kept") = false,
           nb::arg("dtensor") = false)
      .def("forget", &Plan::forget, "Its parameters are plain ones from here on.")
      .def("text", &Plan::text, "Lines that are the same on every process.")
      .def("take_kept_gradients", &Plan::take_kept_gradients,
           "What backwards within no_sync() left to be reduced: parameters' names and whole gradients, then forgotten.")
      .def_prop_rw("synchronizes", &Plan::synchronizes, &Plan::set_synchronizes,
                   "Whether backwards of programs that are called from now on synchronise gradients.")
      .def_prop_rw(
          "first", &Plan::first, &Plan::set_first,
          "Whose first programs decide about the order of collectives: its ranks in the group and in the replicas.")
      .def_prop_rw("scale", &Plan::scale, &Plan::set_scale, "What means over all processes are multiplied by.")
      .def_prop_rw("joining", &Plan::joining, &Plan::set_joining, "Whether only calls behind tell() may communicate.")
      .def("tell", &Plan::tell, "Processes without data know of the next call.")
      .def_prop_ro("backwards", &Plan::backwards, "How many backwards of programs have run.")
      .def("knows_order", &Plan::knows_order, nb::arg("differentiates"), nb::arg("reduces"),
           "Whether a call of the module follows an order, so that its compilation takes none from another process.")
      .def("shadow", &Plan::shadow, nb::arg("differentiates"), nb::arg("reduces"), nb::arg("gradients"),
           "Takes part in a call of the others, without data; if `gradients`, gives the means by parameters' names.");
}

// What processes tell each other.
void bind_collectives(nb::module_& m) {
  m.def(
      "all_reduce",
      [](const std::string& group, nb::handle t, const std::string& op, const std::string& what) {
        return python(all_reduced(group, torch_py::tensor(t.ptr()), op, what));
      },
      nb::arg("group"), nb::arg("tensor"), nb::arg("op"), nb::arg("what"),
      "RuntimeError if a process of the group fails meanwhile; `what` names the collective in it.");
  m.def(
      "agree",
      [](const std::string& group, const std::string& key, const std::string& text, double seconds) {
        nb::gil_scoped_release released;
        distributed::agree(group, key, text, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
      },
      nb::arg("group"), nb::arg("key"), nb::arg("text"), nb::arg("seconds"),
      "ValueError on every process of the group if their texts differ; RuntimeError if one does not come.");
}

// Failures of other processes.
void bind_watch(nb::module_& m) {
  m.def(
      "post_failure",
      [](const std::string& error, const std::vector<std::string>& groups) {
        nb::gil_scoped_release released;
        for (const std::string& group : groups) {
          try {
            distributed::Watch::of(group);
          } catch (const std::exception&) {
            // Its store is gone, or it was destroyed: there is nobody to tell.
          }
        }
        distributed::post_failure_everywhere(error);
      },
      nb::arg("error"), nb::arg("groups") = std::vector<std::string>(),
      "Other processes of these groups, and of all that programs use, raise this, where they wait for this one.");
  m.def(
      "begin_waiting",
      [](const std::string& group, const std::string& what) {
        nb::gil_scoped_release released;
        return distributed::is_fake(*distributed::group_named(group)) ? 0 : distributed::Watch::of(group)->begin(what);
      },
      nb::arg("group"), nb::arg("what"),
      "For communication that other code runs: looks at the other processes until end_waiting(). RuntimeError if one "
      "has failed already.");
  m.def(
      "explain",
      [](const std::string& group, const std::string& what, const std::string& error) {
        nb::gil_scoped_release released;
        if (distributed::is_fake(*distributed::group_named(group))) return;
        distributed::Watch::of(group)->explain_if_of_others(what, error);
      },
      nb::arg("group"), nb::arg("what"), nb::arg("error"),
      "RuntimeError that names another process if `error`, which that code raised, comes from its end.");
  m.def(
      "end_waiting",
      [](const std::string& group, uint64_t ticket) {
        nb::gil_scoped_release released;
        if (ticket > 0) distributed::Watch::of(group)->drop(ticket);
      },
      nb::arg("group"), nb::arg("ticket"));
  m.def(
      "stop_watching",
      [](const std::string& group) {
        nb::gil_scoped_release released;
        distributed::Watch::stop(group);
      },
      nb::arg("group"), "The group is about to be destroyed.");
}

// Memory of the GPUs of one machine.
void bind_peers(nb::module_& m) {
  m.def(
      "peer_memory_bytes",
      [](int world, size_t inbox, size_t outbox) {
        return peers::PeerLayout{.world = world, .inbox_bytes = inbox, .outbox_bytes = outbox}.bytes();
      },
      nb::arg("world"), nb::arg("inbox"), nb::arg("outbox"), "Of each process's shared memory.");
  m.def(
      "peers_available",
      [](int device) {
        std::string why;
        return Peers::available(device, &why) ? "" : why;
      },
      nb::arg("device"), "Empty, or why collectives cannot be copies between GPUs here.");
  m.def(
      "connect_peers",
      [](const std::string& group, int rank, int device, size_t inbox, size_t outbox, int64_t least,
         std::vector<uint64_t> addresses) {
        const peers::PeerLayout layout{
            .world = static_cast<int>(addresses.size()), .inbox_bytes = inbox, .outbox_bytes = outbox};
        Peers::connect(group, layout, rank, device, least, std::move(addresses));
      },
      nb::arg("group"), nb::arg("rank"), nb::arg("device"), nb::arg("inbox"), nb::arg("outbox"), nb::arg("least"),
      nb::arg("addresses"),
      "Collectives of the group go through memory that lies at these addresses, by rank, and is zero; some of them "
      "from "
      "`least` bytes on.");
  m.def(
      "reach_peers",
      [](const std::string& group, nb::handle memory, std::vector<uint64_t> addresses) {
        Peers::reach(group, torch_py::tensor(memory.ptr()), std::move(addresses));
      },
      nb::arg("group"), nb::arg("memory"), nb::arg("addresses"),
      "Tensors in this process's `memory` are gathered from where they lie; `addresses`: where this process finds each "
      "process's, by rank.");
}

}  // namespace

void bind_distributed(nb::module_& m) {
  bind_plan(m);
  bind_collectives(m);
  bind_watch(m);
  bind_peers(m);
}

}  // namespace thunder::bindings
