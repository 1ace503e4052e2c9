"""Arguments that PyTorch's function writes to: the field `writes` of a record."""

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE

import thunder

# Behind a norm that writes no statistics, calls that record nothing: what the norm returned was theirs once.
NOTHING_RECORDED = {
    "same view": lambda y, u, v, w: (y.view(y.shape),),
    "same dtype": lambda y, u, v, w: (y.float(),),
    "whole slice": lambda y, u, v, w: (y[:],),
    "at least one dimension": lambda y, u, v, w: (y, *torch.atleast_1d(u, v, w)),
    "four tensors": lambda y, u, v, w: (y, *torch.atleast_1d(u, v, w, y)),
    "broadcast alike": lambda y, u, v, w: (y, *torch.broadcast_tensors(u, v, u)),
}
NORMS = {
    "batch norm by statistics": lambda x, m, v: F.batch_norm(x, m, v),
    "batch norm without": lambda x, m, v: F.batch_norm(x, None, None, training=True),
    "instance norm by statistics": lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False),
    "native": lambda x, m, v: torch.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-5)[0],
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("then", NOTHING_RECORDED)
def test_calls_that_record_nothing_follow_a_norm(norm, then):
    def program(x, mean, variance, u, v, w):
        return NOTHING_RECORDED[then](NORMS[norm](x, mean, variance), u, v, w)

    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0)).to(DEVICE).requires_grad_()
    rest = [t.to(DEVICE) for t in (torch.randn(3), torch.rand(3) + 0.5, torch.randn(3), torch.randn(3), torch.randn(3))]
    before = [t.clone() for t in rest]
    compiled = thunder.jit(program)
    expected, got = program(x, *rest), compiled(x, *rest)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)
    assert all(torch.equal(t, b) for t, b in zip(rest, before, strict=True))
    gradients = [torch.autograd.grad(sum(t.sin().sum() for t in r), x)[0] for r in (got, expected)]
    torch.testing.assert_close(*gradients)
    assert thunder.compile_stats(compiled)["eager_calls"] == {}


def test_an_error_of_the_write_names_the_function():
    x, mean, variance = torch.randn(4, 3), torch.zeros(3, requires_grad=True), torch.ones(3)
    for program in (F.batch_norm, thunder.jit(F.batch_norm)):
        with pytest.raises(RuntimeError, match="batch_norm"):
            program(x, mean, variance, training=True)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_are_written_by_keyword_and_by_place(training):
    def program(x, mean, variance):
        first = F.batch_norm(x, running_var=variance, running_mean=mean, training=training, momentum=0.3)
        second = torch.native_batch_norm(x, None, None, mean, variance, training, 0.2, 1e-5)[0]
        return first + second + F.instance_norm(x, mean, variance, use_input_stats=training)

    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    expected, got = ([torch.zeros(3, device=DEVICE), torch.ones(3, device=DEVICE)] for _ in range(2))
    compiled = thunder.jit(program)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, *got), program(x, *expected), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(got, expected)


def test_the_record_itself_returns_what_it_would_write():
    def program(x, mean, variance):
        return thunder.torch.batch_norm_functional(x, mean, variance, training=True)

    mean, variance = torch.zeros(3, device=DEVICE), torch.ones(3, device=DEVICE)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    output, new_mean, new_variance = thunder.jit(program)(x, mean, variance)
    assert mean.count_nonzero() == 0
    F.batch_norm(x, mean, variance, training=True)
    torch.testing.assert_close((new_mean, new_variance), (mean, variance))
