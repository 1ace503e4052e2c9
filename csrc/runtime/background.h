// Compilations in threads of their own, and waiting for them: by who needs a result, and by the end of the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/kernels/fork.h"

namespace thunder {

/// Waits until no thread compiles any more.  The exit of the process must wait for this, since compiling threads use
/// objects that the exit destroys.
void wait_for_compilations();

/// Calls `done` until it is true; it waits itself, no longer than it is told.  Without the GIL, if this thread has it: a
/// compiling thread may want to warn, which takes it.
void wait_without_gil(const std::function<bool(std::chrono::milliseconds)>& done);

/// Runs `work` in a thread of its own, of which wait_for_compilations() knows; in this one if there is no other to be
/// had.
void run_in_background(std::function<void()> work);

/// The number of a compilation, greater than those before.
uint64_t number_of_compilation();

/// For the length of a scope this thread is one of those that compile, of which there are as many as cores.  Where more
/// want to, the smallest numbers have theirs first: what runs first was asked for first.
class CompilesNow {
 public:
  explicit CompilesNow(uint64_t number);
  ~CompilesNow();
  CompilesNow(const CompilesNow&) = delete;
  CompilesNow& operator=(const CompilesNow&) = delete;
};

/// What a compilation in a thread of its own gives.  Copies share it.  A child that was forked meanwhile has no such
/// thread: there it is compiled again when somebody asks for it.
template <class T>
class Compilation {
 public:
  Compilation() = default;
  explicit Compilation(std::function<T()> compile) : state_(std::make_shared<State>(std::move(compile))) {}

  bool valid() const { return state_ != nullptr; }

  /// The result, or what `compile` threw; waits for it.
  const T& get() const {
    const std::shared_future<T> result = state_->result(true);
    wait(result);
    return result.get();
  }

  /// Until no thread uses what `compile` refers to.
  void finish() const {
    if (!state_) return;
    if (const std::shared_future<T> result = state_->result(false); result.valid()) wait(result);
  }

 private:
  static bool ready(const std::shared_future<T>& f) {
    return f.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  static void wait(const std::shared_future<T>& f) {
    if (ready(f)) return;
    wait_without_gil([&](std::chrono::milliseconds most) { return f.wait_for(most) == std::future_status::ready; });
  }

  class State {
   public:
    explicit State(std::function<T()> compile) : compile_(std::move(compile)) { start(); }

    /// If its thread was left behind in another process: a new one if `again`, else nothing.
    std::shared_future<T> result(bool again) {
      const NoFork whole;
      std::lock_guard lock(mutex_);
      if (generation_ != fork_generation() && !ready(result_)) {
        if (!again) return {};
        start();
      }
      return result_;
    }

   private:
    void start() {
      auto promise = std::make_shared<std::promise<T>>();
      result_ = promise->get_future().share();
      generation_ = fork_generation();
      run_in_background([promise, compile = compile_] {
        try {
          promise->set_value(compile());
        } catch (...) {
          promise->set_exception(std::current_exception());
        }
      });
    }

    const std::function<T()> compile_;
    std::mutex mutex_;
    std::shared_future<T> result_;
    uint64_t generation_ = 0;
  };
  std::shared_ptr<State> state_;
};

/// Runs `compile` in a thread of its own.
template <class F>
auto in_background(F compile) {
  return Compilation<decltype(compile())>(std::move(compile));
}

}  // namespace thunder
