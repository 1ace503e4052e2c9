"""Torch functions that need more than a record: what the tracer is told instead of the call."""

import functools
import inspect
import operator

import torch

from . import _C, _gradients, _hooks, _layout, _opaque, _value_checks
from ._marks import is_out_of_bounds, ours, refusal
from ._numbers import TracedNumber
from ._python_bodies import body_of
from ._tracing import TensorProxy, current_tracer, location, state

handlers = dict(_layout.handlers) | {
    "_assert_async": _value_checks.assert_async,
    "autograd.grad": _gradients.grad,
    "Tensor.register_hook": _hooks.register_hook,
    "Tensor.retain_grad": _hooks.retain_grad,
    "Tensor.retains_grad": _hooks.retains_grad,
}


def _handler(*names):
    def register(fn):
        for name in names:
            handlers[name] = fn
        return fn

    return register


@_handler("Tensor.shape", "Tensor.size", "Tensor.numel", "numel", "Tensor.nelement", "Tensor.__len__")
def _sizes(func, args, kwargs):
    shape = current_tracer().shape(args[0])
    if all(type(n) is int for n in shape):
        return func(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if name in ("numel", "nelement"):
        return functools.reduce(lambda a, b: a * b, shape, 1)
    if name == "__len__":
        only_run_knows = isinstance(shape[0], TracedNumber) and _C.number_hint(shape[0]) is None
        return shape[0].__index__() if only_run_knows else shape[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    return torch.Size(shape) if dim is None else shape[dim]


def _is_symbolic(tracer, tensor):
    return not all(type(n) is int for n in (*tracer.shape(tensor), *tracer.stride(tensor)))


@_handler("Tensor.stride")
def _stride(func, args, kwargs):
    tracer = current_tracer()
    if not _is_symbolic(tracer, args[0]):
        return func(*args, **kwargs)
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    tracer.keep_strides(args[0])
    strides = tracer.stride(args[0])
    return strides if dim is None else strides[dim]


@_handler("Tensor.is_contiguous")
def _is_contiguous(func, args, kwargs):
    tracer = current_tracer()
    if not _is_symbolic(tracer, args[0]):
        return func(*args, **kwargs)
    layout = args[1] if len(args) > 1 else kwargs.get("memory_format", torch.contiguous_format)
    return tracer.is_contiguous(args[0], str(layout).rpartition(".")[2])


@_handler("is_same_size", "Tensor.is_same_size")
def _is_same_size(func, args, kwargs):
    tracer = current_tracer()
    return tracer.shape(args[0]) == tracer.shape(args[1] if len(args) > 1 else kwargs["other"])


@_handler("broadcast_shapes")
def _broadcast_shapes(func, args, kwargs):
    if not any(isinstance(n, TracedNumber) for shape in args if isinstance(shape, (tuple, list)) for n in shape):
        return func(*args, **kwargs)
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in args]
    result = []
    for i in range(1, max(map(len, shapes), default=0) + 1):
        size = 1
        for n in (shape[-i] for shape in shapes if i <= len(shape)):
            if n == 1 or n is size:
                continue
            if size != 1 and size != n:
                raise ours(RuntimeError(f"[broadcast_shapes] the shapes {shapes} cannot be broadcast to one shape"))
            size = n
        result.insert(0, size)
    return torch.Size(result)


@_handler("Tensor.as_subclass", "Tensor._make_subclass", "Tensor._make_wrapper_subclass")
def _make_subclass(func, args, kwargs):
    current_tracer().leave_to_eager("the function makes a tensor of another class")


@_handler("Tensor.requires_grad")
def _requires_grad(func, args, kwargs):
    if len(args) == 1:
        return current_tracer().requires_grad(args[0])
    return _set_requires_grad(func, args, kwargs)


@_handler("Tensor.requires_grad_")
def _set_requires_grad(func, args, kwargs):
    wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    tracer = current_tracer()
    if wanted and not tracer.requires_grad(args[0]):
        if not isinstance(args[0], TensorProxy):
            raise refusal(
                "[requires_grad_] a compiled function cannot make a parameter or a captured tensor require gradients"
            )
        tracer.require_grad(args[0])
    elif wanted != tracer.requires_grad(args[0]):
        raise refusal("[requires_grad_] ending gradients inside a compiled function: use detach()")
    return args[0]


def _is_outside_leaf(tensor):
    """Whether it is a captured tensor that is a leaf here, after what the program wrote to it."""
    if isinstance(tensor, TensorProxy):
        return False
    leaf = _now(torch.Tensor.is_leaf.__get__, tensor)
    return leaf and current_tracer().has_gradient(tensor) == tensor.requires_grad


@_handler("Tensor.is_leaf")
def _is_leaf(func, args, kwargs):
    tracer = current_tracer()
    if not isinstance(args[0], TensorProxy):
        return _is_outside_leaf(args[0])
    leaf = tracer.made_leaf(args[0]) if tracer.has_gradient(args[0]) else True
    if leaf is None:
        raise refusal("[is_leaf] whether an argument that requires grad is a leaf may change between calls")
    return leaf


def _has_no_gradient(tensor):
    """Of a captured tensor that no backward gives one to (a buffer): a guard of the program."""
    tracer = current_tracer()
    if isinstance(tensor, TensorProxy) or tracer.requires_grad(tensor) or not tracer.interprets:
        return False
    return _now(torch.Tensor.grad.__get__, tensor) is None


@_handler("Tensor.grad", "Tensor.grad_fn")
def _gradient_state(func, args, kwargs):
    if len(args) > 1:
        name = func.__self__.__name__
        raise refusal(f"[{name}] assigning .grad inside a compiled function is not supported")
    name = func.__self__.__name__
    tracer = current_tracer()
    if isinstance(args[0], TensorProxy) and not tracer.is_from_outside(args[0]):
        if name == "grad" or not tracer.has_gradient(args[0]) or tracer.made_leaf(args[0]):
            return None  # what the program computes has no .grad before its backward
    elif name == "grad_fn" and (not tracer.requires_grad(args[0]) or _is_outside_leaf(args[0])):
        return None
    elif name == "grad" and _has_no_gradient(args[0]):
        return None
    raise refusal(
        f"[{name}] reading .{name} of a tensor inside a compiled function is not supported: it belongs to the autograd "
        f"graph outside; read it outside, and pass it as an argument\n  at {location()}"
    )


@_handler("Tensor.data")
def _data(func, args, kwargs):
    if len(args) > 1:
        if not isinstance(args[1], torch.Tensor):
            raise ours(TypeError(f"[data] expected a tensor, got {type(args[1]).__name__}"))
        return current_tracer().set_data(args[0], args[1])
    tracer = current_tracer()
    made = tracer.apply("torch.detach", (args[0],))
    tracer.set_uncounted(made)
    return made


@_handler("Tensor.real", "Tensor.imag")
def _part(func, args, kwargs):
    """A view of a complex tensor's parts."""
    tracer = current_tracer()
    part = args[0]
    if part.is_complex():
        place = 0 if func.__self__ is torch.Tensor.real else 1
        part = tracer.apply("torch.getitem", (tracer.apply("torch.view_as_real", (part,)), (..., place)))
    elif func.__self__ is torch.Tensor.imag:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return part


@_handler("is_conj", "Tensor.is_conj")
def _is_conj(func, args, kwargs):
    return current_tracer().is_conj(args[0])


@_handler("resolve_conj", "Tensor.resolve_conj")
def _resolve_conj(func, args, kwargs):
    tracer = current_tracer()
    return tracer.apply("torch.clone", (args[0],)) if tracer.is_conj(args[0]) else args[0]


@_handler("Tensor.__iter__")
def _iterate(func, args, kwargs):
    return iter(current_tracer().apply("torch.unbind", (args[0],)))


def _value(tensor, what):
    """The tensor in the call that is being compiled: the program is for this value alone."""
    tracer = current_tracer()
    value = tracer.constant(tensor)
    return tracer.read(tensor, what) if value is None else value


@_handler("Tensor.__int__", "Tensor.__float__", "Tensor.__index__", "Tensor.__complex__", "Tensor.tolist")
def _python_value(func, args, kwargs):
    return _now(func, _value(args[0], func.__name__.strip("_")), *args[1:], **kwargs)


@_handler("Tensor.__bool__", "is_nonzero")
def _truth(func, args, kwargs):
    tensor = args[0]
    if functools.reduce(operator.mul, current_tracer().shape(tensor), 1) != 1:
        return _now(func, torch.empty(tuple(int(n) for n in current_tracer().shape(tensor))))  # eager's error
    if tensor.dtype != torch.bool:
        tensor = current_tracer().apply("torch.ne", (tensor, 0))  # other numbers that are true are as good
    return _now(func, _value(tensor, "bool"))


@_handler("sym_max", "sym_min")
def _sym_extreme(func, args, kwargs):
    if kwargs or not any(isinstance(n, TracedNumber) for n in args):
        return _now(func, *args, **kwargs)
    a, b = args
    return (a if a >= b else b) if func is torch.sym_max else (a if a <= b else b)


@_handler("sym_not", "sym_ite", "sym_fresh_size")
def _sym(func, args, kwargs):
    return _now(func, *(bool(n) if isinstance(n, TracedNumber) else n for n in args), **kwargs)


@_handler("Tensor.type")
def _type(func, args, kwargs):
    names = ("self", "dtype", "non_blocking")
    given = dict(zip(names, args, strict=False)) | kwargs
    tensor, wanted = given["self"], given.get("dtype")
    like = _now(torch.empty, 0, dtype=tensor.dtype, device="meta" if tensor.is_meta else "cpu")
    if wanted is None:
        name = _now(torch.Tensor.type, like)
        return name.replace("torch.", "torch.cuda.", 1) if tensor.is_cuda else name
    if not isinstance(wanted, torch.dtype):
        wanted = _now(torch.Tensor.type, like, wanted).dtype
    return current_tracer().apply("torch.to", (tensor, wanted))


@_handler("Tensor.__contains__")
def _contains(func, args, kwargs):
    tracer = current_tracer()
    found = tracer.apply("torch.any", (tracer.apply("torch.eq", tuple(args)),))
    return bool(_now(torch.Tensor.__bool__, _value(found, "contains")))


def _now(func, *args, **kwargs):
    """A call on real tensors, which is no part of the program."""
    with torch._C.DisableTorchFunction():
        return func(*args, **kwargs)


@_handler("Tensor.item")
def _item(func, args, kwargs):
    tracer = current_tracer()
    value = tracer.constant(args[0])
    return tracer.apply("torch.item", args, kwargs) if value is None else _now(func, value)


@_handler("Tensor.numpy", "Tensor.__array__")
def _array(func, args, kwargs):
    # Of a constant alone: an array shares the tensor's memory, and what is made of it is made only once.
    value = current_tracer().constant(args[0])
    return _needs_data(func, args, kwargs) if value is None else _now(func, value, *args[1:], **kwargs)


@_handler("Tensor.__dlpack__", "Tensor.data_ptr",
          "Tensor.untyped_storage",
          "Tensor.storage", "Tensor.__reduce_ex__", "Tensor.backward",
          "Tensor.share_memory_", "Tensor.set_", "Tensor.storage_offset", "Tensor.__dlpack_device__",
          "Tensor.pin_memory", "Tensor.is_pinned", "Tensor.is_shared", "Tensor.register_post_accumulate_grad_hook",
          "autograd.backward")
def _needs_data(func, args, kwargs):
    name = getattr(func, "__name__", str(func))
    raise refusal(
        f"[{name}] this needs the tensor's memory or its autograd graph, which exist only when the compiled function "
        f"runs; call it outside the compiled function\n  at {location()}"
    )


@_handler("Tensor.__repr__", "Tensor.__str__", "Tensor.__format__")
def _describe(func, args, kwargs):
    """The text of the value, on which the program then depends."""
    tensor, *rest = args
    if func is torch.Tensor.__format__ and tensor.ndim == 0:
        return format(_item(func, (tensor,), {}), *rest)
    tracer = current_tracer()
    value = _value(tensor, "repr")
    wanted = tracer.requires_grad(tensor)
    with torch._C.DisableTorchFunction():
        if isinstance(tensor, torch.nn.Parameter) and not isinstance(value, torch.nn.Parameter):
            value = torch.nn.Parameter(value.detach(), requires_grad=wanted)
        if wanted == value.requires_grad:
            return func(value, *rest, **kwargs)
        text = func(value.detach().requires_grad_(wanted), *rest, **kwargs)
    if not wanted or tracer.made_leaf(tensor) is not False:
        return text
    # The node that a result of a compiled function has.
    before, _, after = text.rpartition("requires_grad=True")
    return before + "grad_fn=<ThunderBackward>" + after


@_handler("Tensor.__deepcopy__")
def _deepcopy(func, args, kwargs):
    return current_tracer().apply("torch.clone", (args[0],))


def _as_strided(input, size, stride, storage_offset=None):
    tracer = current_tracer()
    row = tracer.memory_from(input, size, stride, storage_offset)
    if row is None:
        return tracer.apply("torch.as_strided", (input, size, stride, storage_offset))
    return tracer.apply("torch.as_strided", (row, size, stride))


_BAG = inspect.signature(torch.nn.functional.embedding_bag)


@_handler("nn.functional.embedding_bag")
def _embedding_bag(func, args, kwargs):
    """By its record; by what PyTorch's function calls where that changes the weight, scales or refuses."""
    bound = _BAG.bind(*args, **kwargs)
    bound.apply_defaults()
    a, tracer = bound.arguments, current_tracer()
    input, weight, offsets, each = a["input"], a["weight"], a["offsets"], a["per_sample_weights"]
    plain = a["max_norm"] is None and not a["scale_grad_by_freq"] and not a["sparse"]
    fits = weight.ndim == 2 and weight.is_floating_point() and input.dtype in (torch.int32, torch.int64)
    by_rows = input.ndim == 2 and offsets is None and tracer.shape(input)[1] > 0
    by_offsets = input.ndim == 1 and offsets is not None and offsets.ndim == 1 and offsets.dtype == input.dtype
    if by_offsets and a["include_last_offset"]:
        by_offsets = tracer.shape(offsets)[0] > 0
    if each is None:
        fits = fits and a["mode"] in ("sum", "mean", "max")
    else:
        fits = fits and a["mode"] == "sum" and each.dtype == weight.dtype and tracer.shape(each) == tracer.shape(input)
    if plain and fits and (by_rows or by_offsets):
        of_bags = a["mode"], each, by_offsets and a["include_last_offset"], a["padding_idx"]
        return tracer.apply("torch.embedding_bag", (input, weight, offsets, *of_bags))
    with state.modes[-1]:
        return body_of(func)(*args, **kwargs)


@_handler("as_strided", "Tensor.as_strided")
def _as_strided_view(func, args, kwargs):
    return _as_strided(*args, **kwargs)


@_handler("as_strided_", "Tensor.as_strided_")
def _as_strided_in_place(func, args, kwargs):
    with torch.enable_grad():  # whatever the mode, it stays a function of what it was
        other = _as_strided(*args, **kwargs)
    current_tracer().become(args[0], other, "as_strided_")
    return args[0]


@_handler("Tensor.copy_")
def _copy(func, args, kwargs):
    source = args[1] if len(args) > 1 else kwargs["src"]
    current_tracer().copy_into(args[0], source, "copy_")
    return args[0]


@_handler("Tensor.fill_", "fill_")
def _fill(func, args, kwargs):
    value = args[1] if len(args) > 1 else kwargs["value"]
    current_tracer().copy_into(args[0], value, "fill_")
    return args[0]


@_handler("Tensor.zero_", "zero_")
def _zero(func, args, kwargs):
    if len(args) + len(kwargs) != 1:
        raise ours(TypeError("[zero_] zero_() takes no arguments beside the tensor"))
    target = args[0] if args else kwargs["input"]
    current_tracer().copy_into(target, 0, "zero_")
    return target


@_handler("nn.functional.instance_norm")
def _instance_norm(func, args, kwargs):
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    if given.get("running_mean") is None and given.get("running_var") is None:
        return current_tracer().apply("torch.instance_norm", (), given)
    return current_tracer().apply("torch.instance_norm_functional", (), given)


@_handler("nn.functional.embedding")
def _embedding(func, args, kwargs):
    tracer = current_tracer()
    names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
    given = dict(zip(names, args, strict=False)) | kwargs
    max_norm = given.pop("max_norm", None)
    if max_norm is not None:
        with torch.no_grad():
            norm = (given["weight"], given["input"], max_norm, given.get("norm_type", 2.0))
            tracer.apply("torch.embedding_renorm", norm, in_place=True)
    return tracer.apply("torch.embedding.functional", (), given)


@_handler("nn.functional.gaussian_nll_loss")
def _gaussian_nll_loss(func, args, kwargs):
    return _value_checks.gaussian_nll_loss(*args, **kwargs)


@_handler("nn.functional.rrelu")
def _rrelu(func, args, kwargs):
    given = inspect.signature(func).bind(*args, **kwargs)
    given.apply_defaults()
    if not given.arguments["training"]:
        return current_tracer().apply("torch.rrelu", args, kwargs)
    inplace = given.arguments.pop("inplace")
    called = torch.rrelu_ if inplace else torch.rrelu
    return _opaque.resolve(called, tuple(given.arguments.values()), {})()


@_handler("tensor_split", "Tensor.tensor_split")
def _tensor_split(func, args, kwargs):
    return _value_checks.tensor_split(*args, **kwargs)


def _is_basic(key):
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, (slice, TracedNumber)) or type(k) is int for k in keys)


