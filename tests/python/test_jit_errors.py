"""thunder.jit's errors: the user's line, eager's exception types, and what is not supported."""

import contextlib
import gc
import signal
import warnings

import pytest
import torch
from devices import DEVICE, ON_CPU
from eager_checks import check_left_to_eager
from torch import nn
from torch.testing import assert_close
from torch.utils.dlpack import to_dlpack

import thunder

F = nn.functional


def line_of(marker):
    """The line of this file that holds the comment `# marker`."""
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# {marker}"))


def branches(x):
    if len(x[torch.rand(3) > 0.5]) > 1:  # branches here
        return x
    return -x


def shapes(x):
    return x @ torch.ones(7, 2)  # shapes here


def unsupported(x):
    return x.to_sparse_bsr((3, 3))  # unsupported here


@pytest.mark.parametrize(
    "fn, kind, what",
    [
        (branches, UserWarning, "value of a tensor"),
        (shapes, RuntimeError, "matmul"),
        (unsupported, UserWarning, "to_sparse_bsr"),
    ],
    ids=["branch", "shape", "unsupported"],
)
def test_errors_name_the_users_line(fn, kind, what):
    compiled = thunder.jit(fn)
    with pytest.raises(kind) as caught, warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.randn(3, 3))
    text = str(caught.value)
    assert what in text and f"{__file__}:{line_of(fn.__name__ + ' here')}" in text, text
    assert "internal error" not in text


def test_the_function_stays_usable_after_an_error():
    f = thunder.jit(lambda a, b: a @ b)
    with pytest.raises(RuntimeError):
        f(torch.randn(2, 3), torch.randn(2, 3))
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    assert_close(f(a, b), a @ b)
    with pytest.raises(RuntimeError):
        f(torch.randn(2, 3), torch.randn(2, 3))
    assert_close(f(a, b), a @ b)


def test_the_users_own_exception_passes_through():
    class Mine(Exception):
        pass

    def f(x):
        torch.sin(x)
        raise Mine("text")

    with pytest.raises(Mine, match="text"):
        thunder.jit(f)(torch.ones(2))
    assert not torch.compiler.is_compiling()
    assert torch.sin(torch.zeros(1)).item() == 0  # no mode was left behind


ERRORS = {
    "add shapes": lambda: torch.add(torch.ones(3), torch.ones(4)),
    "matmul dtype": lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64),
    "matmul shapes": lambda: torch.ones(2, 3) @ torch.ones(2, 3),
    "view": lambda: torch.ones(3, 4).t().view(12),
    "reshape": lambda: torch.ones(3, 4).reshape(5, 2),
    "dim": lambda: torch.ones(3, 4).sum(2),
    "softmax dim": lambda: torch.ones(3).softmax(1),
    "cat shapes": lambda: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]),
    "index range": lambda: torch.ones(3)[5],
    "too many indices": lambda: torch.ones(3)[0, 0],
    "linear": lambda: F.linear(torch.ones(2, 3), torch.ones(4, 5)),
    "layer_norm": lambda: F.layer_norm(torch.ones(2, 3), (4,)),
    "embedding dtype": lambda: F.embedding(torch.ones(3), torch.ones(4, 2)),
    "cross entropy": lambda: F.cross_entropy(torch.ones(3, 4), torch.zeros(2, dtype=torch.long)),
    "split": lambda: torch.ones(5).split([2, 2]),
    "permute": lambda: torch.ones(2, 3).permute(0, 0),
    "expand": lambda: torch.ones(2, 3).expand(4, 3),
    "squeeze dim": lambda: torch.ones(2).squeeze(3),
    "unknown keyword": lambda: torch.sum(torch.ones(2), wrong=1),
    "missing argument": lambda: torch.matmul(torch.ones(2)),
    "int mean": lambda: torch.ones(3, dtype=torch.long).mean(),
    "topk": lambda: torch.topk(torch.ones(3), 5),
    "complex order": lambda: torch.ones(2, dtype=torch.complex64) < 0.0,
    "a tensor for a flag": lambda: torch.sum(torch.ones(2, 3), 1, torch.tensor(True)),
    "a tensor for a flag by name": lambda: torch.sum(torch.ones(2, 3), 1, keepdim=torch.tensor(True)),
    "a tensor for a flag of one overload": lambda: torch.max(torch.ones(2, 3), 1, torch.tensor(True)),
    "a tensor for a flag beside a keyword": lambda: torch.sort(torch.ones(2, 3), 1, torch.tensor(True)),
    "a tensor for training": lambda: F.dropout(torch.ones(2, 3), 0.0, torch.tensor(True)),
}


@pytest.mark.parametrize("fn", ERRORS.values(), ids=ERRORS)
def test_exceptions_have_eagers_type(fn):
    with pytest.raises(Exception) as want:
        fn()
    with pytest.raises(want.type) as got:
        thunder.jit(fn)()
    assert "internal error" not in str(got.value)


