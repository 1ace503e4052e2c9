"""Training steps on several GPUs beside one GPU's: ddp, ZeRO2, ZeRO3 by Thunder, and PyTorch's DDP and FSDP2.

    torchrun --standalone --nproc-per-node 4 benchmarks/gpu/distributed.py --append results.jsonl \\
        --settings single:thunder zero3:torch.compile zero3:thunder single:thunder
    python benchmarks/gpu/distributed.py --table results.jsonl
    torchrun --standalone --nproc-per-node 1 benchmarks/gpu/distributed.py --fake-world 4 --append memory.jsonl
    python benchmarks/gpu/distributed.py --predict here.costs --world 4 --append predicted.jsonl --settings ddp:thunder

A setting is `single`, `waiting`, `ddp`, `zero2`, `zero3` or `tensor`, and `thunder`, `torch.compile` or `eager`.
`waiting` is `single` and one number that is summed over the GPUs at the end of a step, or of four micro-batches: what
waiting for the slowest of them takes.  `tensor` is a mesh of pairs: PyTorch's `parallelize_module` in a pair,
`fully_shard` over the pairs where there are several; a pair computes on one batch, and only Hugging Face's models have
a plan here.  One run is a part: ratios are made within a part alone, since the machines of two runs differ.  Each
setting runs in fresh processes with empty caches.  The communicators are made before the clock starts.

`--fake-world N` measures one process of N on one GPU, by PyTorch's backend "fake", which communicates nothing.  Peak
memory, the first step and the host's time are those of such a process; ms are without communication, on parameters of
which the other processes' rows hold whatever was in memory, and the loss is none.

`--predict FILE` writes what `thunder.distributed.simulate` says of Thunder's settings with that cost table, such as
`torchrun ... -m thunder.distributed.costs FILE` makes: ms, and the peak with AdamW's state.

    ms        forward and backward, the median; rank 0's clock
    slowest   the largest of all ranks' medians: a step that communicates waits for the slowest GPU
    step      with the optimizer (fused AdamW)
    issue     ms until the step's calls have returned, nothing synchronised
    4 x       four micro-batches, gradients reduced with the last one
    peak GB   torch.cuda.max_memory_allocated and what processes share, the optimizer's state included
    first s   the first step; comm s: making the communicators
    open ms   communication (NCCL's kernels, copies between GPUs) in one step that no computation hides, by the profiler
    products  ms of matrix products' kernels in that step
    / S       ms over that of the part's `single:thunder`, / waiting: of its `waiting:thunder`, / compile: over the same
              strategy's by torch.compile
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import headline
import peer as one

STRATEGIES, COMPILERS = ("single", "waiting", "ddp", "zero2", "zero3", "tensor"), ("thunder", "torch.compile", "eager")
ALONE = ("single", "waiting")  # no parameter is communicated
COLUMNS = (
    ("ms", "ms", ".2f"),
    ("min", "ms_min", ".2f"),
    ("slowest", "slowest_ms", ".2f"),
    ("step", "step_ms", ".2f"),
    ("issue", "issue_ms", ".2f"),
    ("4 x", "four_ms", ".2f"),
    ("peak GB", "peak_gb", ".2f"),
    ("first s", "first_s", ".1f"),
    ("comm s", "communicators_s", ".1f"),
    ("open ms", "open_ms", ".2f"),
    ("products", "products_ms", ".1f"),
    ("loss", "loss", ".4f"),
    ("/ S", "over_single", ".3f"),
    ("/ waiting", "over_waiting", ".3f"),
    ("/ compile", "over_compile", ".3f"),
)


# ---- one setting on one process --------------------------------------------------------------------------------------


def loss_and_blocks(options, batch_number):
    """A module that gives the loss of (ids, targets), the list of its blocks, and the two inputs."""
    import torch

    if options.model.startswith("hf:"):
        return hugging_face(options, batch_number)
    import litgpt_import

    gpt, ids, targets = one.build(options)
    numbers = torch.Generator(device=ids.device).manual_seed(1 + batch_number)
    vocabulary = gpt.config.vocab_size
    ids, targets = (torch.randint(0, vocabulary, t.shape, device=t.device, generator=numbers) for t in (ids, targets))
    return litgpt_import.with_loss(gpt), gpt.transformer.h, ids, targets


LLAMAS = {  # width, width of the MLP, layers, heads, heads of keys, vocabulary
    "hf:llama-1b": (2048, 8192, 16, 32, 8, 128256),  # the shape of Llama 3.2 1B
    "hf:llama-tiny": (64, 128, 2, 4, 2, 512),  # whether it runs
}


def hugging_face(options, batch_number):
    """A Llama of Hugging Face's in one of these shapes."""
    import torch
    import transformers

    if options.model not in LLAMAS:
        raise SystemExit(f"no model is named {options.model!r}: a name of litgpt's, or one of {', '.join(LLAMAS)}")
    width, inner, layers, heads, key_heads, vocabulary = LLAMAS[options.model]
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=options.layers or layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        max_position_embeddings=options.seq,
        use_cache=False,
    )
    torch.manual_seed(0)
    with torch.device(options.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, options.dtype))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, targets):
            logits = self.model(input_ids=ids).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    numbers = torch.Generator(device=options.device).manual_seed(1 + batch_number)
    shape = (options.batch, options.seq)
    ids, targets = (
        torch.randint(0, config.vocab_size, shape, device=options.device, generator=numbers) for _ in range(2)
    )
    return Loss(), model.model.layers, ids, targets