@_handler("Tensor.__setitem__")
def _setitem(func, args, kwargs):
    tracer = current_tracer()
    target, key, value = args
    if _is_basic(key):
        view = tracer.apply("torch.getitem", (target, key))
        if isinstance(value, torch.Tensor):
            # A slice takes a value with leading dimensions of size 1.
            while len(tracer.shape(value)) > len(tracer.shape(view)) and tracer.shape(value)[0] == 1:
                value = tracer.apply("torch.squeeze", (value, 0))
        tracer.copy_into(view, value, "__setitem__")
    else:
        try:
            result = tracer.apply("torch.setitem", (target, key, value))
        except IndexError as error:
            if is_out_of_bounds(error):  # which eager finds last
                tracer.check_writable(target, "__setitem__")
            raise
        tracer.copy_into(target, result, "__setitem__")


@_handler("Tensor.new_tensor")
def _new_tensor(func, args, kwargs):
    like, *rest = args
    given = {"dtype": like.dtype, "device": like.device}
    given |= {k: v for k, v in kwargs.items() if v is not None and k != "data"}
    data = rest[0] if rest else kwargs["data"]
    return _tensor(torch.tensor, (data, *rest[1:]), given)


@_handler("Tensor.new")
def _new(func, args, kwargs):
    """A tuple is data and a torch.Size is sizes, as in the constructors of old.

    Raises:
        NotImplementedError: Of a tensor, which eager gives an alias of; with keywords.
    """
    like, *rest = args
    if kwargs or any(isinstance(x, torch.Tensor) for x in rest):
        raise refusal("[new] of a tensor, or with keywords: use new_empty(), new_tensor() or view()")
    if len(rest) == 1 and isinstance(rest[0], (list, tuple)) and not isinstance(rest[0], torch.Size):
        return _new_tensor(torch.Tensor.new_tensor, (like, *rest), {})
    return current_tracer().apply("torch.new_empty", (like, *(rest or (0,))))


