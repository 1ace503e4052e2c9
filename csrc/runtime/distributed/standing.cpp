// Where ranks stand: those that are behind, and those that wait for each other because their programs differ.
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/distributed/watch.h"

namespace thunder::distributed {
namespace detail {
namespace {

struct OwnPlace {
  std::mutex mutex;
  Place place;
  std::thread::id thread;  // the first that waited
  bool several = false;
};

// Never destroyed: the watching thread may outlive what the process's end destroys.
OwnPlace& known() {
  static auto* known = new OwnPlace;
  return *known;
}

}  // namespace

Standing::Standing(const std::string& group, uint64_t number, const std::string& what) {
  OwnPlace& k = known();
  const std::lock_guard lock(k.mutex);
  if (k.thread == std::thread::id()) k.thread = std::this_thread::get_id();
  k.several = k.several || k.thread != std::this_thread::get_id();
  k.place = k.several ? Place{} : Place{number, group, what};
}

Standing::~Standing() {
  const std::lock_guard lock(known().mutex);
  known().place = {};
}

Place Standing::now() {
  const std::lock_guard lock(known().mutex);
  return known().place;
}

}  // namespace detail

using namespace detail;

uint64_t Watch::begin(const std::string& what) {
  check(what);
  auto p = std::make_shared<Pending>();
  p->what = what;
  return add(std::move(p));
}

std::string Watch::last_report(int rank) {
  const auto line = board_ ? board_->read(cat("alive/", rank)) : std::nullopt;
  return line ? cat("it last reported: ", Report::parse(*line).words()) : "it has reported nothing";
}

std::string Watch::behind(uint64_t number) const {
  std::string out;
  for (const Peer& p : peers_) {
    if (!p.seen) {
      out += cat("; rank ", p.rank, " has reported nothing");
    } else if (p.report.started < number) {
      out += cat("; rank ", p.rank, " is ", number - p.report.started, " behind, it last reported: ", p.report.words());
    }
  }
  return out;
}

// Reports may be old, but neither kind can pass: the n-th collective of a rank stays what it is, and a rank that waits
// for one that this rank has not started waits until it does.
std::optional<Failure> Watch::disagreement() {
  const Place mine = Standing::now();
  if (mine.number == 0 || mine.group != name_) return std::nullopt;
  std::vector<Peer> peers;
  {
    const std::lock_guard lock(mutex_);
    peers = peers_;
  }
  for (const Peer& p : peers) {
    const Place& other = p.report.place;
    if (other.number == 0) continue;
    const std::string both = cat("rank ", rank_, " waits for ", mine.what, ", rank ", p.rank, " for ", other.what);
    if (other.group == name_) {
      if (other.number == mine.number && other.what != mine.what)
        return Failure{-1, cat("the ranks run different programs: as collective ", mine.number, " ", both)};
      continue;
    }
    if (p.report.started >= mine.number) continue;
    std::optional<uint64_t> started;  // none: this rank is no member of that group, and nobody waits for it there
    for (const auto& w : Monitor::get().all()) {
      if (w->name_ != other.group) continue;
      const std::lock_guard lock(w->mutex_);
      started = w->started_;
    }
    if (started && *started < other.number)
      return Failure{-1, cat("the ranks run different programs, which wait for each other: ", both)};
  }
  return std::nullopt;
}

}  // namespace thunder::distributed
