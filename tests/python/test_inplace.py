"""In-place operators and aliasing: outputs, mutated inputs and buffers, memory sharing and gradients are eager's."""

import copy

import pytest
import torch
from devices import DEVICE
from torch import nn
from torch.testing import assert_close

import thunder

F = nn.functional


def storage(t):
    return t.untyped_storage().data_ptr()


def same_sharing(ours, eager):
    """Which tensors share memory, and where in it they lie, agrees."""
    for i in range(len(ours)):
        for j in range(i):
            shared = storage(eager[i]) == storage(eager[j])
            assert (storage(ours[i]) == storage(ours[j])) == shared, f"tensors {j} and {i}"
            if shared:
                offsets = [t[i].storage_offset() - t[j].storage_offset() for t in (ours, eager)]
                assert offsets[0] == offsets[1]


def tensors(result):
    return [result] if isinstance(result, torch.Tensor) else [t for t in result if isinstance(t, torch.Tensor)]


def agree(fn, *args, calls=2, sharing=True):
    """Results, the inputs afterwards and who shares memory with whom, over several calls of one program."""
    compiled = thunder.jit(fn)
    for _ in range(calls):
        ours, eager = copy.deepcopy(args), copy.deepcopy(args)
        got, want = compiled(*ours), fn(*eager)
        assert_close(got, want)
        assert_close(ours, eager)
        all_ours = tensors(got) + tensors(ours)
        all_eager = tensors(want) + tensors(eager)
        assert [t.stride() for t in all_ours] == [t.stride() for t in all_eager]
        if sharing:
            same_sharing(all_ours, all_eager)
    assert thunder.cache_misses(compiled) == 1
    return compiled


def agree_in_gradients(fn, *args):
    """Also of all arguments that require grad, for a random cotangent of each output."""
    compiled = thunder.jit(fn)

    def run(f):
        leaves = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
        out = tensors(f(*leaves))
        generator = torch.Generator().manual_seed(0)
        pairs = [(t, torch.randn(t.shape, generator=generator, dtype=t.dtype, device="cpu").to(t.device)) for t in out]
        # What was overwritten with constants requires grad in eager, with a gradient of zero, and does not here.
        if pairs := [p for p in pairs if p[0].requires_grad]:
            torch.autograd.backward([t for t, _ in pairs], [g for _, g in pairs])
        return out, [torch.zeros_like(a) if a.grad is None else a.grad for a in leaves]

    for _ in range(2):
        assert_close(run(compiled), run(fn))


X = (torch.arange(12.0).reshape(3, 4) / 7 + 0.3).to(DEVICE)


def through(op):
    """`op` on a fresh tensor, on a view of one, and on the input itself."""

    def fresh(x):
        y = x * 2
        r = op(y)
        return y, r

    def view(x):
        y = x * 2
        op(y[1:])
        return y

    def the_input(x):
        op(x)
        return x + 1

    return fresh, view, the_input


