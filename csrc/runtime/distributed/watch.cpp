#include "runtime/distributed/watch.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <thread>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>

namespace thunder::distributed {

using namespace detail;
using std::chrono::milliseconds;

namespace {

// More would load the Store of a large job; the rank before a dead one is alive, and sees it.
constexpr int kMostPeers = 32;
constexpr milliseconds kPostWait{2000};

Intervals intervals;

std::mutex warning_mutex;
std::function<void(const std::string&)> warning_handler;

void warn(const std::string& message) {
  const std::lock_guard lock(warning_mutex);
  if (warning_handler) return warning_handler(message);
  std::cerr << message << std::endl;
}

}  // namespace

void set_intervals(const Intervals& to) { intervals = to; }

void set_warning_handler(std::function<void(const std::string&)> handler) {
  const std::lock_guard lock(warning_mutex);
  warning_handler = std::move(handler);
}

namespace {

std::string seconds(Clock::duration d) {
  const auto ms = std::chrono::duration_cast<milliseconds>(d).count();
  return ms % 1000 && ms < 10000 ? cat(ms / 1000, ".", ms % 1000 / 100, " s") : cat(ms / 1000, " s");
}

/// Of an exception, without PyTorch's C++ stack.
std::string text_of(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  return error ? error->what_without_backtrace() : e.what();
}

/// True for errors that the end of another rank causes.  The texts are gloo's and c10d's, which have no type for them.
bool of_connection(const std::string& error) {
  for (const char* sign : {"Connection closed by peer", "Connection reset by peer", "Broken pipe",
                           "remote process exited", "Connection refused"})
    if (error.find(sign) != std::string::npos) return true;
  return false;
}

/// After it CUDA lets this thread ask for events while another one records a graph.
void allow_during_graph_recording() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  if (void* found = ::dlsym(driver, "cuThreadExchangeStreamCaptureMode")) {
    int relaxed = 2;
    reinterpret_cast<int (*)(int*)>(found)(&relaxed);
  }
}

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return cat(" (pid ", ::getpid(), " on ", host.data(), ")");
}

}  // namespace

namespace detail {

std::atomic<Monitor*> monitor{nullptr};

Monitor& Monitor::get() {
  static const bool made = [] {
    // Never destroyed: the thread may be with a Store that does not answer when the process ends.
    monitor = new Monitor;
    in_forked_children(&Monitor::renew);
    std::atexit([] { monitor.load()->end(); });
    return true;
  }();
  (void)made;
  return *monitor.load();
}

void Monitor::renew() {
  auto* fresh = new Monitor;
  fresh->inherited_ = monitor.load()->watches_;
  monitor = fresh;
}

std::shared_ptr<Watch> Monitor::of(const std::string& name) {
  const auto group = group_named(name);
  try {
    const std::lock_guard lock(mutex_);
    for (const auto* list : {&watches_, &inherited_})
      for (const auto& w : *list)
        if (w->group_.lock() == group) return w;
    auto made = std::make_shared<Watch>(name, group);
    const NoFork whole;
    watches_.push_back(std::move(made));
    if (!std::exchange(running_, true)) std::thread(&Monitor::run, this).detach();
    poked_ = true;
    wake_.notify_all();
    return watches_.back();
  } catch (const std::exception& e) {
    throw Error(ErrorKind::Runtime, cat("[distributed] group '", name, "' cannot be watched: ", text_of(e)));
  }
}

void Monitor::stop(const std::string& name) {
  std::vector<std::shared_ptr<Watch>> stopped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  std::ranges::copy_if(watches_, std::back_inserter(stopped), [&](const auto& w) { return w->name_ == name; });
  const NoFork whole;
  for (const auto& w : stopped) std::erase(watches_, w);
}

void Monitor::run() {
  allow_during_graph_recording();
  std::unique_lock lock(mutex_);
  while (!ending_) {
    std::vector<std::shared_ptr<Watch>> watches, expired;
    for (const auto& w : watches_) (w->group_.expired() ? expired : watches).push_back(w);
    if (const NoFork whole; !expired.empty()) watches_ = watches;
    lock.unlock();
    expired.clear();
    Clock::time_point next = Clock::now() + std::chrono::hours(1);
    for (const auto& w : watches) next = std::min(next, w->tick());
    watches.clear();
    lock.lock();
    wake_.wait_until(lock, next, [&] { return poked_ || ending_; });
    poked_ = false;
  }
  running_ = false;
  ended_.notify_all();
}

void Monitor::end() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  wake_.notify_all();
  // Until the thread has left what PyTorch destroys next, but no longer than a Store may take to answer nothing.
  ended_.wait_for(lock, milliseconds(1000), [&] { return !running_; });
}

}  // namespace detail

