"""State that C code keeps, for the compiler: taken, and put back (csrc/frontend/outside_state.h)."""

import array
import pickle

import torch

_C = torch._C


def put_bytes(owner, content):
    """Gives a bytearray or an array.array other elements, of another number."""
    owner[:] = content if isinstance(owner, bytearray) else array.array(owner.typecode, content)


def random_state(generator, _key):
    """Of random.Random, or of NumPy's."""
    return pickle.dumps(take_random_state(generator))


def put_random_state(generator, _key, state):
    give_random_state(generator, pickle.loads(state))


def give_random_state(generator, state):
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        getattr(generator, "bit_generator", generator).state = state


def take_random_state(generator):
    """An object of its own, which later draws do not change."""
    if hasattr(generator, "getstate"):
        return generator.getstate()
    if hasattr(generator, "get_state"):
        return generator.get_state(legacy=False)
    return getattr(generator, "bit_generator", generator).state


def _pairs():
    """The functions of torch._C that set something, and how what they set is asked for."""
    pairs = {}
    for name in dir(_C):
        if not name.startswith(("_set_", "set_")):
            continue
        for getter in (name.replace("set_", "get_", 1), name.replace("_set_", "_get_", 1) + "_enabled"):
            if hasattr(_C, getter):
                pairs[getattr(_C, name)] = getattr(_C, getter)
    for kind in ("flash", "mem_efficient", "math", "cudnn", "overrideable"):
        if hasattr(_C, f"_set_sdp_use_{kind}"):
            pairs[getattr(_C, f"_set_sdp_use_{kind}")] = getattr(_C, f"_get_{kind}_sdp_enabled")
    pairs[_C._set_default_dtype] = torch.get_default_dtype
    pairs[_C._set_grad_enabled] = torch.is_grad_enabled
    pairs[_C.set_autocast_enabled] = torch.is_autocast_enabled
    pairs[_C.set_autocast_cache_enabled] = torch.is_autocast_cache_enabled
    pairs[_C.set_anomaly_enabled] = torch.is_anomaly_enabled
    for name in _INTERNAL:
        pairs.pop(getattr(_C, name, None), None)
    return pairs


# What they set is no setting of the user's, or the compiler's own while it acquires a program.
_INTERNAL = """
    _set_dispatch_mode _set_tracing_state _set_value_trace _set_torch_function_state _set_tensor_metadata
    _set_thread_name _set_graph_exec_group _set_generator_metaclass _set_fp32_precision_setter
""".split()
SETS_GRADIENTS = _C._set_grad_enabled
_DETERMINISTIC = _C._set_deterministic_algorithms
SETTINGS = _pairs()


def setting(setter, key):
    if setter is _DETERMINISTIC:
        return _C._get_deterministic_algorithms(), _C._get_deterministic_algorithms_warn_only()
    getter = SETTINGS[setter]
    return getter() if key is None else getter(key)


def put_setting(setter, key, value):
    if setter is _DETERMINISTIC:
        setter(value[0], warn_only=value[1])
    else:
        setter(value) if key is None else setter(key, value)


# What calls look for in any case (csrc/runtime/guards.cpp).
IN_KEY = {
    _C._set_grad_enabled, _C.set_autocast_enabled, _C.set_autocast_dtype, _C.set_autocast_cache_enabled,
    _C._set_default_dtype, _C._set_deterministic_algorithms, _C._set_sdp_use_flash, _C._set_sdp_use_mem_efficient,
    _C._set_sdp_use_cudnn,
}  # fmt: skip
# What a mode keeps, or what cannot be asked for or set twice.
REFUSED = {
    torch.set_default_device: "torch.set_default_device",
    torch.set_default_tensor_type: "torch.set_default_tensor_type",
    torch.set_flush_denormal: "torch.set_flush_denormal",
    torch.set_num_interop_threads: "torch.set_num_interop_threads",
}
