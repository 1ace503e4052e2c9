// Gradient rules written in Python, forward and backward interleaved:
//
//   def rule(a):
//     out = my_forward(a)
//     put_grad(a, my_backward(get_grad(out), a))
//     return out
//
// The rule runs once for a call, when the backward's gradients do not exist yet: get_grad() gives placeholders.  What
// depends on no placeholder and makes a result is the forward, the body of a call that stands for the original; the
// rest is the call's own gradient rule, and is made again when autodiff has the real gradients.
#pragma once

#include "jit/python_rules.h"

namespace thunder {

Transform python_gradient_rule(PythonFunction rule);

/// What the running rule calls.  Error (Runtime) outside of a rule.
Ref get_grad(PyObject* result);
void put_grad(PyObject* argument, PyObject* gradient);

}  // namespace thunder
