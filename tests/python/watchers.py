"""What sees, or changes, the operators that a function calls: each as a function that calls one and says what it saw.

AROUND["jvp"](f)          # what eager shows, as tensors, numbers, strings and containers of those
"""

import contextlib
import logging
import warnings

import torch
import torch.autograd.forward_ad as fw
from devices import DEVICE
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


class Doubling(TorchFunctionMode):
    """Doubles sines, and remembers what was called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


class DoublingOperators(TorchDispatchMode):
    """The same below autograd."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.sin.default else result


class Shouting(torch.Tensor):
    """Adds 100 to products."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in (torch.Tensor.mul, torch.mul) and isinstance(result, torch.Tensor):
            return result.as_subclass(torch.Tensor).add(100).as_subclass(cls)
        return result


class Plain(torch.Tensor):
    """A class, and nothing else: results are of it, too."""


class Weight(nn.Parameter):
    """A parameter that says how it is scaled."""

    scale = 3.0


class Pack:
    """No tensor, and torch functions work on it."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        part = lambda name: [getattr(x, name) if isinstance(x, cls) else x for x in args]
        return cls(func(*part("a"), **(kwargs or {})), func(*part("b"), **(kwargs or {})))


def x3(requires_grad=False):
    return torch.tensor([0.5, -1.0, 2.0], requires_grad=requires_grad, device=DEVICE)


def ones3():
    return torch.ones(3, device=DEVICE)


def trained(f, x):
    y = f(x)
    y.sum().backward()
    return y.detach(), x.grad


def shown(o):
    """Of a result what eager and a compiled function have to agree on."""
    if isinstance(o, Pack):
        return ["Pack", shown(o.a), shown(o.b)]
    if isinstance(o, (list, tuple)):
        return [shown(i) for i in o]
    if isinstance(o, dict):
        return {k: shown(v) for k, v in o.items()}
    if type(o).__name__ in ("FakeTensor", "DTensor", "FunctionalTensor"):
        return [type(o).__name__, tuple(o.shape), str(o.dtype), str(o.device), o.requires_grad]
    return o


def function_mode(f):
    with Doubling() as mode:
        y = f(x3())
    return y, mode.seen


def function_mode_trained(f):
    x = x3(requires_grad=True)
    with Doubling():
        return trained(f, x)


def dispatch_mode(f):
    with DoublingOperators() as mode:
        y = f(x3())
    return y, mode.seen


def dispatch_mode_trained(f):
    x = x3(requires_grad=True)
    with DoublingOperators() as mode:
        return *trained(f, x), mode.seen


def backward_under_mode(f):
    x = x3(requires_grad=True)
    y = f(x)
    with DoublingOperators():
        y.sum().backward()
    return y.detach(), x.grad


def backward_under_function_mode(f):
    x = x3(requires_grad=True)
    y = f(x)
    with Doubling():
        y.sum().backward()
    return y.detach(), x.grad


def fake_mode(f):
    with FakeTensorMode() as mode:
        x = torch.randn(3, requires_grad=True, device=DEVICE)
        y = f(x)
        y.sum().backward()
    return shown([y, x.grad, f(mode.from_tensor(x3()))])


def fake_arguments(f):
    with FakeTensorMode():
        x = torch.randn(3, device=DEVICE)
    return shown(f(x))


def dual(f):
    with fw.dual_level():
        primal, tangent = fw.unpack_dual(f(fw.make_dual(x3(), ones3())))
    return primal, tangent


def dual_level_without_tangents(f):
    with fw.dual_level():
        return list(fw.unpack_dual(f(x3())))


def vmap(f):
    return torch.func.vmap(f)(torch.stack([x3(), x3() + 1]))


def vmap_of_grad(f):
    return torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.stack([x3(), x3() + 1]))


def grad_and_value(f):
    return torch.func.grad_and_value(lambda x: f(x).sum())(x3())


def vjp(f):
    y, back = torch.func.vjp(f, x3())
    return y, back(ones3())


