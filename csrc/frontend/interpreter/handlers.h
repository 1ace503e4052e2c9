// The instructions, by what they do.  The table of a Python version names one for each opcode.
#pragma once

#include "frontend/interpreter/machine.h"

#include <opcode.h>

#include <optional>
#include <utility>
#include <vector>

#include "frontend/interpreter/observer.h"
#include "python/ref.h"

namespace thunder::frontend::interpreter {

inline Flow Machine::made(PyObject* o) {
  if (o && observer) observer->made(o);
  return result(o);
}

/// Signals, other threads and the garbage collector get their turn.  False: an exception is set.
bool let_others_run();
/// Where CPython does the same: when a frame begins or resumes, after calls and at jumps back.
inline Flow after(Machine& m, Flow flow) {
  if (flow != Flow::Next || !others_wait(m.thread)) return flow;
  return let_others_run() ? Flow::Next : Flow::Error;
}

/// The special method of a context manager, looked up on its type; null, and an exception set, if it has none.
PyObject* special_method(PyObject* manager, const char* name, const char* protocol);

// variables.cpp
Flow load_const(Machine&, int), load_fast(Machine&, int), load_fast_and_clear(Machine&, int), store_fast(Machine&, int),
    delete_fast(Machine&, int), make_cell(Machine&, int), copy_free_vars(Machine&, int), load_closure(Machine&, int),
    load_deref(Machine&, int), store_deref(Machine&, int), delete_deref(Machine&, int), load_global(Machine&, int),
    store_global(Machine&, int), delete_global(Machine&, int), load_name(Machine&, int), store_name(Machine&, int),
    delete_name(Machine&, int), load_from_dict_or_globals(Machine&, int), load_from_dict_or_deref(Machine&, int),
    load_class_deref(Machine&, int), load_locals(Machine&, int), setup_annotations(Machine&, int);

// operators.cpp
Flow binary_op(Machine&, int), compare_op(Machine&, int), is_op(Machine&, int), contains_op(Machine&, int),
    unary_negative(Machine&, int), unary_positive(Machine&, int), unary_invert(Machine&, int), unary_not(Machine&, int),
    binary_subscr(Machine&, int), binary_slice(Machine&, int), store_subscr(Machine&, int), store_slice(Machine&, int),
    delete_subscr(Machine&, int), load_attr(Machine&, int), load_method(Machine&, int), store_attr(Machine&, int),
    delete_attr(Machine&, int), build_tuple(Machine&, int), build_list(Machine&, int), build_set(Machine&, int),
    build_map(Machine&, int), build_const_key_map(Machine&, int), build_string(Machine&, int),
    build_slice(Machine&, int), list_append(Machine&, int), set_add(Machine&, int), map_add(Machine&, int),
    list_extend(Machine&, int), set_update(Machine&, int), dict_update(Machine&, int), list_to_tuple(Machine&, int),
    get_len(Machine&, int), unpack_sequence(Machine&, int), unpack_ex(Machine&, int), format_value(Machine&, int);

// control.cpp
Flow nothing(Machine&, int), resume(Machine&, int), leave(Machine&, int), pop_top(Machine&, int),
    push_null(Machine&, int), copy(Machine&, int), swap(Machine&, int), jump_forward(Machine&, int),
    jump_backward(Machine&, int), jump_backward_no_interrupt(Machine&, int), jump_if_true(Machine&, int),
    jump_if_false(Machine&, int), jump_back_if_true(Machine&, int), jump_back_if_false(Machine&, int),
    jump_if_none(Machine&, int), jump_if_not_none(Machine&, int), jump_back_if_none(Machine&, int),
    jump_back_if_not_none(Machine&, int), jump_if_true_or_pop(Machine&, int), jump_if_false_or_pop(Machine&, int),
    get_iter(Machine&, int), get_yield_from_iter(Machine&, int), for_iter(Machine&, int), end_for(Machine&, int),
    send(Machine&, int), end_send(Machine&, int), push_exc_info(Machine&, int), pop_except(Machine&, int),
    raise_varargs(Machine&, int), reraise(Machine&, int), cleanup_throw(Machine&, int), check_exc_match(Machine&, int),
    check_eg_match(Machine&, int), load_assertion_error(Machine&, int), before_with(Machine&, int),
    with_except_start(Machine&, int);

// asynchronous.cpp
Flow get_awaitable(Machine&, int), get_aiter(Machine&, int), get_anext(Machine&, int), end_async_for(Machine&, int),
    before_async_with(Machine&, int), async_gen_wrap(Machine&, int);
Flow stop_iteration_error(Machine&);

// calls.cpp
Flow kw_names(Machine&, int), call(Machine&, int), call_function_ex(Machine&, int), dict_merge(Machine&, int),
    make_function(Machine&, int), load_build_class(Machine&, int), load_super_attr(Machine&, int),
    import_name(Machine&, int), import_from(Machine&, int), import_star(Machine&, int), print_expr(Machine&, int),
    match_mapping(Machine&, int), match_sequence(Machine&, int), match_keys(Machine&, int), match_class(Machine&, int),
    call_intrinsic_1(Machine&, int), call_intrinsic_2(Machine&, int), prep_reraise_star(Machine&, int);

}  // namespace thunder::frontend::interpreter
