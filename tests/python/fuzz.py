"""Random programs of views, writes and mixed dtypes, under changing modes: what eager and compiled give is compared.

    python tests/python/fuzz.py --seed 7 --programs 1000 --jobs 2

A program (fuzz_programs.py) is a function of three tensors and a captured one, p, and some calls of it, each with
inputs of its own, which may share memory.  Compared are results, what happened to the inputs, who shares memory with
whom, gradients, the random numbers drawn, and the type of an exception.
"""

import contextlib
import dataclasses
import re

import torch
from fuzz_programs import CHANGES_SIZES, Inputs, Maker
from fuzz_watchers import NAMES, Watcher, watch
from fuzzing import Finding, Fuzzer, attempt, main
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import thunder
from thunder._marks import is_ours

WRITES = re.compile(r"[a-z0-9]_$|^__setitem__$|^__i[a-z]+__$")
COMPARES = re.compile(r" (<|<=|>|>=|==|!=) ")

# What eager's errors say that compiled programs need not raise, or not before others (see is_lenient).
LENIENT = (
    "to a single memory location",
    "partially overlap",
    "returns multiple views",
    "nference tensor",
    "not implemented for",
    "does not support bool",
    "does not support complex",
    "random_bounds",
    "can't be cast",
    "out of bounds",
    "out of range",
    "DATA bounds",
    "same slice shapes",
    "cannot be concatenated",
    "Number of indices",
    "axis dim should be positive",
    "ZeroDivisionError",
    "autocast::prioritize",
    "cannot resize variables that require grad",
    "Can't detach views in-place",
    "and its base or another view of its base has been modified",
    "Autograd not support dtype",
    "to have non-zero size",
    "maximum size for tensor at dimension",
    "(different element sizes)",
    "cannot reshape tensor of 0 elements",
    "exceeds dimension size",
    "to be equal to src.dtype",  # for a tensor of 0 dimensions, which compiled programs take as a number
    "to be no larger size than src",
    "'int' object has no attribute",  # of a sum of nothing, which eager takes as out=
    "A view was created in inference mode",
    "A view was created in no_grad mode",  # of what is computed from a view that eager, alone, lets require grad
    "with out=... arguments don't support automatic differentiation",
    "does not support automatic differentiation for outputs with complex dtype",
    "is not supported for complex",
)


class Watched(TorchFunctionMode):
    """What eager does only by accident: `undefined`, whether an operator wrote to memory that it read elsewhere.
    `fresh`: eager refuses to write to a view as to a leaf, where its base came to require grad after the view was made
    and nothing has asked for the view's grad_fn since; this asks before each operator."""

    def __init__(self, fresh=False):
        super().__init__()
        self.fresh, self.undefined = fresh, False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        with torch._C.DisableTorchFunction():
            for t in tensors if self.fresh else ():
                if not t.is_inference():
                    attempt(lambda t=t: t.grad_fn)
            if tensors and WRITES.search(name):
                self.undefined = self.undefined or any(overlaps(tensors[0], t) for t in tensors[1:])
        return func(*args, **(kwargs or {}))


def overlaps(written, read):
    """Whether they lie in the same memory, at different places of it."""
    place = lambda t: (t.storage_offset(), t.shape, t.stride())
    return written.untyped_storage()._cdata == read.untyped_storage()._cdata and place(written) != place(read)


