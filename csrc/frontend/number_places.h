// Places of the environment that hold a number which changes from call to call: an entry of a dict (an attribute, a global),
// an element of a list, a variable of a closure, an attribute of a class.
#pragma once

#include <optional>
#include <string>

#include "python/ref.h"

namespace thunder::frontend {

/// A dict and a key, a list and an index, a class and a name, or a cell and null.
struct NumberPlace {
  Ref container, key;
  explicit operator bool() const { return static_cast<bool>(container); }
};

/// A Python int or float, and no bool.
bool is_plain_number(PyObject* o);
/// A dict whose class leaves d[key] to dict: Counter, defaultdict, OrderedDict.
bool gives_its_entries(PyObject* dict);
/// What tells a key or index from others; nothing if it is neither a string nor an int of 0 or more.
std::optional<std::string> name_of_key(PyObject* key);
/// What is there now, borrowed; null if nothing is.
PyObject* value_at(PyObject* container, PyObject* key);

}  // namespace thunder::frontend
