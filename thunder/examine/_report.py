"""The report on a function."""

import collections
import copy
import dataclasses

import torch

import thunder

from ._collect import collect
from ._memory import predicted_memory


@dataclasses.dataclass
class Comparison:
    """A tensor of the compiled function against eager's."""

    name: str  # "result[0]", "gradient of argument 1", "gradient of weight"
    matches: bool
    largest_difference: float
    detail: str = ""


@dataclasses.dataclass
class Report:
    supported: bool  # every torch function is, and the function compiled
    functions: list  # of Function
    unsupported: list  # those of them that are not supported
    error: Exception | None = None  # what compiling or running the compiled function raised
    comparisons: list = dataclasses.field(default_factory=list)
    executors: dict = dataclasses.field(default_factory=dict)  # operator -> {executor: calls}, forward and backward
    memory: object = None  # of the forward
    backward_memory: object = None
    compiled: object = None

    @property
    def matches(self):
        """Whether the results and gradients are eager's; None if there was nothing to compare."""
        return all(c.matches for c in self.comparisons) if self.comparisons else None

    def __str__(self):
        return "\n".join(_lines(self))


def _lines(r):
    count = sum(f.calls for f in r.functions)
    yield f"{len(r.functions)} torch functions in {count} calls: " + (
        "all are supported" if not r.unsupported else f"{len(r.unsupported)} are not supported"
    )
    for f in r.unsupported:
        yield f"  not supported: {f.name} ({f.calls} call{'s' if f.calls > 1 else ''})"
        for where in f.locations:
            yield f"    at {where}"
    if r.error is not None:
        yield f"the compiled function failed: {type(r.error).__name__}: {r.error}"
    if r.comparisons:
        yield "results and gradients are eager's" if r.matches else "results or gradients differ from eager's"
    for c in r.comparisons:
        if not c.matches:
            yield f"  {c.name}: {c.detail or f'largest difference {c.largest_difference:.3g}'}"
    if r.executors:
        yield "operators by executor:"
    for operator, by in sorted(r.executors.items()):
        yield f"  {operator}: " + ", ".join(f"{name} ({n})" for name, n in by.items())
    for title, memory in (("forward", r.memory), ("backward", r.backward_memory)):
        if memory is None:
            continue
        least = "" if memory.exact else "at least "
        peak = f"{least}{_size(memory.peak)} at {memory.peak_at}"
        yield f"memory of the {title}: inputs {_size(memory.inputs)}, peak {peak}"
        for where, size in sorted(memory.lines.items(), key=lambda item: -item[1])[:5]:
            yield f"  {_size(size)} at {where}"


def _size(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.4g} {unit}"
        n /= 1024
    return None


def _flatten(obj, path, out):
    """Tensors and numbers in nested containers, with where they stand."""
    if isinstance(obj, dict):
        for k, v in obj.items():
            _flatten(v, f"{path}[{k!r}]", out)
    elif isinstance(obj, (list, tuple)):
        for i, v in enumerate(obj):
            _flatten(v, f"{path}[{i}]", out)
    else:
        out.append((path, obj))
    return out


def _copy_arguments(args, kwargs):
    """The same arguments in tensors of their own, leaves with the same requires_grad."""
    copies = {}

    def one(obj):
        if isinstance(obj, torch.Tensor):
            if id(obj) not in copies:
                copies[id(obj)] = obj.detach().clone().requires_grad_(obj.requires_grad)
            return copies[id(obj)]
        if isinstance(obj, dict):
            return {k: one(v) for k, v in obj.items()}
        if type(obj) in (list, tuple):
            return type(obj)(one(v) for v in obj)
        return obj

    return one(args), one(kwargs)


def _run(call, module, args, kwargs):
    """The result, and the gradients that its sum sends to arguments and parameters."""
    if module is not None:
        module.zero_grad(set_to_none=True)
    result = call(*args, **kwargs)
    outputs = [t for _, t in _flatten(result, "", []) if isinstance(t, torch.Tensor) and t.requires_grad]
    named = [
        (f"gradient of argument {p}", t) for p, t in _flatten((args, kwargs), "", []) if isinstance(t, torch.Tensor)
    ]
    if module is not None:
        named += [(f"gradient of {name}", p) for name, p in module.named_parameters()]
    named = [(n, t) for n, t in named if t.requires_grad]
    if outputs and named:
        torch.autograd.backward([o.float().sum() if not o.is_complex() else o.abs().sum() for o in outputs])
    return result, [(name, None if t.grad is None else t.grad.clone()) for name, t in named]


