#include "bindings/bind.h"
#include "core/warning.h"
#include "runtime/python_error.h"

namespace thunder::bindings {
namespace {

void set_error(const std::exception_ptr& p) {
  try {
    std::rethrow_exception(p);
  } catch (const frontend::PythonError&) {
    // Set already.
  } catch (const frontend::Interrupted& i) {
    set_error(i.raised);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::exception& e) {
    if (!thunder::set_python_error(p)) PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace

void set_python_error() noexcept { set_error(std::current_exception()); }

void bind_errors(nb::module_& m) {
  set_warning_handler(&warn_in_python);
  m.def("warn_once", &warn_once, nb::arg("topic"), nb::arg("message"), nb::call_guard<nb::gil_scoped_release>(),
        "Warns with a RuntimeWarning, once in the life of the process for each topic: what the compiler itself calls "
        "for a missing library or a cache that cannot be written.");
  nb::register_exception_translator([](const std::exception_ptr& p, void*) { set_error(p); });
}

}  // namespace thunder::bindings
