// The tracer as the handlers of torch functions see it.
#include "frontend/tracer.h"
#include "bindings/bind.h"
#include "bindings/types.h"

namespace thunder::bindings {
namespace {

using frontend::Tracer;

std::vector<PyObject*> pointers(const nb::list& objects) {
  std::vector<PyObject*> out;
  for (nb::handle h : objects) out.push_back(h.ptr());
  return out;
}

nb::list list_of(std::vector<Ref> objects) {
  nb::list out;
  for (Ref& o : objects) out.append(object(std::move(o)));
  return out;
}

// Sizes of a traced tensor: ints, and traced numbers where only the run knows.
nb::tuple dims(const Dims& sizes) {
  nb::list out;
  for (const Dim& d : sizes) out.append(object(frontend::to_python(Arg(d), [](Value) -> Ref { return {}; })));
  return nb::tuple(out);
}

// Calls of the program, and how the acquisition goes on.
void bind_calls(nb::class_<Tracer>& tracer) {
  tracer
      .def(
          "handle",
          [](Tracer& t, nb::handle func, nb::handle args, nb::handle kwargs) {
            return object(t.calls().handle(func.ptr(), args.ptr(), kwargs.is_none() ? nullptr : kwargs.ptr()));
          },
          nb::arg("func"), nb::arg("args"), nb::arg("kwargs").none())
      .def(
          "apply",
          [](Tracer& t, const std::string& op, const nb::tuple& args, const nb::dict& kwargs, bool in_place) {
            return object(t.calls().apply(op, args.ptr(), kwargs.ptr(), in_place));
          },
          nb::arg("op"), nb::arg("args"), nb::arg("kwargs") = nb::dict(), nb::arg("in_place") = false)
      .def("call_symbol",
           [](Tracer& t, const std::string& op, const nb::tuple& args, const nb::dict& kwargs) {
             return object(t.calls().call_symbol(op, args.ptr(), kwargs.ptr()));
           })
      .def("run", [](Tracer& t, nb::handle fn, nb::handle args,
                     nb::handle kwargs) { return object(t.run(fn.ptr(), args.ptr(), kwargs.ptr())); })
      .def("call_user", [](Tracer& t, nb::handle fn,
                           const nb::tuple& args) { return object(frontend::call_user(fn.ptr(), args.ptr())); })
      .def(
          "set_language",
          [](Tracer& t, const std::string& name) {
            std::string before = t.calls().language() ? t.calls().language()->name() : "torch";
            t.calls().set_language(name == "torch" ? nullptr : &frontend::Language::named(name));
            return before;
          },
          "The language of the user's code from here on; returns the one before.")
      .def(
          "leave_to_eager",
          [](Tracer& t, const std::string& why, bool warns) { t.leave_to_eager(why, nullptr, warns); }, nb::arg("why"),
          nb::arg("warns") = false,
          "Ends the acquisition: the function itself has to run, for this reason, of which the user is told if "
          "`warns`.")
      .def_prop_ro(
          "left_to_eager", [](Tracer& t) { return t.eager.has_value(); },
          "Whether the acquisition has ended, by leave_to_eager().")
      .def("take_calls", [](Tracer& t) { t.calls().take_calls(); })
      .def_prop_ro("interprets", &Tracer::interprets)
      .def_ro("seems_compiled", &Tracer::seems_compiled)
      .def("made", [](Tracer& t, nb::handle container) { t.made(container.ptr()); })
      .def("made_inside", [](Tracer& t, nb::handle o) { return t.made_inside(o.ptr()); })
      .def_prop_ro("location", [](Tracer& t) { return t.location(); });
}

// Writes to tensors, and the memory that they go to.
void bind_writes(nb::class_<Tracer>& tracer) {
  tracer
      .def("copy_into", [](Tracer& t, nb::handle target, nb::handle source,
                           const std::string& op) { t.mutation().copy_into(target.ptr(), source.ptr(), op.c_str()); })
      .def("write_out",
           [](Tracer& t, nb::handle out, nb::handle result, const std::string& op) {
             t.mutation().write_out(out.ptr(), t.tensors().convert(result.ptr()), op);
           })
      .def("set_data", [](Tracer& t, nb::handle to, nb::handle from) { t.mutation().set_data(to.ptr(), from.ptr()); })
      .def("set_uncounted", [](Tracer& t, nb::handle o) { t.aliases().set_uncounted(t.tensors().id_of(o.ptr())); })
      .def("check_writable",
           [](Tracer& t, nb::handle o, const std::string& op) { t.mutation().check_writable(o.ptr(), op.c_str()); })
      .def("forbid_writes", [](Tracer& t, nb::handle o) { t.mutation().forbid_writes(o.ptr()); })
      .def("become", [](Tracer& t, nb::handle tensor, nb::handle other,
                        const std::string& op) { t.mutation().become(tensor.ptr(), other.ptr(), op.c_str()); })
      .def("detach_in_place", [](Tracer& t, nb::handle o) { t.mutation().detach_in_place(o.ptr()); })
      .def(
          "memory_from",
          [](Tracer& t, nb::handle tensor, nb::handle sizes, nb::handle strides, nb::handle offset) {
            return object(t.strided().memory_from(tensor.ptr(), sizes.ptr(), strides.ptr(), offset.ptr()));
          },
          nb::arg("tensor"), nb::arg("sizes"), nb::arg("strides"), nb::arg("storage_offset").none())
      .def("share_memory",
           [](Tracer& t, nb::handle a, nb::handle b) {
             return t.aliases().share_memory(t.tensors().id_of(a.ptr()), t.tensors().id_of(b.ptr()));
           })
      .def("is_from_outside",
           [](Tracer& t, nb::handle o) { return t.tensors().is_outside(t.tensors().id_of(o.ptr())); })
      .def("is_plain_input",
           [](Tracer& t, nb::handle o) { return t.tensors().is_plain_input(t.tensors().id_of(o.ptr())); })
      .def("add_captured", [](Tracer& t, nb::handle tensor) { t.tensors().add_captured(tensor.ptr()); });
}

// What a tensor is.
void bind_attributes(nb::class_<Tracer>& tracer) {
  tracer.def("shape", [](Tracer& t, nb::handle o) { return dims(t.tensors().type_of(o.ptr()).shape); })
      .def("stride", [](Tracer& t, nb::handle o) { return dims(t.tensors().type_of(o.ptr()).strides); })
      .def("keep_strides", [](Tracer& t, nb::handle o) { t.layouts().keep_strides(t.tensors().type_of(o.ptr())); })
      .def("layout",
           [](Tracer& t, nb::handle o) { return std::string(layout_name(t.tensors().type_of(o.ptr()).layout)); })
      .def("dense_dims", [](Tracer& t, nb::handle o) { return t.tensors().type_of(o.ptr()).dense_dims; })
      .def("is_contiguous",
           [](Tracer& t, nb::handle o, const std::string& format) {
             return t.located_with_answers(
                 [&] { return frontend::Layouts::has_format(t.tensors().type_of(o.ptr()), format); });
           })
      .def("is_conj", [](Tracer& t, nb::handle o) { return t.aliases().is_conj(t.tensors().id_of(o.ptr())); })
      .def("describe", [](Tracer& t, nb::handle o) { return Type(t.tensors().type_of(o.ptr())).str(); })
      .def("knows", [](Tracer& t, nb::handle o) { return t.proxies().knows(o.ptr()); });
}

// Numbers of the run, and what is known of tensors before it.
void bind_numbers(nb::class_<Tracer>& tracer) {
  tracer
      .def("number_operation", [](Tracer& t, const std::string& op, nb::handle a,
                                  nb::handle b) { return object(t.numbers().operation(op, a.ptr(), b.ptr())); })
      .def("number_function", [](Tracer& t, const std::string& name, nb::handle number,
                                 int64_t digits) { return object(t.numbers().function(name, number.ptr(), digits)); })
      .def("specialize", [](Tracer& t, nb::handle number) { return object(t.numbers().specialize(number.ptr())); })
      .def("constant",
           [](Tracer& t, nb::handle o) {
             Ref value = t.constants().find(o.ptr());
             return value ? object(std::move(value)) : nb::object(nb::none());
           })
      .def("read",
           [](Tracer& t, nb::handle o, const std::string& what) { return object(t.questions().read(o.ptr(), what)); })
      .def("drawn", [](Tracer& t, nb::handle array, bool shares) {
        Ref tensor = t.draws().tensor_of(
            array.ptr(), shares ? frontend::PythonDraws::Memory::One : frontend::PythonDraws::Memory::Apart);
        return tensor ? object(std::move(tensor)) : nb::object(nb::none());
      });
}

// Parts of DTensors.
void bind_dtensors(nb::class_<Tracer>& tracer) {
  tracer
      .def("add_part",
           [](Tracer& t, nb::handle dtensor, nb::handle local, nb::handle wrap) {
             return object(t.dtensors().add_part(dtensor.ptr(), local.ptr(), wrap.ptr()));
           })
      .def("values", [](Tracer& t, const nb::list& tensors) { return t.dtensors().values(pointers(tensors)); })
      .def("calls_made", [](Tracer& t) { return t.dtensors().calls_made(); })
      .def("begin_trial", [](Tracer& t) { t.dtensors().begin_trial(); })
      .def("end_trial", [](Tracer& t, size_t since) { return t.dtensors().end_trial(since); })
      .def("whole_of", [](Tracer& t, nb::handle part,
                          nb::handle sizes) { return object(t.dtensors().whole_of(part.ptr(), sizes.ptr())); })
      .def("parts", [](Tracer& t, size_t since, const std::vector<std::pair<nb::object, int64_t>>& given,
                       const nb::list& results) {
        std::vector<std::pair<PyObject*, int64_t>> parts;
        for (const auto& [tensor, dim] : given) parts.emplace_back(tensor.ptr(), dim);
        return t.dtensors().parts(since, parts, pointers(results));
      });
}

// Gradients that the program takes.
void bind_gradients(nb::class_<Tracer>& tracer) {
  tracer.def("made_leaf", [](Tracer& t, nb::handle o) { return t.mutation().made_leaf(o.ptr()); })
      .def("require_grad", [](Tracer& t, nb::handle o) { t.mutation().require_grad(o.ptr()); })
      .def("requires_grad",
           [](Tracer& t, nb::handle o) { return t.aliases().requires_grad(t.tensors().id_of(o.ptr())); })
      .def(
          "has_gradient", [](Tracer& t, nb::handle o) { return t.tensors().type_of(o.ptr()).requires_grad; },
          "Whether gradients flow through it: requires_grad, but for views that were made under no_grad.")
      .def(
          "with_gradient",
          [](Tracer& t, const nb::list& outputs, const nb::list& inputs, nb::handle backward, const std::string& name) {
            return list_of(
                t.custom_gradients().with_gradient(pointers(outputs), pointers(inputs), backward.ptr(), name));
          })
      .def("gradients",
           [](Tracer& t, const nb::list& outputs, const nb::list& cotangents, const nb::list& inputs, bool create_graph,
              bool retain_graph, bool batched) {
             return list_of(
                 t.gradients().of(pointers(outputs), pointers(cotangents), pointers(inputs),
                                  {.create_graph = create_graph, .retain_graph = retain_graph, .batched = batched}));
           })
      .def(
          "pullback",
          [](Tracer& t, nb::handle fn, const nb::list& inputs, bool recording, bool linear, bool any_cotangent) {
            auto [results, number] = t.derivatives().pullback(
                fn.ptr(), pointers(inputs), {.recording = recording, .linear = linear, .any_cotangent = any_cotangent});
            return nb::make_tuple(object(std::move(results)), number);
          },
          nb::arg("fn"), nb::arg("inputs"), nb::arg("recording"), nb::arg("linear"), nb::arg("any_cotangent"),
          "Records a function of tensors, and its gradient apart: the list that it returns, and a number for pull().")
      .def("pull",
           [](Tracer& t, size_t number, const nb::list& cotangents) {
             return list_of(t.derivatives().pull(number, pointers(cotangents)));
           })
      .def("batched", [](Tracer& t, nb::handle fn, const nb::list& batches, const std::string& randomness) {
        return list_of(t.batched().call(fn.ptr(), pointers(batches), randomness));
      });
}

// Hooks of gradients.
void bind_gradient_hooks(nb::class_<Tracer>& tracer) {
  tracer.def("why_no_hook", [](Tracer& t, nb::handle o) { return t.gradient_hooks().why_none(o.ptr()); })
      .def("put_hook", [](Tracer& t, nb::handle o, nb::handle backward, const std::string& name,
                          bool last) { return t.gradient_hooks().put(o.ptr(), backward.ptr(), name, last); })
      .def("remove_hook", [](Tracer& t, size_t number) { t.gradient_hooks().remove(number); })
      .def("retain_gradient", [](Tracer& t, nb::handle o) { return t.gradient_hooks().retain(o.ptr()); });
}

}  // namespace

void bind_tracer(nb::module_& m) {
  nb::class_<Tracer> tracer(m, "Tracer", "Records the torch calls of a running function.");
  bind_calls(tracer);
  bind_writes(tracer);
  bind_attributes(tracer);
  bind_numbers(tracer);
  bind_dtensors(tracer);
  bind_gradients(tracer);
  bind_gradient_hooks(tracer);
}

}  // namespace thunder::bindings
