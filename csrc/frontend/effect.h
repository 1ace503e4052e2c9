// Writes of a program to Python objects that are not its own: done again after every run.
#pragma once

#include <cstddef>
#include <optional>

#include "frontend/outside_state.h"
#include "python/ref.h"

namespace thunder::frontend {

/// A place outside that the code wrote to, and what it holds at the end.
struct Effect {
  enum Kind {
    Entry,
    Attribute,
    Cell,
    Element,   ///< of a list
    Contents,  ///< of a list, dict, set or deque
    Appended,  ///< to a list of which nothing else was read or changed
    State,     ///< what C code keeps, below
  } kind;
  Ref owner{};   ///< null: it is the argument below
  Ref key{};     ///< of Entry, the name of Attribute, the index of Element
  Ref before{};  ///< null: there was none; a copy of the container for Contents; how long the list was for Appended
  Ref after{};   ///< null: deleted; the new elements for Appended
  bool moved = false;  ///< an Entry that was deleted and made again, at the end
  std::optional<StateOf> state{};
  std::optional<size_t> argument{};  ///< which of Flattened::containers is the owner
};

/// A dict or set of the same entries in the same order, or a list of the same elements.
Ref copy_of(PyObject* container);
bool set_contents(PyObject* container, PyObject* contents);
/// Makes an entry of a dict its last one.  False with an exception set.
bool move_to_end(PyObject* dict, PyObject* key, PyObject* value);
/// Writes `value` (null: deletes) to the effect's place in `owner`.  False with an exception set.
bool apply_effect(const Effect& effect, PyObject* owner, PyObject* value);

}  // namespace thunder::frontend
