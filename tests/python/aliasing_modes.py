"""Programs of two tensors of shape [4, 6]: views of any place in memory, made in other grad modes, or of leaves; run by
test_aliasing_kinds.py."""

import torch
from aliasing_checks import registry

PROGRAMS, program = registry()


# ---- as_strided() beyond what it is called for ----------------------------------------------------------------------


@program
def as_strided_beyond_a_slice(x, y):
    a = x * 1
    v = a[1:3]
    w = v.as_strided((2, 2), (11, 1))
    w.mul_(10)
    return (a, v, w)


@program
def as_strided_between_a_slice(x, y):
    a = x * 1
    v = a[0, ::3]
    w = v.as_strided((2, 2), (2, 1))
    w.add_(1)
    return (a, v, w)


@program
def as_strided_of_a_diagonal(x, y):
    a = x * 1
    a.diagonal(1).as_strided((2,), (3,)).zero_()
    a.diagonal(-2, 1, 0).as_strided((2, 1), (1, 4)).mul_(5)
    return (a,)


@program
def as_strided_of_no_diagonal(x, y):
    a = x * 1
    a.diagonal(-4).as_strided((2,), (3,)).zero_()
    a[1:].diagonal(9).as_strided((2,), (3,)).mul_(5)
    return (a,)


@program
def as_strided_at_an_offset(x, y):
    a = x * 1
    w = a[2:].as_strided((2, 2), (1, 6), 3)
    w.mul_(10)
    return (a, w)


@program
def as_strided_in_place_of_a_slice(x, y):
    a = x * 1
    v = a[1:]
    v.as_strided_((2, 2), (17, 1))
    v.add_(1)
    return (v, a)


@program
def as_strided_out_of_bounds(x, y):
    return (x * 1)[1:].as_strided((20,), (1,))


@program
def as_strided_at_a_negative_offset(x, y):
    return (x * 1).as_strided((2,), (1,), -1)


# ---- views that are made under no_grad ------------------------------------------------------------------------------


@program
def no_grad_view_of_what_gets_a_gradient(x, y):
    a = x.detach() * 2
    with torch.no_grad():
        v = a[0]
    v.mul_(y[0])
    return (a, v)


@program
def no_grad_view_that_gets_numbers(x, y):
    a = x.detach() * 2
    with torch.no_grad():
        v = a[0]
    v.mul_(3)
    return (a * y, v)


@program
def no_grad_view_of_the_whole(x, y):
    a = x.detach() * 1
    with torch.no_grad():
        v = a.view_as(a)
    v.mul_(y)
    return (a,)


@program
def no_grad_tensor_and_view(x, y):
    with torch.no_grad():
        a = x * 2
        v = a[0]
    v.mul_(y[0])
    return (a, v)


@program
def no_grad_tensor_seen_with_grad(x, y):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            v = a[0]
    v.mul_(y[0])
    return (a, v)


@program
def grad_view_under_no_grad(x, y):
    a = x * 2
    with torch.no_grad(), torch.enable_grad():
        v = a[0]
    v.mul_(y[0])
    return (a, v)


@program
def no_grad_view_viewed_again(x, y):
    a = x.detach().clone()
    with torch.no_grad():
        v = a.t()
    w = v[0]
    w.mul_(y[:, 0])
    return (a, v, w)


@program
def no_grad_view_says_that_it_requires_grad(x, y):
    a = x * 2
    with torch.no_grad():
        v = a[0]
    return (a, v.requires_grad, v[1:].requires_grad, v.detach().requires_grad)


# ---- leaves that the program makes ----------------------------------------------------------------------------------


@program
def leaf_made_and_written(x, y):
    a = torch.ones(3).requires_grad_()
    a.mul_(2)
    return (x * a.detach().sum(),)


@program
def leaf_made_by_a_factory(x, y):
    a = torch.ones(3, requires_grad=True)
    a.mul_(2)
    return (x * a.detach().sum(),)


@program
def leaf_whose_view_is_written(x, y):
    a = torch.ones(3).requires_grad_()
    a[0].mul_(2)
    return (x * a.detach().sum(),)


@program
def leaf_whose_older_view_is_written(x, y):
    a = torch.ones(3, 2)
    v = a[0]
    a.requires_grad_()
    v.mul_(2)
    return (x * a.detach().sum(),)


@program
def leaf_that_is_a_view(x, y):
    a = torch.ones(3, 2)
    v = a[0].requires_grad_()
    v.mul_(2)
    return (x * a.sum(),)


@program
def leaf_that_is_a_view_of_what_is_written(x, y):
    a = torch.ones(3, 2)
    a[0].requires_grad_()
    a.mul_(2)
    return (x * a.sum().detach(),)


@program
def leaf_that_changes_sizes(x, y):
    torch.ones(3).requires_grad_().unsqueeze_(0)
    return (x,)


@program
def leaf_written_under_no_grad(x, y):
    a = torch.ones(3).requires_grad_()
    with torch.no_grad():
        a.mul_(2)
    a.detach().add_(1)
    return (x * a.detach().sum(),)


# ---- tensors that copy_() made equal --------------------------------------------------------------------------------


@program
def foreach_of_equal_tensors(x, y):
    a, b = torch.empty_like(x).copy_(y), torch.empty_like(x).copy_(y)
    torch._foreach_add_([a, b], [1.0, 2.0])
    return (a, b)


@program
def foreach_without_a_record_of_equal_tensors(x, y):
    a = y.detach().abs()
    b = torch.empty_like(a).copy_(a)
    torch._foreach_addcmul_([a, b], [x.detach(), y.detach()], [y.detach(), y.detach()])
    torch._foreach_sqrt_([a, b])
    return (a, b)


@program
def copy_whose_view_is_expanded(x, y):
    a = torch.empty(4, 6, dtype=x.dtype).copy_(x)
    return (a * 1, a[:, :1].expand(4, 5))


@program
def copy_of_what_is_expanded(x, y):
    b = x * 2
    a = torch.empty(4, 6, dtype=x.dtype).copy_(b)
    return (a, b[:1].expand(2, 6))


@program
def copy_of_a_part_of_what_is_expanded(x, y):
    b = x * 2
    a = torch.empty(6, dtype=x.dtype).copy_(b[0])
    return (a, b[0].expand(4, 6))