def by_thunder(strategy, module, transport):
    """(what is called, a context in which gradients are not reduced)."""
    import thunder
    from thunder.distributed import FSDPBucketingStrategy, FSDPType, ddp, fsdp

    if strategy == "ddp":
        module = ddp(module, transport=transport)
    elif strategy in ("zero2", "zero3"):
        module = fsdp(
            module,
            sharding_strategy=FSDPType[strategy.upper()],
            bucketing_strategy=FSDPBucketingStrategy.BLOCK,
            transport=transport,
        )
    run = thunder.jit(module)
    return run, run.no_sync if strategy not in ALONE else None


def by_pytorch(strategy, compiler, module, blocks, options):
    import torch
    from torch.distributed.fsdp import fully_shard

    compiled = compiler == "torch.compile"
    if strategy in ALONE:
        return torch.compile(module) if compiled else module, None
    if strategy == "ddp":
        devices = [torch.cuda.current_device()] if options.device == "cuda" else None
        module = torch.nn.parallel.DistributedDataParallel(module, device_ids=devices, gradient_as_bucket_view=True)
        return torch.compile(module) if compiled else module, module.no_sync
    # As torchtitan does it: a block is compiled, then sharded.
    for block in blocks:
        if compiled:
            block.compile()
        fully_shard(block, reshard_after_forward=strategy == "zero3")
    fully_shard(module, reshard_after_forward=strategy == "zero3")
    return module, lambda: _without_sync(module)


