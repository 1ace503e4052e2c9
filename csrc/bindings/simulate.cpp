// The simulator's results as Python sees them.
#include <nanobind/stl/map.h>

#include "bindings/bind.h"
#include "bindings/types.h"
#include "passes/distributed/simulate.h"

namespace thunder::bindings {
namespace {

using namespace thunder::distributed;

void bind_results(nb::module_& m) {
  nb::class_<SimulatedWait>(m, "SimulatedWait", "A wait for a collective, or a collective that nobody waits for.")
      .def_ro("name", &SimulatedWait::name, "What is communicated: \"h.0.attn.weight and 3 more\".")
      .def_ro("future", &SimulatedWait::future, "As the trace prints it: \"p11\".")
      .def_ro("group", &SimulatedWait::group)
      .def_prop_ro(
          "collective", [](const SimulatedWait& w) { return std::string(name_of(w.kind)); },
          "\"all_gather\", \"reduce_scatter\" or \"all_reduce\".")
      .def_ro("backward", &SimulatedWait::backward)
      .def_ro("waited", &SimulatedWait::waited)
      .def_ro("bytes", &SimulatedWait::bytes, "Of the whole tensors.")
      .def_ro("seconds", &SimulatedWait::seconds, "Of the collective.")
      .def_ro("exposed", &SimulatedWait::exposed, "Seconds for which kernels stood still.")
      .def("__repr__", [](const SimulatedWait& w) {
        return cat("SimulatedWait(", w.future, ", ", name_of(w.kind), ", '", w.name, "', bytes=", w.bytes,
                   ", seconds=", w.seconds, ", exposed=", w.exposed, ")");
      });
  nb::class_<Simulation>(m, "Simulation", nb::dynamic_attr(), "A simulated step of one process. str() is a report.")
      .def_ro("step", &Simulation::step, "Seconds: compute + slowed + exposed + spread.")
      .def_ro("compute", &Simulation::compute, "Seconds of the kernels by themselves.")
      .def_ro("slowed", &Simulation::slowed, "Seconds that communication beside them adds.")
      .def_ro("exposed", &Simulation::exposed, "Seconds for which kernels stood still.")
      .def_ro("spread", &Simulation::spread, "Seconds for which the slowest device is waited for in the end.")
      .def_ro("forward", &Simulation::forward, "Seconds after which the forward's last kernel ended.")
      .def_ro("communicators", &Simulation::communicators, "By group: seconds for which it communicates.")
      .def_ro("waits", &Simulation::waits, "In the order of the waits.")
      .def_prop_ro(
          "memory",
          [](const Simulation& s) {
            std::vector<std::pair<double, int64_t>> out;
            for (const MemoryPoint& p : s.memory) out.emplace_back(p.seconds, p.bytes);
            return out;
          },
          "Pairs of seconds and bytes from then on.")
      .def_ro("inputs", &Simulation::inputs, "Bytes of parameters and arguments.")
      .def_ro("peak", &Simulation::peak, "Bytes.")
      .def_ro("peak_at", &Simulation::peak_at, "The call at which it is reached.")
      .def_ro("notes", &Simulation::notes, "What of the cost table is measured, and what is estimated.")
      .def("__str__", &Simulation::report)
      .def("__repr__", &Simulation::report);
}

}  // namespace

void bind_simulate(nb::module_& m) {
  bind_results(m);
  nb::class_<CostTable>(m, "CostTable", "What a device and its networks take for work.")
      .def_static(
          "built_in", [](const std::string& device) { return CostTable::parse(built_in_cost_table(device)); },
          nb::arg("device"), "ValueError if there is none.")
      .def_static(
          "parse", [](const std::string& text) { return CostTable::parse(text); }, nb::arg("text"),
          "A table of these lines alone. ValueError names the one that is wrong.")
      .def(
          "with_lines", [](const CostTable& t, const std::string& text) { return CostTable::parse(text, t); },
          nb::arg("text"), "The table with more lines. ValueError names the one that is wrong.")
      .def_prop_ro("device", &CostTable::device)
      .def_prop_ro("fabric", &CostTable::fabric, "Those of the line 'node': \"nvlink+infiniband\"; \"\" without one.")
      .def_prop_ro("capability", &CostTable::capability, "90 for 9.0.")
      .def_prop_ro("cudnn_version", &CostTable::cudnn_version);
  m.def(
      "simulate",
      [](const PyTrace& forward, const std::optional<PyTrace>& backward, const CostTable& table) {
        return simulate(forward.trace, backward ? &backward->trace : nullptr, table);
      },
      nb::arg("forward"), nb::arg("backward").none(), nb::arg("table"),
      "Simulates the last traces of a compilation; nothing is run.");
}

}  // namespace thunder::bindings
