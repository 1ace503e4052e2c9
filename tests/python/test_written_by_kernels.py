"""What eager's kernels write to their arguments, besides the in-place operators: running statistics, embeddings."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import thunder


def agree(fn, *args, calls=3):
    """Results and the arguments afterwards, over several calls of one program that write to the same tensors."""
    compiled = thunder.jit(fn)
    ours, eager = copy.deepcopy(args), copy.deepcopy(args)
    for _ in range(calls):
        assert_close(compiled(*ours), fn(*eager))
        assert_close(ours, eager)
    assert thunder.cache_misses(compiled) == 1


def statistics(n, dtype=torch.float32):
    return torch.randn(n, dtype=dtype), torch.rand(n, dtype=dtype) + 0.5


@pytest.mark.parametrize("momentum", [0.1, 1.0, 0.0])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 4, 3, 5)])
def test_instance_norm(shape, momentum):
    x = torch.randn(shape)
    agree(lambda x, m, v: F.instance_norm(x, m, v, momentum=momentum), x, *statistics(4))
    agree(lambda x, m, v, w: F.instance_norm(x, m, v, w, momentum=momentum), x, *statistics(4), torch.randn(4))
    agree(lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False), x, *statistics(4))


def test_native_batch_norm():
    x, w = torch.randn(6, 4, 3), torch.randn(4)
    agree(lambda x, m, v, w: torch.native_batch_norm(x, w, None, m, v, True, 0.2, 1e-5), x, *statistics(4), w)
    agree(lambda x, m, v, w: torch.native_batch_norm(x, w, None, m, v, False, 0.2, 1e-5)[0], x, *statistics(4), w)


def test_modules_track_statistics():
    for make in (lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True), lambda: nn.BatchNorm1d(4)):
        eager = make()
        module = copy.deepcopy(eager)
        compiled = thunder.jit(module)
        x = torch.randn(3, 4, 5)
        for training in (True, True, False):
            for m in (eager, compiled):
                m.train(training)
            assert_close(compiled(x), eager(x))
            assert_close(dict(module.named_buffers()), dict(eager.named_buffers()))


def test_gradients_with_running_statistics():
    results = []
    for jit in (lambda f: f, thunder.jit):
        torch.manual_seed(0)
        x, w = torch.randn(3, 4, 5, requires_grad=True), torch.randn(4, requires_grad=True)
        mean, var = statistics(4)
        out = jit(lambda x, w, m, v: F.instance_norm(x, m, v, w).tanh())(x, w, mean, var)
        results.append([out.detach(), mean, var, *torch.autograd.grad(out.sum(), (x, w))])
    assert_close(*results)


@pytest.mark.parametrize("norm_type", [1.0, 2.0])
def test_embedding_rescales_its_weight(norm_type):
    weight, indices = torch.randn(6, 4) * 3, torch.tensor([[1, 1], [3, 5]])
    agree(lambda i, w: F.embedding(i, w, max_norm=0.7, norm_type=norm_type), indices, weight)
    module = nn.Embedding(6, 4, max_norm=0.5, padding_idx=3)
    ours = copy.deepcopy(module)
    out, expected = thunder.jit(ours)(indices), module(indices)
    assert_close(out, expected)
    assert_close(ours.weight, module.weight)
    out.sum().backward()
    expected.sum().backward()
    assert_close(ours.weight.grad, module.weight.grad)


def test_filling_keeps_the_graph():
    for fill in (lambda t: t.fill_(2.0), lambda t: t.zero_()):
        x = torch.randn(3, requires_grad=True)
        out = thunder.jit(lambda x, fill=fill: fill(x * 2) + 1)(x)
        assert out.requires_grad
        assert_close(torch.autograd.grad(out.sum(), x)[0], torch.zeros(3))


# ---- numbers that only the run knows -------------------------------------------------------------------------------

UNKNOWN = {
    "elu": lambda x, n: F.elu(x, alpha=n),
    "softplus": lambda x, n: F.softplus(x, beta=n),
    "var": lambda x, n: x.var(0, correction=n),
    "vector_norm": lambda x, n: torch.linalg.vector_norm(x, n),
    "logit": lambda x, n: torch.logit(x, n),
    "sum": lambda x, n: x.sum(n),
    "dropout": lambda x, n: F.dropout(x, n),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_number_that_was_drawn(name):
    def f(x):
        return UNKNOWN[name](x, (torch.randint(2, ()) if name == "sum" else torch.rand(())).item())

    compiled, x = thunder.jit(f), torch.rand(3, 4)
    for seed in range(4):
        torch.manual_seed(seed)
        want = f(x)
        torch.manual_seed(seed)
        assert_close(compiled(x), want, equal_nan=True)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_number_that_can_be_read(name):
    compiled = thunder.jit(lambda x, n: UNKNOWN[name](x, n.item()))
    x = torch.rand(3, 4)
    for number in (1, 0) if name == "sum" else (0.5, 0.25, 0.5):
        n = torch.tensor(number)
        torch.manual_seed(0)
        want = UNKNOWN[name](x, n.item())
        torch.manual_seed(0)
        assert_close(compiled(x, n), want)
