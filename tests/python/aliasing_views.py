"""Programs of two tensors of shape [4, 6] that write through views; run by test_aliasing_kinds.py."""

import torch
from aliasing_checks import registry
from torch import nn

PROGRAMS, program = registry()


@program
def before_after(x, y):
    a = x * 1
    b = a[1:3]
    a.mul_(y)
    c = a[1:3]
    b.add_(1)
    return (a, b, c)


@program
def chain_views(x, y):
    a = x * 2
    v = a.t()[1:4].unsqueeze(0)
    v.mul_(y.t()[1:4])
    w = a.view(-1)[::2]
    w.sub_(1)
    return (a, v, w)


@program
def chunks(x, y):
    a = x.clone()
    p, q = a.chunk(2, 1)
    p.mul_(q)
    return (a, p, q)


@program
def splits(x, y):
    a = x.clone()
    p, q, r = a.split([1, 2, 3], 1)
    q.copy_(r[:, :2])
    r.zero_()
    return (a, p, q, r)


@program
def unbinds(x, y):
    a = x.clone()
    rows = a.unbind(0)
    rows[1].add_(rows[0])
    rows[2].mul_(rows[1])
    return (a, *rows)


@program
def chunk_result_only(x, y):
    p, q = (x * 2).chunk(2)
    p.add_(1)
    q.mul_(p)
    return (p, q)


@program
def base_written_with_multiviews(x, y):
    a = x * 1
    p, q = a.chunk(2)
    a.add_(y)
    return (p, q, a)


@program
def under_no_grad_intermediate(x, y):
    a = x * 2
    with torch.no_grad():
        a.mul_(3)
    return (a * y,)


@program
def under_no_grad_leaf(x, y):
    with torch.no_grad():
        x.mul_(2)
    return (x * y,)


@program
def no_grad_leaf_view(x, y):
    with torch.no_grad():
        x[1:].add_(y[1:])
    return ((x * y).sum(0),)


@program
def no_grad_view_then_write_outside(x, y):
    a = x * 1
    with torch.no_grad():
        v = a[1:]
    v.mul_(2)
    return (a,)


@program
def detach_write(x, y):
    a = x * 1
    a.detach().add_(5)
    return (a * a,)


@program
def detach_of_leaf(x, y):
    x.detach().mul_(2)
    return (x * y,)


@program
def data_write(x, y):
    a = x * 1
    a.data.mul_(2)
    return (a * a,)


@program
def data_write_leaf(x, y):
    x.data.mul_(2)
    return (x * y,)


@program
def data_slice(x, y):
    x.data[1:] = 0
    return (x * y,)


@program
def data_assign(x, y):
    a = x * 1
    v = a[1:].detach()  # a view's gradient in eager would follow what happens to a, of which it is no view any more
    a.data = y * 2
    a.mul_(2)
    return (a, v)


@program
def data_assign_input(x, y):
    x.data = y * 2
    return (x * 1,)


@program
def data_assign_other_shape(x, y):
    a = x * 1
    a.data = y[:2]
    return (a * 2,)


@program
def data_assign_param(x, y):
    p = nn.Parameter(x.detach().clone())
    p.data = y.detach() * 2
    return (p * x,)


@program
def set_(x, y):
    a = x.clone()
    a.set_(y.clone())
    return (a,)


@program
def set_input(x, y):
    x.set_(y)
    return (x,)


@program
def set_empty(x, y):
    a = x.detach().clone()
    a.set_()
    return (a,)


@program
def resize(x, y):
    a = x.detach().clone()
    a.resize_(2, 3)
    return (a,)


@program
def resize_same(x, y):
    a = x.clone()
    a.resize_(4, 6)
    return (a * 2,)


@program
def resize_input(x, y):
    x.resize_(2, 2)
    return (x * 1,)


@program
def resize_as(x, y):
    a = x.detach().clone()
    a.resize_as_(y[:2])
    return (a,)


@program
def as_strided_view(x, y):
    a = x * 1
    v = a.as_strided((3, 2), (2, 1))
    v.mul_(2)
    return (a, v)


@program
def as_strided_overlap_write(x, y):
    a = x * 1
    v = a.as_strided((3, 2), (1, 1))
    v.mul_(2)
    return (a, v)