Watch::Watch(const std::string& group_name, const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : name_(group_name), rank_(group->getRank()), size_(group->getSize()), process_(this_process()), group_(group) {
  for (c10::Device d : group->getDeviceTypes())
    if (!d.is_cpu()) device_ = d.type();
  for (int i = 1; i < size_ && i <= kMostPeers; ++i) peers_.push_back({.rank = (rank_ + i) % size_});
  board_.emplace(group_name, *group);
  if (!board_->works()) board_.reset();
  // Who dies before the thread's first heartbeat would seem not to have come yet.
  if (board_) board_->beat(report(Clock::now()));
}

Watch::~Watch() {
  if (generation_ != fork_generation()) return;
  // The end of a tensor may take the GIL, and this may be the watching thread.
  for (auto& [ticket, p] : pending_) (void)p->work.release();
}

std::shared_ptr<Watch> Watch::of(const std::string& group_name) { return Monitor::get().of(group_name); }

void Watch::stop(const std::string& group_name) noexcept { Monitor::get().stop(group_name); }

uint64_t Watch::start(std::string what, c10::intrusive_ptr<c10d::Work> work) {
  auto p = std::make_shared<Pending>();
  p->what = std::move(what);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  if (work) p->kind = kind_of(*work, future);
  p->signal->done = !work;
  p->work = std::move(work);
  const uint64_t ticket = add(p);
  if (future && p->kind == Kind::Host) future->addCallback([signal = p->signal](auto&) { signal->set(&Signal::done); });
  return ticket;
}

void Watch::wait(uint64_t ticket) {
  const std::shared_ptr<Pending> p = take(ticket);
  try {
    if (p->kind == Kind::Stream) {
      await_stream(*p);
    } else {
      const Standing here(name_, p->number, p->what);
      await(*p);
      if (p->signal->done && p->signal->error) std::rethrow_exception(p->signal->error);
      if (p->signal->done && p->kind == Kind::Host && p->work) p->work->wait();
    }
  } catch (const std::exception& e) {
    drop(ticket);
    explain(p->what, text_of(e));
  }
  drop(ticket);
  if (failed_ && (p->kind == Kind::Stream || !p->signal->done))
    raise_failed(cat("while this rank waited for ", p->what));
  const std::lock_guard lock(mutex_);
  ++finished_;
  last_ = std::move(p->what);
}

void Watch::drop(uint64_t ticket) noexcept {
  decltype(pending_)::node_type dropped;  // destroyed without the lock: the end of a tensor may take the GIL
  const std::lock_guard lock(mutex_);
  dropped = pending_.extract(ticket);
}

void Watch::post_failure(const std::string& error) noexcept { post({this}, error); }

void post_failure_everywhere(const std::string& error) noexcept {
  const std::vector<std::shared_ptr<Watch>> all = Monitor::get().all();
  std::vector<Watch*> watches;
  for (const auto& w : all) watches.push_back(w.get());
  Watch::post(watches, error);
}

void Watch::post(const std::vector<Watch*>& watches, const std::string& error) noexcept {
  const auto until = [](milliseconds most, const auto& holds) {
    for (const auto end = Clock::now() + most; !holds() && Clock::now() < end;)
      std::this_thread::sleep_for(milliseconds(5));
  };
  const auto each = [&](const auto& f) {
    for (Watch* w : watches) {
      if (w->generation_ != fork_generation()) continue;
      const std::lock_guard lock(w->mutex_);
      f(*w);
    }
    Monitor::get().poke();
  };
  const auto failed = [&] { return std::ranges::any_of(watches, [](Watch* w) { return w->failed_.load(); }); };
  if (of_connection(error)) {
    each([](Watch& w) { ++w.explaining_; });
    until(intervals.reason, failed);
    each([](Watch& w) { --w.explaining_; });
  }
  each([&](Watch& w) {
    if (!w.failure_ && !w.outbox_) w.outbox_ = Failure{w.rank_, error};
  });
  until(kPostWait, [&] {
    bool written = true;
    each([&](Watch& w) { written = written && !w.outbox_; });
    return written;
  });
}

void Watch::check(const std::string& what) {
  if (generation_ != fork_generation())
    throw Error(ErrorKind::Runtime,
                cat("[distributed] group '", name_, "' belongs to the process that forked this one"));
  if (failed_) raise_failed(cat("before this rank started ", what));
}

void Watch::raise_failed(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  // A rank that only passed another's failure on from another group is not named.
  const std::string who = failure_->rank < 0 || failure_->passed_on
                              ? std::string()
                              : cat("rank ", failure_->rank, failure_->rank == rank_ ? " (this one)" : "", " failed: ");
  throw Error(ErrorKind::Runtime, cat("[distributed] ", who, failure_->text, " (", doing, ")"));
}

Kind Watch::kind_of(c10d::Work& work, c10::intrusive_ptr<c10::ivalue::Future>& future) {
  const std::type_index type = typeid(work);
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(opaque_, type) != opaque_.end()) return Kind::Opaque;
  }
  try {
    future = work.getFuture();
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    opaque_.push_back(type);
    return Kind::Opaque;
  }
  if (!future) return device_ == c10::DeviceType::CPU ? Kind::Opaque : Kind::Stream;
  return future->devices().empty() ? Kind::Host : Kind::Stream;
}

