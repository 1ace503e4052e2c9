// Which instruction each opcode of this Python is.  A further version is a further list.
#include <array>

#include "frontend/interpreter/handlers.h"

namespace thunder::frontend::interpreter {
namespace {

struct Row {
  int opcode;
  Handler handler;
};

const Row kCommon[] = {
    {CACHE, nothing},
    {NOP, nothing},
    {RESUME, resume},
    {EXTENDED_ARG, nothing},
    {POP_TOP, pop_top},
    {PUSH_NULL, push_null},
    {COPY, copy},
    {SWAP, swap},
    {LOAD_CONST, load_const},
    {LOAD_FAST, load_fast},
    {STORE_FAST, store_fast},
    {DELETE_FAST, delete_fast},
    {MAKE_CELL, make_cell},
    {COPY_FREE_VARS, copy_free_vars},
    {LOAD_CLOSURE, load_closure},
    {LOAD_DEREF, load_deref},
    {STORE_DEREF, store_deref},
    {DELETE_DEREF, delete_deref},
    {LOAD_GLOBAL, load_global},
    {STORE_GLOBAL, store_global},
    {DELETE_GLOBAL, delete_global},
    {LOAD_NAME, load_name},
    {STORE_NAME, store_name},
    {DELETE_NAME, delete_name},
    {SETUP_ANNOTATIONS, setup_annotations},
    {BINARY_OP, binary_op},
    {COMPARE_OP, compare_op},
    {IS_OP, is_op},
    {CONTAINS_OP, contains_op},
    {UNARY_NEGATIVE, unary_negative},
    {UNARY_INVERT, unary_invert},
    {UNARY_NOT, unary_not},
    {BINARY_SUBSCR, binary_subscr},
    {STORE_SUBSCR, store_subscr},
    {DELETE_SUBSCR, delete_subscr},
    {LOAD_ATTR, load_attr},
    {STORE_ATTR, store_attr},
    {DELETE_ATTR, delete_attr},
    {BUILD_TUPLE, build_tuple},
    {BUILD_LIST, build_list},
    {BUILD_SET, build_set},
    {BUILD_MAP, build_map},
    {BUILD_CONST_KEY_MAP, build_const_key_map},
    {BUILD_STRING, build_string},
    {BUILD_SLICE, build_slice},
    {LIST_APPEND, list_append},
    {SET_ADD, set_add},
    {MAP_ADD, map_add},
    {LIST_EXTEND, list_extend},
    {SET_UPDATE, set_update},
    {DICT_UPDATE, dict_update},
    {DICT_MERGE, dict_merge},
    {GET_LEN, get_len},
    {UNPACK_SEQUENCE, unpack_sequence},
    {UNPACK_EX, unpack_ex},
    {FORMAT_VALUE, format_value},
    {JUMP_FORWARD, jump_forward},
    {JUMP_BACKWARD, jump_backward},
    {JUMP_BACKWARD_NO_INTERRUPT, jump_backward_no_interrupt},
    {GET_ITER, get_iter},
    {GET_YIELD_FROM_ITER, get_yield_from_iter},
    {FOR_ITER, for_iter},
    {SEND, send},
    {PUSH_EXC_INFO, push_exc_info},
    {POP_EXCEPT, pop_except},
    {RAISE_VARARGS, raise_varargs},
    {RERAISE, reraise},
    {CHECK_EXC_MATCH, check_exc_match},
    {CHECK_EG_MATCH, check_eg_match},
    {LOAD_ASSERTION_ERROR, load_assertion_error},
    {BEFORE_WITH, before_with},
    {WITH_EXCEPT_START, with_except_start},
    {GET_AWAITABLE, get_awaitable},
    {GET_AITER, get_aiter},
    {GET_ANEXT, get_anext},
    {END_ASYNC_FOR, end_async_for},
    {BEFORE_ASYNC_WITH, before_async_with},
    {KW_NAMES, kw_names},
    {CALL, call},
    {CALL_FUNCTION_EX, call_function_ex},
    {MAKE_FUNCTION, make_function},
    {LOAD_BUILD_CLASS, load_build_class},
    {IMPORT_NAME, import_name},
    {IMPORT_FROM, import_from},
    {MATCH_MAPPING, match_mapping},
    {MATCH_SEQUENCE, match_sequence},
    {MATCH_KEYS, match_keys},
    {MATCH_CLASS, match_class},
    {RETURN_VALUE, leave},
    {RETURN_GENERATOR, leave},
    {YIELD_VALUE, leave},
};

#if PY_VERSION_HEX >= 0x030C0000
const Row kVersion[] = {
    {LOAD_FAST_CHECK, load_fast},
    {LOAD_FAST_AND_CLEAR, load_fast_and_clear},
    {LOAD_LOCALS, load_locals},
    {LOAD_FROM_DICT_OR_DEREF, load_from_dict_or_deref},
    {LOAD_FROM_DICT_OR_GLOBALS, load_from_dict_or_globals},
    {LOAD_SUPER_ATTR, load_super_attr},
    {BINARY_SLICE, binary_slice},
    {STORE_SLICE, store_slice},
    {POP_JUMP_IF_TRUE, jump_if_true},
    {POP_JUMP_IF_FALSE, jump_if_false},
    {POP_JUMP_IF_NONE, jump_if_none},
    {POP_JUMP_IF_NOT_NONE, jump_if_not_none},
    {END_FOR, end_for},
    {END_SEND, end_send},
    {CLEANUP_THROW, cleanup_throw},
    {CALL_INTRINSIC_1, call_intrinsic_1},
    {CALL_INTRINSIC_2, call_intrinsic_2},
    {RETURN_CONST, leave},
};
#else
const Row kVersion[] = {
    {LOAD_CLASSDEREF, load_class_deref},
    {LOAD_METHOD, load_method},
    {PRECALL, nothing},
    {UNARY_POSITIVE, unary_positive},
    {LIST_TO_TUPLE, list_to_tuple},
    {PREP_RERAISE_STAR, prep_reraise_star},
    {IMPORT_STAR, import_star},
    {PRINT_EXPR, print_expr},
    {ASYNC_GEN_WRAP, async_gen_wrap},
    {POP_JUMP_FORWARD_IF_TRUE, jump_if_true},
    {POP_JUMP_FORWARD_IF_FALSE, jump_if_false},
    {POP_JUMP_FORWARD_IF_NONE, jump_if_none},
    {POP_JUMP_FORWARD_IF_NOT_NONE, jump_if_not_none},
    {POP_JUMP_BACKWARD_IF_TRUE, jump_back_if_true},
    {POP_JUMP_BACKWARD_IF_FALSE, jump_back_if_false},
    {POP_JUMP_BACKWARD_IF_NONE, jump_back_if_none},
    {POP_JUMP_BACKWARD_IF_NOT_NONE, jump_back_if_not_none},
    {JUMP_IF_TRUE_OR_POP, jump_if_true_or_pop},
    {JUMP_IF_FALSE_OR_POP, jump_if_false_or_pop},
};
#endif

}  // namespace

const Handler* handlers() {
  static const std::array<Handler, 256> table = [] {
    std::array<Handler, 256> t{};
    for (const Row& r : kCommon) t[static_cast<size_t>(r.opcode)] = r.handler;
    for (const Row& r : kVersion) t[static_cast<size_t>(r.opcode)] = r.handler;
    return t;
  }();
  return table.data();
}

}  // namespace thunder::frontend::interpreter
