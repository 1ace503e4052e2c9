"""Batch norm and what stands around it become kernels, in both layouts, at least as accurate as eager's.

Marked `gpu` with `--device`; on the CPU the text for CUDA is compiled where there is NVRTC.
"""

import copy
import re

import fake_cuda
import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU
from torch import nn

import thunder
from thunder import _C

pytestmark = [
    pytest.mark.fuser,
    pytest.mark.filterwarnings("error:.*kernel cannot be compiled:RuntimeWarning"),
    *([] if ON_CPU else [pytest.mark.gpu]),
]
SMALL = [(4, 3, 5, 7), (2, 8, 4, 4), (3, 1, 5, 5), (1, 16, 9, 9), (5, 6, 1, 1), (7, 24), (3, 5, 11), (2, 3, 2, 5, 3)]
LARGE = [(32, 64, 56, 56), (8, 256, 14, 14), (8, 512, 7, 7), (3, 100, 33, 35), (2, 24, 112, 112), (300, 7, 2, 3)]
SHAPES = SMALL + ([(16, 33, 20, 20), (40, 64, 32, 32)] if ON_CPU else LARGE)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def norm_of(shape, **options):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    module = kind(shape[1], **options)
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(0.5, 2)
    return module.to(DEVICE)


def image(shape, dtype=torch.float32, last=False, mean=0.0, std=1.0):
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))) * std + mean).to(DEVICE, dtype)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[len(shape)]) if last and len(shape) in formats else x


def step(f, module, x, g):
    """Result, gradients and buffers after one call."""
    x = x.detach().requires_grad_()
    y = f(x)
    y.backward(g.to(y.dtype))
    return {
        "result": y.detach(),
        "x": x.grad,
        **{name: p.grad for name, p in module.named_parameters()},
        **{name: b.clone() for name, b in module.named_buffers()},
    }


def compare(make, x, slack=1e-6):
    """The compiled module's errors against float64 are at most twice eager's own, and what is small beside them."""
    module = make()
    exact, ours = copy.deepcopy(module).double(), copy.deepcopy(module)
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(7)).to(x.device, x.dtype)
    want = step(exact, exact, x.double(), g.double())
    eager = step(module, module, x, g)
    got = step(thunder.jit(ours), ours, x, g)
    for name, truth in want.items():
        if truth is None:
            assert got[name] is None
            continue
        assert got[name].dtype == eager[name].dtype and got[name].stride() == eager[name].stride(), name
        scale = truth.double().abs().max().clamp_min(1e-6)
        if name.endswith("running_mean"):  # of many elements the mean is small beside what it is the mean of
            scale = scale.clamp_min(1e-2 * x.double().std())
        allowed, error = ((v[name].double() - truth).abs().max() / scale for v in (eager, got))
        assert error <= 2 * allowed + slack, (name, error, allowed)


class Around(nn.Module):
    def __init__(self, norm, activation=F.relu):
        super().__init__()
        self.norm, self.activation = norm, activation

    def forward(self, x):
        return self.activation(self.norm(x) + x)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_training(shape, dtype, last):
    x = image(shape, dtype, last)
    wide = dtype in (torch.float32, torch.float64)
    compare(lambda: norm_of(shape).to(dtype if wide else torch.float32), x, slack=4e-6 if wide else 2e-3)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("activation", [F.relu, F.silu, F.hardswish], ids=lambda f: f.__name__)
def test_neighbours(activation, last):
    x = image((6, 12, 10, 9), last=last)
    compare(lambda: Around(norm_of(x.shape), activation), x, slack=4e-6)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("mean", [1000.0, -30.0])
def test_a_mean_that_is_large(mean, last):
    x = image((16, 24, 20, 20), last=last, mean=mean)
    compare(lambda: norm_of(x.shape), x, slack=4e-6)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_elements_that_are_far_off(last):
    x = image((8, 6, 12, 12), last=last)
    x[0, :, 0, 0] = 1e4  # the first of each channel
    compare(lambda: norm_of(x.shape), x, slack=4e-6)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_constants(last):
    x = torch.full_like(image((4, 3, 8, 8), last=last), 0.1)
    module = norm_of(x.shape)
    y = thunder.jit(module)(x)
    assert (y - module.bias[None, :, None, None]).abs().max() < 1e-3
    assert (module.running_var - 0.9).abs().max() < 1e-6


OPTIONS = {
    "no parameters": {"affine": False},
    "no statistics": {"track_running_stats": False},
    "neither": {"affine": False, "track_running_stats": False},
    "cumulative": {"momentum": None},
    "momentum": {"momentum": 0.7, "eps": 1e-2},
}


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("options", OPTIONS)
def test_options(options, last):
    x = image((5, 10, 6, 6), last=last)
    compare(lambda: norm_of(x.shape, **OPTIONS[options]), x, slack=4e-6)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_evaluation(dtype, last):
    x = image((5, 10, 6, 7), dtype, last)
    wide = dtype in (torch.float32, torch.float64)
    make = lambda: norm_of(x.shape).to(dtype if wide else torch.float32).eval()  # noqa: E731
    compare(make, x, slack=4e-6 if wide else 2e-3)