uint64_t Watch::add(std::shared_ptr<Pending> p) {
  const std::lock_guard lock(mutex_);
  if (p->work) ++started_;
  p->number = started_;
  p->signal->failed = failed_.load();
  pending_.emplace(++tickets_, std::move(p));
  return tickets_;
}

std::shared_ptr<Pending> Watch::take(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(ticket);
  THUNDER_ASSERT(found != pending_.end(), "no collective has ticket ", ticket);
  found->second->waited = true;
  return found->second;
}

void Watch::await(Pending& p) {
  if (p.kind == Kind::Opaque) {
    // Nothing ends its wait() from outside: gloo's reduce_scatter has neither a timeout nor abort().
    std::thread([work = p.work, signal = p.signal]() mutable {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      try {
        work->wait();
      } catch (...) {
        signal->error = std::current_exception();
      }
      work.reset();
      signal->set(&Signal::done);
    }).detach();
  }
  Signal& s = *p.signal;
  std::unique_lock lock(s.mutex);
  while (!s.changed.wait_for(lock, milliseconds(1000), [&] { return s.done || s.failed; })) {
    const Clock::rep since = Monitor::get().busy_since;
    const Clock::duration busy = Clock::now().time_since_epoch() - Clock::duration(since);
    if (!since || busy < intervals.answer) continue;
    lock.unlock();
    fail({-1, cat("the process that hosts the store (usually rank 0) does not answer for ", seconds(busy))});
    lock.lock();
  }
}

void Watch::await_stream(Pending& p) {
  p.work->wait();
  const std::lock_guard lock(mutex_);
  // The work itself, kept to be asked, would keep its tensors' memory.
  const c10::impl::VirtualGuardImpl guard(device_);
  if (!event_) event_.emplace(device_);
  event_->record(guard.getStream(guard.getDevice()));
  passing_ = Doing{p.what, Clock::now(), p.number};
}

void Watch::explain_if_of_others(const std::string& what, const std::string& error) {
  if (failed_) raise_failed(cat("while this rank waited for ", what));
  if (of_connection(error)) explain(what, error);
}

void Watch::explain(const std::string& what, const std::string& error) {
  std::unique_lock lock(mutex_);
  ++explaining_;
  Monitor::get().poke();
  if (board_) changed_.wait_for(lock, intervals.reason, [&] { return failure_.has_value(); });
  --explaining_;
  const std::string others = behind(started_);
  const bool known = failure_.has_value();
  if (!known) outbox_ = Failure{rank_, cat(what, " failed: ", error, others)};
  lock.unlock();
  if (known) raise_failed(cat("while this rank waited for ", what));
  Monitor::get().poke();
  throw Error(ErrorKind::Runtime, cat("[distributed] ", what, " failed: ", error, others));
}

