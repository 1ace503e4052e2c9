"""OperatorExecutor, FusionExecutor, and gradient rules."""

import dataclasses

from .. import _C
from .._marks import refusal
from ..symbols import Symbol, add_symbol
from . import _registration as registration
from ._trace import level_regions, proxies_of


def get_grad(result):
    """In a gradient rule: the gradient that flows into a result of the rule."""
    return _C.get_grad(result)


def put_grad(argument, gradient):
    """In a gradient rule: the gradient of an argument. Several for one argument are added; None is none."""
    _C.put_grad(argument, gradient)


def register_grad(symbol, rule):
    """A gradient rule for a symbol, whoever runs it: takes the symbol's arguments, returns its results, and in between
    calls get_grad() and put_grad(). A rule of the executor that runs the call goes first."""
    if not callable(rule):
        raise TypeError(f"[register_grad] a function was expected, got {type(rule).__name__}")
    _C.register_gradient_rule(registration.symbol_id(symbol), registration.signature_of(rule))


class _Registers:
    """What executors of both kinds can register."""

    def register_operator(self, name, *, like=None, meta=None, fn=None, tags=(), replaces=None):
        """An operator that this executor runs.

        Args:
            name: How the operator prints in traces; unique among this executor's.
            like: A function that computes the same from torch operators: gives the metadata of the results, and the
                gradient unless there is a rule. Or ...
            meta: ... a function of the same parameters that returns the results' metadata:
                thunder.core.proxies.TensorProxy objects, numbers, None, or a tuple of these.
            fn: What runs it, on real tensors, without autograd. None: an operator for other executors to implement.
            tags: Names of properties that passes may use, such as "random" or "no_grad".
            replaces: A torch function whose calls mean this operator: where Thunder knows it, as
                register_implementation() does; where it does not, in every compiled function.

        Returns:
            The operator's symbol. Called in a compiled function it is recorded; called elsewhere it runs `fn`.
        """
        if not name.isidentifier():
            raise ValueError(f"[register_operator] an operator's name must be an identifier, got {name!r}")
        if meta is None and like is None:
            raise ValueError(f"[{name}] an operator needs meta= or like=, for the shapes and dtypes of its results")
        described = meta or like
        op = self._make_operator(
            name,
            getattr(described, "__doc__", None) or "",
            registration.parameters_of(described, name),
            registration.tag_bits(tags, name),
            registration.function_or_none(meta, name),
            registration.function_or_none(like, name),
            fn,
        )
        symbol = add_symbol(op, fn)
        if replaces is not None:
            self._replace(symbol, replaces)
        return symbol

    def _replace(self, symbol, function):
        try:
            known = registration.symbol_id(function)
        except ValueError:
            known = None
        if known is not None:
            self.register_implementation(known, symbol)
        elif registration.is_torch_callable(function):
            _C.register_function(function, "operator", symbol.id)
        else:
            raise refusal(
                f"[{symbol.name}] replaces= takes a torch function, got {function!r}: calls of other Python functions "
                "are not seen by the compiler; call the operator instead"
            )

    def register_implementation(self, symbol, op=None, *, checker=None, execution_transform=None, grad_transform=None):
        """How this executor runs the calls of a symbol. Later registrations are asked first.

        Args:
            symbol: thunder.torch.gelu, thunder.prims.add, an executor's operator, torch.nn.functional.gelu, or a name.
            op: An operator of the same parameters. One with fewer takes the calls that leave the others at their
                defaults.
            checker: A function of the call's arguments: whether this very call can be run.
            execution_transform: Instead of `op`: a function of the call's arguments that does the same with other
                operators.
            grad_transform: A gradient rule (see register_grad) for calls through which gradients flow.
        """
        name = registration.symbol_id(symbol)
        if op is not None and not isinstance(op, Symbol):
            raise TypeError(
                f"[register_implementation] op must be what register_operator() returned, got {type(op).__name__}"
            )
        if op is not None and execution_transform is not None:
            raise ValueError(f"[{name}] an implementation has an operator or an execution transform, not both")
        if op is None and execution_transform is None and grad_transform is None:
            raise ValueError(
                f"[{name}] an implementation needs an operator, an execution transform or a gradient transform"
            )
        own = isinstance(symbol, Symbol) and symbol.executor == self.name
        if own and op is None and execution_transform is None:
            # The operator runs wherever it is called, this executor in the list or not; so does its gradient rule.
            return register_grad(symbol, grad_transform)
        self._implement(
            name,
            op.id if op is not None else "",
            registration.function_or_none(checker, "checker"),
            registration.function_or_none(execution_transform, "execution_transform"),
            registration.function_or_none(grad_transform, "grad_transform"),
        )
        return None


