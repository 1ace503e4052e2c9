"""PyTorch's recurrent layers: compiled once, with eager's results and gradients."""

import contextlib
from unittest import mock

import fake_cuda
import pytest
import torch

import thunder


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("sizes, options", [
    ((5, 3, 4), {}), ((1, 1, 1), {}), ((4, 8, 16), dict(num_layers=2, batch_first=True)),
    ((3, 2, 5), dict(bidirectional=True, bias=False)), ((6, 7), {}),
], ids=str)  # fmt: skip
def test_recurrent_layers_are_compiled_once(kind, sizes, options):
    module = kind(sizes[-1], 6, **options)
    compiled = thunder.jit(module)
    for _ in range(3):
        x = torch.randn(sizes, requires_grad=True)
        found = []
        for f in (module, compiled):
            output, state = f(x)
            states = state if isinstance(state, tuple) else (state,)
            (output.square().sum() + sum(s.sin().sum() for s in states)).backward()
            found.append((output.detach(), x.grad, *(p.grad for p in module.parameters())))
            x.grad = None
            module.zero_grad()
        for ours, eager in zip(*found, strict=True):
            torch.testing.assert_close(ours, eager)
    assert thunder.cache_misses(compiled) == 1
    with torch.no_grad():
        for replaced in range(2):
            if replaced:
                module.weight_hh_l0 = torch.nn.Parameter(torch.randn_like(module.weight_hh_l0))
            for _ in range(2):
                torch.testing.assert_close(compiled(x)[0], module(x)[0])


def gradients(f, module, x, h):
    """Results and gradients; the module's gradients are None afterwards."""
    x, h = (t.detach().clone().requires_grad_() for t in (x, h))
    output, state = f(x, h)
    ((output * torch.arange(output.numel(), dtype=x.dtype).view_as(output).sin()).sum() + state.exp().sum()).backward()
    found = [output.detach(), output.stride(), state.detach(), x.grad, h.grad, *(p.grad for p in module.parameters())]
    module.zero_grad()
    return found


@pytest.mark.parametrize("kind, options", [
    (torch.nn.GRU, {}), (torch.nn.RNN, {}), (torch.nn.RNN, dict(nonlinearity="relu")),
    (torch.nn.GRU, dict(bidirectional=True, num_layers=3, batch_first=True)),
    (torch.nn.RNN, dict(bidirectional=True, num_layers=2, bias=False)),
    (torch.nn.GRU, dict(num_layers=2, dropout=0.5)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("steps, batch", [(1, 1), (7, 3), (16, 8)])
def test_gradients_of_given_states(kind, options, dtype, steps, batch):
    module = kind(5, 9, dtype=dtype, **options)
    shape = (batch, steps, 5) if options.get("batch_first") else (steps, batch, 5)
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    x, h = torch.randn(shape, dtype=dtype), torch.randn(states, batch, 9, dtype=dtype)
    compiled, found = thunder.jit(module), []
    for f in (module, compiled):
        torch.manual_seed(0)
        found.append(gradients(f, module, x, h))
    torch.testing.assert_close(*found)
    for name in ("weight_ih_l0", "weight_hh_l0"):
        getattr(module, name).requires_grad_(False)
    module.eval()
    torch.testing.assert_close(gradients(compiled, module, x, h), gradients(module, module, x, h))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, h), module(x, h))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_packed_sequences_and_wrong_sizes(kind):
    module = kind(5, 9)

    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(4, 3, 5), torch.tensor([4, 2, 1]))
    compiled, found = thunder.jit(module), []
    for _ in range(2):
        found = []
        for f in (module, compiled):
            output, state = f(packed)
            (output.data.sin().sum() + (state[0] if isinstance(state, tuple) else state).sum()).backward()
            padded = torch.nn.utils.rnn.pad_packed_sequence(output)[0].detach()
            found.append((padded, *(p.grad for p in module.parameters())))
            module.zero_grad()
        torch.testing.assert_close(*found)
    assert thunder.cache_misses(compiled) == 1
    for shape in ((4, 3, 6), (0, 3, 5)):
        raised = []
        for g in (module, thunder.jit(module)):
            with pytest.raises(RuntimeError) as caught:
                g(torch.randn(shape))
            raised.append(str(caught.value))
        assert raised[0] == raised[1]


def test_autocast():
    module, x = torch.nn.GRU(5, 9), torch.randn(4, 3, 5)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(thunder.jit(module)(x), module(x))


def test_a_second_backward():
    module, x = torch.nn.LSTM(5, 9), torch.randn(4, 3, 5, requires_grad=True)
    found = []
    for f in (module, thunder.jit(module)):
        output = f(x)[0]
        first = torch.autograd.grad(output.sum(), x, retain_graph=True)[0]
        found.append((first, torch.autograd.grad(output.sum(), x)[0]))
        torch.testing.assert_close(*found[-1])
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN:UserWarning")
@pytest.mark.filterwarnings("ignore:(?s).*the compiled program raised AssertionError:RuntimeWarning")
@pytest.mark.parametrize("kind, options", [
    ("LSTM", {}), ("GRU", dict(num_layers=2, bidirectional=True)), ("RNN", dict(num_layers=3, dropout=0.5, bias=False)),
])  # fmt: skip
@pytest.mark.parametrize("trains, needs", [(True, True), (True, False), (False, True), (False, False)])
def test_what_is_recorded_for_a_gpu(kind, options, trains, needs):
    """Where there is none, so that the program is made, and does not run."""
    there = mock.patch.object(torch.backends.cudnn, "is_available", lambda: True)
    with fake_cuda.tensors(capability=(9, 0), cudnn=91700):
        with torch.device("cuda"):
            module, x = getattr(torch.nn, kind)(6, 10, **options).train(trains), torch.randn(5, 3, 6)
        compiled = thunder.jit(module)
        with torch.set_grad_enabled(needs), there, contextlib.suppress(AssertionError):
            compiled(x)
    lines = [line for line in str(thunder.last_traces(compiled)[0]).splitlines() if "prims.recurrent(" in line]
    apart = trains and "dropout" in options
    assert len(lines) == (3 if apart else 1)
    layers, both = 1 if apart else options.get("num_layers", 1), options.get("bidirectional", False)
    for line in lines:
        assert f", {layers}, {both}, {trains or needs})" in line
