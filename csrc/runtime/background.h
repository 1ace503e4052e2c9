// Compilations in threads of their own, and waiting for them: by who needs a result, and by the end of the process.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>

namespace thunder {

/// Without the GIL for the length of a scope, if this thread has it: a compiling thread may want to warn, which takes
/// it.
class Released {
 public:
  Released();
  ~Released();
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  void* state_;
};

/// Until no thread compiles any more: they use what an exit of the process takes away.
void wait_for_compilations();

namespace background {

void begin();
void end();

}  // namespace background

/// Runs `compile` in a thread of its own; wait_for_compilations() knows of it.
template <class F>
auto in_background(F compile) {
  background::begin();
  struct Done {
    ~Done() { background::end(); }
  };
  auto done = std::make_shared<Done>();
  return std::async(std::launch::async,
                    [compile = std::move(compile), done = std::move(done)]() mutable {
                      const std::shared_ptr<Done> until_here = std::move(done);
                      return compile();
                    })
      .share();
}

template <class T>
const T& wait(const std::shared_future<T>& f) {
  if (f.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const Released released;
    f.wait();
  }
  return f.get();
}

}  // namespace thunder