def in_pairs(compiler, module, blocks, options):
    """Tensor parallel by one plan of PyTorch's for all compilers, and shards over the pairs, as torchtitan does it."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if not options.model.startswith("hf:"):
        raise SystemExit(f"tensor has no plan for {options.model!r}: one of {', '.join(LLAMAS)}")
    pairs, alone = divmod(torch.distributed.get_world_size(), 2)
    if alone:
        raise SystemExit(f"tensor has pairs of processes, and there are {2 * pairs + 1}")
    mesh = init_device_mesh(options.device, (pairs, 2), mesh_dim_names=("pairs", "pair"))
    plan = {"model.model.embed_tokens": RowwiseParallel(input_layouts=Replicate())}
    plan |= {f"model.model.layers.*.self_attn.{name}_proj": ColwiseParallel() for name in "qkv"}
    plan |= {f"model.model.layers.*.mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")}
    plan |= {f"model.model.layers.*.{name}": RowwiseParallel() for name in ("self_attn.o_proj", "mlp.down_proj")}
    plan["model.lm_head"] = ColwiseParallel(output_layouts=Replicate())
    parallelize_module(module, mesh["pair"], plan)
    if compiler == "torch.compile":
        for block in blocks:
            block.compile()
    if pairs > 1:
        for block in blocks:
            fully_shard(block, mesh=mesh["pairs"])
        fully_shard(module, mesh=mesh["pairs"])
    if compiler == "thunder":
        import thunder

        run = thunder.jit(module)
        return run, run.no_sync if pairs > 1 else None
    return module, (lambda: _without_sync(module)) if pairs > 1 else None


@contextlib.contextmanager
def _without_sync(module):
    module.set_requires_gradient_sync(False)
    yield
    module.set_requires_gradient_sync(True)


def communicators(device, fake_world):
    """Seconds until all processes have communicated."""
    import torch
    from torch import distributed

    start = time.perf_counter()
    if fake_world:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        distributed.init_process_group("fake", rank=0, world_size=fake_world, store=FakeStore())
        return 0.0
    # torchrun's store still holds what the setting before has written.
    store, rank, world = next(distributed.rendezvous("env://"))
    store = distributed.PrefixStore(os.environ.get("SETTING_NUMBER", "0"), store)
    distributed.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=rank, world_size=world)
    distributed.all_reduce(torch.ones(1, device=device))
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def profile(step, clock):
    """Milliseconds in which only communication runs, and those of matrix products' kernels."""
    spans, products = [[], []], 0.0
    for event in one.profiled(step, clock).events():
        if event.device_type.name != "CUDA":
            continue
        name, start, end = event.name.lower(), event.time_range.start, event.time_range.end
        spans["nccl" in name or "ptop" in name].append((start, end))
        products += end - start if re.search("nvjet|gemm|cutlass|splitk", name) else 0
    return {"open_ms": uncovered(spans[True], spans[False]) / 1e3, "products_ms": products / 1e3}


def uncovered(spans, others):
    """The length of the union of `spans` outside of the union of `others`, both (start, end)."""
    points = [(t, +1 if k == 0 else -1, 0) for span in spans for k, t in enumerate(span)]
    points += [(t, +1 if k == 0 else -1, 1) for span in others for k, t in enumerate(span)]
    depth, total, last = [0, 0], 0.0, None
    for t, change, kind in sorted(points):
        if depth[0] > 0 and depth[1] == 0:
            total += t - last
        depth[kind] += change
        last = t
    return total


def shared_memory():
    """Bytes that Thunder's collectives share, of which PyTorch's allocator does not know."""
    if "thunder" not in sys.modules:  # another compiler's process
        return 0
    from thunder.distributed._peers import shared_bytes

    return shared_bytes()


def steps(run, without_sync, module, ids, targets, options, result, last):
    """The steady state after the first step; `last` is called at the end of each reduced step."""
    import torch
    from torch import distributed

    clock = one.Clock(options.device)
    of_type = {}  # the fused optimizer takes plain tensors and DTensors apart
    for p in module.parameters():
        of_type.setdefault(type(p.data), []).append(p)
    optimizer = torch.optim.AdamW([{"params": group} for group in of_type.values()], lr=1e-4, fused=True)

    def backward():
        run(ids, targets).backward()

    def step():
        backward()
        last()

    def whole():
        step()
        optimizer.step()

    def four():
        with without_sync() if without_sync else contextlib.nullcontext():
            for _ in range(3):
                backward()
        step()

    def times_of(call):
        times = []
        for _ in range(options.iterations):
            times.append(clock(call))
            optimizer.zero_grad(set_to_none=True)
        return times

    def median(call):
        return statistics.median(t["ms"] for t in times_of(call))

    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for _ in range(options.warm_up):
        whole()
        optimizer.zero_grad(set_to_none=True)
    if clock.cuda:
        clock.cuda.reset_peak_memory_stats()
    distributed.barrier()
    times = times_of(step)
    result |= {"ms": one.median_times(times)["ms"], "ms_min": min(t["ms"] for t in times), "step_ms": median(whole)}
    slowest = torch.tensor(result["ms"], device=options.device)
    distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
    result["slowest_ms"] = slowest.item()
    result["issue_ms"] = one.median_times(times)["issue_wall_ms"]
    if clock.cuda:
        result["peak_gb"] = (clock.cuda.max_memory_allocated() + shared_memory()) / 1e9
        result |= profile(step, clock)
        optimizer.zero_grad(set_to_none=True)
    four()  # other programs
    optimizer.zero_grad(set_to_none=True)
    result["four_ms"] = median(four)