@_handler("tensor", "as_tensor", "asarray")
def _tensor(func, args, kwargs):
    tracer = current_tracer()
    data, *rest = args
    if (drawn := tracer.drawn(data, func.__name__ != "tensor")) is not None:
        data = drawn
    elif not isinstance(data, torch.Tensor) and hasattr(data, "__array__"):
        data = _now(torch.as_tensor, data)  # the array's memory, so that later calls find what it holds then
    elif _has_large_ints(data):
        data = _now(torch.tensor, data, dtype=kwargs.get("dtype"))
    if isinstance(data, torch.Tensor):
        if func.__name__ == "tensor":
            data = tracer.apply("torch.clone", (tracer.apply("torch.detach", (data,)),))
        elif kwargs.get("copy"):
            data = tracer.apply("torch.clone", (data,))
        given = {k: v for k, v in kwargs.items() if k in ("dtype", "device") and v is not None}
        made = tracer.apply("torch.to", (data,), given) if given else data
        if kwargs.get("requires_grad") and not tracer.requires_grad(made):
            tracer.require_grad(made)
        return made
    if (first := _first_tensor(data)) is not None:
        stacked = _stack(tracer, data, first.device)
        # Not on the device of what is in it; a default device comes as an argument.
        given = {"device": torch.device("cpu")}
        given |= {k: v for k, v in kwargs.items() if k in ("dtype", "device") and v is not None}
        if "dtype" not in given and given["device"] == stacked.device:
            return stacked
        return tracer.apply("torch.to", (stacked,), given)
    if kwargs.get("dtype") is None and _has_numpys_numbers(data):
        kwargs = {**kwargs, "dtype": _now(torch.tensor, data).dtype}
    return tracer.apply("torch.tensor", (data, *rest), kwargs)


