"""What `make demo` shows: a Llama-shaped GPT compiled by thunder.jit, its forward trace, and training beside eager.

    python examples/demo.py [--compare] [--steps 11] [--layers 4] [--width 256] [--threads 1] [--no-trace]

--compare adds torch.compile (about a minute for its first step).  Each row is measured in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
import litgpt_import  # noqa: E402  # litgpt's model without its command line's dependencies


def make(layers, width):
    """A Llama 2 cut to `layers` and `width`; the same weights every time."""
    GPT, _ = litgpt_import.load()
    torch.manual_seed(0)
    return GPT.from_name(
        "Llama-2-7b-hf",
        n_layer=layers,
        n_embd=width,
        n_head=width // 32,
        intermediate_size=width * 11 // 4,
        block_size=128,
        padded_vocab_size=1024,
    )


def a_batch():
    """Random tokens: the model learns them by heart."""
    return torch.randint(0, 1024, (4, 65), generator=torch.Generator().manual_seed(1))


def loss_of(model, batch):
    logits = model(batch[:, :-1])
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), batch[:, 1:].reshape(-1))


def compiled_by(peer, model):
    if peer == "eager":
        return model
    if peer == "torch.compile":
        return torch.compile(model)
    import thunder

    return thunder.jit(model)


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb():
    line = next(li for li in Path("/proc/self/status").read_text().splitlines() if li.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def train(peer, options):
    """The figures of one peer; losses and the first step's gradients go to a file, to be compared."""
    torch.set_num_threads(options.threads)
    model = make(options.layers, options.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = compiled_by(peer, model)
    losses, times, gradients = [], [], None
    batch = a_batch()
    for i in range(options.steps):
        if i == 1:
            reset_peak()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(run, batch)
        loss.backward()
        if gradients is None:
            times.append(time.perf_counter() - start)
            gradients = [p.grad.clone() for p in model.parameters()]
            optimizer.step()
        else:
            optimizer.step()
            times.append(time.perf_counter() - start)
        losses.append(loss.item())
    torch.save((losses, gradients), options.results)
    print(json.dumps(dict(first=times[0], step=sorted(times[1:])[len(times[1:]) // 2], peak=peak_mb())))


def measure(peer, options, folder):
    results = Path(folder) / f"{peer}.pt"
    command = [
        sys.executable,
        __file__,
        "--peer",
        peer,
        "--results",
        str(results),
        "--steps",
        str(options.steps),
        "--layers",
        str(options.layers),
        "--width",
        str(options.width),
        "--threads",
        str(options.threads),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]), torch.load(results)


def table(options):
    import tempfile

    peers = ["eager", "thunder"] + (["torch.compile"] if options.compare else [])
    with tempfile.TemporaryDirectory() as folder:
        rows = {peer: measure(peer, options, folder) for peer in peers}
    losses, gradients = rows["eager"][1]
    print(
        f"\n{options.steps} steps of AdamW, {options.layers} layers, width {options.width}, batch 4 x 64, "
        f"{options.threads} thread{'s' * (options.threads > 1)}\n"
    )
    print(f"{'':15}{'first step, s':>15}{'step, ms':>12}{'peak, MB':>12}{'loss differs by':>18}{'gradients by':>15}")
    for peer, (figures, (other_losses, other_gradients)) in rows.items():
        line = f"{peer:15}{figures['first']:15.3f}{figures['step'] * 1e3:12.1f}{figures['peak']:12.0f}"
        if peer != "eager":
            loss = max(abs(a - b) for a, b in zip(losses, other_losses, strict=True))
            gradient = max((a - b).abs().max().item() for a, b in zip(gradients, other_gradients, strict=True))
            line += f"{loss:18.1e}{gradient:15.1e}"
        print(line)
    print(f"\nloss: {losses[0]:.4f} -> {losses[-1]:.4f}. The first step is forward and backward, compilation included.")


def show_trace(options):
    import thunder

    model = thunder.jit(make(2, options.width))
    model(a_batch()[:, :-1])
    print("The forward of two layers, as thunder.last_traces(model)[-1].python() prints it:\n")
    print(thunder.last_traces(model)[-1].python())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="measure torch.compile too")
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1, help="more of them make the figures less steady")
    parser.add_argument("--no-trace", action="store_true")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--results", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return train(options.peer, options)
    if not options.no_trace:
        show_trace(options)
    table(options)


if __name__ == "__main__":
    main()
