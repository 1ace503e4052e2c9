"""Views that programs make without PyTorch's dispatcher: the same memory, sizes and strides as eager's."""

import pytest
import torch
from devices import DEVICE
from watchers import DoublingOperators

import thunder

VIEWS = {
    "reshape": lambda x: x.reshape(6, 20),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(1, 2, 0),
    "expand": lambda x: x[:, :1].expand(4, 7, 6),
    "select": lambda x: x[2],
    "slice": lambda x: x[1:, ::2, 1:-1],
    "unsqueeze": lambda x: x.unsqueeze(1).squeeze(0),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "no element": lambda x: x[:, 5:],
    "as_strided": lambda x: x.as_strided((3, 4), (4, 1)),
    "chain": lambda x: x[1:].permute(2, 0, 1).reshape(6, 15)[:, 3:].t(),
}


def operand(dtype=torch.float32):
    return torch.arange(120, device=DEVICE).to(dtype).reshape(4, 5, 6)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_views_of_arguments(name, dtype):
    x = operand(dtype)
    compiled = thunder.jit(VIEWS[name])
    for _ in range(2):
        mine, eager = compiled(x), VIEWS[name](x)
        torch.testing.assert_close(mine, eager)
        same = (mine.stride(), mine.storage_offset(), mine.untyped_storage().data_ptr())
        if name != "chain":  # its reshape is a copy
            assert same == (eager.stride(), eager.storage_offset(), eager.untyped_storage().data_ptr())


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_intermediates_with_gradients(name):
    """`linalg.inv` is PyTorch's, so that the views around it are calls of their own."""

    def f(x):
        square = torch.linalg.inv(x.flatten()[:100].reshape(10, 10) + 20 * torch.eye(10, device=DEVICE))
        return VIEWS[name](torch.cat((square.flatten(), square.flatten()[:20])).reshape(4, 5, 6).cumsum(1))

    x, y = (torch.linspace(0, 1, 120, device=DEVICE).requires_grad_() for _ in range(2))
    compiled = thunder.jit(f)
    for _ in range(2):
        mine, eager = compiled(x), f(y)
        torch.testing.assert_close(mine, eager)
        assert mine.stride() == eager.stride()
        mine.sum().backward()
        eager.sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(4, 6),
        lambda x: x.as_strided((4, 4), (4, 1)),
        lambda x: x.as_strided((4, 4), (4, 1), 0),
        lambda x: x.as_strided((4, 4), (4, 1), 2),
    ],
    ids=["reshape", "as_strided", "as_strided at 0", "as_strided at 2"],
)
def test_arguments_that_begin_elsewhere(view):
    """The place of as_strided() is counted from the beginning of the storage, wherever the argument begins."""

    def f(x):
        return torch.mm(view(x), view(x).t())

    compiled = thunder.jit(f)
    whole = torch.arange(100.0, device=DEVICE)
    for start in (0, 24, 48):
        torch.testing.assert_close(compiled(whole[start : start + 24]), f(whole[start : start + 24]))


def test_no_view_reaches_past_the_storage():
    def f(x):
        return torch.mm(x.as_strided((4, 4), (4, 1)), torch.eye(4, device=DEVICE))

    compiled = thunder.jit(f)
    whole = torch.arange(100.0, device=DEVICE)
    torch.testing.assert_close(compiled(whole[:8]), f(whole[:8]))
    for call in (f, compiled):
        with pytest.raises(RuntimeError, match="out of bounds"):
            call(whole[92:])


def views_seen(f, *args):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        f(*args)
    return sum(e.count for e in profile.key_averages() if e.key in ("aten::permute", "aten::transpose", "aten::t"))


def test_the_dispatcher_is_not_called():
    def f(x):
        return torch.linalg.inv(x.permute(1, 0)).permute(1, 0)

    x = torch.eye(4, device=DEVICE) * 2
    compiled = thunder.jit(f)
    compiled(x)
    of_the_inverse = views_seen(torch.linalg.inv, x.t())
    assert views_seen(f, x) >= of_the_inverse + 2
    assert views_seen(compiled, x) == of_the_inverse


def test_writes_are_seen_through_views():
    def f(x):
        x.reshape(20, 6)[3].t().mul_(2)
        return x.flatten()[18:24]

    x, y = operand(), operand()
    torch.testing.assert_close(thunder.jit(f)(x), f(y))
    torch.testing.assert_close(x, y)


def test_a_mode_sees_them():
    """Of a backward: in place of a forward the function itself would run."""
    compiled = thunder.jit(lambda x: torch.cumsum(x.transpose(0, 1), 0).transpose(0, 1))
    x = torch.ones(4, 4, device=DEVICE, requires_grad=True)
    compiled(x).sum().backward()
    out = compiled(x).sum()
    with DoublingOperators() as log:
        out.backward()
    assert len([name for name in log.seen if name.startswith(("aten.transpose", "aten.permute", "aten.t."))]) >= 2
