"""Recurrent layers on the CPU for which PyTorch has no kernel: GRU, and RNN with tanh or ReLU.

Eager runs cell by cell, a dozen small operators and a gradient of the weights for each.  Here only what a step takes
from the one before is in the loop: products with the input, and gradients of weights, are one product over the
sequence, and what a step's gradient is multiplied with is computed for all steps at once.
"""

import torch

from . import _opaque
from ._tracing import current_tracer
from .core.proxies import TensorProxy
from .extend import OperatorExecutor, get_grad, put_grad, register_grad

_executor = OperatorExecutor("recurrent")
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _like(t, *shape):
    return TensorProxy(shape=shape, dtype=t.dtype, device=t.device)


def _sizes(t):
    return tuple(map(int, current_tracer().shape(t)))


def _steps(length, reverse):
    return range(length - 1, -1, -1) if reverse else range(length)


def _bias(params, i):
    return params[2 + i] if len(params) == 4 else params[0].new_zeros(params[0].size(0))


def _from_input(x, params):
    """[steps, batch, gates * width]"""
    flat = x.reshape(-1, x.size(-1))
    return torch.addmm(_bias(params, 0), flat, params[0].t()).view(*x.shape[:2], -1)


def _run_rnn(kind, reverse, x, h, params):
    out, weight = _from_input(x, params), params[1].t()
    if len(params) == 4:
        out += params[3]
    for step in map(out.unbind(0).__getitem__, _steps(x.size(0), reverse)):
        step.addmm_(h, weight)
        h = step.tanh_() if kind == "rnn_tanh" else step.relu_()
    return out, out.new_empty(0), out.new_empty(0)


def _run_gru(kind, reverse, x, h, params):
    gates, weight, bias = _from_input(x, params), params[1].t(), _bias(params, 1)
    from_state, out = torch.empty_like(gates), gates.new_empty(*x.shape[:2], h.size(-1))
    resets, updates, news = gates.chunk(3, dim=-1)
    both, state_both, state_new = gates[..., : -h.size(-1)], *from_state.split([2 * h.size(-1), h.size(-1)], dim=-1)
    rows = [t.unbind(0) for t in (from_state, both, state_both, resets, updates, news, state_new, out)]
    for i in _steps(x.size(0), reverse):
        product, both, state_both, reset, update, new, state_new, result = (r[i] for r in rows)
        torch.addmm(bias, h, weight, out=product)
        both.add_(state_both).sigmoid_()
        new.addcmul_(reset, state_new).tanh_()
        h = torch.lerp(new, h, update, out=result)
    return out, gates, from_state


def _run(kind, reverse, x, h, params):
    """The states, and what their gradient needs besides."""
    return (_run_gru if kind == "gru" else _run_rnn)(kind, reverse, x, h, params)


def _factors(kind, out, gates, from_state, before):
    """Of a state's gradient: in those of the gates, in those of what the new gate takes from the input, in that of the
    state before."""
    if kind == "rnn_relu":
        return (out > 0).to(out.dtype), None, None
    if kind == "rnn_tanh":
        return 1 - out * out, None, None
    reset, update, new = gates.chunk(3, dim=-1)
    of_state = from_state[..., -out.size(-1) :]
    of_new = (1 - update).mul_(1 - new * new)
    all_gates = torch.empty_like(gates)
    of_reset, of_update, of_product = all_gates.chunk(3, dim=-1)
    torch.mul(of_new, reset, out=of_product)
    torch.mul(of_product, of_state, out=of_reset).mul_(1 - reset)
    torch.mul(before - new, update, out=of_update).mul_(1 - update)
    return all_gates, of_new, update


def _run_backward(gradient, kind, reverse, x, h, params, out, gates, from_state, wanted):
    """The gradients of x, h and the parameters, those of them that are wanted."""
    steps, batch, width = out.shape
    before = torch.cat((out[1:], h[None]) if reverse else (h[None], out[:-1]))
    factors, of_new, keeps = _factors(kind, out, gates, from_state, before)
    of_gates, of_h = out.new_empty(steps, batch, GATES[kind], width), torch.zeros_like(h)
    of_states = gradient.clone(memory_format=torch.contiguous_format)
    rows = [t.unbind(0) for t in (of_states, factors.view_as(of_gates), of_gates, of_gates.flatten(2))]
    order = list(_steps(steps, not reverse))
    for i, following in zip(order, [*order[1:], None], strict=True):
        of_state, factor, of_gate, of_gate_row = (r[i] for r in rows)
        torch.mul(of_state.unsqueeze(1), factor, out=of_gate)
        target = of_h if following is None else rows[0][following]
        if keeps is not None:
            target.addcmul_(of_state, keeps[i])
        target.addmm_(of_gate_row, params[1])

    flat = of_gates.view(steps * batch, -1)
    made = {1: of_h}
    if wanted[3]:
        made[3] = flat.t().mm(before.view(-1, width))
    if len(params) == 4 and wanted[5]:
        made[5] = flat.sum(0)
    if of_new is not None:
        torch.mul(of_states, of_new, out=of_gates[:, :, -1])
    if wanted[0]:
        made[0] = flat.mm(params[0]).view(x.shape)
    if wanted[2]:
        made[2] = flat.t().mm(x.reshape(steps * batch, -1))
    if len(params) == 4 and wanted[4]:
        made[4] = flat.sum(0)
    return _several([made[i] for i, needed in enumerate(wanted) if needed])