@program
def as_strided_overlap_read(x, y):
    a = x * 1
    v = a.as_strided((3, 2), (1, 1))
    a.mul_(2)
    return (a, v)


@program
def as_strided_offset(x, y):
    a = x * 1
    v = a.as_strided((3, 2), (6, 1), 3)
    v.add_(1)
    return (a, v)


@program
def as_strided_inplace(x, y):
    a = x * 1
    a.as_strided_((2, 3), (3, 1))
    a.mul_(2)
    return (a,)


@program
def unfold_write(x, y):
    a = x * 1
    v = a.unfold(1, 2, 2)
    v.mul_(2)
    return (a, v)


@program
def unfold_overlap_write(x, y):
    a = x * 1
    v = a.unfold(1, 3, 1)
    v.mul_(2)
    return (a, v)


@program
def expand_write(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    v.add_(y)
    return (a, v)


@program
def expand_write_input(x, y):
    v = x[:1].expand(4, 6)
    v.add_(y)
    return (v,)


@program
def expand_base_write(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    a.add_(1)
    return (a, v * y)


@program
def expand_slice_write(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    v[0].add_(1)
    return (a, v)


@program
def expand_copy_(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    v.copy_(y)
    return (a,)


@program
def expand_zero_(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    v.zero_()
    return (a,)


@program
def expand_fill_(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    v.fill_(3)
    return (a,)


@program
def expand_setitem(x, y):
    a = x[:1] * 1
    v = a.expand(4, 6)
    v[1] = 2.0
    return (a, v)


@program
def overlap_views(x, y):
    a = x * 1
    p = a[:3]
    q = a[1:]
    p.add_(q.clone())
    return (a, p, q)


@program
def overlap_views_direct(x, y):
    a = x * 1
    p = a[:3]
    q = a[1:]
    p.add_(q)
    return (a,)


@program
def overlap_copy(x, y):
    a = x * 1
    a[:3].copy_(a[1:])
    return (a,)


@program
def self_transposed(x, y):
    a = x[:4, :4] * 1
    a.add_(a.t())
    return (a,)


@program
def broadcasts_up(x, y):
    a = x[:1] * 1
    a.add_(y)
    return (a,)


@program
def cast_down(x, y):
    a = torch.ones(4, 6, dtype=torch.int64)
    a.add_(x.detach())
    return (a,)


@program
def cast_div(x, y):
    a = torch.ones(4, 6, dtype=torch.int64)
    a.div_(2)
    return (a,)


@program
def bool_into_int(x, y):
    a = torch.ones(4, 6, dtype=torch.int64)
    a.mul_(x.detach() > 0)
    return (a,)


@program
def comparison_inplace(x, y):
    a = x.detach().clone()
    a.gt_(0)
    return (a,)


@program
def leaf_write(x, y):
    x.add_(1)
    return (x * y,)


@program
def leaf_view_write(x, y):
    x[0].add_(1)
    return (x * y,)


@program
def leaf_out(x, y):
    torch.add(x, y, out=x)
    return (x,)


@program
def saved_exp(x, y):
    a = x.exp()
    a.add_(1)
    return (a,)


@program
def saved_mul(x, y):
    a = x * 1
    b = a * y
    a.add_(1)
    return (b,)


@program
def saved_sigmoid_view(x, y):
    a = x.sigmoid()
    a[0].zero_()
    return (a * y,)


@program
def saved_input_of_pow(x, y):
    a = x * 1
    b = a ** 2
    a.mul_(0)
    return (a + b,)


@program
def saved_twice_ok(x, y):
    a = x + 1
    b = a + y
    a.mul_(2)
    return (a, b)


@program
def relu_(x, y):
    a = (x * 1).relu_()
    b = a.mul(y)
    return (a, b)


@program
def relu_F(x, y):
    a = nn.functional.relu(x * 1, inplace=True)
    return (a * y,)


@program
def real_imag(x, y):
    c = torch.complex(x, y)
    c.real.mul_(2)
    c.imag.add_(1)
    return (c, c.real, c.imag)


@program
def view_as_real_write(x, y):
    c = torch.complex(x, y)
    r = torch.view_as_real(c)
    r[..., 0].mul_(3)
    return (c, r)