def linearize(f):
    y, forward = torch.func.linearize(f, x3())
    return y, forward(ones3())


def fx(f, **options):
    graph = make_fx(f, **options)(x3())
    return graph(x3() + 1), [n.name for n in graph.graph.nodes]


def jit_trace(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(f, x3())(x3() + 1)


def aot(f):
    from functorch.compile import aot_function, nop

    x = x3(requires_grad=True)
    return trained(aot_function(f, nop), x)


def dynamo(f, **options):
    torch._dynamo.reset()
    x = x3(requires_grad=True)
    return trained(torch.compile(f, **options), x)


def flops(f):
    with FlopCounterMode(display=False) as mode:
        y = f(x3())
    return y, mode.get_total_flops()


def profiled(f):
    with torch.autograd.profiler.profile():
        return trained(f, x3(requires_grad=True))


def saved_on_the_way(f):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t.clone(), "packed"), lambda p: p[0]):
        return trained(f, x3(requires_grad=True))


def saved_elsewhere(f):
    with torch.autograd.graph.save_on_cpu():
        return trained(f, x3(requires_grad=True))


def checkpointed(f):
    from torch.utils.checkpoint import checkpoint

    return trained(lambda x: checkpoint(f, x, use_reentrant=False), x3(requires_grad=True))


def selectively_checkpointed(f):
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    policy = lambda ctx, op, *a, **k: CheckpointPolicy.PREFER_RECOMPUTE
    contexts = lambda: create_selective_checkpoint_contexts(policy)
    return trained(lambda x: checkpoint(f, x, use_reentrant=False, context_fn=contexts), x3(requires_grad=True))


def default_device(f):
    x = x3()
    with torch.device("meta"):
        return shown(f(x))


def disabled(scope):
    def run(f):
        with scope():
            return f(x3())

    return run


def batched_gradients(f):
    x = x3(requires_grad=True)
    y = f(x)
    return torch.autograd.grad(y, x, torch.eye(3, device=DEVICE), is_grads_batched=True)


def vectorized_jacobian(f):
    return torch.autograd.functional.jacobian(f, x3(), vectorize=True)


def forward_jacobian(f):
    return torch.autograd.functional.jacobian(f, x3(), vectorize=True, strategy="forward-mode")


def cotangent(make):
    def run(f):
        x = x3(requires_grad=True)
        y = f(x)
        return shown(torch.autograd.grad(y, x, make()))

    return run


def subclass(make):
    def run(f):
        x = make()
        y = f(x)
        return type(y).__name__, y.as_subclass(torch.Tensor) if isinstance(y, torch.Tensor) else shown(y)

    return run


def wrapper(f):
    from torch.testing._internal.two_tensor import TwoTensor

    y = f(TwoTensor(x3(), x3() + 1))
    return type(y).__name__, y.a, y.b


def wrapper_trained(f):
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(x3(), x3() + 1).requires_grad_()
    f(x).sum().backward()
    return type(x.grad).__name__, x.grad.a, x.grad.b


def wrapper_after(f):
    from torch.testing._internal.two_tensor import TwoTensor

    x = x3(requires_grad=True)
    (f(x) * TwoTensor(x3(), x3() + 1)).sum().backward()
    return type(x.grad).__name__, x.grad.a, x.grad.b


def logging_tensor(f):
    from torch.testing._internal.logging_tensor import LoggingTensor, capture_logs

    try:
        with capture_logs() as logs:
            y = f(LoggingTensor(x3()))
    finally:
        # pytest listens to each logger that does not propagate, and would format what is no format string.
        logging.getLogger("LoggingTensor").propagate = True
    return type(y).__name__, y.elem, logs


def negative():
    return torch.conj(torch.complex(torch.zeros(3, device=DEVICE), x3())).imag


def pack(f):
    y = f(Pack(x3(), x3() + 1))
    return shown(y)


def symbolically_traced(f):
    import torch.fx

    class M(nn.Module):
        def forward(self, x):
            return f(x)

    graph = torch.fx.symbolic_trace(M())
    return graph(x3() + 1), [str(n.target) for n in graph.graph.nodes]


