"""Every operator of PyTorch's database as a program for a GPU, forward and backward, on machines without one."""

import pytest
from op_checks import MODES
from test_cuda_types import in_fake_cuda

SHARDS = 3

SWEEP = """
import os, warnings
from op_checks import op_db, tensors
from short_run import taken

os.environ.update(mode)
warnings.simplefilter("error", RuntimeWarning)  # compiling raised, eager did not
# The first dtype that an operator takes, and which sample, as a part of their number.  Kernels are made of the first
# sample, which often has no dimensions.
DTYPES, PLACE = ((torch.float32,), 0) if mode else ((torch.bfloat16, torch.float32), 0.5)
# PyTorch's side needs the device: it makes tensors there to learn sizes, or reads values.
ON_A_DEVICE = {f"nn.functional.{name}" for name in (
    "multi_margin_loss", "multilabel_margin_loss", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "fractional_max_pool2d", "fractional_max_pool3d")} | {"masked_scatter", "tensor_split"}
# Samples that the kernels of a GPU refuse, or of which PyTorch's meta functions give other dtypes than those.
MISTAKEN = {("_softmax_backward_data", torch.float32)} | {(name, torch.bfloat16) for name in (
    "nn.functional.batch_norm", "nn.functional.instance_norm", "native_batch_norm")}

def gradients(results):
    nodes = {t.grad_fn for t in results if t.grad_fn is not None}
    with torch.no_grad():
        for node in nodes:
            theirs = [t for t in results if t.grad_fn is node]
            node(*(torch.ones_like(t) for t in theirs))

def check(op, sample):
    args = (sample.input, *sample.args)
    try:
        op.op(*args, **sample.kwargs)
    except Exception:
        return 0  # PyTorch has no numbers to go by here
    results = tensors(thunder.jit(lambda *a, **k: op.op(*a, **k))(*args, **sample.kwargs))
    if all(t.dtype.is_floating_point for t in results):
        gradients(results)
    return 1

checked = 0
for op in op_db[shard::shards]:
    if op.op is None or op.name.startswith("jiterator") or op.name in ON_A_DEVICE:
        continue
    if not taken("alone " + op.name if mode else op.name, 4 if mode else 2):
        continue
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cuda") or (op.name, dtype) in MISTAKEN:
            continue
        differentiable = dtype in op.supported_backward_dtypes("cuda")
        try:
            samples = list(op.sample_inputs("cuda", dtype, requires_grad=differentiable))
        except Exception:
            continue  # samples are made of values
        if not samples:
            continue
        try:
            checked += check(op, samples[int(PLACE * len(samples))])
        except Exception as e:
            print(op.name, dtype, type(e).__name__, str(e).splitlines()[0][:200])
        break
assert checked > 10, checked
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_operator_compiles_for_a_gpu(shard, mode):
    assert in_fake_cuda(f"shard, shards, mode = {shard}, {SHARDS}, {MODES[mode]}\n{SWEEP}") == []