def _first_tensor(data):
    if isinstance(data, (list, tuple)):
        return next((t for x in data if (t := _first_tensor(x)) is not None), None)
    if _is_array(data):
        return _now(torch.as_tensor, data)
    return data if isinstance(data, torch.Tensor) else None


def _is_array(x):
    return hasattr(x, "__array__") and not isinstance(x, torch.Tensor) and getattr(x, "ndim", 1) > 0


def _has_numpys_numbers(data):
    """A list of them makes a tensor of their dtype, where Python's make one of the default dtype."""
    return any(map(_has_numpys_numbers, data)) if isinstance(data, (list, tuple)) else hasattr(data, "__array__")


def _has_large_ints(data):
    """Integers that only some dtypes hold, as eager says."""
    if isinstance(data, (list, tuple)):
        return any(map(_has_large_ints, data))
    return type(data) is int and not -(2**63) <= data < 2**63


def _stack(tracer, data, device):
    parts = []
    for x in data:
        if isinstance(x, (list, tuple)):
            x = _stack(tracer, x, device)
        elif _is_array(x):
            x = _now(torch.as_tensor, x)
        elif isinstance(x, torch.Tensor):
            if x.ndim:
                raise ValueError("only one element tensors can be converted to Python scalars")
            x = tracer.apply("torch.detach", (x,))
        else:
            x = tracer.apply("torch.tensor", (x,), {"device": device})
        parts.append(x)
    return tracer.apply("torch.stack", (parts,))


@_handler("Tensor.detach_", "detach_")
def _detach_in_place(func, args, kwargs):
    if not torch.is_inference_mode_enabled():  # in which nothing is a view to autograd
        current_tracer().detach_in_place(args[0])
    return args[0]
