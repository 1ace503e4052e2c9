"""TinyLlama-1.1B, micro batch 4 x 2048, bf16, forward and backward: Thunder beside torch.compile and eager on one GPU.

    python benchmarks/gpu/headline.py
    python benchmarks/gpu/headline.py --peers thunder --layers 2 --profile 20
    python benchmarks/gpu/headline.py --model Llama-2-7b-hf --layers 2 --batch 2 --seq 5            # small shapes
    python benchmarks/gpu/headline.py --model Llama-2-7b-hf --layers 2 --batch 2 --seq 5 --forward \\
        --peers thunder --peers thunder:graphs --peers torch.compile:reduce-overhead

Each peer runs in a fresh process with empty caches, and again up to its first step with the caches that it left.
The last thing printed is the table:

    ms        forward and backward, CUDA events, the median
    min       the least of them
    step      with the optimizer (fused AdamW)
    peak GB   torch.cuda.max_memory_allocated, the optimizer's state included
    first s   the first step, caches empty; `again`: in a second process
    issue ms  until the call returns, nothing synchronised; `cpu ms`: CPU time of all threads in it
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import peer as one

PEERS = "thunder,torch.compile,eager"

COLUMNS = (
    ("ms", "ms", ".2f"),
    ("min", "ms_min", ".2f"),
    ("step", "step_ms", ".2f"),
    ("peak GB", "peak_gb", ".2f"),
    ("first s", "first_s", ".1f"),
    ("again", "again_s", ".1f"),
    ("issue ms", "issue_wall_ms", ".2f"),
    ("cpu ms", "issue_cpu_ms", ".2f"),
    ("loss", "loss", ".5f"),
    ("grad norm", "grad_norm", ".5f"),
)


def with_caches(folder):
    """The environment of a process that keeps all it compiles in the folder."""
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": folder + "/inductor",
        "TRITON_CACHE_DIR": folder + "/triton",
        "XDG_CACHE_HOME": folder,
        "THUNDER_CACHE_DIR": folder + "/thunder",
        "CUDA_CACHE_PATH": folder + "/cuda",
    }


def child(peer, passed_on, caches, timeout):
    """What peer.py prints for one peer; None where it failed, with its own words on stderr."""
    try:
        done = subprocess.run(
            [sys.executable, one.__file__, peer, *passed_on],
            stdout=subprocess.PIPE,
            text=True,
            env=with_caches(caches),
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        print(f"{peer}: no result after {timeout} s", file=sys.stderr, flush=True)
        return None
    if done.returncode:
        print(f"{peer}: failed with status {done.returncode}\n{done.stdout}", file=sys.stderr, flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def measure(peer, passed_on, options):
    with tempfile.TemporaryDirectory() as caches:
        result = child(peer, passed_on, caches, options.timeout)
        if result is not None and options.again:
            again = child(peer, [*passed_on, "--first-only"], caches, options.timeout)
            result["again_s"] = again and again["first_s"]
    return result


def show_details(result):
    if program := result.get("program"):
        print(f"{result['peer']}: {json.dumps(program)}")
    if result.get("kernels"):
        print(f"{result['peer']}: the longest kernels of one step")
        for milliseconds, count, name in result["kernels"]:
            print(f"  {milliseconds:9.3f} ms  x{count:<5} {name[:120]}")
    sys.stdout.flush()


def table(rows, columns=COLUMNS, first="peer"):
    """A line for each row: under (title, key, format) what it has there, or a dash."""

    def cell(row, key, form):
        value = row.get(key)
        return "-" if value is None else format(value, form)

    texts = [[first, *(row[first] for row in rows)]]
    texts += [[title, *(cell(row, key, form) for row in rows)] for title, key, form in columns]
    for i, column in enumerate(texts):
        width = max(map(len, column))
        texts[i] = [text.rjust(width) if i else text.ljust(width) for text in column]
    return "\n".join("  ".join(line) for line in zip(*texts, strict=True))


def machine(options):
    import torch

    name = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    layers = f", {options.layers} layers" if options.layers else ""
    what = "forward" if options.forward else "forward + backward"
    shape = f"{options.batch} x {options.seq}"
    return f"{options.model}{layers}, {shape}, {options.dtype}, {what}; torch {torch.__version__}, {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="append", help=f"default {PEERS}; again for each thunder:executor,...")
    parser.add_argument("--json", action="store_true", help="a JSON line a peer, too")
    parser.add_argument("--no-again", dest="again", action="store_false", help="no second process")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for a process")
    one.add_options(parser)
    options, own = parser.parse_args(), {"peers", "json", "again", "timeout"}
    passed_on = pass_on(parser, options, own)
    rows = []
    for peer in peers_of(options.peers or [PEERS]):
        result = measure(peer, passed_on, options)
        rows.append(result or {"peer": f"{peer} (failed)"})
        show_details(rows[-1])
        if options.json:
            print(json.dumps(rows[-1]), flush=True)
    print(machine(options))
    print(table(rows), flush=True)
    if any("first_s" not in row for row in rows):
        sys.exit(1)


def peers_of(given):
    """`thunder:sdpa,aten` given alone is one peer with two executors."""
    out = []
    for text in given:
        out += [text] if ":" in text else text.split(",")
    return out


def pass_on(parser, options, own):
    """The options that the child takes, where they are not at their defaults."""
    out = []
    for action in parser._actions:
        value = getattr(options, action.dest, None)
        if action.dest in own | {"help"} or value == action.default:
            continue
        out += [action.option_strings[0]] if action.nargs == 0 else [action.option_strings[0], str(value)]
    return out


if __name__ == "__main__":
    main()
