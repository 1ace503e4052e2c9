"""Methods of tensors on sizes that change, one among them, with the default options beside eager."""

import contextlib
import inspect

import pytest
import torch
from devices import DEVICE
from short_run import taken

import thunder

# What gives no tensors, draws at random, leaves memory as it is, or is refused at every size.
OTHERS = {
    *("backward", "bernoulli", "const_data_ptr", "data_ptr", "empty_like", "hash_tensor", "item", "map"),
    *("map2", "multinomial", "new", "new_empty", "new_empty_strided", "normal", "numpy", "random", "register_hook"),
    *("polygamma", "reinforce", "resize_as", "storage_offset", "to_sparse_bsc", "to_sparse_bsr", "tolist"),
    *("uniform", "untyped_storage"),
    *("cpu", "cuda", "dim_order", "hpu", "ipu", "is_pinned", "mtia", "pin_memory", "record_stream", "xpu"),
    *("module_load", "register_post_accumulate_grad_hook", "share_memory", "storage", "to_mkldnn"),
}
METHODS = sorted(
    name
    for name in dir(torch.Tensor)
    if not name.startswith("_") and not name.endswith("_") and name not in OTHERS
    if inspect.isroutine(getattr(torch.Tensor, name))
)
ARGUMENTS = [(), (0,), (1,), (-1,), ("itself",)]
SIZES = [5, 3, 1, 2, 1, 0, 4]
SHAPES = {
    "row-major": lambda n: torch.rand(n, 3, 4, device=DEVICE) + 0.5,
    "matrix": lambda n: torch.rand(3, n, device=DEVICE) + 0.5,
    "transposed": lambda n: torch.rand(2, n, 4, device=DEVICE).transpose(1, 2) + 0.5,
}


def outcome(f, x, autocast):
    """The result and the gradient; None for an error."""
    x = x.detach().clone().requires_grad_()
    try:
        with torch.autocast(DEVICE, dtype=torch.bfloat16) if autocast else contextlib.nullcontext():
            result = f(x)
        if isinstance(result, torch.Tensor) and result.requires_grad and not result.is_complex():
            result.float().cos().sum().backward()
    except Exception:
        return None
    return result, x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape, autocast", [("row-major", False), ("matrix", True), ("transposed", False)])
@pytest.mark.parametrize("name", [name for name in METHODS if taken(name, 4)])
def test_methods(name, shape, autocast):
    torch.manual_seed(0)
    tolerance = {"rtol": 3e-2, "atol": 3e-2} if autocast else {"rtol": 1e-4, "atol": 1e-4}
    for arguments in ARGUMENTS:

        def f(x, arguments=arguments):
            return getattr(x, name)(*(x.flip(0) if a == "itself" else a for a in arguments))

        first = outcome(f, SHAPES[shape](5), autocast)
        if first is None or not isinstance(first[0], (torch.Tensor, tuple)):
            continue
        compiled = thunder.jit(f)
        for n in SIZES:
            x = SHAPES[shape](n)
            want, got = outcome(f, x, autocast), outcome(compiled, x, autocast)
            assert (want is None) == (got is None), (arguments, n, want, got)
            if want is None:
                continue
            torch.testing.assert_close(got[0], want[0], equal_nan=True, **tolerance)
            # Eager leaves some gradients of zeros out.
            gradients = (torch.zeros_like(x) if g[1] is None else g[1] for g in (got, want))
            torch.testing.assert_close(*gradients, equal_nan=True, **tolerance)
