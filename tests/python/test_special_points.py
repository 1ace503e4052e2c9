"""Every differentiable operator of PyTorch's database at special points: results and gradients against eager's.

Points: zeros of both signs, infinities, NaN, ties, and the limits of common domains.  A compiled function is made once
for each sample, and called at all points.
"""

import pytest
import torch
from devices import DEVICE, ON_CPU, moved
from op_checks import REFERENCES, compare_gradients, compiled, gradient_dtype, name_of, op_db, samples, seeded, tensors
from short_run import ALL, taken

SAMPLES = 3 if ALL else 1
INF, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, 2.0, -2.0, 1.5, -0.5, 1e-300, 1e300)

# What a tensor's elements are at a point, given what they were; `k` counts the sample's tensors.
POINTS = {
    "zeros": lambda x, k: torch.full_like(x, 0.0),
    "negative zeros": lambda x, k: torch.full_like(x, -0.0),
    "ones": lambda x, k: torch.full_like(x, 1.0),
    "minus ones": lambda x, k: torch.full_like(x, -1.0),
    "one nan": lambda x, k: _with_first(x, NAN),
    "one inf": lambda x, k: _with_first(x, INF),
    "one -inf": lambda x, k: _with_first(x, -INF),
    "a row of zeros": lambda x, k: _with_first(x, 0.0, row=True),
    "mixed": lambda x, k: _mixed(x, k),
    "mixed numbers": lambda x, k: _mixed(x, k + 5, tuple(s for s in SPECIAL if s == s)),
}


def _with_first(x, value, row=False):
    x = x.clone()
    first = x[0] if row and x.ndim > 1 and len(x) else x.reshape(-1)[:1]
    if x.ndim == 0 or not row or x.ndim == 1:
        flat = x.reshape(-1).clone()
        flat[:1] = value
        return flat.reshape(x.shape)
    first.fill_(value)
    return x


def _mixed(x, k, numbers=SPECIAL):
    generator = torch.Generator().manual_seed(k)
    places = torch.randint(len(numbers), x.shape, generator=generator)
    return torch.tensor(numbers, dtype=x.dtype)[places].to(x.device)


def _is_real(t):
    return t.is_floating_point() and t.layout is torch.strided


def at_point(value, point, count=None):
    """The sample's arguments with other elements in its real tensors."""
    count = [0] if count is None else count
    if isinstance(value, torch.Tensor):
        if not _is_real(value):
            return value
        count[0] += 1
        with torch.no_grad():
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
            made.copy_(POINTS[point](value.detach(), count[0]))
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(at_point(v, point, count) for v in value)
    if isinstance(value, dict):
        return {k: at_point(v, point, count) for k, v in value.items()}
    return value


def results_and_gradients(fn, process, args, kwargs):
    inputs = [t for t in tensors((args, kwargs)) if t.requires_grad]
    results = seeded(fn, *args, **kwargs)
    outputs = [t for t in tensors(process(results)) if t.requires_grad]
    torch.manual_seed(1)
    cotangents = [torch.randn_like(t) for t in outputs]
    if not inputs or not outputs:
        return results, []
    return results, torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)


# Points at which eager's result is one of several, and why.
_ASSOCIATED = "sums of products are associated in another order"
_RACED = {"one nan", "one inf", "one -inf", "a row of zeros", "mixed", "mixed numbers"}
_VECTORS = "PyTorch's vectorised code and its code for the last elements differ at NaN"
_RUNNING = "PyTorch's running mean of a row meets inf - inf"
NOT_DETERMINED = {
    "logit": ({"negative zeros", "one nan", "mixed", "mixed numbers"}, _VECTORS),
    **{
        f"nn.functional.{name}": ({"one nan", "mixed"}, _VECTORS)
        for name in "elu celu selu hardswish softshrink hardshrink hardtanh relu6".split()
    },
    "nn.functional.layer_norm": ({"mixed numbers"}, _ASSOCIATED),
    "native_layer_norm": ({"one inf", "one -inf", "mixed", "mixed numbers"}, _RUNNING),
    "native_group_norm": ({"one inf", "one -inf", "mixed", "mixed numbers"}, _RUNNING),
    "nn.functional.instance_norm": (
        {"one inf", "one -inf", "mixed", "mixed numbers"},
        "PyTorch adds the mean, scaled, to the bias: inf - inf",
    ),
    "nn.functional.bilinear": ({"one inf", "one -inf", "mixed", "mixed numbers"}, _ASSOCIATED),
    "linalg.svd": ({"ones", "minus ones"}, "singular values that are equal divide rounding errors by zero"),
    "linalg.lstsq": (set(POINTS), "the rank, on which the sizes of results depend, is known only when it runs"),
    "linalg.lstsq.grad_oriented": (set(POINTS), "as above"),
    **{
        f"nn.functional.max_unpool{n}d": (
            _RACED,
            "of elements that go to one place PyTorch's last thread writes its own",
        )
        for n in (1, 2, 3)
    },
}


if not ON_CPU:
    _IN_A_ROW = "of a row with an infinity PyTorch's kernel and its formula differ in what is NaN"
    for name in ("nn.functional.rms_norm", "_softmax_backward_data"):
        NOT_DETERMINED[name] = ({"one inf", "one -inf", "mixed", "mixed numbers"}, _IN_A_ROW)


def compare_at(op, jitted, sample, point):
    args, kwargs = at_point((sample.input, *sample.args), point), at_point(sample.kwargs, point)
    process = sample.output_process_fn_grad or (lambda x: x)
    try:
        if not ON_CPU:  # where a value out of range leaves the process without a device
            results_and_gradients(REFERENCES.get(op.name, op), process, moved(args, "cpu"), moved(kwargs, "cpu"))
        expected, reference = results_and_gradients(REFERENCES.get(op.name, op), process, args, kwargs)
    except Exception:
        return
    actual, gradients = results_and_gradients(jitted, process, args, kwargs)
    for a, e in zip(tensors(actual), tensors(expected), strict=True):
        torch.testing.assert_close(a, e, equal_nan=True)
    compare_gradients(gradients, reference)


DIFFERENTIABLE = [op for op in op_db if op.op is not None and gradient_dtype(op, DEVICE) is torch.float64]


@pytest.mark.parametrize("eps", [None, 0.1, 0.0, -1.0])
def test_logit_outside_of_its_domain(eps):
    x = torch.tensor([1.5, -0.5, 1.0, 0.0, INF, -INF, 0.5, 0.05], dtype=torch.float64, requires_grad=True)
    results = [fn(x, eps) for fn in (torch.logit, compiled(torch.logit))]
    gradients = [torch.autograd.grad(r.sum(), x)[0] for r in results]
    for expected, actual in (results, gradients):
        torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("op", [op for op in DIFFERENTIABLE if taken(name_of(op), 4)], ids=name_of)
def test_special_points(op):
    findings = []
    for number, sample in enumerate(samples(op, DEVICE, torch.float64, SAMPLES, requires_grad=True)):
        jitted = compiled(op)
        for point in POINTS.keys() - NOT_DETERMINED.get(name_of(op), ((), ""))[0]:
            try:
                compare_at(op, jitted, sample, point)
            except Exception as e:
                findings.append(f"sample {number}, {point}: {type(e).__name__}: {e}")
    assert not findings, "\n".join(findings)
