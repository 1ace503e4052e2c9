#include "bindings/bind.h"
#include "core/op.h"
#include "core/print.h"
#include "executors/aten/aten.h"
#include "passes/pass_table.h"

namespace thunder::bindings {
namespace {

nb::dict describe_param(const Param& p) {
  nb::dict d;
  d["name"] = p.name;
  d["optional"] = p.optional;
  d["list"] = p.list;
  d["varargs"] = p.varargs;
  d["keyword_only"] = p.keyword_only;
  if (p.default_value) d["default"] = print(*p.default_value);
  return d;
}

// In the order of their bits.
constexpr const char* kTagNames[] = {
    "pointwise",  "reduction",  "view",      "shape",    "creation",      "matmul",     "random",
    "collective", "write",      "host_sync", "no_grad",  "commutative",   "cheap",      "data_dependent",
    "input",      "comparison", "identity",  "linear",   "returns_input", "any_layout", "steps",
    "comm",       "waits",      "state",     "autograd", "whole",         "own_size",   "once"};

nb::list tag_names(const Op& op) {
  nb::list out;
  for (size_t i = 0; i < std::size(kTagNames); ++i)
    if (op.tags >> i & 1) out.append(kTagNames[i]);
  return out;
}

nb::list passes_by_stage() {
  nb::list out;
  for (const Stage stage : kStages) {
    nb::list passes;
    for (const Pass& p : passes_of(stage)) {
      nb::dict d;
      d["id"] = p.id;
      d["title"] = p.title;
      d["optional"] = p.optional;
      d["when"] = condition_text(p.when);
      d["gives"] = p.gives;
      d["why"] = p.why;
      passes.append(d);
    }
    out.append(nb::make_tuple(description(stage), passes));
  }
  return out;
}

}  // namespace

void bind_registry(nb::module_& m) {
  nb::class_<Op>(m, "Op", "An operator's record.")
      .def_ro("level", &Op::level)
      .def_ro("name", &Op::name)
      .def_ro("full_name", &Op::full_name)
      .def_ro("print_name", &Op::print_name)
      .def_ro("doc", &Op::doc)
      .def_ro("aten", &Op::aten)
      .def_ro("python", &Op::python)
      .def_ro("scalar", &Op::scalar)
      .def_ro("executor", &Op::executor)
      .def_prop_ro("schema", [](const Op& op) { return op.schema.str(); })
      .def_prop_ro("results", [](const Op& op) { return op.schema.results; })
      .def_prop_ro("tags", tag_names)
      .def_prop_ro("domain", [](const Op& op) { return std::make_pair(op.domain.low, op.domain.high); })
      .def_prop_ro("has_meta", [](const Op& op) { return op.meta != nullptr; })
      .def_prop_ro("has_body", [](const Op& op) { return op.body != nullptr; })
      .def_prop_ro("has_vjp", [](const Op& op) { return op.vjp != nullptr; })
      .def_prop_ro("params",
                   [](const Op& op) {
                     nb::list out;
                     for (const Param& p : op.schema.params) out.append(describe_param(p));
                     return out;
                   })
      .def("__repr__", [](const Op& op) { return "<Op " + op.level + "." + op.schema.str() + ">"; });
  m.def("passes", &passes_by_stage, "The pipeline: for each stage what it works on and its passes in order.");
  m.def(
      "ops",
      [] {
        nb::list out;
        for (const Op* op : Registry::instance().all()) out.append(nb::cast(op, nb::rv_policy::reference));
        return out;
      },
      "All operators, in order of registration.");
  m.def(
      "find_op", [](const std::string& full_name) { return Registry::instance().find(full_name); },
      nb::rv_policy::reference);
  m.def(
      "tag_names", [] { return std::vector<std::string>(std::begin(kTagNames), std::end(kTagNames)); },
      "Names of the operators' tags, in the order of their bits.");
  m.def(
      "check_record", [](const Op& op) { return check_record(op); },
      "What is wrong with the record's ATen operator; empty if nothing.");
}

}  // namespace thunder::bindings
