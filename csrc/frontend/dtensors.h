// DTensors in programs: this process's parts are the program's tensors, and Python (thunder/distributed/_dtensor) knows
// what a call makes of them.
//
// Owns nothing: trials are scopes of the builder.  Calls the proxies and the tensors.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/proxies.h"
#include "frontend/tensors.h"

namespace thunder::frontend {

/// Whether the object is a DTensor to programs, or a container with one in it.
bool holds_dtensor(PyObject* o);
/// What Python makes of a torch call with DTensors; null if there is none among the arguments.
Ref record_with_dtensors(PyObject* func, PyObject* args, PyObject* kwargs);

class DTensors {
 public:
  DTensors(Acquisition& acquisition, Proxies& proxies, Tensors& tensors)
      : b_(acquisition.builder()),
        arena_(acquisition.arena()),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        tensors_(tensors) {}

  /// The program's tensor for this process's part of a DTensor.  The tensor is `local`, which lies in the DTensor's
  /// memory, or, for a parameter of a communication plan, the tensor that the plan gathers.  `wrap`: a function that
  /// makes the DTensor's gradient of the part's gradient.
  Ref add_part(PyObject* dtensor, PyObject* local, PyObject* wrap);
  /// Numbers that change when the tensors are written to.
  std::vector<size_t> values(const std::vector<PyObject*>& tensors);
  size_t calls_made() const { return b_.calls().size(); }
  /// What is recorded until end_trial() is no part of the program: calls on wholes, of which others are made on parts.
  void begin_trial() { b_.open_scope(); }
  /// Whether the calls are the same ones as those behind the first `since`.
  bool end_trial(size_t since);
  /// A tensor of the trial: the whole, with these sizes, of which a tensor is a part.
  Ref whole_of(PyObject* part, PyObject* sizes);
  /// Propagates shard dimensions through the calls behind the first `since`.  `given`: tensors that are parts, each
  /// with the dimension along which it is sharded.  Returns the shard dimension of each result; nothing for a
  /// replicated result.  Error (NotImplemented) as distributed::Shards.
  std::vector<std::optional<int64_t>> parts(size_t since, const std::vector<std::pair<PyObject*, int64_t>>& given,
                                            const std::vector<PyObject*>& results);

 private:
  Builder& b_;
  const std::shared_ptr<Arena>& arena_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Tensors& tensors_;
};

}  // namespace thunder::frontend
