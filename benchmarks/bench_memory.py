"""How much memory does a training step need?  Peak of the second step's resident memory: 4 layers, width 768, batch
2 x 128.
"""

from common import child, child_arguments, compiled, emit, llama, peak_mb, reset_peak, resident_mb, train_step


def measure(peer):
    import gc
    import json

    import torch

    batch = torch.randint(0, 1024, (2, 129))
    model = llama(4, 768, 12, vocabulary=1024)
    step = train_step(compiled(peer, model), batch)
    step()
    model.zero_grad()
    gc.collect()
    reset_peak()
    before = resident_mb()
    step()
    print(json.dumps(dict(peak=peak_mb(), before=before)))


def main():
    arguments = child_arguments()
    if arguments is not None:
        return measure(*arguments)
    eager = None
    for peer in ("eager", "thunder"):
        runs = [child(__file__, peer) for _ in range(3)]
        peak = sorted(r["peak"] for r in runs)[1]
        eager = eager or peak
        emit(
            "peak memory of the second step",
            peer=peer,
            megabytes=peak,
            megabytes_before=sorted(r["before"] for r in runs)[1],
            **(dict(ratio=peak / eager, target=1.0) if peer != "eager" else {}),
        )


if __name__ == "__main__":
    main()
