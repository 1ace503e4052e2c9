#include "bindings/bind.h"
#include "core/progress.h"
#include "core/warning.h"
#include "frontend/interpreter/interpreter.h"
#include "jit/tracing.h"
#include "runtime/python_error.h"

namespace thunder::bindings {
namespace {

void set_error(const std::exception_ptr& p) {
  try {
    std::rethrow_exception(p);
  } catch (const PythonError&) {
    // Set already.
  } catch (const Interrupted& i) {
    set_error(i.raised);
  } catch (const nb::python_error& e) {
    nb::python_error(e).restore();  // a copy: restore() empties what may be thrown again
  } catch (const std::exception& e) {
    if (!thunder::set_python_error(p)) PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

// A compilation may end by an exception, which stays; what the log reads is no part of the program.
void log_in_python(const std::string& message) {
  nb::gil_scoped_acquire gil;
  nb::error_scope pending;
  frontend::interpreter::NotInterpreting apart;
  try {
    nb::module_::import_("logging").attr("getLogger")("thunder").attr("info")("%s", message);
  } catch (nb::python_error& e) {
    e.discard_as_unraisable("a log of what thunder compiles");
  }
}

}  // namespace

void set_python_error() noexcept { set_error(std::current_exception()); }

void bind_errors(nb::module_& m) {
  set_warning_handler(&warn_in_python);
  ProgressOutput progress;
  progress.log = &log_in_python;
  set_progress_output(std::move(progress));
  m.def("show_progress", &show_progress, nb::arg("on"));
  m.def("warn_once", &warn_once, nb::arg("topic"), nb::arg("message"), nb::call_guard<nb::gil_scoped_release>(),
        "Warns with a RuntimeWarning, once in the life of the process for each topic: what the compiler itself calls "
        "for a missing library or a cache that cannot be written.");
  nb::register_exception_translator([](const std::exception_ptr& p, void*) { set_error(p); });
}

}  // namespace thunder::bindings