@pytest.mark.parametrize("number", [True, False, 1.5])
def test_a_number_in_the_place_of_a_tensor_has_its_dtype(number):
    x = torch.ones(2, device=DEVICE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert thunder.jit(lambda: x.to(number))().dtype is x.to(number).dtype


@pytest.mark.skipif(not ON_CPU, reason="on a GPU it is a failed assertion, which takes CUDA from the whole process")
def test_index_out_of_range_at_run_time():
    f = thunder.jit(lambda i, w: F.embedding(i, w))
    with pytest.raises(IndexError):
        f(torch.tensor([9]), torch.ones(4, 2))
    assert_close(f(torch.tensor([1]), torch.ones(4, 2)), torch.ones(1, 2))


def test_a_tensor_that_is_kept_outside():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x + 1

    compiled = thunder.jit(f)
    for n in range(1, 3):
        compiled(torch.full((2,), float(n)))
        assert len(kept) == n and torch.equal(kept[-1], torch.full((2,), 2.0 * n))


def assign_grad(x):
    x.grad = x * 2
    return x


def keep_attribute(module):
    def f(x):
        module.kept = x + 1
        return x

    return f


NO_PROGRAM = {
    "x.grad = p": (lambda: assign_grad, "grad"),
    "__dlpack__": (lambda: lambda x: torch.from_dlpack(x.detach()) * 1, "memory"),
    "numpy": (lambda: lambda x: torch.from_numpy(x.detach().cpu().numpy() * 2), "memory"),
    "data_ptr": (lambda: lambda x: x + (x.data_ptr() > 0), "memory"),
    "backward": (lambda: lambda x: x.sum().backward(), "memory"),
    "autograd.grad": (lambda: lambda x: torch.autograd.grad(x.sum(), x, only_inputs=False)[0], "only_inputs"),
    "register_hook": (lambda: lambda x: x.register_hook(print).id >= 0, "register_hook"),
    "length": (lambda: lambda x: len(x[torch.rand(3) > 2]), "value of a tensor"),
    "requires_grad_": (lambda: lambda x: x.requires_grad_(False), "requires_grad_"),
    "resize_": (lambda: lambda x: x.detach().clone().resize_(5)[:3], "resize_"),
    "sparse": (lambda: lambda x: x.to_sparse()._nnz(), "_nnz"),
}


@pytest.mark.parametrize("make, why", NO_PROGRAM.values(), ids=NO_PROGRAM)
def test_what_no_program_does_is_left_to_eager(make, why):
    check_left_to_eager(make(), torch.randn(3, requires_grad=True), why=why, compare=why != "resize_")
    assert not torch.compiler.is_compiling()
    assert torch.add(torch.ones(1), 1).item() == 2


def test_a_warning_that_is_an_error_is_the_callers():
    compiled = thunder.jit(lambda x: x.data_ptr())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match=r"^\[data_ptr\](.|\n)*test_jit_errors.py:\d+"):
                compiled(torch.ones(3))


def test_what_is_refused_in_one_world_is_compiled_in_another():
    """Which of a module's ways is taken is a part of what is known of the calls that eager runs."""

    class Looks(torch.nn.Module):
        def forward(self, x):
            return x * (x.data_ptr() > 0) if self.looks else x * 2

    module = Looks()
    module.looks = True
    compiled, x = thunder.jit(module), torch.ones(3)
    with pytest.warns(UserWarning, match="data_ptr"):
        assert torch.equal(compiled(x), x)
    module.looks = False
    assert torch.equal(compiled(x), 2 * x) and thunder.last_traces(compiled)
    module.looks = True
    assert torch.equal(compiled(x), x) and thunder.cache_misses(compiled) == 2


def test_what_is_refused_for_several_sizes_is_refused_for_all():
    """Until the world is another one: an acquisition for each size would take longer than the function."""
    how = {"numpy": True}
    compiled = thunder.jit(lambda x: x.cpu().numpy().sum() if how["numpy"] else x.sum())
    with pytest.warns(UserWarning, match="numpy") as seen:
        for n in range(2, 9):
            assert compiled(torch.ones(n)) == n
    assert len(seen) == 1 and thunder.cache_misses(compiled) == 3
    how["numpy"] = False
    for n in range(2, 9):
        assert compiled(torch.ones(n)).item() == n
    assert thunder.cache_misses(compiled) <= 6 and thunder.last_traces(compiled)
    how["numpy"] = True
    assert compiled(torch.ones(20)) == 20


def test_what_eager_refuses_as_well_is_its_exception_alone():
    compiled = thunder.jit(lambda x: torch.frac(x > 0) if x.data_ptr() else x)
    with warnings.catch_warnings(record=True) as seen, pytest.raises(RuntimeError, match="Bool"):
        warnings.simplefilter("always")
        compiled(torch.ones(3))
    assert not [w for w in seen if "eager" in str(w.message)]


def test_a_transform_is_not_left_out():
    compiled = thunder.jit(lambda x: x.data_ptr(), transforms=[lambda trace: trace])
    with pytest.raises(NotImplementedError, match=r"\[data_ptr\]"):
        compiled(torch.ones(3))