class Outcome:
    """What a call gave: results and inputs afterwards, or an exception."""

    def __init__(self, function, scope, call, watched=None):
        inputs = Inputs()
        names = inputs.run(call.inputs)
        scope["p"] = names["p"]
        self.inputs, self.leaves = list(names.values()), inputs.leaves
        torch.manual_seed(1)
        state = eval(call.state, {"torch": torch}) if call.state else contextlib.nullcontext()
        self.watcher = Watcher(call.watcher, names)
        with state, self.watcher.around(), watched or contextlib.nullcontext():
            results, self.error = attempt(lambda: function(*self.inputs[:3]))
            self.modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        self.results = results if isinstance(results, tuple) else (results,)
        self.drawn = torch.get_rng_state()

    def tensors(self):
        return [t for t in [*self.results, *self.inputs] if isinstance(t, torch.Tensor)]

    def described(self):
        """Of each tensor what its values do not say: which object it is, type, layout, who shares its memory, and
        where in it, and whether a gradient flows from it to the inputs."""
        objects, memory, said = {}, {}, []
        for t in self.tensors():
            strides = [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else []
            where = None
            if t.numel():
                first = memory.setdefault(t.untyped_storage()._cdata, (len(memory), t.storage_offset()))
                where = (first[0], t.storage_offset() - first[1])
            # An operator may return its argument where that has no elements.
            which = objects.setdefault(id(t), len(objects)) if t.numel() else None
            flows = bool(t.numel()) and self.flows_from(t)  # which an operator may decide by the number of elements
            said.append((which, t.dtype, tuple(t.shape), strides, where, flows))
        return said

    def flows_from(self, tensor):
        if not (tensor.is_floating_point() or tensor.is_complex()):  # which eager lets require grad if written to so
            return False
        if tensor.grad_fn is None:
            return tensor.requires_grad and any(tensor is leaf for leaf in self.leaves)
        waiting, seen = [tensor.grad_fn], set()
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if any(getattr(node, "variable", None) is leaf for leaf in self.leaves):
                return True
            waiting += [n for n, _ in node.next_functions]
        return False

    def values(self):
        return [t.detach() for t in self.tensors()], [t.grad for t in self.leaves]

    def backward(self):
        """Gradients of all that the inputs lead to."""
        generator = torch.Generator().manual_seed(2)
        losses = []
        for t in {id(t): t for t in self.tensors() if self.flows_from(t)}.values():
            real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
            losses.append((real.double() * torch.randn(real.shape, generator=generator, dtype=torch.float64)).sum())
        if losses:
            with self.watcher.around_backward():
                torch.autograd.backward(losses)


def is_refusal(error, source):
    """Said to be no part of the language, or to need a value that only the run knows."""
    text = str(error)
    said = isinstance(error, NotImplementedError) or "known only when" in text
    said = said or "depends on random numbers" in text  # drawn in a number that only the run knows
    # Of products of nothing eager does not look at the dtypes.
    unknown = re.search(r"\bu\d+\b", text) is not None  # a length that random numbers decide
    # Eager has requires_grad of views that it makes under no_grad, and of what is computed from them.
    leaf = "a leaf Variable that requires grad" in text and "requires_grad_" in source
    # Eager leaves older views of what becomes a leaf as they were.
    detached = "created in no_grad mode" in text or "cannot resize variables" in text
    if detached and ("detach_()" in source or "requires_grad_()" in source):
        return True
    if any(words in text for words in ("more than one element", "same dtype", "argument 'out' must be")):
        return True
    return is_ours(error) and (said or unknown or leaf)


def is_lenient(eager, source):
    """Eager raises because of memory or an autograd graph in which compiled programs do not work; for want of a kernel,
    where compiled programs take another one; or for an index out of bounds, which compiled programs find when they run,
    after errors of other kinds, and not at all where nothing uses the result."""
    text = str(eager)
    # What requires_grad_() is called for may be a view of a tensor that the program does not see.
    leaf = "a leaf Variable that requires grad" in text and ("requires_grad_" in source or "detach_()" in source)
    return leaf or any(words in text for words in LENIENT)


class Run:
    """All calls of a program.  `refusal`: why it ended early, if it did."""

    def __init__(self, program):
        self.source = program.source()
        scopes = [{"torch": torch, "F": F, **NAMES} for _ in range(2)]
        for scope in scopes:
            exec(compile(self.source, "<random program>", "exec"), scope)
        options = {k: v for k, v in program.options}
        self.rough = "float16" in str(program)  # whose roundings are in what is computed from them, too
        # Autograd does not see writes through .data to what it saved, and eager's gradients may be any; so may those
        # of older views of what detach_() was called for.  as_strided() of a view gives eager's none beyond that view.
        words = (".data", "detach_()", "requires_grad_()", "as_strided")
        self.differentiable = not any(word in self.source for word in words)
        # Small numbers divide what is rounded; a norm's roundings are divided by the square root of its eps.
        if self.rough and any(word in self.source for word in ("layer_norm", "batch_norm", " / ", "div")):
            self.differentiable = False
        self.functions = scopes[0]["f"], thunder.jit(scopes[1]["f"], **options)
        # Eager leaves gradients as they were where sizes change in place under no_grad.
        unseen = any("no_grad" in c.state or "False" in c.state for c in program.calls)
        self.differentiable = self.differentiable and not (unseen and CHANGES_SIZES.search(self.source))
        # Python asks a Parameter first how it compares with another tensor, whose layout comes second then.
        self.laid_out = not ("nn.Parameter" in str(program) and COMPARES.search(self.source))
        self.scopes = scopes
        self.counts = {"calls": 0, "raised": 0}
        self.refusal = None
        for i, call in enumerate(program.calls):
            self.refusal = self.call(call, f"call {i}: ")
            if self.refusal:
                break
            self.counts["calls"] += 1
        self.counts["hits"] = thunder.cache_hits(self.functions[1])

    def call(self, call, where):
        watched = Watched()
        eager = Outcome(self.functions[0], self.scopes[0], call, watched)
        compiled = Outcome(self.functions[1], self.scopes[1], call)
        if eager.modes != compiled.modes:
            torch.set_grad_enabled(True)  # for the programs behind this one
            raise Finding(f"{where}gradients, inference mode, autocast: {eager.modes} and {compiled.modes} afterwards")
        if not self.laid_out and "view size is not compatible" in str(compiled.error):
            return str(compiled.error)
        if is_refusal(compiled.error, self.source) and type(eager.error) is not type(compiled.error):
            return str(compiled.error)
        if watched.undefined or is_lenient(eager.error, self.source):
            return None
        if "a leaf Variable that requires grad" in str(eager.error) and compiled.error is None:
            eager = Outcome(self.functions[0], self.scopes[0], call, Watched(fresh=True))
        if type(eager.error) is not type(compiled.error):
            raise Finding(f"{where}eager: {eager.error!r}, compiled: {compiled.error!r}") from compiled.error
        if eager.error is not None:
            self.counts["raised"] += 1
            return None
        _, broken = attempt(eager.described)
        if broken is not None:  # a view whose base was written to where autograd did not look
            return None
        self.same(eager, compiled, where)
        if eager.watcher.seen != compiled.watcher.seen:
            raise Finding(f"{where}the watcher saw {eager.watcher.seen} and {compiled.watcher.seen}")
        if not torch.equal(eager.drawn, compiled.drawn):
            raise Finding(f"{where}random numbers were drawn otherwise")
        if not self.differentiable:
            return None
        _, expected = attempt(eager.backward)
        _, error = attempt(compiled.backward)
        if expected is not None:  # what eager saved was written to; compiled may have saved something else
            return None
        if error is not None:
            raise Finding(f"{where}backward: {error!r}") from error
        self.same(eager, compiled, f"{where}after the backward: ")
        return None

    def same(self, eager, compiled, where):
        kinds = [[type(r) for r in o.results] for o in (eager, compiled)]
        names = ("object", "dtype", "shape", "strides", "(memory, offset)", "has a gradient")
        theirs, ours = (attempt(o.described) for o in (eager, compiled))
        if type(theirs[1]) is not type(ours[1]):
            raise Finding(f"{where}eager's results tell {theirs[1]!r}, compiled's {ours[1]!r}") from ours[1]
        if ours[1]:
            return
        descriptions = (theirs[0], ours[0])
        if kinds[0] != kinds[1]:
            raise Finding(f"{where}results are {kinds[0]} and {kinds[1]}")
        left_out = {"strides": not self.laid_out, "has a gradient": not self.differentiable}
        for i, pair in enumerate(zip(*descriptions, strict=True)):
            for name, x, y in zip(names, *pair, strict=True):
                if x != y and not left_out.get(name):
                    raise Finding(f"{where}tensor {i}: {name}: {x} and {y}")
        for kind, xs, ys in zip(("tensor", "gradient"), eager.values(), compiled.values(), strict=True):
            for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
                if kind == "gradient" and x is not None and y is not None:
                    y = torch.where(x.isnan(), x, y)  # of what copy_() overwrites eager multiplies 0 by what there is
                self.close(x, y, f"{where}{kind} {i}: ")

    def close(self, x, y, where):
        if x is None and y is not None and not y.any():  # one node differentiates all results
            return
        try:
            tolerance = {"rtol": 5e-2, "atol": 5e-2} if self.rough else {"rtol": 1e-4, "atol": 1e-5}
            if self.rough and x is not None and x.is_floating_point() and x.isfinite().any():
                # Roundings of terms that cancel stay.
                tolerance["atol"] += 0.01 * torch.where(x.isfinite(), x, 0).abs().max().item()
            torch.testing.assert_close(y, x, **tolerance, equal_nan=True)
        except AssertionError as error:
            raise Finding(f"{where}{error}") from None


def smaller(program):
    """Programs with something left out."""
    calls, body = program.calls, program.body
    for i in range(len(calls)) if len(calls) > 1 else ():
        yield dataclasses.replace(program, calls=calls[:i] + calls[i + 1 :])
    for i in reversed(range(len(body))):
        less = dataclasses.replace(program, body=body[:i] + body[i + 1 :])
        if less.is_whole():
            yield less
    for i in range(len(program.result)) if len(program.result) > 1 else ():
        yield dataclasses.replace(program, result=program.result[:i] + program.result[i + 1 :])
    for header in {h for headers, _ in body for h in headers}:
        without = tuple((tuple(h for h in headers if h is not header), s) for headers, s in body)
        yield dataclasses.replace(program, body=without)
    for i, call in enumerate(calls):
        simple = [dataclasses.replace(call, **{k: ""}) for k in ("state", "watcher") if getattr(call, k)]
        for j, line in enumerate(call.inputs):
            plain = f"{line[0]} = made((2, 2))"
            if line != plain:
                simple.append(dataclasses.replace(call, inputs=(*call.inputs[:j], plain, *call.inputs[j + 1 :])))
        for changed in simple:
            yield dataclasses.replace(program, calls=(*calls[:i], changed, *calls[i + 1 :]))
    for i, (key, _) in enumerate(program.options):
        if key != "executors":
            yield dataclasses.replace(program, options=program.options[:i] + program.options[i + 1 :])


def made(seed):
    program = Maker.made(seed)
    return watch(program, seed) if seed % 5 == 4 else program


FUZZER = Fuzzer(made, Run, smaller)

if __name__ == "__main__":
    main(FUZZER, __doc__)