def _several(made):
    return tuple(made) if len(made) != 1 else made[0]


def _meta(kind, reverse, x, h, params):
    (steps, batch, _), width = _sizes(x), _sizes(h)[1]
    gates = (steps, batch, 3 * width) if kind == "gru" else (0,)
    return _like(x, steps, batch, width), _like(x, *gates), _like(x, *gates)


def _meta_backward(gradient, kind, reverse, x, h, params, out, gates, from_state, wanted):
    return _several([_like(t, *_sizes(t)) for t, needed in zip((x, h, *params), wanted, strict=True) if needed])


_backward = _executor.register_operator("recurrent_layer_backward", meta=_meta_backward, fn=_run_backward)
_layer = _executor.register_operator("recurrent_layer", meta=_meta, fn=_run)


def _rule(kind, reverse, x, h, params):
    out, gates, from_state = _layer(kind, reverse, x, h, params)
    inputs = (x, h, *params)
    wanted = [t.requires_grad for t in inputs]
    if any(wanted):
        given = get_grad(out)
        made = _backward(given, kind, reverse, x, h, params, out, gates, from_state, wanted)
        made = iter(made if sum(wanted) > 1 else (made,))
        for t, needed in zip(inputs, wanted, strict=True):
            if needed:
                put_grad(t, next(made))
    return out, gates, from_state


register_grad(_layer, _rule)


def fit(kind, x, states, weights, has_biases, num_layers, directions):
    """Whether the shapes of the input [steps, batch, features], the states and the weights are those of such layers,
    which PyTorch's operator otherwise says."""
    if len(states) != (2 if kind == "lstm" else 1) or any(len(s) != 3 for s in (x, *states)):
        return False
    cells = num_layers * directions
    if any(s[:2] != (cells, x[1]) for s in states):
        return False
    out, width = states[0][2], states[-1][2]
    gates, expected = GATES[kind] * width, []
    for layer in range(num_layers):
        of_input = (gates, directions * out if layer else x[2])
        biases, projection = [(gates,)] * (2 if has_biases else 0), [(out, width)] * (out != width)
        expected += [of_input, (gates, out), *biases, *projection] * directions
    return weights == expected


def of_one_kind(tensors):
    return len({(t.dtype, t.device, t.layout) for t in tensors}) == 1


def _is_usual(x, hx, params, num_layers, dropout, train):
    """Whether nothing is special, sizes aside."""
    if (dropout and train and num_layers > 1) or not of_one_kind((x, hx, *params)):
        return False
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64) or x.layout is not torch.strided:
        return False
    return len(_sizes(x)) == 3 and 0 not in (*_sizes(x), *_sizes(hx))


def _recorder(kind):
    def record(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        directions = 2 if bidirectional else 1
        if not _is_usual(x, hx, params, num_layers, dropout, train):
            return None
        apply = current_tracer().apply
        x = apply("torch.transpose", (x, 0, 1)) if batch_first else x
        shapes = _sizes(x), [_sizes(hx)], [_sizes(p) for p in params]
        if not fit(kind, *shapes, has_biases, num_layers, directions):
            return None
        length = shapes[0][0]
        count, states = 4 if has_biases else 2, []
        for layer in range(num_layers):
            outs = []
            for reverse in range(directions):
                i = layer * directions + reverse
                h = apply("torch.select", (hx, 0, i))
                out, *_ = _layer(kind, bool(reverse), x, h, list(params[count * i : count * (i + 1)]))
                outs.append(out)
                states.append(apply("torch.select", (out, 0, 0 if reverse else length - 1)))
            x = outs[0] if len(outs) == 1 else apply("torch.cat", (outs, -1))
        out = apply("torch.transpose", (x, 0, 1)) if batch_first else x
        return out, apply("torch.stack", (states,))

    return record


for _kind in ("gru", "rnn_tanh", "rnn_relu"):
    _opaque.decomposed[f"aten::{_kind}.input"].append(_recorder(_kind))