IN_PLACE = {
    "add_": lambda y: y.add_(1.5, alpha=2),
    "mul_": lambda y: y.mul_(y.detach().clone()),
    "+=": lambda y: y.__iadd__(3),
    "*=": lambda y: y.__imul__(0.5),
    "/=": lambda y: y.__itruediv__(3),
    "**=": lambda y: y.__ipow__(2),
    "-=": lambda y: y.__isub__(torch.ones(4)),
    "relu_": lambda y: y.relu_(),
    "F.relu": lambda y: F.relu(y, inplace=True),
    "F.silu": lambda y: F.silu(y, inplace=True),
    "sigmoid_": lambda y: y.sigmoid_(),
    "tanh_": lambda y: y.tanh_(),
    "exp_": lambda y: y.exp_(),
    "sqrt_": lambda y: y.sqrt_(),
    "clamp_": lambda y: y.clamp_(0.5, 1.5),
    "zero_": lambda y: y.zero_(),
    "fill_": lambda y: y.fill_(2.5),
    "copy_": lambda y: y.copy_(torch.ones(4, dtype=torch.float64)),
    "masked_fill_": lambda y: y.masked_fill_(y > 1, -1.0),
    "index_fill_": lambda y: y.index_fill_(1, torch.tensor([0, 2]), 9.0),
    "index_copy_": lambda y: y.index_copy_(1, torch.tensor([3, 1]), torch.ones(y.shape[0], 2)),
    "index_add_": lambda y: y.index_add_(1, torch.tensor([3, 3]), torch.ones(y.shape[0], 2)),
    "index_put_": lambda y: y.index_put_((torch.tensor([0, 1]), torch.tensor([2, 3])), torch.tensor([5.0, 6.0])),
    "index_put_ accumulate": lambda y: y.index_put_((torch.tensor([0, 0]),), torch.tensor(5.0), accumulate=True),
    "scatter_": lambda y: y.scatter_(1, torch.tensor([[1, 2]]), torch.tensor([[7.0, 8.0]])),
    "scatter_add_": lambda y: y.scatter_add_(1, torch.tensor([[1, 1]]), torch.tensor([[7.0, 8.0]])),
    "addcmul_": lambda y: y.addcmul_(torch.ones(4), torch.full((4,), 2.0), value=0.5),
    "lerp_": lambda y: y.lerp_(torch.ones(4), 0.25),
    "tril_": lambda y: y.tril_(),
    "neg_": lambda y: y.neg_(),
    "pow_": lambda y: y.pow_(3),
    "slice = tensor": lambda y: y.__setitem__((slice(None), slice(1, 3)), torch.full((2,), 4.0)),
    "slice = number": lambda y: y.__setitem__(slice(0, 1), 4),
    "row = row": lambda y: y.__setitem__(0, y[1] * 2),
    "... = number": lambda y: y.__setitem__((..., 0), -1.0),
    "strided slice": lambda y: y.__setitem__((slice(None), slice(None, None, 2)), 0.0),
    "mask = number": lambda y: y.__setitem__(y > 1, 0.0),
    "indices = tensor": lambda y: y.__setitem__((torch.tensor([0, 1]), torch.tensor([1, 2])), torch.tensor([5.0, 6.0])),
    "a slice += 1": lambda y: y[:, 1:].add_(1),
    "a row += a row": lambda y: y[0].add_(y[1]),
    "a transpose": lambda y: y.t().add_(torch.arange(float(y.shape[0]))),
    "a diagonal": lambda y: y.diagonal().fill_(3.0),
    "a view of a view": lambda y: y.view(-1)[2:].unflatten(0, (-1, 2))[:, 1].mul_(10),
    "a chunk's copy": lambda y: y.chunk(2, dim=1)[1].clone().sub_(5),
    "unsqueezed": lambda y: y.unsqueeze(0).transpose(0, 2)[1].zero_(),
    "select": lambda y: y.select(1, 2).exp_(),
    "narrow": lambda y: y.narrow(1, 1, 2).copy_(torch.zeros(2)),
    "detached": lambda y: y.detach().mul_(2),
}