void Watch::on_failure(std::function<void()> release) {
  const std::lock_guard lock(mutex_);
  releases_.push_back(std::move(release));
}

void Watch::fail(const Failure& f) {
  std::vector<std::function<void()>> releases;
  {
    const std::lock_guard lock(mutex_);
    outbox_.reset();
    if (failure_) return;
    failure_ = f;
    failed_ = true;
    releases.swap(releases_);
    changed_.notify_all();
    for (auto& [ticket, p] : pending_) p->signal->set(&Signal::failed);
  }
  for (auto& release : releases) {
    std::thread([release = std::move(release)] {
      try {
        release();
      } catch (const std::exception&) {
        // A device that has failed waits for nothing.
      }
    }).detach();
  }
  // Never released: the group's end joins gloo's threads, which wait for the other ranks until their timeout.
  if (c10d::ProcessGroup* kept = group_.lock().release()) {
    std::thread([kept] {
      try {
        kept->abort();
      } catch (const std::exception&) {
        // The waiting threads of a backend without it have been told already.
      }
    }).detach();
  }
  const std::string who = f.rank < 0 ? "" : cat("rank ", f.rank, " of group '", name_, "' failed: ");
  const std::string text = f.passed_on ? f.text : cat(who, f.text);
  for (const auto& w : Monitor::get().all()) {
    const std::lock_guard lock(w->mutex_);
    if (!w->failure_ && !w->outbox_) w->outbox_ = Failure{w->rank_, text, /*passed_on=*/true};
  }
  Monitor::get().poke();
}

Clock::time_point Watch::tick() {
  const Clock::time_point now = Clock::now();
  std::optional<Doing> doing;
  std::optional<Failure> found;
  std::optional<Report> heartbeat;
  bool looking;
  {
    const std::lock_guard lock(mutex_);
    doing = outstanding(now, intervals.patience);
    looking = !failure_ && (doing || explaining_);
    found = outbox_;
    if (now >= next_beat_) heartbeat = report(now);
  }
  if (heartbeat) next_beat_ = now + intervals.heartbeat;
  if (board_ && store_failed_.empty()) {
    Monitor::get().busy_since = now.time_since_epoch().count();
    try {
      if (found) found = board_->post(*found);
      if (heartbeat) board_->beat(*heartbeat);
      if (looking && !found && now - last_look_ >= intervals.look / 2) found = look(now);
    } catch (const Error& e) {
      store_failed_ = e.what();
    } catch (const std::exception& e) {
      store_failed_ = cat("the process that hosts the store (usually rank 0) is gone: ", text_of(e));
    }
    Monitor::get().busy_since = 0;
  }
  if (looking && !found && !store_failed_.empty()) found = {-1, store_failed_};
  if (found) fail(*found);
  if (looking && !found && doing) warn_late(now, *doing);
  const std::lock_guard lock(mutex_);
  return next(now, looking && !found);
}

std::optional<Failure> Watch::look(Clock::time_point now) {
  if (std::optional<Failure> found = board_->failure()) return found;
  std::vector<int> ranks;
  for (const Peer& p : peers_) ranks.push_back(p.rank);
  const std::vector<std::optional<std::string>> messages = board_->reports(ranks);
  // A process that was stopped together with the others has not seen them be silent meanwhile.
  const Clock::duration passed = std::min<Clock::duration>(now - last_look_, 2 * intervals.look);
  last_look_ = now;
  std::optional<Failure> dead;
  {
    const std::lock_guard lock(mutex_);
    Clock::duration longest = intervals.silence;
    for (size_t i = 0; i < peers_.size(); ++i) {
      Peer& p = peers_[i];
      const Report r = messages[i] ? Report::parse(*messages[i]) : p.report;
      p.quiet = p.seen && r.counter == p.report.counter ? p.quiet + passed : Clock::duration(0);
      p.report = r;
      p.seen = p.seen || messages[i];
      if (p.quiet < longest) continue;
      longest = p.quiet + Clock::duration(1);
      const std::string sign =
          cat("it gives no sign of life for ", seconds(p.quiet), " (killed, ended, or its machine is gone)");
      dead = Failure{p.rank, cat(sign, "; it last reported: ", r.words())};
    }
  }
  if (!dead) dead = disagreement();
  if (!dead) return std::nullopt;
  return board_->post(*dead);
}

