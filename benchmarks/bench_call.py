"""What does a call cost?  `a + b` on 4 elements, eager, compiled, torch.compile; the guards alone of a 22-layer model.

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
        return {"add": add, "guards": guards}[arguments[0]]()
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