def measure(setting, options):
    """What one process sees of a setting."""
    import torch
    from torch import distributed

    strategy, compiler = setting.split(":", 1)
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if options.left_free and compiler == "thunder":
        torch._C._set_sm_carveout_experimental(options.left_free)
    result = {"setting": setting, "communicators_s": communicators(options.device, options.fake_world)}
    result["world"] = distributed.get_world_size()
    rank = distributed.get_rank()
    module, blocks, ids, targets = loss_and_blocks(options, rank // 2 if strategy == "tensor" else rank)
    if strategy == "tensor":
        run, without_sync = in_pairs(compiler, module, blocks, options)
    elif compiler == "thunder":
        run, without_sync = by_thunder(strategy, module, options.transport)
    else:
        run, without_sync = by_pytorch(strategy, compiler, module, blocks, options)
    distributed.barrier()
    start = time.perf_counter()
    loss = run(ids, targets)
    loss.backward()
    one.Clock(options.device).synchronize()
    result |= {"first_s": time.perf_counter() - start, "loss": None if options.fake_world else loss.item()}
    del loss
    number = torch.zeros(1, device=options.device)
    last = (lambda: distributed.all_reduce(number)) if strategy == "waiting" else lambda: None
    steps(run, without_sync, module, ids, targets, options, result, last)
    distributed.barrier()
    distributed.destroy_process_group()
    return result


# ---- predictions -----------------------------------------------------------------------------------------------------


def predict(options):
    """A row for each setting: what the simulator says, with the state of AdamW, two numbers for each parameter."""
    from thunder.distributed import FSDPBucketingStrategy, simulate

    module, _, ids, targets = loss_and_blocks(options, 0)
    parameters = sum(p.nbytes for p in module.parameters())
    for setting in options.settings:
        strategy, _, compiler = setting.partition(":")
        if compiler != "thunder" or strategy in ("waiting", "tensor"):
            sys.exit(f"[distributed] {setting} is not predicted; Thunder's single, ddp, zero2 and zero3 are")
        start = time.perf_counter()
        s = simulate(
            module,
            (ids, targets),
            world=1 if strategy == "single" else options.world,
            strategy=None if strategy == "single" else strategy,
            loss=lambda loss: loss,
            device=options.predict,
            bucketing_strategy=FSDPBucketingStrategy.BLOCK,
        )
        state = 2 * parameters // (options.world if strategy in ("zero2", "zero3") else 1)
        row = {
            "part": f"{options.predict}, {options.world}",
            "setting": setting,
            "world": options.world,
            "ms": s.step * 1e3,
            "peak_gb": (s.peak + state) / 1e9,
            "predicted_in_s": time.perf_counter() - start,
            "machine": f"predicted by {options.predict}, {headline.machine(options)}",
        }
        keep(row, options)


def keep(row, options):
    print(json.dumps(row), flush=True)
    if options.append:
        with open(options.append, "a") as file:
            file.write(json.dumps(row) + "\n")


# ---- a part: several settings, each in processes of its own ----------------------------------------------------------


def part(options, passed_on):
    """This rank's process for each setting, one after the other; rank 0 keeps what its own print."""
    rank = int(os.environ["RANK"])
    name = f"{int(time.time())}"
    failed = False
    for number, setting in enumerate(options.settings):
        with tempfile.TemporaryDirectory() as caches:
            environment = {**headline.with_caches(caches), "SETTING_NUMBER": str(number)}
            command = [sys.executable, __file__, "--one", setting, *passed_on]
            try:
                done = subprocess.run(
                    command, stdout=subprocess.PIPE, text=True, env=environment, timeout=options.timeout
                )
            except subprocess.TimeoutExpired:
                sys.exit(f"rank {rank}, {setting}: no result after {options.timeout} s")
        failed = failed or done.returncode != 0
        if rank or done.returncode:
            continue
        row = {"part": name, **json.loads(done.stdout.splitlines()[-1]), "machine": headline.machine(options)}
        if options.transport != "auto":
            row["machine"] += f", transport {options.transport}"
        if options.left_free:
            row["machine"] += f", {options.left_free} multiprocessors left free"
        if options.fake_world:
            row["machine"] += f", fake world of {options.fake_world}"
        keep(row, options)
    if failed:
        sys.exit(1)


def merged(rows):
    """A row for each setting: medians over the parts, ratios within each."""
    parts = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    for own in parts.values():
        singles = [r["ms"] for r in own if r["setting"] == "single:thunder"]
        waiting = [r["ms"] for r in own if r["setting"] == "waiting:thunder"]
        for row in own:
            strategy, _, compiler = row["setting"].partition(":")
            if singles:
                row["over_single"] = row["ms"] / statistics.median(singles)
            if waiting:
                row["over_waiting"] = row["ms"] / statistics.median(waiting)
            compiled = [r["ms"] for r in own if r["setting"] == f"{strategy}:torch.compile"]
            if compiled and compiler == "thunder":
                row["over_compile"] = row["ms"] / statistics.median(compiled)
    out = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        of_setting = [row for row in rows if row["setting"] == setting]
        keys = {key for row in of_setting for key, value in row.items() if isinstance(value, (int, float))}
        medians = {key: statistics.median(row[key] for row in of_setting if key in row) for key in keys}
        out.append({"setting": f"{setting} x{of_setting[0]['world']}", **medians})
    return out


def table(file):
    with open(file) as lines:
        rows = [json.loads(line) for line in lines]
    machines = dict.fromkeys(row["machine"] for row in rows)
    if len(machines) != 1:
        sys.exit("[distributed] rows of several machines or shapes share no table:\n" + "\n".join(machines))
    return f"{next(iter(machines))}\n{headline.table(merged(rows), COLUMNS, 'setting')}"


def setting_of(text):
    strategy, _, compiler = text.partition(":")
    if strategy not in STRATEGIES or compiler not in COMPILERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {'|'.join(STRATEGIES)}:{'|'.join(COMPILERS)}")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", type=setting_of, default=["single:thunder", "zero3:thunder"])
    parser.add_argument("--append", default="", metavar="FILE", help="JSON lines are added there")
    parser.add_argument("--table", default="", metavar="FILE", help="print the table of such a file; nothing runs")
    parser.add_argument("--one", type=setting_of, help="one setting in this process, as the parts run it")
    parser.add_argument("--timeout", type=int, default=200, help="seconds for a setting")
    parser.add_argument("--transport", choices=("auto", "backend"), default="auto", help="what moves Thunder's bytes")
    parser.add_argument("--left-free", type=int, default=0, metavar="N",
                        help="multiprocessors that Thunder's matrix products leave to NCCL's kernels")  # fmt: skip
    parser.add_argument("--fake-world", type=int, default=0, metavar="N", help="one process of N that are not there")
    parser.add_argument("--predict", default="", metavar="FILE", help="simulate with this cost table, or h100")
    parser.add_argument("--world", type=int, default=4, help="how many GPUs --predict is about")
    one.add_options(parser)
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
    elif options.predict:
        predict(options)
    elif options.one:
        print(json.dumps(measure(options.one, options)))
    elif "RANK" not in os.environ:
        parser.error("torchrun starts the processes that measure")
    else:
        own = {"settings", "append", "table", "one", "timeout", "predict", "world"}
        part(options, headline.pass_on(parser, options, own))


if __name__ == "__main__":
    main()