@pytest.mark.parametrize("place", [0, 1, 2], ids=["fresh", "view", "input"])
@pytest.mark.parametrize("op", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place(op, place):
    if place == 2:
        agree(lambda x: through(op)[2](x), X.clone())
        return
    agree(lambda x: through(op)[place](x), X.clone())
    agree_in_gradients(lambda x: through(op)[place](x), X.clone().requires_grad_())


def test_the_result_is_the_tensor_itself():
    def f(x):
        y = x * 2
        assert y.add_(1) is y
        before = y
        y += 1
        assert y is before
        return y

    agree(f, X)


def test_a_view_sees_a_later_write_to_its_base():
    def f(x):
        y = x * 2
        v = y[0]
        w = y.view(-1)
        y.mul_(3)
        v.add_(1)
        return v + 1, w * 2, y

    agree(f, X)
    agree_in_gradients(f, X.clone().requires_grad_())


def test_out_arguments():
    def f(x):
        y = torch.empty(3, 4)
        torch.add(x, 1, out=y)
        torch.mul(y, 2, out=y)
        return y

    agree(f, X)


def test_an_input_that_is_written_to_twice_and_returned():
    def f(x):
        x.add_(1)
        y = x * 2
        x.mul_(y)
        return x, y, x[1]

    agree(f, X)


def test_an_input_written_through_a_view():
    def f(x):
        x[1].fill_(7)
        x.t()[0].add_(1)
        return x.sum()

    agree(f, X)


def test_a_non_contiguous_input():
    agree(lambda x: x.mul_(2).add_(1), X.t())
    agree(lambda x: x[:, 1:].zero_(), torch.randn(4, 6)[:, ::2])


def test_outputs_that_alias_inputs():
    agree(lambda x: x, X)
    agree(lambda x: (x, x), X)
    agree(lambda x: (x[0], x.t(), x.view(-1)), X)
    agree(lambda x: x.view(4, 3)[1:], X)
    agree(lambda x: x.contiguous(), X)
    agree(lambda x: x.reshape(2, 6), X)
    agree(lambda x: x.t().reshape(2, 6), X)
    agree(lambda x: x.to(torch.float32), X)
    agree(lambda x: x.expand(2, 3, 4), X)
    agree(lambda x: x.detach(), X)


def test_outputs_that_alias_each_other():
    agree(lambda x: (lambda y: (y, y[0], y.t()))(x + 1), X)
    agree(lambda x: (x + 1).chunk(2), X)
    agree(lambda x: (x + 1).unbind(), X)


def test_outputs_that_alias_keep_autograds_views():
    x = X.clone().requires_grad_()
    out = thunder.jit(lambda x: x[0])(x)
    assert out._base is x or out._is_view()
    y, v = thunder.jit(lambda x: (lambda y: (y, y[0]))(x * 2))(x)
    v.sum().backward()
    assert_close(x.grad, torch.zeros(3, 4).index_fill(0, torch.tensor([0]), 2.0))


def test_a_returned_input_can_be_written_to_by_the_caller():
    f = thunder.jit(lambda x: x.view(-1))
    x = X.clone()
    f(x).zero_()
    assert not x.any()


def test_the_same_tensor_twice():
    f = thunder.jit(lambda a, b: a + b)
    assert_close(f(X, X), X + X)
    assert_close(f(X, X.clone()), X + X)


def test_inputs_that_share_memory():
    base = X.clone()
    f = thunder.jit(lambda a, b: a * b + 1)
    assert_close(f(base[:2], base[1:]), base[:2] * base[1:] + 1)

    def writes(a, b):
        a.add_(1)
        b[0].mul_(2)
        return a + b

    ours, eager = X.clone(), X.clone()
    assert_close(thunder.jit(writes)(ours[:2], ours[1:]), writes(eager[:2], eager[1:]))
    assert_close(ours, eager)


def test_the_same_tensor_twice_and_written_to():
    def f(a, b):
        a.add_(1)
        return a * b

    x, y = X.clone(), X.clone()
    assert_close(thunder.jit(f)(x, x), f(y, y))
    assert_close(x, y)


def test_expanded_memory_is_not_written():
    def f(x):
        return x.expand(3, 4).add_(1)

    x = torch.ones(1, 4)
    with pytest.raises(RuntimeError):
        f(x.clone())
    with pytest.raises(RuntimeError, match="clone"):
        thunder.jit(f)(x)
    assert_close(x, torch.ones(1, 4))


# ---- autograd --------------------------------------------------------------------------------------------------------


def test_a_leaf_is_not_written():
    def f(w):
        return w.add_(1)

    w = X.clone().requires_grad_()
    for g in (f, thunder.jit(f)):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            g(w)
    assert_close(w.detach(), X)


def test_a_leaf_that_the_program_makes_of_a_detached_tensor_is_not_written():
    def f(x):
        return x.detach().requires_grad_().add_(1)

    for g in (f, thunder.jit(f)):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            g(X.clone())


def test_a_leaf_is_written_under_no_grad():
    def f(w):
        with torch.no_grad():
            w.mul_(2)
        return (w * w).sum()

    ours, eager = X.clone().requires_grad_(), X.clone().requires_grad_()
    thunder.jit(f)(ours).backward()
    f(eager).backward()
    assert_close(ours, eager)
    assert_close(ours.grad, eager.grad)


def test_a_written_input_that_is_not_a_leaf():
    def f(y, w):
        y.mul_(w)
        return y.sum()

    def run(g):
        x, w = X.clone().requires_grad_(), torch.full((4,), 3.0, requires_grad=True)
        y = x * 2
        (g(y, w) + y.square().sum()).backward()
        return x.grad, w.grad, y.detach()

    assert_close(run(thunder.jit(f)), run(f))


def test_a_write_with_a_gradient_into_a_plain_input():
    def f(buffer, w):
        buffer.copy_(w * 2)
        return buffer.sum()

    def run(g):
        buffer, w = torch.zeros(3, 4), X.clone().requires_grad_()
        g(buffer, w).backward()
        return w.grad, buffer.detach()

    assert_close(run(thunder.jit(f)), run(f))


def test_writes_between_uses():
    def f(x, w):
        y = x * w
        a = y.sigmoid()
        y.mul_(2)
        b = y.tanh()
        y[0] = w
        return a + b + y

    agree_in_gradients(f, X.clone().requires_grad_(), torch.randn(4, requires_grad=True))


def test_detach_stops_the_gradient_and_shares_memory():
    def f(x):
        y = x * 2
        d = y.detach()
        return y * d, d

    agree(f, X)
    agree_in_gradients(f, X.clone().requires_grad_())


def test_the_caller_may_write_to_a_saved_input_only_before_the_backward_is_needed():
    x = X.clone().requires_grad_()
    y = x * 1
    out = thunder.jit(lambda y: (y * y).sum())(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


# ---- modules ---------------------------------------------------------------------------------------------------------


def test_batch_norm_keeps_its_statistics():
    eager = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
    ours = copy.deepcopy(eager)
    compiled = thunder.jit(ours)
    for _ in range(3):
        x = torch.randn(5, 4)
        assert_close(compiled(x), eager(x))
    assert_close(dict(ours.named_buffers()), dict(eager.named_buffers()))
    assert ours[1].num_batches_tracked == 3
    ours.eval(), eager.eval()
    x = torch.randn(5, 4)
    assert_close(compiled(x), eager(x))
    assert_close(dict(ours.named_buffers()), dict(eager.named_buffers()))


def test_batch_norm_trains():
    # In float32 the gradient before the norm, a difference of near numbers, depends on the order of sums.
    eager = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True)).double()
    ours = copy.deepcopy(eager)
    compiled, x = thunder.jit(ours), torch.randn(4, 2, 5, 5).double()
    for m in (compiled, eager):
        m(x).square().sum().backward()
    for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
        assert_close(a.grad, b.grad)