def test_several_steps():
    ours, eager = (norm_of((4, 6, 5, 5)) for _ in range(2))
    ours.load_state_dict(eager.state_dict())
    compiled = thunder.jit(ours)
    for i in range(4):
        x = image((4, 6, 5, 5), mean=i)
        torch.testing.assert_close(compiled(x), eager(x))
    for a, b in zip(ours.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(a, b)
    assert thunder.cache_misses(compiled) == 1


def traces(module, x):
    compiled = thunder.jit(module)
    compiled(x).sum().backward()
    return [str(thunder.last_traces(compiled)[-1]), str(thunder.last_backward_traces(compiled)[-1])]


def calls(text):
    return [line.split("= ")[1] for line in text.splitlines() if "= " in line and not line.strip().startswith("#")]


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_all_of_it_is_fused(last):
    x = image((8, 16, 12, 12), last=last).requires_grad_()
    forward, backward = map(calls, traces(Around(norm_of(x.shape, affine=True)), x))
    assert not [c for c in forward + backward if "batch_norm" in c]
    # A value in the middle, or sums of rows; sums of columns; what they are for.
    assert len([c for c in forward if c.startswith("fusion")]) == 3
    # Columns: sums, and the gradient; rows: the sums of rows before.
    assert len([c for c in backward if c.startswith("fusion")]) <= (3 if last else 5)


def test_eagers_numerics_run_eagers_kernel():
    x = image((4, 6, 8, 8)).requires_grad_()
    module = norm_of(x.shape)
    eager = copy.deepcopy(module)
    compiled = thunder.jit(module, numerics="eager")
    if DEVICE == "cpu":
        assert torch.equal(compiled(x), eager(x))
    else:  # eager takes cuDNN's kernel
        torch.testing.assert_close(compiled(x), eager(x))
    assert any("batch_norm" in c for c in calls(str(thunder.last_traces(compiled)[-1])))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))
        self.second, self.third = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norms[0](self.first(x))), 2)
        y = F.silu(self.norms[1](self.second(x)))
        return F.relu(self.norms[2](self.third(y)) + x)


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_what_convolutions_read_is_not_computed_again(last):
    torch.manual_seed(0)
    module, x = Network().to(DEVICE), image((2, 3, 16, 16), last=last)
    if last:
        module = module.to(memory_format=torch.channels_last)
    forward, backward = traces(module, x)
    for text in (forward, backward):
        assert "clone" not in text and "contiguous" not in text
    for line in backward.splitlines():
        if "convolution_backward(" in line and "=" in line and not line.strip().startswith("#"):
            read = line.split("convolution_backward(")[1].split(",")[1].strip()
            assert not any(f"({read},) = fusion" in other for other in backward.splitlines()), line


@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_a_network_under_autocast(last):
    torch.manual_seed(0)
    module, x = Network().to(DEVICE), image((4, 3, 16, 16), last=last)
    if last:
        module = module.to(memory_format=torch.channels_last)
    grads = []
    for f in (module, thunder.jit(module), copy.deepcopy(module).double()):
        module.zero_grad()
        double = f is not module and not isinstance(f, thunder.module.ThunderModule)
        owner = f if double else module
        with torch.autocast(DEVICE, torch.bfloat16, enabled=not double):
            y = f(x.double() if double else x)
        y.double().square().sum().backward()
        grads.append({n: p.grad.double().clone() for n, p in owner.named_parameters()})
    eager, ours, exact = grads
    for name, truth in exact.items():
        scale = truth.norm().clamp_min(1e-3)
        allowed, error = ((g[name] - truth).norm() / scale for g in (eager, ours))
        assert error <= 2 * allowed + 1e-2, (name, error, allowed)


@pytest.mark.skipif(not ON_CPU, reason="a GPU compiles them anyway")
@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_text_for_cuda_compiles(dtype, last):
    ((ok, log),) = _C.compile_cuda([("probe", 'extern "C" __global__ void probe() {}')], 9, 0)
    if not ok:
        pytest.skip(f"no NVRTC: {log}")
    _C.always_emit_cuda(True)
    try:
        for shape in [(4, 64, 6, 6), (40, 3, 33, 31), (2, 1000, 3, 3)]:
            module = Around(norm_of(shape))
            compiled = thunder.jit(module)
            compiled(image(shape, dtype, last).requires_grad_()).sum().backward()
            both = [thunder.last_traces(compiled)[-1], thunder.last_backward_traces(compiled)[-1]]
            sources = [pair for trace in both for pair in _C.trace_cuda_texts(trace)]
            for (name, _), (ok, log) in zip(sources, _C.compile_cuda(sources, 9, 0), strict=True):
                assert ok, (name, log)
    finally:
        _C.always_emit_cuda(False)