def test_what_cannot_be_done_again_is_refused():
    """The function would go on with an iterator that the acquisition has advanced."""
    numbers = map(int, "0123")
    compiled = thunder.jit(lambda x: next(numbers) + x.data_ptr())
    with pytest.raises(NotImplementedError, match=r"\[data_ptr\]"):
        compiled(torch.ones(3))


@pytest.mark.parametrize(
    "fn",
    [lambda x: (x * 1).set_(x), lambda x: x.detach().set_(x.clone()), lambda x: torch.empty(0).set_(x.storage())],
)
@pytest.mark.filterwarnings("ignore:(?s).*runs by eager PyTorch")
def test_operators_that_a_compilation_looked_up_first_stay(fn):
    """PyTorch's dispatcher keeps pointers to the entries of torch.ops, which it makes when they are first needed."""
    # Refused or not, the process must live.
    for _ in range(3):
        with torch.device(DEVICE), contextlib.suppress(NotImplementedError, RuntimeError):
            thunder.jit(fn)(torch.ones(3))
        gc.collect()


def test_what_only_the_function_itself_can_do_is_told():
    with pytest.warns(RuntimeWarning, match=r"\[jit\] compiling raised .*\n.*this call's result"):
        assert_close(torch.from_dlpack(thunder.jit(to_dlpack)(torch.ones(3))), torch.ones(3))


def test_a_module_that_keeps_a_traced_tensor():
    class Keeps(nn.Module):
        def forward(self, x):
            self.kept = x + 1
            return x

    model = Keeps()
    compiled = thunder.jit(model)
    for n in range(2):
        compiled(torch.full((2,), float(n)))
        assert_close(model.kept, torch.full((2,), n + 1.0))
    assert thunder.cache_misses(compiled) == 1


def set_item(x, key, value):
    x[key] = value


# With two things wrong.
TWICE_WRONG = {
    "split by -1": lambda x: x.split(-1, 5),
    "split by 0": lambda x: x.split(0, 5),
    "split of no dimensions": lambda x: x.sum().split(1, 5),
    "split of no dimensions in a list": lambda x: x.sum().split([1], 3),
    "split in a negative part": lambda x: x.split([-1, 2], 5),
    "chunk into 0": lambda x: x.chunk(0, 5),
    "chunk of no dimensions": lambda x: x.sum().chunk(0),
    "two ellipses and an index": lambda x: x[..., ..., 0],
    "two ellipses and a tensor": lambda x: x[..., ..., torch.tensor([0])],
    "two ellipses to write to": lambda x: set_item(x * 1, (..., ..., 0), 1.0),
    "type of other": lambda x: x.add_("a"),
    "no other": lambda x: x.add_(),
    "unknown argument": lambda x: x.add_(1, foo=2),
    "type of a bound": lambda x: x.clamp_("a"),
    "type of a dimension": lambda x: x.unsqueeze_("a"),
    "dimension": lambda x: x.unsqueeze_(9),
    "type of a matrix": lambda x: x.addmm_(x, "a"),
    "shape": lambda x: x.mul_(torch.ones(9)),
    "probability": lambda x: F.dropout(x, 2.0, inplace=True),
    "index": lambda x: set_item(x, 9, 1.0),
    "index in a tensor": lambda x: set_item(x, torch.tensor([9]), 1.0),
    "too many indices": lambda x: set_item(x, (torch.tensor([0]), 0, 0), 1.0),
    "dtype of a tensor of no dimensions": lambda x: x[0].scatter(0, torch.tensor([0]), torch.tensor(1)),
}


@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("name", TWICE_WRONG)
def test_eagers_error_comes_first(name, leaf):
    if not ON_CPU and name == "index in a tensor":
        pytest.skip("on a GPU an index out of bounds leaves the process without a device")
    f = TWICE_WRONG[name]
    raised = []
    for function in (f, thunder.jit(f)):
        with pytest.raises((RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)) as e:
            function(torch.ones(2, 3, requires_grad=leaf))
        raised.append(e.value)
    assert type(raised[0]) is type(raised[1]), raised
    is_leaf = ["a leaf Variable" in str(e) for e in raised]
    assert is_leaf[0] == is_leaf[1], raised


def test_two_ellipses_for_nothing():
    keys = [(..., ...), (..., 0, ...), (0, ..., ...), (0, ..., 0, ..., 0), (..., None, ...)]
    f = lambda x: tuple(x[key] for key in keys)
    x = torch.arange(24.0).view(2, 3, 4)
    assert_close(thunder.jit(f)(x), f(x))


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
def test_an_interrupt_is_no_reason_to_try_another_way(cache):
    def f(x):
        y = x
        if x.sum().item() > 0:
            for _ in range(100_000):
                y = y + 1
        return y

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # a callback of the collector's, such as hypothesis's, would swallow the exception
    signal.setitimer(signal.ITIMER_REAL, 0.2)  # long before the program is acquired
    try:
        with pytest.raises(KeyboardInterrupt):
            thunder.jit(f, cache=cache)(torch.ones(2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert not torch.compiler.is_compiling()