def test_a_buffer_that_counts():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            self.count += 1
            self.mean.lerp_(x.mean(0), 0.5)
            return x - self.mean

    eager, ours = Counter(), Counter()
    compiled = thunder.jit(ours)
    for _ in range(3):
        x = torch.randn(5, 4)
        assert_close(compiled(x), eager(x))
    assert ours.count == 3
    assert_close(ours.mean, eager.mean)
    assert thunder.cache_misses(compiled) == 1


def test_a_cache_written_slice_by_slice():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 8, 4))

        def forward(self, x, pos):
            self.k[:, pos : pos + x.shape[1]] = x
            return self.k[:, : pos + x.shape[1]].sum(1)

    eager, ours = Cache(), Cache()
    compiled = thunder.jit(ours)
    for pos in (0, 3, 6):
        x = torch.randn(2, 2, 4)
        assert_close(compiled(x, pos), eager(x, pos))
        assert_close(ours.k, eager.k)


def test_an_error_leaves_what_was_written_before_it():
    def f(x):
        x.add_(1)
        return x @ torch.ones(9, 9)

    x = X.clone()
    with pytest.raises(RuntimeError):
        thunder.jit(f)(x)
    assert_close(x, X + 1)


def test_result_types_of_in_place_operators():
    for f in (lambda x: x.add_(1.5), lambda x: x.div_(2), lambda x: x.mul_(torch.ones(3, dtype=torch.float64))):
        for make in (lambda: torch.ones(3, dtype=torch.long), lambda: torch.ones(3)):
            try:
                want = f(make())
            except RuntimeError:
                with pytest.raises(RuntimeError, match="can't be cast"):
                    thunder.jit(f)(make())
            else:
                assert_close(thunder.jit(f)(make()), want)


def test_shapes_of_in_place_operators():
    f = lambda x: x.add_(torch.ones(3, 4))
    for g in (f, thunder.jit(f)):
        with pytest.raises(RuntimeError, match="output with shape|doesn't match"):
            g(torch.ones(4))