def _compare(name, expected, actual, rtol, atol):
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        same = type(expected) is type(actual) and bool(expected == actual)
        return Comparison(
            name, same, 0.0 if same else float("nan"), "" if same else f"{actual!r} instead of {expected!r}"
        )
    with torch.no_grad():
        difference = float("nan")
        if expected.shape == actual.shape and expected.numel():
            difference = (expected.to(torch.complex128) - actual.to(torch.complex128)).abs().max().item()
        try:
            torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return Comparison(name, False, difference, str(error).strip().replace("\n", "; "))
    return Comparison(name, True, 0.0 if difference != difference else difference)


def _executors(compiled):
    table = {}
    traces = [t[-1] for t in (thunder.last_traces(compiled), thunder.last_backward_traces(compiled)) if t]
    for trace in traces:
        for call in trace.calls:
            if call.executor:
                table.setdefault(call.symbol, collections.Counter())[call.executor] += 1
    return {operator: dict(by) for operator, by in table.items()}


def examine(fn, *args, executors=None, rtol=None, atol=None, quiet=False, **kwargs):
    """Tells what Thunder makes of `fn(*args, **kwargs)`, and prints it unless `quiet`.

    Runs it eagerly and lists the torch functions that it calls and that Thunder does not support, each with the user's
    line. If all are, compiles it with `executors`, compares results and gradients with eager's (random numbers from the
    same seed), and says which executor runs what and how much memory the program takes. `fn`: a function or a
    torch.nn.Module. The arguments are copied, a module too, so that nothing of the caller's changes.

    Returns a Report.
    """
    module = fn if isinstance(fn, torch.nn.Module) else None
    with torch.random.fork_rng(devices=[]):
        report = _examine(fn, module, args, kwargs, executors, rtol, atol)
    if not quiet:
        print(report)
    return report


def _examine(fn, module, args, kwargs, executors, rtol, atol):
    seed = torch.initial_seed()
    eager = copy.deepcopy(module) if module is not None else fn
    functions = []

    def collecting(*a, **k):
        result, found = collect(eager, *a, **k)
        functions.extend(found)
        return result

    own_args, own_kwargs = _copy_arguments(args, kwargs)
    torch.manual_seed(seed)
    expected, expected_grads = _run(collecting, eager if module is not None else None, own_args, own_kwargs)
    unsupported = [f for f in functions if not f.supported]
    report = Report(supported=not unsupported, functions=functions, unsupported=unsupported)
    if unsupported:
        return report
    try:
        copied = copy.deepcopy(module) if module is not None else fn
        report.compiled = thunder.jit(copied, executors=executors)
        own_args, own_kwargs = _copy_arguments(args, kwargs)
        torch.manual_seed(seed)
        actual, actual_grads = _run(report.compiled, copied if module is not None else None, own_args, own_kwargs)
    except Exception as error:  # reported, whatever it is
        report.supported, report.error = False, error
        return report
    if reasons := thunder.compile_stats(report.compiled)["eager_calls"]:
        report.supported, report.error = False, NotImplementedError("; ".join(reasons))
        return report
    want, have = _flatten(expected, "result", []), _flatten(actual, "result", [])
    if [path for path, _ in want] != [path for path, _ in have]:
        report.comparisons.append(Comparison("result", False, float("nan"), "has another structure"))
    else:
        pairs = [(path, a, b) for (path, a), (_, b) in zip(want, have, strict=True)]
        pairs += [(name, a, b) for (name, a), (_, b) in zip(expected_grads, actual_grads, strict=True)]
        report.comparisons = [_compare(name, a, b, rtol, atol) for name, a, b in pairs]
    report.executors = _executors(report.compiled)
    report.memory = predicted_memory(thunder.last_traces(report.compiled)[-1])
    backward = thunder.last_backward_traces(report.compiled)
    report.backward_memory = predicted_memory(backward[-1]) if backward else None
    return report
