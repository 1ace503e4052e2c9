"""Programs of two tensors of shape [4, 6] that write in place; run by test_aliasing_kinds.py."""

import torch
from aliasing_checks import registry
from torch import nn

PROGRAMS, program = registry()


@program
def view_as_complex_write(x, y):
    a = x.reshape(4, 3, 2) * 1
    c = torch.view_as_complex(a)
    c.mul_(1j)
    return (a, c)


@program
def complex_base_write(x, y):
    c = torch.complex(x, y)
    r = c.real
    c.mul_(2j)
    return (r, c)


@program
def conj_view_write(x, y):
    c = torch.complex(x, y)
    d = c.conj()
    d.mul_(1j)
    return (c, d.resolve_conj())


@program
def view_dtype(x, y):
    a = x.detach().float().clone()
    v = a.view(torch.int32)
    v.bitwise_and_(2147483647)
    return (a, v)


@program
def view_dtype_size(x, y):
    a = x.detach().clone()
    v = a.view(torch.float32)
    v.zero_()
    return (a,)


@program
def diagonal_write(x, y):
    a = x * 1
    a.diagonal().mul_(2)
    a.diagonal(1).copy_(y.diagonal(1))
    return (a,)


@program
def fill_diagonal(x, y):
    a = x * 1
    a.fill_diagonal_(3)
    return (a * y,)


@program
def index_writes(x, y):
    a = x * 1
    i = torch.tensor([0, 2])
    a.index_add_(0, i, y[:2])
    a.index_copy_(1, i, y[:, :2])
    a.index_fill_(0, i[:1], 2.0)
    return (a,)


@program
def scatter_writes(x, y):
    a = x * 1
    i = torch.zeros(2, 6, dtype=torch.int64)
    a.scatter_(0, i[:1], y[:1])
    a.scatter_add_(0, i, y[:2])
    return (a,)


@program
def masked_writes(x, y):
    a = x * 1
    a.masked_fill_(y > 0, 0)
    a[y < 0] = 1
    a[:, [0, 1]] *= 2
    return (a,)


@program
def setitem_tensor_index(x, y):
    a = x * 1
    v = a[1:]
    v[torch.tensor([0, 1])] = y[:2]
    return (a, v)


@program
def put_(x, y):
    a = x * 1
    a.put_(torch.tensor([0, 5]), y[0, :2])
    return (a,)


@program
def augmented(x, y):
    a = x * 1
    a[0] += y[0]
    a[:, 1] *= 2
    a[1, 2] = 7
    a[..., -1] -= y[:, 0]
    return (a,)


@program
def augmented_alias(x, y):
    a = x * 1
    b = a
    b += 1
    return (a, a is b)


@program
def detach_inplace(x, y):
    a = x * 1
    a.detach_()
    return (a + x,)


@program
def requires_grad_off(x, y):
    a = x.detach()
    a.mul_(2)
    return (a, x * 1)


@program
def requires_grad_inplace_plain(x, y):
    a = torch.zeros(4, 6, dtype=torch.float64)
    a.add_(x)
    return (a,)


@program
def plain_view_gets_grad(x, y):
    a = torch.zeros(4, 6, dtype=torch.float64)
    v = a[1]
    v.copy_(x[0])
    return (a, v)


@program
def write_then_no_grad_view(x, y):
    a = x * 1
    v = a[0]
    with torch.no_grad():
        v.zero_()
    return (a * y, v)


@program
def enable_grad_in_no_grad(x, y):
    with torch.no_grad():
        a = x * 1
        with torch.enable_grad():
            a = a + x
            a.mul_(y)
    return (a,)


@program
def set_grad_enabled_(x, y):
    torch.set_grad_enabled(False)
    a = x * 2
    torch.set_grad_enabled(True)
    a.add_(x)
    return (a,)


@program
def inference_mode_write(x, y):
    with torch.inference_mode():
        b = y.detach().clone()
        b.add_(1)
    return (x * 1,)


@program
def swap_rows(x, y):
    a = x * 1
    t = a[0].clone()
    a[0] = a[1]
    a[1] = t
    return (a,)


@program
def transpose_inplace(x, y):
    a = x * 1
    v = a[1]
    a.t_()
    a[0].mul_(2)
    return (a, v)


@program
def squeeze_inplace(x, y):
    a = x * 1
    a.unsqueeze_(0)
    a.squeeze_()
    a.transpose_(0, 1)
    a.swapaxes_(0, 1)
    a.add_(y)
    return (a,)


@program
def write_into_input(x, y):
    y.copy_(x.detach() * 2)
    return (x * 2,)


@program
def write_into_input_view(x, y):
    y[1:3].mul_(x[1:3].detach())
    return (y * 1,)