void Watch::warn_late(Clock::time_point now, const Doing& doing) {
  std::string others;
  {
    const std::lock_guard lock(mutex_);
    if (now - doing.since < intervals.late || doing.number <= warned_) return;
    others = behind(doing.number);
    // The first of the ranks that wait is enough.
    const auto waits = [&](const Peer& p) { return p.rank < rank_ && p.report.started >= doing.number; };
    if (others.empty() || std::ranges::any_of(peers_, waits)) return;
    // What this rank has started by now waits for the same.
    warned_ = std::max(doing.number, started_);
  }
  warn(cat("[distributed] rank ", rank_, " waits for ", doing.what, " since ", seconds(now - doing.since), others));
}

std::optional<Doing> Watch::outstanding(Clock::time_point now, Clock::duration least) {
  for (const auto& [ticket, p] : pending_) {
    if (now - p->since < least) break;
    if (!p->complete()) return Doing{p->what, p->since, p->number};
  }
  if (!passing_ || now - passing_->since < intervals.patience) return std::nullopt;
  try {
    c10::impl::VirtualGuardImpl(device_).setDevice(event_->device());
    if (!event_->query()) return passing_;
  } catch (const std::exception&) {
    // The device has failed, which the program's own thread raises.
  }
  passing_.reset();
  return std::nullopt;
}

Clock::time_point Watch::next(Clock::time_point now, bool looking) const {
  Clock::time_point at = looking ? std::min(next_beat_, last_look_ + intervals.look) : next_beat_;
  if (!looking && passing_) at = std::min(at, std::max(now + intervals.look, passing_->since + intervals.patience));
  for (const auto& [ticket, p] : pending_) {
    if (!looking && now - p->since < intervals.patience) return std::min(at, p->since + intervals.patience);
  }
  return at;
}

Report Watch::report(Clock::time_point now) {
  const Place place = Standing::now();  // before `started_` is read: see disagreement()
  const std::optional<Doing> doing = outstanding(now, milliseconds(0));
  const std::string text = doing           ? cat("waits for ", doing->what, " since ", seconds(now - doing->since))
                           : last_.empty() ? "has waited for nothing yet"
                                           : cat("last waited for ", last_);
  return {++beats_, started_, finished_, place, text.substr(0, 300) + process_};
}

void agree(const std::string& group_name, const std::string& key, const std::string& text, milliseconds timeout) {
  const auto group = group_named(group_name);
  if (is_fake(*group)) return;
  const std::shared_ptr<Watch> watch = Watch::of(group_name);
  const std::string what = cat("the agreement on ", key);
  watch->check(what);
  auto waiting = std::make_shared<Pending>();
  waiting->what = what;
  const uint64_t ticket = watch->add(waiting);
  try {
    const std::string name = cat("agree/", key, "/");
    const c10::intrusive_ptr<c10d::Store> whole = group->getStore();
    Agreement agreement(watch->board_ ? watch->board_->store() : *whole,
                        watch->board_ ? watch->board_->key(name) : cat("thunder/", group_name, "/", name), watch->rank_,
                        watch->size_);
    agreement.arrive(text);
    const auto end = Clock::now() + timeout;
    for (milliseconds pause(1); !agreement.has("all"); pause = std::min(2 * pause, milliseconds(50))) {
      watch->raise_failed(cat("while this rank waited for ", what));
      if (Clock::now() > end) {
        std::string missing;
        for (int r : agreement.missing()) missing += cat("; rank ", r, " is missing, ", watch->last_report(r));
        throw Error(ErrorKind::Runtime, cat("[distributed] ", what, " was not reached in ", seconds(timeout), missing));
      }
      std::this_thread::sleep_for(pause);
    }
    if (agreement.has("different"))
      throw Error(ErrorKind::Value, cat("[distributed] the ranks do not agree on ", key,
                                        agreement.difference(text, milliseconds(10000))));
    watch->drop(ticket);
  } catch (const Error&) {
    watch->drop(ticket);
    throw;
  } catch (const std::exception& e) {
    watch->drop(ticket);
    watch->explain(what, text_of(e));
  }
}

}  // namespace thunder::distributed
