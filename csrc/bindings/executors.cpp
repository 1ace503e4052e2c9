#include <nanobind/stl/tuple.h>

#include <mutex>
#include <thread>
#include <tuple>

#include "bindings/bind.h"
#include "bindings/types.h"
#include "executors/aten/aten.h"
#include "executors/definition.h"
#include "executors/fuser/fuser.h"
#include "executors/plugin.h"
#include "passes/executor.h"
#include "runtime/background.h"
#include "runtime/kernels/nvrtc.h"
#include "runtime/parallel.h"

namespace thunder::bindings {
namespace {

void bind_kernels(nb::module_& m) {
  m.def(
      "reserve_names", [] { Executors::instance().reserve_names(); },
      "Executors and levels of operators that are there now are Thunder's own: none that is made later has their "
      "names.");
  m.def("wait_for_compilations", &wait_for_compilations, "Until no kernel is being compiled in the background.");
  nb::module_::import_("atexit").attr("register")(m.attr("wait_for_compilations"));
  m.def(
      "parallel_ranges",
      [](int64_t n, int64_t grain) {
        std::mutex mutex;
        std::vector<std::tuple<int64_t, int64_t, size_t>> out;
        nb::gil_scoped_release released;
        parallel_for(0, n, grain, [&](int64_t from, int64_t to) {
          std::lock_guard lock(mutex);
          out.emplace_back(from, to, std::hash<std::thread::id>()(std::this_thread::get_id()));
        });
        return out;
      },
      nb::arg("n"), nb::arg("grain"), "How a kernel's rows are divided: (from, to, thread).");
  m.def(
      "trace_kernels", [](const PyTrace& t) { return kernels_of(t.trace); },
      "The kernels of a program as (name, source), each once.");
  m.def("trace_cuda_texts", [](const PyTrace& t) { return cuda_texts_of(t.trace); });
  m.def("always_emit_cuda", &set_always_emit_cuda, nb::arg("on"),
        "Makes the CUDA text of every kernel, for trace_cuda_texts().");
  m.def(
      "compile_cuda",
      [](const std::vector<std::pair<std::string, std::string>>& sources, int major, int minor) {
        std::vector<CudaSource> list;
        for (const auto& [name, text] : sources) list.push_back({name, text, {}});
        std::vector<std::pair<bool, std::string>> out;
        nb::gil_scoped_release released;
        for (const CompiledCubin& c : compile_cuda(list, major, minor)) out.emplace_back(c.ok(), c.log);
        return out;
      },
      nb::arg("sources"), nb::arg("major"), nb::arg("minor"),
      "For each source whether NVRTC compiled it, and its log.");
}

}  // namespace

void bind_executors(nb::module_& m) {
  nb::class_<Executor>(m, "Executor", "Who runs operators: see docs/adding_an_executor.md.")
      .def_prop_ro("name", &Executor::name)
      .def_prop_ro("version", &Executor::version)
      .def_prop_ro("is_fusion", &Executor::is_fusion)
      .def_prop_ro("unavailable", &Executor::unavailable, "Why it cannot be used here; empty if it can.")
      .def_prop_ro(
          "symbols",
          [](const Executor& e) {
            std::vector<std::string> out;
            for (const auto& [symbol, list] : e.implementations()) out.push_back(symbol);
            return out;
          },
          "Symbols that it has implementations of.")
      .def("__repr__", [](const Executor& e) { return "thunder.executors." + e.name(); });

  register_executors();
  m.def("load_executor", &load_executor, nb::arg("path"), "Loads the library of an executor in C++.");
  bind_kernels(m);
  m.def(
      "check_records",
      [] {
        std::vector<std::pair<std::string, std::string>> out;
        for (const Op* op : Registry::instance().all())
          if (op->executor.empty() && (op->is_prim() || !op->aten.empty()))
            if (std::string problem = check_record(*op); !problem.empty()) out.emplace_back(op->full_name, problem);
        return out;
      },
      "Records whose `aten` field does not fit the operator of this PyTorch, with what is wrong.");
  m.def("all_executors", [] { return Executors::instance().all(); });
  m.def("default_executors", [] { return Executors::instance().defaults(); });
  m.def("always_executors", [] { return Executors::instance().always(); });
  m.def("find_executor", [](const std::string& name) { return Executors::instance().find(name); });
  m.def("add_executor", [](const std::shared_ptr<Executor>& e) { Executors::instance().add(e); });
  m.def("remove_executor", [](const std::string& name) { Executors::instance().remove(name); });
  m.def("add_default_executor", [](const std::shared_ptr<Executor>& e) { Executors::instance().add_default(e); });
  m.def("remove_default_executor", [](const std::string& name) { Executors::instance().remove_default(name); });
  m.def("add_always_executor", [](const std::shared_ptr<Executor>& e) { Executors::instance().add_always(e); });
}

}  // namespace thunder::bindings