class OperatorExecutor(_Registers, _C.PythonExecutor):
    """An executor that runs single operators."""

    def __init__(self, name, version=None, *, unavailable=""):
        """`unavailable`: why it cannot be used on this machine ("needs a CUDA device"); empty if it can."""
        _C.PythonExecutor.__init__(self, name, str(version or ""), unavailable)


@dataclasses.dataclass
class Region:
    """Calls of a trace that a fusion executor replaces by one."""

    calls: list
    inputs: list  # values that the calls read from outside
    outputs: list  # values that others read


class FusionExecutor(_Registers, _C.PythonFusionExecutor):
    """An executor that takes several calls at once.

    Either override `fuse(region)`, which gives a function from the region's inputs to a tuple of its outputs, and say
    with register_supported() what may be in a region; or override `fusion_pass(trace)`, which returns a trace, and use
    `trace.replace(calls, function, executor=self)` there.
    """

    def __init__(self, name, version=None, *, unavailable="", prefix=None):
        """`prefix`: of the names by which fused calls print; the executor's name if None."""
        _C.PythonFusionExecutor.__init__(self, name, str(version or ""), unavailable)
        self.prefix = prefix or name
        self._supported = {}

    def register_supported(self, symbol, checker=None):
        """Lets calls of a symbol be part of a region; `checker`, a function of a call's arguments, may refuse it."""
        self._supported[registration.symbol_id(symbol)] = checker

    def can_fuse(self, call):
        """Whether a call may be part of a region: its symbol is supported, or all that its body does is."""
        if not call.may_be_fused or call.has_effects or call.is_symbolic:
            return False
        return self._supports(call)

    def _supports(self, call):
        for name in (call.symbol, _base(call.symbol)):
            if name in self._supported:
                checker = self._supported[name]
                if checker is None:
                    return True
                args, kwargs = proxies_of(call)
                return bool(checker(*args, **kwargs))
        return bool(call.body) and all(self._supports(inner) for inner in call.body)

    def regions(self, trace):
        """The largest regions of calls that can be fused, with no call outside of one between its calls."""
        return [Region(calls, *_C.region_values(trace, calls)) for calls in level_regions(trace, self.can_fuse)]

    def fuse(self, region):
        """A function from the region's inputs to a tuple of its outputs; None to leave the region as it is."""
        raise refusal(f"[{self.name}] a fusion executor overrides fuse() or fusion_pass()")

    def fusion_pass(self, trace):
        for region in self.regions(trace):
            fused = self.fuse(region)
            if fused is not None:
                trace = trace.replace(region.calls, fused, executor=self)
        return trace


def _base(full_name):
    op = _C.find_op(full_name)
    return op.name if op is not None else full_name


def _replace_calls(trace, calls, fn, *, executor, name=None):
    """The trace with `calls` replaced by one call of `fn`, which takes the values that they read from outside, in order
    of appearance, and returns a tuple of those that others read. `name`: what the call prints as, a number follows."""
    if not callable(fn):
        raise TypeError(f"[replace] a function was expected, got {type(fn).__name__}")
    if not isinstance(executor, _C.PythonExecutor):
        raise TypeError(
            "[replace] executor= must be an OperatorExecutor or a FusionExecutor, which run Python functions, got "
            f"{executor!r}"
        )
    prefix = name or getattr(executor, "prefix", executor.name)
    return _C.trace_replace(trace, list(calls), fn, executor.name, prefix)


_C.Trace.replace = _replace_calls
