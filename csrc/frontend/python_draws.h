// Calls that draw random numbers by Python's or NumPy's generators.
//
//   mask = compute_mask_indices((4, 100), 0.05)     a function that calls numpy.random
//   h[torch.tensor(mask)] = 0
//   if random.random() < 0.1: return h
//
// The interpreter records nothing of such code, so that a program of it serves one call.  The first acquisition shows
// which calls draw, give a number or an array, and change nothing else that is seen (DrawingFrames); the outermost ones
// are remembered (DrawingCalls).  The next acquisition makes them natively, as a whole (PythonDraws).  What they give is
// an input of the program, and later calls make them again before they run it (jit/value_checks.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/proxies.h"
#include "frontend/tensors.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

/// Calls by what is called: a function's code, or a generator and the name of its method.
class DrawingCalls {
 public:
  using Key = std::pair<PyObject*, std::string>;
  struct Call {
    Ref owner;                    ///< keeps the key's object
    std::vector<Ref> generators;  ///< from which it draws
  };
  /// Nothing for what is neither.  `first`: the first argument, or null.
  static std::optional<Key> key_of(PyObject* callable, PyObject* first);
  /// Null if it is not among them.
  const Call* find(PyObject* callable, PyObject* first) const;
  bool empty() const { return calls_.empty(); }
  /// Whether there was a new one among the others.
  bool add(const DrawingCalls& others);
  /// Whether it is a new one.
  bool add(const Key& key, Call call) { return calls_.emplace(key, std::move(call)).second; }

 private:
  std::map<Key, Call> calls_;
};

/// The frames of an acquisition, innermost last, and the calls within them that draw.
class DrawingFrames {
 public:
  /// What code did, as far as it is seen: writes to objects from outside, reads of what the program wrote there (which
  /// later calls would make too early), recorded calls.
  struct Done {
    size_t writes, read_written, recorded;
    friend bool operator==(const Done&, const Done&) = default;
  };
  void begins(const Done& done) { frames_.push_back({done, nullptr, found_.size(), drawn_from_.size()}); }
  void is_of(PyCodeObject* code) { frames_.back().code = code; }
  /// The innermost frame ends.  `gives`: whether its result can be an input of a program.
  void ends(const Done& done, bool gives);
  /// A method of a generator drew.  `gives`: as above.
  void drew(PyObject* generator, std::string method, bool gives);
  /// The outermost calls that draw and do nothing else.
  DrawingCalls found() const;

 private:
  struct Frame {
    Done done;
    PyCodeObject* code;   // null: it did not begin
    size_t found, drawn;  // how many there were before
  };
  std::vector<Frame> frames_;
  std::vector<std::pair<DrawingCalls::Key, DrawingCalls::Call>> found_;
  std::vector<Ref> drawn_from_;
};

class PythonDraws {
 public:
  PythonDraws(Acquisition& acquisition, Proxies& proxies, Tensors& tensors, ValueQuestions& questions)
      : acquisition_(acquisition), proxies_(proxies), tensors_(tensors), questions_(questions) {}

  /// The calls to make as a whole; null: none.
  const DrawingCalls* calls = nullptr;

  /// Makes the call, if it is one of those and is given nothing but tensors, numbers and what `is_settled` says was there
  /// before.  The result is a number of the program, or an array for which tensor_of() has a tensor.
  Ref call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names,
           const std::function<bool(PyObject*)>& is_settled);
  /// The tensor of the array's numbers; null for an array that no call gave, or that other code has seen.  `shares`: the
  /// tensor and the array are one memory to the program.
  Ref tensor_of(PyObject* array, bool shares);
  /// Other code reads or changes the array, if it is one that a call gave: the program is then for its numbers.
  void open(PyObject* array);
  /// The same of all arrays in a tuple or list.
  void open_all(PyObject* o);
  /// Where that was first; nothing: nowhere.
  const std::optional<interpreter::Place>& opened() const { return opened_; }
  /// The arguments of a torch function: an array that is an index becomes its tensor.  What makes a tensor of an array
  /// asks for it itself (tensor_of()).  Other functions read their arrays.
  Ref arguments_of(PyObject* function, PyObject* args, PyObject* kwargs);

 private:
  struct Array {
    Ref object, tensor;
    bool shared = false;
  };
  Ref index_of(PyObject* key);
  std::optional<Arg> argument(PyObject* o, const std::function<bool(PyObject*)>& is_settled);
  std::optional<std::pair<const thunder::Call*, Ref>> make(PyObject* callable, const DrawingCalls::Call& call,
                                                           const Arg& arguments, const Arg& names,
                                                           const ValueQuestions::Now& now, Ref& result);

  Acquisition& acquisition_;
  Proxies& proxies_;
  Tensors& tensors_;
  ValueQuestions& questions_;
  std::unordered_map<PyObject*, Array> arrays_;
  std::optional<interpreter::Place> opened_;
};

/// What a call may give: a number, or an array of numbers of NumPy's.
bool is_drawable(PyObject* result);

}  // namespace thunder::frontend
