"""What does a call cost?  `a + b` on 4 elements, eager, compiled, torch.compile; with programs for 1 and for 50 shapes
in the cache, and with one program for all of them; the guards alone of a 22-layer model.

--no-compare leaves torch.compile out.
"""

import sys
import time

from common import (
    ROUNDS,
    child,
    child_arguments,
    emit,
    interleaved,
    no_garbage_collection,
    summary,
    tiny_llama,
    train_step,
)


def add():
    import json

    import torch

    import thunder

    def f(a, b):
        return a + b

    a, b = torch.randn(4), torch.randn(4)
    peers = {"eager": f, "thunder": thunder.jit(f)}
    if "--no-compare" not in sys.argv:
        peers["torch.compile"] = torch.compile(f)
    for g in peers.values():
        for _ in range(200):
            g(a, b)
    inner = 5000
    with no_garbage_collection():
        times = interleaved({name: (lambda g=g: g(a, b)) for name, g in peers.items()}, inner=inner)
        empty = summary(interleaved({"": lambda: None}, inner=inner)[""], 1e6)["min"]  # the loop's own
    print(json.dumps({name: {k: v - empty for k, v in summary(t, 1e6).items()} for name, t in times.items()}))


def shapes():
    import json

    import torch

    import thunder

    def add(a, b):
        return a + b

    def caches(many):
        """Functions with 1 and with `many` programs, each called on the same 50 shapes or on the one that it knows."""
        out = {}
        for count in (1, many):
            f = thunder.jit(lambda a, b: add(a, b), cache="constant values")
            pairs = [(torch.randn(n), torch.randn(n)) for n in range(4, 4 + count)]
            for pair in pairs:
                f(*pair)
            assert thunder.cache_misses(f) == count
            out[count] = f, pairs
        return out

    many = 50
    symbolic = thunder.jit(lambda a, b: add(a, b), cache="symbolic values")
    functions = {}
    for count, (f, pairs) in caches(many).items():
        # The same arguments in turn, so that what differs is the cache and not what the processor remembers of tensors.
        first = pairs[:1] * many
        functions[f"{count}, one shape"] = lambda f=f, pairs=first: [f(a, b) for a, b in pairs]
        functions[f"{count}, check"] = lambda f=f, pairs=first: [thunder._C.check_guards(f, a, b) for a, b in pairs]
        if count > 1:
            functions[f"{count}, in turn"] = lambda f=f, pairs=pairs: [f(a, b) for a, b in pairs]
    # The first shape has a program of its own; the others have one together.
    varying = thunder.jit(lambda a, b: add(a, b))
    for a, b in pairs:
        varying(a, b)
    assert thunder.cache_misses(varying) == 2
    functions["varying, first shape"] = lambda f=varying, pairs=first: [f(a, b) for a, b in pairs]
    functions["varying, another shape"] = lambda f=varying, pairs=pairs[1:2] * many: [f(a, b) for a, b in pairs]
    functions["symbolic, one shape"] = lambda f=symbolic, pairs=first: [f(a, b) for a, b in pairs]
    functions["symbolic, check"] = lambda f=symbolic, pairs=first: [thunder._C.check_guards(f, a, b) for a, b in pairs]
    functions["symbolic, in turn"] = lambda f=symbolic, pairs=pairs: [f(a, b) for a, b in pairs]
    with no_garbage_collection():
        times = interleaved(functions, inner=100)
    assert thunder.cache_misses(symbolic) == 1
    print(json.dumps({name: summary(t, 1e6 / many) for name, t in times.items()}))


def guards():
    import json

    import torch

    import thunder

    model = thunder.jit(tiny_llama())
    batch = torch.randint(0, 256, (2, 33))
    x = batch[:, :-1].contiguous()
    step = train_step(model, batch)
    step()
    check = thunder._C.check_guards
    compiled = model._compiled
    assert check(compiled, x)
    with no_garbage_collection():
        hot = interleaved({"hot": lambda: check(compiled, x)}, inner=1000)["hot"]
        cold = []
        for _ in range(ROUNDS):
            step()
            start = time.perf_counter()
            check(compiled, x)
            cold.append(time.perf_counter() - start)
    assert thunder.cache_misses(model) == 1
    print(json.dumps(dict(hot=summary(hot, 1e6), after_a_step=summary(cold, 1e6))))


def main():
    arguments = child_arguments()
    if arguments is not None:
        return {"add": add, "guards": guards, "shapes": shapes}[arguments[0]]()
    more = ["--no-compare"] if "--no-compare" in sys.argv else []
    times = child(__file__, "add", *more)
    for peer, t in times.items():
        emit(
            "call of a + b",
            peer=peer,
            microseconds=t["median"],
            microseconds_min=t["min"],
            ratio=t["median"] / times["eager"]["median"],
            ratio_min=t["min"] / times["eager"]["min"],
            **(dict(target=3.0) if peer == "thunder" else {}),
        )
    times = child(__file__, "shapes")
    for state, t in times.items():
        alone = times["1, check" if "check" in state else "1, one shape"]
        emit(
            "call of a + b with several programs",
            peer="thunder",
            programs=state,
            microseconds=t["median"],
            microseconds_min=t["min"],
            ratio_min=t["min"] / alone["min"],
            **({} if "symbolic" in state or "another" in state else dict(target=1.2)),
        )
    times = child(__file__, "guards")
    for state, t in times.items():
        emit(
            "guards of 22 layers",
            peer="thunder",
            state=state,
            microseconds=t["median"],
            microseconds_min=t["min"],
            target=30.0,
        )


if __name__ == "__main__":
    main()
