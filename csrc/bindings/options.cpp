#include "bindings/options.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "bindings/types.h"
#include "python/text.h"

namespace thunder::bindings {
namespace {

/// What the value of an option with a list of allowed values stands for.
template <class T>
T choice(nb::handle options, const char* name, std::initializer_list<std::pair<const char*, T>> meanings) {
  const auto given = nb::cast<std::string>(options.attr(name));
  for (const auto& [value, meaning] : meanings)
    if (given == value) return meaning;
  throw Error(ErrorKind::Value, cat("[jit] the compiler has no meaning for ", name, "='", given, "'"));
}

Float8Chooser float8_chooser(const nb::object& transform) {
  return [transform](PyObject* module) {
    Float8Choice out;
    const auto given = nb::cast<nb::tuple>(transform.attr("float8_layers")(nb::handle(module)));
    const auto layers = nb::cast<nb::list>(given[0]);
    out.keeps_last = nb::cast<bool>(given[1]);
    if (const nb::object history = given[2]; !history.is_none()) {
      out.history = Ref::borrow(history.ptr());
      out.recorded = nb::cast<Float8Recorded&>(given[3]).yes;
    }
    for (nb::handle h : layers) {
      const auto layer = nb::cast<nb::tuple>(h);
      const nb::object weight = layer[1];
      out.layers.push_back({nb::cast<std::string>(layer[0]), weight.is_none() ? Ref() : Ref::borrow(weight.ptr()),
                            nb::cast<std::string>(layer[2])});
    }
    return out;
  };
}

std::shared_ptr<GraphSettings> graph_settings(nb::handle fn, const nb::object& recorder, bool automatic) {
  if (recorder.is_none()) return nullptr;
  const nb::object name = nb::getattr(fn, "__qualname__", nb::getattr(fn.type(), "__qualname__"));
  return std::make_shared<GraphSettings>(printable(name.ptr()), recorder.ptr(), automatic);
}

void read_transform(const nb::object& f, nb::handle fn, JitOptions& out) {
  if (nb::hasattr(f, "float8_layers")) {
    THUNDER_CHECK(!out.float8, Value, "float8", "expected one Float8 among the transforms, got another one");
    out.float8 = float8_chooser(f);
    return;
  }
  if (nb::hasattr(f, "graph_recorder")) {
    out.graphs = graph_settings(fn, f.attr("graph_recorder")(), false);
    return;
  }
  std::string name = printable(nb::str(nb::getattr(f, "__name__", nb::str(f.type()))).ptr());
  out.compile.transforms.emplace_back(name, [f](const Trace& t) {
    nb::gil_scoped_acquire gil;
    return nb::cast<PyTrace>(f(PyTrace{t})).trace;
  });
}

}  // namespace

JitOptions read_options(nb::handle options, nb::handle fn) {
  using frontend::SharpEdges;
  JitOptions out;
  out.cache = choice<CacheMode>(options, "cache",
                                {{"varying values", CacheMode::VaryingValues},
                                 {"constant values", CacheMode::ConstantValues},
                                 {"symbolic values", CacheMode::SymbolicValues},
                                 {"same input", CacheMode::SameInput},
                                 {"no caching", CacheMode::NoCaching}});
  out.sharp_edges = choice<SharpEdges>(
      options, "sharp_edges", {{"allow", SharpEdges::Allow}, {"warn", SharpEdges::Warn}, {"error", SharpEdges::Error}});
  FusionOptions& fusion = out.compile.fusion;
  fusion.eager_numerics = choice<bool>(options, "numerics", {{"fused", false}, {"eager", true}});
  fusion.counted_random = choice<bool>(options, "rng", {{"eager", false}, {"fused", true}});
  out.compile.executors = nb::cast<std::vector<std::shared_ptr<Executor>>>(options.attr("executors"));
  if (fusion.eager_numerics) std::erase_if(out.compile.executors, [](const auto& e) { return !e->has_eagers_bits(); });
  out.compile.passes = PassOptions::from_environment();
  const nb::object recorder = nb::module_::import_("thunder._graphs").attr("recorder");
  const auto graphs = nb::cast<std::pair<nb::object, bool>>(recorder(options.attr("graphs")));
  out.graphs = graph_settings(fn, graphs.first, graphs.second);
  for (nb::handle f : nb::cast<nb::tuple>(options.attr("transforms"))) read_transform(nb::borrow(f), fn, out);
  return out;
}

}  // namespace thunder::bindings
