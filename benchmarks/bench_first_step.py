"""How long does the first step take (acquire, compile, run; forward and backward) of litgpt's 22-layer TinyLlama at
width 64?

And where does that time go, and how does it grow with the number of layers?  --compare: torch.compile's beside it (a
minute).
"""

import time

from common import COMPARE, child, child_arguments, compiled, emit, tiny_llama, train_step


def measure(peer, layers):
    import json

    import torch

    model = tiny_llama(int(layers))
    batch = torch.randint(0, 256, (2, 33))
    train_step(model, batch)()  # PyTorch's own start-up is nobody's
    model.zero_grad()
    run = compiled(peer, model)
    step = train_step(run, batch)
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    start = time.perf_counter()
    step()
    result = dict(first=first, second=time.perf_counter() - start)
    if peer == "thunder":
        import thunder

        stats = thunder.compile_stats(run)
        result["acquisition"] = stats["acquisition_seconds"]
        result["passes"] = stats["passes_seconds"]
        result["programs"] = stats["programs_seconds"]
        result["milliseconds_of_passes"] = {k: round(v, 1) for k, v in stats["passes"].items()}
    print(json.dumps(result))


def main():
    arguments = child_arguments()
    if arguments is not None:
        return measure(*arguments)
    runs = [child(__file__, "thunder", 22) for _ in range(3)]
    best = min(runs, key=lambda r: r["first"])
    emit(
        "first step",
        peer="thunder",
        layers=22,
        seconds=sorted(r["first"] for r in runs)[1],
        seconds_min=best["first"],
        target=0.6,
        **{k: best[k] for k in ("acquisition", "passes", "programs", "second", "milliseconds_of_passes")},
    )
    for layers in (2, 5, 11, 44):
        r = min((child(__file__, "thunder", layers) for _ in range(2)), key=lambda r: r["first"])
        emit(
            "first step, growth",
            peer="thunder",
            layers=layers,
            seconds_min=r["first"],
            milliseconds_a_layer=r["first"] / layers * 1e3,
            acquisition=r["acquisition"],
            passes=r["passes"],
            programs=r["programs"],
        )
    if COMPARE:
        r = child(__file__, "torch.compile", 22)
        emit("first step", peer="torch.compile", layers=22, seconds=r["first"], second=r["second"])


if __name__ == "__main__":
    main()
