#include "runtime/background.h"

#include <Python.h>

#include <condition_variable>
#include <mutex>

namespace thunder {
namespace {

// Never destroyed, so that a thread may leave at any time.
struct Compilations {
  std::mutex mutex;
  std::condition_variable none;
  int running = 0;
  static Compilations& all() {
    static auto* compilations = new Compilations;
    return *compilations;
  }
};

}  // namespace

Released::Released() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}

Released::~Released() {
  if (state_) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

void background::begin() {
  Compilations& all = Compilations::all();
  std::lock_guard lock(all.mutex);
  ++all.running;
}

void background::end() {
  Compilations& all = Compilations::all();
  std::lock_guard lock(all.mutex);
  if (--all.running == 0) all.none.notify_all();
}

void wait_for_compilations() {
  Compilations& all = Compilations::all();
  const Released released;
  std::unique_lock lock(all.mutex);
  all.none.wait(lock, [&] { return all.running == 0; });
}

}  // namespace thunder