@program
def input_returned(x, y):
    y.mul_(2)
    return (y, y[0])


@program
def same_input_out(x, y):
    return (torch.mul(x.detach(), 2, out=y.detach()),)


@program
def out_slice(x, y):
    b = torch.zeros(2, 4, 6, dtype=torch.float64)
    with torch.no_grad():
        torch.add(x, y, out=b[1])
    return (b,)


@program
def out_expanded(x, y):
    b = torch.zeros(1, 6, dtype=torch.float64).expand(4, 6)
    with torch.no_grad():
        torch.add(x, y, out=b)
    return (b,)


@program
def out_aliases_input(x, y):
    a = x.detach().clone()
    torch.add(a, 1, out=a)
    return (a,)


@program
def out_noncontig(x, y):
    b = torch.zeros(6, 4, dtype=torch.float64).t()
    with torch.no_grad():
        torch.mul(x, y, out=b)
    return (b,)


@program
def lerp_foreach(x, y):
    a = [x * 1, y * 1]
    torch._foreach_mul_(a, 2)
    return (a[0], a[1])


@program
def foreach_add_views(x, y):
    a = x * 1
    torch._foreach_add_([a[0], a[1]], [y[0], y[1]])
    return (a,)


@program
def clone_independent(x, y):
    a = x * 1
    b = a.clone()
    a.zero_()
    return (b, a)


@program
def contiguous_alias(x, y):
    a = x * 1
    b = a.contiguous()
    b.mul_(2)
    c = a.t().contiguous()
    c.mul_(2)
    return (a, b, c)


@program
def reshape_alias(x, y):
    a = x * 1
    b = a.reshape(-1)
    b.mul_(2)
    c = a.t().reshape(-1)
    c.mul_(2)
    return (a, b, c)


@program
def to_alias(x, y):
    a = x * 1
    b = a.to(torch.float64)
    b.mul_(2)
    c = a.to(torch.float32)
    c.mul_(0)
    return (a, b, c)


@program
def flatten_alias(x, y):
    a = x * 1
    b = a.flatten()
    b[0] = 0.0
    return (a,)


@program
def expand_as_same(x, y):
    a = x * 1
    b = a.expand(4, 6)
    b.mul_(2)
    return (a, b)


@program
def movedim_narrow_select(x, y):
    a = x * 1
    a.movedim(0, 1).narrow(0, 1, 2).select(1, 0).mul_(4)
    return (a,)


@program
def copy_broadcast(x, y):
    a = x * 1
    a.copy_(y[0])
    a[1:].copy_(x[:1])
    return (a,)


@program
def copy_dtype(x, y):
    a = torch.zeros(4, 6, dtype=torch.float32)
    a.copy_(x)
    return (a,)


@program
def tril_inplace(x, y):
    a = x * 1
    a.tril_()
    a[:, ::2].triu_()
    return (a,)


@program
def cumsum_(x, y):
    a = x * 1
    a.cumsum_(0)
    a.clamp_(min=0)
    a.pow_(2)
    return (a,)


@program
def fill_requires_grad(x, y):
    a = x * 1
    a.fill_(y.sum())
    return (a,)


@program
def loop_views(x, y):
    a = x * 1
    for i in range(3):
        a[i + 1] = a[i] * y[i]
    return (a,)


@program
def write_after_sum(x, y):
    a = x * 1
    s = a.sum()
    a.mul_(2)
    return (s, a)


@program
def max_indices(x, y):
    a = x * 1
    v, i = a.max(1)
    a.zero_()
    return (v,)


@program
def dropout_inplace(x, y):
    return (nn.functional.dropout(x * 1, 0.5, True, True),)


@program
def addcmul(x, y):
    a = x * 1
    a.addcmul_(x, y, value=2).addcdiv_(x, y.abs() + 1)
    a.lerp_(y, 0.3)
    return (a,)


@program
def xor_(x, y):
    a = x.detach() > 0
    a ^= y.detach() > 0
    a |= True
    a &= x.detach() > 1
    return (a,)


@program
def matmul_out(x, y):
    o = torch.empty(4, 4, dtype=torch.float64)
    with torch.no_grad():
        torch.mm(x, y.t(), out=o)
    return (o,)


@program
def max_out(x, y):
    o = (torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64))
    with torch.no_grad():
        torch.max(x, 1, out=o)
    return o


@program
def normal_(x, y):
    a = x * 1
    a.normal_()
    return (a * y,)


@program
def uniform_view(x, y):
    a = x * 1
    a[1].uniform_()
    return (a * y,)


@program
def version_counter(x, y):
    a = x * 1
    a.add_(1)
    v = a._version
    a[0].add_(1)
    return (a, a._version > v)