@pytest.mark.skipif(not ON_CPU, reason="looks at the program, without a GPU")
@pytest.mark.parametrize("transposed", [False, True])
def test_a_bias_on_a_gpu_is_an_addition(transposed):
    with fake_cuda.tensors():
        kind = nn.ConvTranspose2d if transposed else nn.Conv2d
        module, x = kind(4, 6, 3, groups=2, device="cuda"), torch.randn(2, 4, 8, 8, device="cuda")
        compiled = thunder.jit(module)
        assert compiled(x).shape == module(x).shape
        forward = calls(str(thunder.last_traces(compiled)[-1]))
        backward = calls(str(thunder.last_backward_traces(compiled)[-1]))
    assert ", None, [1, 1]" in next(c for c in forward if c.startswith("torch.convolution("))
    assert any("add" in c for c in forward)
    assert "[False, True, False]" in next(c for c in backward if "convolution_backward" in c)


# What eager refuses; (arguments behind the input, what the message says), for an input of three channels.
REFUSED = {
    "too many means": ({"running_mean": torch.zeros(4)}, "running_mean should contain 3 elements not 4"),
    "too many variances": ({"running_var": torch.ones(4)}, "running_var should contain 3 elements not 4"),
    "too many weights": ({"weight": torch.ones(4)}, "weight should contain 3 elements not 4"),
    "too many biases": ({"bias": torch.ones(4)}, "bias should contain 3 elements not 4"),
    "means in a matrix": ({"running_mean": torch.zeros(3, 1)}, "running_mean should have 1 dimension not 2"),
    "no variance": ({"running_var": None}, None),
    "no mean": ({"running_mean": None}, None),
    "eps below 0": ({"eps": -1.0}, "batch_norm.* eps must be"),
    "momentum": ({"momentum": "a"}, r"batch_norm\(\): argument 'momentum'"),
    "training": ({"training": 1}, r"batch_norm\(\): argument 'training'"),
    "a list for a mean": ({"running_mean": [0.0, 0.0, 0.0]}, r"batch_norm\(\): argument 'running_mean'"),
}
REFUSED_DTYPES = {
    "statistics in float64": {"running_mean": torch.zeros(3).double(), "running_var": torch.ones(3).double()},
    "one in float64": {"running_mean": torch.zeros(3).double()},
    "integers": {"running_mean": torch.zeros(3).long(), "running_var": torch.ones(3).long()},
    "weight": {"weight": torch.ones(3).double()},
    "bias": {"weight": torch.ones(3), "bias": torch.ones(3).double()},
    "16 bits beside 32": {"running_mean": torch.zeros(3).bfloat16(), "running_var": torch.ones(3).bfloat16()},
    "32 bits beside a weight of 16": {"input": torch.randn(2, 3, 4).bfloat16(), "weight": torch.ones(3).bfloat16()},
}


def refused(wrong, training):
    """Eager's error, and the compiled function's."""
    given = {"input": torch.randn(2, 3, 4), "running_mean": torch.zeros(3), "running_var": torch.ones(3)}
    given = {"training": training, **given, **wrong}
    given = {k: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for k, v in given.items()}

    def f():
        return F.batch_norm(**given)

    with pytest.raises(Exception) as eager:
        f()
    with pytest.raises(type(eager.value)) as ours:
        thunder.jit(f)()
    return eager.value, ours.value


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("wrong, what", REFUSED.values(), ids=REFUSED)
def test_wrong_arguments_raise_as_in_eager(wrong, what, training):
    eager, ours = refused(wrong, training)
    assert type(ours) is type(eager)
    assert re.search(what or re.escape(str(eager)), str(ours))
    assert "functional" not in str(ours) and "broadcast" not in str(ours)
    assert "test_batch_norm.py" in str(ours)


@pytest.mark.skipif(not ON_CPU, reason="the rule is that of the CPU's kernels")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("wrong", REFUSED_DTYPES.values(), ids=REFUSED_DTYPES)
def test_wrong_dtypes_raise_as_in_eager(wrong, training):
    eager, ours = refused(wrong, training)
    assert type(ours) is type(eager)
    assert "[batch_norm] expected" in str(ours) and "test_batch_norm.py" in str(ours)


def test_an_instance_norm_takes_any_eps():
    x = torch.randn(2, 3, 8, device=DEVICE)
    torch.testing.assert_close(thunder.jit(lambda x: F.instance_norm(x, eps=0.0))(x), F.instance_norm(x, eps=0.0))
