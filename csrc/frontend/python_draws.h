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

/// Calls by what is called: a function and the object that is its first argument, or a generator and its method.
class DrawingCalls {
 public:
  struct Key {
    PyObject *callee = nullptr, *self = nullptr;  ///< self: null for a first argument that is a plain value or a tensor
    std::string method = {};
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Call {
    Ref callee, self;             ///< keep the key's objects
    std::vector<Ref> generators;  ///< from which it draws
    bool refused = false;         ///< it gave what no program takes
  };
  /// Nothing for what is neither.  `first`: the first argument, or null.
  static std::optional<Key> key_of(PyObject* callable, PyObject* first);
  static Key key_of_function(PyObject* function, PyObject* first);
  /// Null if it is not among them.
  Call* find(PyObject* callable, PyObject* first);
  /// Whether there was a new one among the others.
  bool add(const DrawingCalls& others);
  /// Whether it is a new one.
  bool add(const Key& key, std::vector<Ref> generators);

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
  /// A function of Python's is about to be called, which PythonDraws could call instead.
  void will_call(PyObject* function) { next_ = function; }
  void begins(const Done& done) { frames_.push_back({done, nullptr, nullptr, found_.size(), drawn_from_.size()}); }
  /// The innermost frame is of this function.  `first`: its first argument, or null.  A null function: the program made
  /// the function or its first argument.
  void is_of(PyObject* function, PyObject* first);
  enum class Result {
    Input,  ///< it can be an input of a program
    Other,
  };
  /// The innermost frame ends.
  void ends(const Done& done, Result result);
  enum class Generator {
    Outside,
    Own,  ///< the program made it
  };
  /// A method of a generator drew.
  void drew(PyObject* generator, Generator whose, std::string method, Result result);
  /// The outermost calls that draw and do nothing else.
  const DrawingCalls& found();

 private:
  struct Frame {
    Done done;
    PyObject *function, *first;  // null: it is no call that can be made as a whole
    size_t found, drawn;         // how many there were before
  };
  struct Found {
    DrawingCalls::Key key;
    std::vector<Ref> generators;
  };
  std::vector<Frame> frames_;
  std::vector<Found> found_;
  std::vector<Ref> drawn_from_;  // null: a generator of the program's own
  PyObject* next_ = nullptr;
  DrawingCalls calls_;
};

class PythonDraws {
 public:
  PythonDraws(Acquisition& acquisition, Proxies& proxies, Tensors& tensors, ValueQuestions& questions)
      : acquisition_(acquisition), proxies_(proxies), tensors_(tensors), questions_(questions) {}

  /// The calls to make as a whole; null: none.
  DrawingCalls* calls = nullptr;

  using Asks = std::function<bool(PyObject*)>;
  /// Makes the call, if it is one of those, is given nothing but tensors, numbers and what `is_settled` says was there
  /// before, and draws from no generator of which the program `touched` the state.  The result is a number of the
  /// program, or an array for which tensor_of() has a tensor.
  Ref call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names, const Asks& is_settled,
           const Asks& touched);
  /// What the tensor and the array are to the program.
  enum class Memory { One, Apart };
  /// The tensor of the array's numbers; null for an array that no call gave, or that other code has seen.
  Ref tensor_of(PyObject* array, Memory memory);
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
  enum class Lists { Copied, Refused };  // of the program
  std::optional<Arg> argument(PyObject* o, Lists lists, const Asks& is_settled);
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

/// What a call may give: a number of Python's, or an array of NumPy's whose memory nobody else has.  `is_own`: whether the
/// program made an object.
bool is_drawable(PyObject* result, const std::function<bool(PyObject*)>& is_own);

}  // namespace thunder::frontend
