"""Writes to a part of a tensor of the caller's: done in its memory where nobody can tell, else by a copy."""

import pytest
import torch
from devices import DEVICE
from torch import nn

import thunder


def index_copy(k, at, v):
    k.index_copy_(2, at, v)
    return (k * 2).sum((0, 2))


def index(k, at, v):
    k[:, :, at] = v
    return (k * 2).sum((0, 2))


def rows(k, at, v):
    k[torch.arange(2, device=k.device), :, at.expand(2)] = v[:, :, 0]
    return k.sum(1)


def a_slice(k, at, v):
    k[:, :, 3:4] = v
    return k.amax(2)


def narrow(k, at, v):
    k.narrow(2, 1, 1).copy_(v)
    return k.amax(2)


def twice(k, at, v):
    k.index_copy_(2, at, v)
    k[:, :, at + 1] = v * 2
    return k.sum(2)


def read_before(k, at, v):
    before = k.sum(2)
    k.index_copy_(2, at, v)
    return before + k.sum(2)


def read_between(k, at, v):
    k.index_copy_(2, at, v)
    between = k * 2
    k.index_copy_(2, at + 1, v)
    return between + k


def result_is_kept(k, at, v):
    new = torch.index_copy(k, 2, at, v)
    k.copy_(new)
    return new


def view_is_kept(k, at, v):
    k.index_copy_(2, at, v)
    return k[:, 1:], k.sum()


def added(k, at, v):
    return k.index_put_((at * 0,), k.new_ones(1, 3, 8, 4), accumulate=True).sum(2)


def all_of_it(k, at, v):
    return k.mul_(2).sum(2)


IN_PLACE = [index_copy, index, rows, a_slice, narrow, twice]
BY_A_COPY = [read_before, read_between, result_is_kept, view_is_kept, added, all_of_it]


def made(dtype=torch.float32):
    torch.manual_seed(0)
    return (
        torch.randn(2, 3, 8, 4, device=DEVICE).to(dtype),
        torch.tensor([5], device=DEVICE),
        torch.randn(2, 3, 1, 4, device=DEVICE).to(dtype),
    )


def writes_in_place(f):
    text = str(thunder.last_traces(f)[-1])
    return any(f"torch_{name}__prim_impl(" in text for name in ("index_copy", "index_put", "slice_scatter"))


def check(f, program, make=made, steps=3):
    ours, theirs = make(), make()
    kept = []
    with torch.no_grad():
        for _ in range(steps):
            got, want = f(*ours), program(*theirs)
            for a, b in zip(
                torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True
            ):
                torch.testing.assert_close(a, b)
                kept.append((a, b))
            assert torch.equal(ours[0], theirs[0])
            for t in (ours[2], theirs[2]):
                t.add_(1)
    for a, b in kept:
        torch.testing.assert_close(a, b)
    assert ours[0]._version >= steps


@pytest.mark.parametrize("program", IN_PLACE, ids=lambda f: f.__name__)
def test_in_place(program):
    f = thunder.jit(program)
    check(f, program)
    assert writes_in_place(f)


@pytest.mark.parametrize("program", BY_A_COPY, ids=lambda f: f.__name__)
def test_by_a_copy(program):
    f = thunder.jit(program)
    check(f, program)
    assert not writes_in_place(f)


@pytest.mark.parametrize("layout", ["transposed", "gaps"])
def test_layouts(layout):
    def make():
        k, at, v = made()
        if layout == "transposed":
            k = k.transpose(0, 1).contiguous().transpose(0, 1)
        else:
            k = torch.zeros(2, 3, 8, 9, device=DEVICE)[..., 2:6]
        return k, at, v

    for program in (index_copy, index):
        check(thunder.jit(program), program, make)


def test_two_names_of_one_memory():
    def program(k, same, at, v):
        k.index_copy_(2, at, v)
        return same.sum(2)

    f = thunder.jit(program)
    with torch.no_grad():
        for _ in range(3):
            k, at, v = made()
            torch.testing.assert_close(f(k, k, at, v), k.sum(2))
            torch.testing.assert_close(f(k, k.view(2, 3, 8, 4), at, v + 1), k.sum(2))


def test_captured_tensors_and_modules():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(2, 3, 8, 4, device=DEVICE))

        def forward(self, at, v):
            self.keys.index_copy_(2, at, v)
            return (self.keys * 2).sum()

    module, eager = Cache(), Cache()
    f = thunder.jit(module)
    _, at, v = made()
    with torch.no_grad():
        for i in range(6):
            torch.testing.assert_close(f(at - i % 3, v), eager(at - i % 3, v))
            assert torch.equal(module.keys, eager.keys)
    assert writes_in_place(f)


def test_with_gradients_it_is_a_copy():
    f = thunder.jit(lambda k, at, v: k.index_copy_(2, at, v).sum() * v.sum())
    k, at, v = made()
    v.requires_grad_()
    with pytest.raises(RuntimeError):
        # A plain tensor that is written with what has a gradient gets one, as in eager.
        f(k, at, v).backward()
        f(k.detach().requires_grad_(), at, v)
    assert not writes_in_place(f)


def test_a_call_that_raises_afterwards():
    def program(k, at, v, table, i):
        k.index_copy_(2, at, v)
        return k.sum() + table[i]

    f = thunder.jit(program)
    table = torch.zeros(3)
    k, at, v = (t.cpu() for t in made())
    with torch.no_grad():
        f(k, at, v, table, torch.tensor([1]))
        with pytest.raises(IndexError):
            f(k, at, v * 3, table, torch.tensor([7]))
        assert torch.equal(k[:, :, 5:6], v * 3)  # as eager leaves it
        with pytest.raises(IndexError):
            f(k, torch.tensor([9]), v, table, torch.tensor([1]))


def test_inference_mode():
    f = thunder.jit(index_copy)
    with torch.inference_mode():
        ours, theirs = made(), made()
        for _ in range(3):
            torch.testing.assert_close(f(*ours), index_copy(*theirs))
            assert torch.equal(ours[0], theirs[0])
    assert writes_in_place(f)
