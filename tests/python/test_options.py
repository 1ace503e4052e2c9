"""The options of `thunder.jit`: each record makes the signature, the docs and the checks of its option."""

import copy
import inspect
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import thunder
from thunder._options import RECORDS, Options, written
from thunder.distributed import ddp, fsdp
from thunder.distributed.lightning._common import Options as StrategyOptions

ROOT = Path(__file__).resolve().parents[2]


def identity(trace):
    return trace


# Values of the options without a list of allowed values, and a wrong one with the error.
FREE = {
    "executors": ([["aten"], [thunder.pytorch_executor], ("sdpa", "fuser")], ["warp drive"], ValueError),
    "transforms": ([[identity], (identity,)], 3, TypeError),
}
VALUES = [
    (option.name, value)
    for option in RECORDS
    for value in option.metadata["values"] or [option.default, *FREE[option.name][0]]
]
every_option = pytest.mark.parametrize("option", RECORDS, ids=lambda o: o.name)
every_value = pytest.mark.parametrize(
    ("name", "value"), VALUES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(VALUES)]
)


def field(name, value):
    """What the field of the option holds for the value."""
    return getattr(Options(**{name: value}), name)


def entries_of_docstring():
    """The text of each entry of the section Args, by the option's name or by (name, value)."""
    found, name, key = {}, None, None
    args = thunder.jit.__doc__.partition("Args:\n")[2].partition("\n\n")[0]
    for line in args.splitlines():
        if entry := re.match(r'(    |        )(\w+|"[^"]+"): (.*)', line):
            name = entry[2] if len(entry[1]) == 4 else name
            key = name if len(entry[1]) == 4 else (name, entry[2])
            found[key] = entry[3]
        else:
            found[key] += " " + line.strip()
    return found


def test_signature():
    fn, *options = inspect.signature(thunder.jit).parameters.values()
    assert (fn.name, fn.kind, fn.default) == ("fn", fn.POSITIONAL_ONLY, None)
    assert [(p.name, p.kind, p.default) for p in options] == [(o.name, fn.KEYWORD_ONLY, o.default) for o in RECORDS]


def test_signature_and_docstring_have_the_options_and_nothing_else():
    entries = entries_of_docstring()
    expected = {"fn": entries["fn"]}
    for option in RECORDS:
        expected[option.name] = option.metadata["doc"]
        expected |= {(option.name, written(value)): doc for value, doc in option.metadata["values"].items()}
    assert entries == expected and list(entries) == list(expected)
    assert max(map(len, thunder.jit.__doc__.splitlines())) <= 116


def test_stub_is_made_from_the_records():
    subprocess.run([sys.executable, ROOT / "tools" / "make_jit_stub.py", "--check"], check=True)


@every_option
def test_docs_say_what_the_default_is(option):
    values = option.metadata["values"]
    assert not values or option.default in values
    assert option.metadata["doc"].endswith(".") and all(doc.endswith(".") for doc in values.values())


@every_option
@pytest.mark.parametrize("wrong", ["no such value", 1, None, [], object()], ids=lambda w: type(w).__name__)
def test_wrong_values(option, wrong):
    values = option.metadata["values"]
    if not values:
        _, wrong, error = FREE[option.name]
        message = None if error is TypeError else f"unknown executor '{wrong[0]}'; there are .*'aten'"
    else:
        there_are = ", ".join(map(repr, values))
        error, message = ValueError, re.escape(f"[jit] unknown {option.name} {wrong!r}; there are {there_are}") + "$"
    for target in ([torch.sin], [nn.Linear(2, 2)], []):
        with pytest.raises(error, match=message):
            thunder.jit(*target, **{option.name: wrong})


def test_unknown_options():
    names = ", ".join(repr(option.name) for option in RECORDS)
    for target in ([torch.sin], []):
        with pytest.raises(TypeError, match=re.escape(f"unexpected keyword argument 'mode'; there are {names}")):
            thunder.jit(*target, mode="reduce-overhead")
    with pytest.raises(TypeError, match="positional argument"):
        thunder.jit(torch.sin, ["aten"])


@pytest.mark.filterwarnings("ignore:.*runs without a CUDA graph")
@every_value
def test_every_value_by_decorator_and_by_argument(name, value):
    """C++ knows each value, too."""

    def f(x):
        return torch.sin(x) * 2

    x = torch.randn(3)
    decorator = thunder.jit(**{name: value})
    for compiled in (decorator(f), thunder.jit(f, **{name: value}), thunder.jit(None, **{name: value})(f)):
        torch.testing.assert_close(compiled(x), f(x))
        torch.testing.assert_close(compiled(x), f(x))
    module = nn.Linear(3, 2)
    for compiled in (decorator(module), thunder.jit(module, **{name: value})):
        assert getattr(compiled._options, name) == field(name, value)
        torch.testing.assert_close(compiled(x), module(x))


def test_decorator_takes_every_option_at_once():
    chosen = {"executors": ["aten"], "transforms": [identity]}
    chosen |= {o.name: list(o.metadata["values"])[-1] for o in RECORDS if o.metadata["values"]}
    assert chosen.keys() == {option.name for option in RECORDS}
    assert thunder.jit(**chosen)(nn.Linear(2, 2))._options == Options(**chosen)


def test_decorator_may_be_used_again_after_an_iterator():
    decorator = thunder.jit(transforms=iter([identity]))
    assert [decorator(nn.Linear(2, 2))._options.transforms for _ in range(2)] == [(identity,)] * 2


def test_decorator_can_be_pickled():
    decorator = pickle.loads(pickle.dumps(thunder.jit(cache="same input")))
    assert decorator(nn.Linear(2, 2))._options.cache == "same input"


@every_value
def test_pickles_and_copies(name, value):
    options = Options(**{name: value})
    for copied in (pickle.loads(pickle.dumps(options)), copy.deepcopy(options), copy.copy(options)):
        assert copied == options
    module = thunder.jit(nn.Linear(2, 2), **{name: value})
    for copied in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert copied._options == options


def test_a_value_of_a_subclass_becomes_the_records_value():
    class Name(str):
        pass

    options = Options(cache=Name("same input"))
    assert type(options.cache) is str and options.cache == "same input"


@pytest.mark.parametrize("wrap", [ddp, fsdp])
def test_strategies_take_every_option(wrap):
    given = {option.name: option.default for option in RECORDS}
    assert StrategyOptions(wrap, object, True, dict(given)).jit == given


def test_a_warning_names_the_users_line(monkeypatch):
    monkeypatch.setattr(thunder.extend, "_warned", set())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        thunder.jit(torch.sin, executors=["cudnn_layernorm"])
    assert [(w.filename, str(w.message).partition(" (")[0]) for w in told] == [
        (__file__, "[jit] executor 'cudnn_layernorm' cannot be used here")
    ]


def test_a_decorator_keeps_what_was_given():
    decorator = pickle.loads(pickle.dumps(thunder.jit(executors=["aten"], cache="constant values")))
    assert decorator.keywords == {"executors": ["aten"], "cache": "constant values"}
    later = thunder.jit(executors=None)
    assert later.keywords == {"executors": None}
