// The structure of Python arguments and results: nested containers with tensors at the leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/argument_copies.h"
#include "python/ref.h"

namespace thunder::frontend {

/// A call's arguments, flat.  `key` spells out everything but the tensors: containers, numbers, strings and other values
/// (slices, ranges, bytes, frozensets, paths, NumPy's numbers) by value, other objects by identity; two calls with equal
/// keys differ in their tensors at most.
///
/// Objects of plain classes are taken apart like dicts, if what they hold is not too much.  An object that comes again
/// is named by its number, so that cycles end and calls where two arguments are one have a key of their own.
struct Flattened {
  std::vector<PyObject*> tensors;  ///< borrowed, in order
  std::string key;
  std::vector<PyObject*> containers;  ///< borrowed: the lists, dicts and objects that were taken apart, each once
  std::unordered_map<PyObject*, size_t> places;  ///< of the containers in the list, if they are many
  std::vector<PyObject*> objects;                ///< borrowed: those that `key` names by identity
  std::vector<PyObject*> paths;                  ///< borrowed: which keep what they were asked for in their attributes

  /// Whether numbers are to be told apart from their values: `key` then only says that there is an int or a float.
  /// Those that are is_symbolic_number(), in order; not those in dataclasses and in the keys of dicts.
  bool symbolic = false;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  const ClassUses* uses = nullptr;         ///< what `key` need not tell apart in objects; null: nothing
  const Identities* themselves = nullptr;  ///< containers that are taken by identity; null: none
  size_t limit = SIZE_MAX;                 ///< of `key`, within an object
  PyObject* overriding = nullptr;  ///< borrowed: one that overrides_torch_functions(), which was not looked into
};

/// A plain int or float, or a float64 of NumPy's, that may become a symbol.  0 and 1 may not, as broadcasting depends on
/// them; nor negative ints, which count from the end, and ones so large that products might leave 64 bits.
bool is_symbolic_number(PyObject* object);

void flatten(PyObject* object, Flattened& out);

/// The object with every tensor replaced by what `leaf` gives; containers are rebuilt, other objects are the same.
/// `number`: a function that replaces the numbers which flatten() found symbolic; null: they stay.
/// The copy of an argument that `copies` stands for is reported to `copies` (made()).  An argument whose copy exists
/// there already is not copied again.
Ref rebuild(PyObject* object, const std::function<Ref(PyObject*)>& leaf, const std::function<Ref(PyObject*)>* number,
            ArgumentCopies& copies);

/// Where an object of a result comes from.
enum class Origin { Unknown, Inside, Outside };

/// How to make the user's result from its tensors.
class OutputSpec {
 public:
  /// Takes the structure of `result`; each of its tensors and numbers is appended to `leaves` (borrowed) once.
  /// `origin`: an object that was there before the call is itself in the result, one made inside is made in every call.
  OutputSpec(PyObject* result, std::vector<PyObject*>& leaves, const std::function<Origin(PyObject*)>& origin,
             const ArgumentCopies& copies);
  /// The result with these (borrowed) in their places; `arguments`: Flattened::containers of the call.  Containers, and
  /// objects that were made inside or hold leaves in their attributes (a cache of keys and values), are made anew; other
  /// objects are those that the tracing run returned.
  Ref build(PyObject* const* leaves, const std::vector<PyObject*>& arguments) const;
  bool single() const { return single_; }
  /// What of the result was made inside and cannot be made again, so that the program serves one call.
  const std::optional<std::string>& once() const { return once_; }
  /// Whether a DTensor of the program's is in it, which cannot be made again.
  bool holds_dtensor() const { return dtensor_; }

 private:
  Ref template_;  // the result that the tracing run returned, proxies at its leaves
  bool single_ = false, dtensor_ = false;
  std::optional<std::string> once_;
  std::unordered_map<PyObject*, size_t> index_;  // of the template's leaves
  std::unordered_set<PyObject*> objects_;        // of the template, that are made anew
  std::unordered_set<PyObject*> kept_;           // objects of the template that are not made anew
  std::vector<PyObject*> attributed_;            // leaves of the template that have attributes
  std::vector<std::pair<PyObject*, size_t>>
      argument_copies_;  // in the template, and which of the arguments they stand for
};

}  // namespace thunder::frontend