def masked(f):
    from torch.masked import masked_tensor

    y = f(masked_tensor(x3(), torch.tensor([True, False, True], device=DEVICE)))
    return type(y).__name__, y.get_data(), y.get_mask()


def nested(layout):
    def run(f):
        y = f(torch.nested.nested_tensor([x3(), x3()[:2]], layout=layout))
        return type(y).__name__, [t.clone() for t in y.unbind()]

    return run


AROUND = {
    "function mode": function_mode,
    "function mode, trained": function_mode_trained,
    "dispatch mode": dispatch_mode,
    "dispatch mode, trained": dispatch_mode_trained,
    "backward under a dispatch mode": backward_under_mode,
    "backward under a function mode": backward_under_function_mode,
    "fake mode": fake_mode,
    "fake arguments": fake_arguments,
    "dual numbers": dual,
    "dual level": dual_level_without_tangents,
    "func.jvp": lambda f: torch.func.jvp(f, (x3(),), (ones3(),)),
    "func.vjp": vjp,
    "func.grad_and_value": grad_and_value,
    "func.jacrev": lambda f: torch.func.jacrev(f)(x3()),
    "func.jacfwd": lambda f: torch.func.jacfwd(f)(x3()),
    "func.hessian": lambda f: torch.func.hessian(lambda x: f(x).sum())(x3()),
    "func.vmap": vmap,
    "func.vmap of grad": vmap_of_grad,
    "func.functionalize": lambda f: torch.func.functionalize(f)(x3()),
    "func.linearize": linearize,
    "make_fx": fx,
    "make_fx, fake": lambda f: fx(f, tracing_mode="fake"),
    "make_fx, symbolic": lambda f: fx(f, tracing_mode="symbolic"),
    "make_fx, pre dispatch": lambda f: fx(f, pre_dispatch=True),
    "jit.trace": jit_trace,
    "aot_function": aot,
    "compile": lambda f: dynamo(f, backend="eager"),
    "compile, aot": lambda f: dynamo(f, backend="aot_eager"),
    "FlopCounterMode": flops,
    "profiler": profiled,
    "saved_tensors_hooks": saved_on_the_way,
    "save_on_cpu": saved_elsewhere,
    "checkpoint": checkpointed,
    "selective checkpoint": selectively_checkpointed,
    "device context": default_device,
    "DisableTorchFunction": disabled(torch._C.DisableTorchFunction),
    "DisableTorchFunctionSubclass": disabled(torch._C.DisableTorchFunctionSubclass),
    "batched gradients": batched_gradients,
    "vectorized jacobian": vectorized_jacobian,
    "forward jacobian": forward_jacobian,
    "cotangent: negative": cotangent(negative),
    "cotangent: zeros without memory": cotangent(lambda: torch._efficientzerotensor(3, device=DEVICE)),
    "cotangent: expanded": cotangent(lambda: ones3()[0].expand(3)),
    "subclass with overrides": subclass(lambda: x3().as_subclass(Shouting)),
    "subclass without": subclass(lambda: x3().as_subclass(Plain)),
    "parameter's subclass": subclass(lambda: Weight(x3())),
    "parameter": subclass(lambda: nn.Parameter(x3())),
    "buffer": subclass(lambda: nn.Buffer(x3())),
    "negative": subclass(negative),
    "zeros without memory": subclass(lambda: torch._efficientzerotensor(3, device=DEVICE)),
    "meta": lambda f: shown([f(x3().to("meta")).device.type, tuple(f(x3().to("meta")).shape)]),
    "wrapper": wrapper,
    "wrapper, trained": wrapper_trained,
    "wrapper behind the function": wrapper_after,
    "LoggingTensor": logging_tensor,
    "no tensor, with overrides": pack,
    "fx.symbolic_trace": symbolically_traced,
    "masked tensor": masked,
    "nested tensor": nested(torch.strided),
    "jagged tensor": nested(torch.jagged),
}


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
