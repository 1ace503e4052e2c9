"""What does a training step cost in the long run?  4 layers, width 768, batch 2 x 128, float32, one thread, eager
beside Thunder, and with --compare beside torch.compile.
"""

import sys

from common import (
    child,
    child_arguments,
    compiled,
    emit,
    interleaved,
    llama,
    no_garbage_collection,
    summary,
    train_step,
)


def measure():
    import json

    import torch

    batch = torch.randint(0, 1024, (2, 129))
    steps, optimizers = {}, []
    for peer in ("eager", "thunder", *(["torch.compile"] if "--compare" in sys.argv else [])):
        model = llama(4, 768, 12, vocabulary=1024)
        optimizers.append(model)
        step = train_step(compiled(peer, model), batch)

        def full(step=step, model=model):
            step()
            model.zero_grad()

        steps[peer] = full
    for step in steps.values():
        step()
        step()
    with no_garbage_collection():
        times = interleaved(steps)
    print(json.dumps({peer: summary(t, 1e3) for peer, t in times.items()}))


def main():
    if child_arguments() is not None:
        return measure()
    times = child(__file__, "measure", *(["--compare"] if "--compare" in sys.argv else []))
    for peer, t in times.items():
        ratios = (
            {}
            if peer == "eager"
            else dict(ratio=t["median"] / times["eager"]["median"], ratio_min=t["min"] / times["eager"]["min"])
            | (dict(target=1.03) if peer == "thunder" else {})
        )
        emit("train step", peer=peer, milliseconds=t["median"], milliseconds_min=t["min"], **ratios)


if __name__ == "__main__":
    main()
