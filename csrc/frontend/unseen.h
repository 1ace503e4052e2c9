// C code that does what an acquisition can neither see nor take back, and a program not do again.
#pragma once

#include <string>
#include <string_view>

#include "frontend/acquisition.h"
#include "python/ref.h"

namespace thunder::frontend {

/// What the method `name` of an object from outside does, for a message; empty where it is known to be harmless, or
/// where the state of such objects is compared (outside_state.h).  `module`: where the callable says that it is from.
std::string unseen_method(PyObject* self, std::string_view name, std::string_view module);

/// Whether C code of its class sets an object's attributes (decimal.Context).
bool sets_unseen(PyObject* o);

/// Ends the acquisition, because of what the function does; false, with the error set.
bool leave_to_eager(Acquisition& acquisition, const std::string& does);

}  // namespace thunder::frontend
