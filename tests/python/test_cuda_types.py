"""What the compiler says of CUDA programs, without a GPU: attention kernels, and the layouts of all results.

Runs in a process of its own, where every result is compared with the trace (THUNDER_CHECK_RUN) and the GPU is given.
"""

import contextlib
import io
import multiprocessing
import os
import traceback

import pytest

# Forks of one process that has imported all that the programs need.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["fake_cuda", "torch._meta_registrations", "torch.fx.experimental.symbolic_shapes"])

PRELUDE = """
import fake_cuda, torch, thunder
import torch.nn.functional as F
from thunder import torch as ltorch

def made(heads, rows=256, size=64, batch=2, dtype=torch.bfloat16, inside=True):
    # As a projection gives it: [batch, rows, heads, size] in memory.
    t = torch.randn(batch, rows, heads, size, device="cuda", dtype=dtype) if inside else None
    t = t.transpose(1, 2) if inside else torch.randn(batch, heads, rows, size, device="cuda", dtype=dtype)
    return t.requires_grad_()

def run(fn, *args, **options):
    compiled = thunder.jit(fn, **options)
    out = compiled(*args)
    with torch.no_grad():
        grads = out.grad_fn(torch.ones(out.shape, dtype=out.dtype, device="cuda"))
    return compiled, out, grads

def kernels(compiled):
    calls = [*thunder.last_traces(compiled)[-1].calls, *thunder.last_backward_traces(compiled)[-1].calls]
    return [c.name.replace("scaled_dot_product_", "") for c in calls if c.name.startswith(("sdpaex", "cudnnex"))]
"""


