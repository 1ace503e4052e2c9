#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "runtime/distributed/watch.h"

namespace thunder::distributed {

c10::intrusive_ptr<c10d::ProcessGroup> group_named(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const std::exception&) {
    throw Error(ErrorKind::Runtime, cat("[distributed] there is no process group '", name,
                                        "' in this process: torch.distributed.init_process_group() comes first, and "
                                        "destroy_process_group() after the last step"));
  }
}

bool is_fake(c10d::ProcessGroup& group) {
  for (const c10::Device& device : group.getDeviceTypes())
    if (group.getBackend(device.type())->getBackendName() == "fake") return true;
  return false;
}

std::string from_first(const std::string& group_name, const std::string& key, const std::string& text,
                       std::chrono::milliseconds timeout, int first) {
  const auto group = group_named(group_name);
  const c10::intrusive_ptr<c10d::Store> store = group->getStore();
  const std::string place = cat("thunder/", group_name, "/first/", key);
  const std::shared_ptr<Watch> watch = Watch::of(group_name);
  if (is_fake(*group)) return text;
  if (group->getRank() == first) {
    store->set(place, text);
    return text;
  }
  const std::string what = cat("rank ", first, "'s ", key);
  auto waiting = std::make_shared<detail::Pending>();  // so that others are looked at meanwhile
  waiting->what = what;
  const uint64_t ticket = watch->add(waiting);
  struct Dropped {
    Watch& watch;
    uint64_t ticket;
    ~Dropped() { watch.drop(ticket); }
  } dropped{*watch, ticket};
  // A get() would hold the connection, which the process's other threads use, until the text is there.
  for (const auto end = std::chrono::steady_clock::now() + timeout; !store->check({place});) {
    watch->raise_failed(cat("while this rank waited for ", what));
    THUNDER_CHECK(std::chrono::steady_clock::now() < end, Runtime, "distributed", "rank ", first, " has not said its ",
                  key, " within ", timeout.count() / 1000, " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return store->get_to_str(place);
}

}  // namespace thunder::distributed
