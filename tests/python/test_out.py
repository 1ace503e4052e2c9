"""out=: what is written to, what is resized, and what is refused; test_inplace_complete.py has all operators."""

import pytest
import torch
from aliasing_checks import difference
from eager_checks import check_left_to_eager

import thunder

pytestmark = pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
X = torch.arange(12.0).view(3, 4) / 7


def into(make, operator=torch.add):
    """x + y into what `make(x)` gives, which is returned too."""

    def f(x, y):
        out = make(x)
        result = operator(x, y, out=out)
        return out, result is out

    return f


def read_as(*names):
    """A row that is read under these names, and is to hold three rows."""

    def f(x, y):
        row = x[:1] * 1
        given = {"input": y, "other": y} | dict.fromkeys(names, row)
        return torch.add(given.pop("input"), given.pop("other"), out=row)

    return f


def keyword_read(x, y):
    row = x[:1] * 1
    return torch.add(input=y, other=row, out=row)


PROGRAMS = {
    "empty": into(lambda x: torch.zeros(0)),
    "smaller": into(lambda x: torch.zeros(2)),
    "larger": into(lambda x: torch.zeros(7, 7)),
    "other strides": into(lambda x: torch.zeros(4, 3).t()),
    "other dtype": into(lambda x: torch.zeros(3, 4, dtype=torch.float64)),
    "dtype that cannot hold it": into(lambda x: torch.zeros(3, 4, dtype=torch.int32)),
    "None": lambda x, y: torch.add(x, y, out=None),
    "read": lambda x, y: torch.add(x, y, out=x),
    "read and too small": read_as("input"),
    "read second and too small": read_as("other"),
    "read by keyword and too small": keyword_read,
    "of a select": lambda x, y: (lambda row: torch.where(row > 0, row, y, out=row))(x[:1] * 1),
    "error of the operator": lambda x, y: torch.mm(x, y, out=torch.zeros(2)),
    "opaque": into(lambda x: torch.zeros(4), lambda x, y, out: torch.histc(x, 4, out=out)),
    "opaque, resized": into(lambda x: torch.zeros(2), lambda x, y, out: torch.histc(x, 4, out=out)),
    "opaque, several": lambda x, y: torch.linalg.qr(x, out=(torch.zeros(2), torch.zeros(3))),
    "several": lambda x, y: torch.max(x, 1, out=(torch.zeros(0), torch.zeros(0, dtype=torch.long))),
    "one for several": lambda x, y: torch.max(x, 1, out=torch.zeros(0)),
    "three for two": lambda x, y: torch.max(x, 1, out=(torch.zeros(0),) * 3),
    "a string": lambda x, y: torch.add(x, y, out="a"),
    "a list": lambda x, y: torch.add(x, y, out=[x]),
}


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("grad", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, grad, cache):
    compiled = thunder.jit(PROGRAMS[name], cache=cache)
    assert not difference(PROGRAMS[name], [X, X + 1], grad=grad, compiled=compiled)


def resized_with_a_view(x):
    out = torch.zeros(2, 3)
    view = out[0]
    torch.add(x, 1, out=out)
    return out, view


REFUSED = {
    "a view": (lambda x: torch.add(x, 1, out=torch.zeros(4, 3)[0]), "shares memory with another tensor"),
    "a tensor that has views": (resized_with_a_view, "shares memory with another tensor"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_resizing_is_refused(name):
    f, what = REFUSED[name]
    check_left_to_eager(f, X, why=what)


def test_what_requires_grad_is_not_resized():
    def f(x):
        out = x[:1] * 1
        with torch.no_grad():
            torch.add(x, 1, out=out)
        return out

    check_left_to_eager(f, X.clone().requires_grad_(), why="requires grad, would be resized")


def test_no_tensor():
    """Eager passes over an out that is none where the other arguments are numbers."""
    with pytest.warns(RuntimeWarning, match="must be a tensor|must be Tensor"):
        assert thunder.jit(lambda x: torch.add(x.shape[0], 1, out=x.shape[0]))(torch.ones(3)) == 4