def in_fake_cuda(program, capability=(9, 0), cudnn=91700):
    indented = "".join(f"    {line}\n" for line in program.strip("\n").splitlines())
    text = f"{PRELUDE}\nwith fake_cuda.tensors(capability={capability}, cudnn={cudnn}):\n{indented}"
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=execute, args=(text, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.poll(300), "nothing in 300 s"
        printed, error = ours.recv()
    finally:
        process.kill()
        process.join()
    assert error is None, error[-4000:]
    return printed.splitlines()


def execute(text, connection):
    """In the other process: what the program prints, and its error or None."""
    os.environ.update(THUNDER_CHECK_RUN="1", CUDA_VISIBLE_DEVICES="")
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(text, {})
    except BaseException:
        error = traceback.format_exc()
    connection.send((printed.getvalue(), error))


CUDNN = ["cudnnex_grad_forward_attention", "cudnnex_attention_backward"]
FLASH = ["sdpaex_grad_forward_flash_attention", "sdpaex_flash_attention_backward"]
EFFICIENT = ["sdpaex_grad_forward_efficient_attention", "sdpaex_efficient_attention_backward"]

CHOICES = """
def attention(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)

def window(left, right, **options):
    return lambda q, k, v: ltorch.windowed_attention(q, k, v, left, right, **options)

half = dict(dtype=torch.float16)
mask = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16)
cases = {
    "causal": (attention(is_causal=True), made(8), made(8), made(8)),
    "not causal, f16": (attention(scale=0.3), made(8, **half), made(8, **half), made(8, **half)),
    "other memory": (attention(is_causal=True), made(8, inside=False), made(8), made(8, inside=False)),
    "grouped": (attention(is_causal=True, enable_gqa=True), made(8), made(2), made(2)),
    "wide heads": (attention(is_causal=True), made(4, size=192), made(4, size=192), made(4, size=192)),
    "one row": (attention(), made(4, rows=1), made(4), made(4)),
    "value of another size": (attention(), made(4), made(4), made(4, size=32)),
    "no multiple of 128": (attention(is_causal=True), made(4, rows=100), made(4, rows=100), made(4, rows=100)),
    "float32": (attention(is_causal=True), *(made(4, dtype=torch.float32) for _ in range(3))),
    "causal, not square": (attention(is_causal=True), made(4), made(4, rows=512), made(4, rows=512)),
    "mask": (attention(attn_mask=mask), made(4), made(4), made(4)),
    "float64": (attention(is_causal=True), *(made(4, dtype=torch.float64) for _ in range(3))),
    "size of 12": (attention(is_causal=True), *(made(4, size=12) for _ in range(3))),
    "size of 33, float32": (attention(), *(made(4, size=33, dtype=torch.float32) for _ in range(3))),
    "padding": (attention(attn_mask=mask[:2, None, None].bool()), made(4), made(4), made(4)),
    "mask, half a block": (attention(attn_mask=mask[:, :192]), made(4), made(4, rows=192), made(4, rows=192)),
    "mask, grouped": (attention(attn_mask=mask, enable_gqa=True), made(8), made(2), made(2)),
    "mask of three dims": (attention(attn_mask=mask[None].expand(4, 256, 256)), made(4), made(4), made(4)),
    "dropout": (attention(is_causal=True, dropout_p=0.1), made(4), made(4), made(4)),
    "dropout of a sixteenth": (attention(dropout_p=0.0625), made(4), made(4), made(4)),
    "dropout and mask": (attention(attn_mask=mask, dropout_p=0.1), made(4), made(4), made(4)),
    "dropout of all": (attention(dropout_p=1.0), made(4), made(4), made(4)),
    "window": (window(63, 0), made(8), made(8), made(8)),
    "window, grouped and wide": (window(63, 0, enable_gqa=True), *(made(h, size=256) for h in (8, 2, 2))),
    "window, more keys": (window(-1, 3), made(4), made(4, rows=300), made(4, rows=300)),
    "window, size of 12": (window(63, 0), *(made(4, size=12) for _ in range(3))),
    "window, dropout": (window(63, 0, dropout_p=0.1), made(4), made(4), made(4)),
    "window, float32": (window(63, 0), *(made(4, dtype=torch.float32) for _ in range(3))),
}
for name, (fn, *args) in cases.items():
    compiled, out, grads = run(fn, *args)
    print(name, *kernels(compiled), sep=": ")
    assert all(g.shape == a.shape for g, a in zip(grads, args))
"""

WINDOW = ["sdpaex_grad_forward_windowed_flash_attention", "sdpaex_windowed_flash_attention_backward"]


def dropping(names):
    return [f"{names[0]}_with_dropout", names[1]]


EXPECTED = {
    "causal": CUDNN,
    "not causal, f16": CUDNN,
    "other memory": CUDNN,
    "grouped": CUDNN,
    "wide heads": FLASH,
    "one row": FLASH,
    "value of another size": CUDNN,
    "no multiple of 128": CUDNN,
    "float32": EFFICIENT,
    "causal, not square": EFFICIENT,
    "mask": CUDNN,
    "float64": [],
    "size of 12": CUDNN,
    "size of 33, float32": EFFICIENT,
    "padding": CUDNN,
    "mask, half a block": EFFICIENT,
    "mask, grouped": CUDNN,
    "mask of three dims": EFFICIENT,
    "dropout": dropping(FLASH),
    "dropout of a sixteenth": dropping(CUDNN),
    "dropout and mask": dropping(EFFICIENT),
    "dropout of all": [],
    "window": WINDOW,
    "window, grouped and wide": WINDOW,
    "window, more keys": WINDOW,
    "window, size of 12": WINDOW,
    "window, dropout": dropping(WINDOW),
    "window, float32": EFFICIENT,
}
MASKED = {"mask": EFFICIENT, "padding": EFFICIENT, "mask, grouped": []}
OF_FLOAT32 = {name: EFFICIENT for name in EXPECTED if "float32" in name}


@pytest.mark.parametrize(
    ("capability", "cudnn", "changed"),
    [
        ((9, 0), 91700, {}),
        # cuDNN 9.15.0 is wrong there, and eager does not prefer it.
        ((9, 0), 91500, {"no multiple of 128": FLASH, "dropout of a sixteenth": dropping(FLASH)}),
        ((8, 6), 91700, {"dropout of a sixteenth": dropping(FLASH), "window, grouped and wide": []}),
        (
            (9, 0),
            0,
            {n: FLASH for n in EXPECTED if EXPECTED[n] == CUDNN}
            | {"value of another size": EFFICIENT, "dropout of a sixteenth": dropping(FLASH)}
            | MASKED,
        ),
        ((7, 5), 91700, {name: [] for name in EXPECTED} | OF_FLOAT32 | {"not causal, f16": EFFICIENT}),
    ],
)
def test_choice_of_a_kernel(capability, cudnn, changed):
    lines = in_fake_cuda(CHOICES, capability, cudnn)
    found = {name: used for name, *used in (line.split(": ") for line in lines)}
    assert found == {**EXPECTED, **changed}


SWITCHES = """
from torch.nn.attention import SDPBackend, sdpa_kernel
fn = thunder.jit(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True))
q = made(4).detach()
for backend in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
    with sdpa_kernel(getattr(SDPBackend, backend)):
        fn(q)
    names = [c.name for c in thunder.last_traces(fn)[-1].calls]
    print(names[0] if len(names) <= 2 else "opened")
torch.use_deterministic_algorithms(True)
fn(q)
print([c.name for c in thunder.last_traces(fn)[-1].calls][0])
"""


def test_switches_of_pytorch():
    assert in_fake_cuda(SWITCHES) == [
        "cudnnex_scaled_dot_product_attention",
        "sdpaex_scaled_dot_product_flash_attention",
        "sdpaex_scaled_dot_product_efficient_attention",
        "opened",
        "sdpaex_scaled_dot_product_flash_attention",
    ]


GROUPED = """
def repeat(x, n):
    b, h, t, d = x.shape
    return x[:, :, None].expand(b, h, n, t, d).reshape(b, h * n, t, d)

def interleaved(q, k, v):
    k, v = k.repeat_interleave(4, dim=1), v.repeat_interleave(4, dim=1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

def expanded(q, k, v):
    return F.scaled_dot_product_attention(q, repeat(k, 4), repeat(v, 4), is_causal=True)

for fn in (interleaved, expanded):
    for dtype in (torch.bfloat16, torch.float32):
        compiled, out, grads = run(fn, made(8, dtype=dtype), made(2, dtype=dtype), made(2, dtype=dtype))
        calls = [*thunder.last_traces(compiled)[-1].calls, *thunder.last_backward_traces(compiled)[-1].calls]
        calls = [c.name for c in calls if c.name != "python_del" and not c.is_view]
        print(len(calls), [tuple(g.shape) for g in grads[1:]])
"""


def test_grouped_heads_are_not_expanded():
    lines = in_fake_cuda(GROUPED)
    shapes = "[(2, 2, 256, 64), (2, 2, 256, 64)]"
    for bf16, f32 in (lines[:2], lines[2:]):
        assert bf16.endswith(shapes) and f32.endswith(shapes)
        # One kernel forward and one backward; the efficient kernel, which float32 takes, reads whole heads.
        assert int(bf16.split()[0]) < int(f32.split()[0])


DECODING = """
def attend(q, k, v, mask):
    k, v = (t[:, :, None].expand(-1, -1, 4, -1, -1).reshape(t.shape[0], -1, *t.shape[2:]) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

def tensors(rows=1, length=64, **options):
    make = lambda *shape: torch.randn(shape, device="cuda", **({"dtype": torch.bfloat16} | options))
    return make(2, 8, rows, 64), make(2, 2, length, 64), make(2, 2, length, 64)

def names(*args):
    compiled = thunder.jit(attend)
    with torch.no_grad():
        out = compiled(*args)
    calls = [c for c in thunder.last_traces(compiled)[-1].calls if c.name != "python_del" and not c.is_view]
    print(tuple(out.shape), out.stride(), *[c.name for c in calls if "attention" in c.name or "restride" in c.name])

seen = torch.ones(2, 1, 1, 64, dtype=torch.bool, device="cuda")
names(*tensors(), seen)
names(*tensors(), seen.expand(2, 8, 1, 64))
names(*tensors(), torch.zeros(1, 1, 1, 64, device="cuda", dtype=torch.bfloat16))
names(*tensors(), torch.zeros(2, 8, 1, 64, device="cuda", dtype=torch.bfloat16))
names(*tensors(rows=2), seen)
names(*tensors(), None)
"""


def test_one_query_a_head_under_a_mask():
    lines = in_fake_cuda(DECODING)
    assert lines[:3] == ["(2, 8, 1, 64) (512, 64, 64, 1) decoding_attention"] * 3
    assert all("decoding" not in line for line in lines[3:])


DEVICES = """
def fn(x):
    return x + torch.arange(3, device="cuda") + torch.ones(3, device=x.device) + torch.full((3,), 2.0, device="cuda:0")

x = torch.randn(3, device="cuda", requires_grad=True)
compiled, out, grads = run(fn, x)
print(out.device, grads[0].device)
with torch.device("cuda"):
    print(thunder.jit(lambda x: x * torch.ones(3))(x.detach()).device)
"""


def test_a_device_without_an_index_is_the_current_one():
    assert in_fake_cuda(DEVICES) == ["cuda:0 cuda:0", "cuda:0"]


MODEL = """
import litgpt_import
GPT, _ = litgpt_import.load()
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    gpt = GPT.from_name("tiny-llama-1.1b", n_layer=2, n_embd=256, n_head=8, n_query_groups=2, intermediate_size=512,
                        padded_vocab_size=1024, block_size=256)
    ids = torch.randint(0, 1024, (2, 256))
torch.set_default_dtype(torch.float32)

model = litgpt_import.with_loss(gpt)
compiled = thunder.jit(model)
loss = compiled(ids, ids)
with torch.no_grad():
    grads = loss.grad_fn(torch.ones((), device="cuda", dtype=loss.dtype))
grads = [g for g in grads if g is not None]
print(len(grads) == len(list(model.parameters())), len(kernels(compiled)))
"""


def test_a_model():
    assert in_fake_cuda(MODEL) == ["True 4"]


SEEDS = """
from thunder import _opaque_meta as meta
q = torch.empty(2, 8, 4, 16, device="cuda")
values = [q, q, q, None, None, None, None, None, 0.1, 0, False, None, None, None]
overload = torch.ops.aten._efficient_attention_forward.default
described = meta._run(overload, values, [meta._metadata(overload, q)] * 3, torch.empty_strided)
print(*(t.device.type for t in described.computed))
"""


def test_the_seed_of_a_dropout_is_on_the_cpu():
    assert in_fake_cuda(SEEDS) == ["cuda cuda cpu cpu"]


AUTOCAST = """
@torch.library.custom_op("of_a_user::trace", mutates_args=())
def trace(x: torch.Tensor) -> torch.Tensor:
    return x * 2

trace.register_fake(lambda x: x * 2)
from thunder._opaque_meta import autocast_for
x = torch.ones(3, 3, dtype=torch.bfloat16, device="cuda")
with autocast_for([("cuda", torch.bfloat16)]):
    for f in (torch.trace, lambda x: torch.ldexp(x, x), lambda x: 1 / x, lambda x: 2 - x):
        print(thunder.jit(f)(x).dtype)
    y = thunder.jit(lambda x: trace(x))(x)
    print(y.dtype, *y.shape)
"""


def test_autocast_inside_of_kernels():
    """A trace is the sum of a diagonal there, and a number divided by a tensor a reciprocal; both are of float32."""
    assert in_fake_cuda(AUTOCAST) == ["torch.float32"] * 3 + ["torch.bfloat16", "torch.bfloat16 3 3"]


CHANNELS_LAST = """
x = torch.randn(2, 4, 3, 5, device="cuda").to(memory_format=torch.channels_last)
norm = lambda x: F.batch_norm(x, None, None, training=True)
for f in (lambda x: torch.roll(x, 1, 2), lambda x: torch.roll(x, (1, 2), (2, 1)), lambda x: F.group_norm(x, 2), norm):
    print(*thunder.jit(f)(x).stride())
images = x.bfloat16().requires_grad_()
weight = torch.randn(8, 4, 3, 3, device="cuda", dtype=torch.bfloat16)
for f in (
    lambda x: F.max_pool2d(x, 2),
    lambda x: F.avg_pool2d(x, 2),
    lambda x: F.adaptive_avg_pool2d(x, 1),
    lambda x: F.adaptive_avg_pool2d(x, 2),
    lambda x: torch.cat([x, 2 * x], 1),
    lambda x: x.mean((2, 3), keepdim=True),
    lambda x: x.sum(1, keepdim=True),
    lambda x: F.conv2d(x, weight, padding=1),
    lambda x: F.relu(x).reshape(2, -1),
):
    run(f, images)
for shape in ((4, 3), (4, 3, 5), (4, 3, 5, 6), (2, 3, 2, 2, 2)):
    run(norm, torch.randn(shape, device="cuda", requires_grad=True))
"""


def test_channels_last():
    assert in_fake_cuda(CHANNELS_LAST) == ["60 15 5 1"] * 3 + ["60 1 20 4"]


CROSS_ENTROPY = """
x = torch.randn(6, 11, dtype=torch.bfloat16, device="cuda", requires_grad=True)
classes, weight = torch.randint(0, 11, (6,), device="cuda"), torch.rand(11, device="cuda")
def names(compiled):
    return " ".join(c.name for c in thunder.last_traces(compiled)[-1].calls)

torch.set_autocast_enabled("cuda", True)
try:
    for options in ({}, {"weight": weight}, {"reduction": "none"}, {"ignore_index": 3}):
        compiled, out, grads = run(lambda x: F.cross_entropy(x, classes, **options), x)
        assert "with_graph" not in names(compiled) and out.dtype == torch.float32, names(compiled)
finally:
    torch.set_autocast_enabled("cuda", False)
"""


def test_cross_entropy_under_autocast_is_seen_through():
    in_fake_cuda(CROSS_ENTROPY)


CONVOLUTIONS = """
def by(size=3, stride=1, padding=1, dilation=1, groups=24, dtype=torch.bfloat16, last=True):
    x = torch.randn(2, 24, 20, 17, device="cuda", dtype=dtype)
    x = x.to(memory_format=torch.channels_last) if last else x
    w = torch.randn(24, 24 // groups, size, size, device="cuda", dtype=dtype)
    compiled = thunder.jit(lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, groups))
    compiled(x, w)
    print(*[c.name for c in thunder.last_traces(compiled)[-1].calls if "convolution" in c.name])

by()
by(7, 2, 3, dtype=torch.float32)
by(last=False)
by(groups=1)
by(dilation=2)
by(stride=3)
by(9)
by(dtype=torch.float64)
"""


def test_depthwise_convolutions():
    lines = in_fake_cuda(CONVOLUTIONS)
    assert lines == ["depthwise_convolution"] * 2 + ["torch.convolution"] * 6


SCANS = """
def by(f, x):
    compiled = run(f, x)[0] if x.requires_grad else thunder.jit(f)
    compiled(x)
    traces = [thunder.last_traces(compiled), thunder.last_backward_traces(compiled)]
    print(*[c.name for t in traces if t for c in t[-1].calls if "cum" in c.name])

x = torch.randn(8, 100, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
by(lambda x: (x * 2).cumsum(1) * x, x)
by(lambda x: x.cumprod(-1), x)
by(lambda x: torch.logcumsumexp(x.transpose(0, 1), 1), x)
by(lambda x: x.cumsum(-1, dtype=torch.float32), x)
by(lambda x: x.cumsum(-1, dtype=torch.float64), x)
by(lambda x: (x > 0).cumsum(0), x.detach())
by(lambda x: torch.complex(x, x).cumsum(0), x.detach().float())
"""


def test_scans():
    assert in_fake_cuda(SCANS) == [
        "scan_cumsum scan_reversed_cumsum",
        "scan_cumprod scan_cumprod_backward",
        "scan_logcumsumexp scan_logcumsumexp_backward",
        "scan_cumsum scan_reversed_cumsum",
        "torch.cumsum scan_reversed_cumsum",  # numbers of a type that is not the sums'
        "scan_cumsum",
        "torch.cumsum",
    ]


LENGTHS = """
def lengths(fn, tensors):
    compiled = thunder.jit(fn)
    for n in (40, 72, 1, 8, 1, 33):
        compiled(*tensors(n))
    names = [c.name for c in thunder.last_traces(compiled)[-1].calls]
    return thunder.cache_misses(compiled), "cudnnex_grad_forward_scaled_dot_product_attention" in names

def attention(q, k, v, **options):
    q, k, v = (t.unflatten(-1, (8, 64)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2) * 2

of = lambda n: torch.randn(2, n, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)
print(*lengths(lambda q, k, v: attention(q, k, v, is_causal=True), lambda n: (of(n), of(n), of(n))))
print(*lengths(attention, lambda n: (of(24), of(n), of(n))))
print(*lengths(attention, lambda n: (of(n), of(24), of(24))))
"""


def test_one_program_for_all_lengths():
    """The first call's, and one for any length after it, 1 among them."""
    assert in_fake_cuda(LENGTHS) == ["2 True"] * 3


CONVERSIONS = """
def model(x, *parameters):  # as under autocast
    for w, b in zip(parameters[::2], parameters[1::2]):
        x = F.linear(x.bfloat16(), w.bfloat16(), b.to(torch.bfloat16))
    return x

made = lambda *shape: torch.randn(*shape, device="cuda", requires_grad=True)
arguments = [made(32, 64)] + [made(*shape) for _ in range(6) for shape in ((64, 64), (64,))]
compiled, out, grads = run(model, *arguments)
for traces in (thunder.last_traces, thunder.last_backward_traces):
    calls = [c.name for c in traces(compiled)[-1].calls]
    alone = sum(name.endswith((".to", ".bfloat16")) for name in calls)
    print(calls.count("torch_convert_element_types_prim_impl"), alone)
assert {g.dtype for g in grads} == {torch.float32}
"""


def test_parameters_are_converted_in_one_call():
    # The backward converts the 13 gradients one by one: no executor here has a product that gives float32.
    assert in_fake_cuda(CONVERSIONS) == ["1 0", "1 13"]


HEADS_OF_TWO = """
q = torch.randn(3, 2, 2, device="cuda").transpose(0, 1).view(1, 2, 3, 2)
compiled = thunder.jit(lambda q: F.scaled_dot_product_attention(q, q, q).permute(2, 0, 1, 3).contiguous().view(3, 4))
print(compiled(q).stride())
for train in (True, False):
    module = torch.nn.MultiheadAttention(4, 2, device="cuda").train(train)
    rows = torch.randn(3, 4, device="cuda", requires_grad=train)  # without a batch
    print(*(tuple(thunder.jit(module)(rows, rows, rows, need_weights=w)[0].shape) for w in (True, False)))
"""


def test_views_behind_attention_whose_heads_are_padded():
    assert in_fake_cuda(HEADS_OF_TWO) == ["(4, 1)", "(3, 4) (3, 4)", "(3, 4) (3, 4)"]


HALF_TRANSFORMS = """
import warnings
warnings.simplefilter("error", RuntimeWarning)  # compiling raised, eager did not
x = torch.randn(4, 8, device="cuda", dtype=torch.float16)
print(thunder.jit(torch.fft.fft)(x).dtype, thunder.jit(torch.fft.rfft)(x).shape[-1])
"""


def test_fourier_transforms_of_16_bits():
    assert in_fake_cuda(HALF_TRANSFORMS) == ["torch.complex32 5"]


NUMBERS = """
x = torch.randn((), device="cuda")
print(tuple(thunder.jit(lambda x: (x.clone() * 2).sin())(x).shape))
"""


def test_a_clone_without_dimensions_in_a_kernel():
    assert in_fake_cuda(NUMBERS) == ["()"]


def test_a_read_that_fails_says_what_failed():
    """A mask on the CPU is a number of the program's, and the value of a fake tensor cannot be read."""
    program = """
import warnings
x, mask = torch.randn(3, device="cuda"), torch.rand(()) > 0.5
with warnings.catch_warnings(record=True) as seen:
    thunder.jit(lambda x, mask: x.masked_scatter(mask, x))(x, mask)
print(seen[0].message)
"""
    assert in_fake_cuda(program)[0].startswith("[jit] compiling raised DataDependentOutputException: aten._local")
