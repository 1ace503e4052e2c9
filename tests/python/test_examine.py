"""thunder.examine: what it finds, and that it finds what is wrong."""

import uuid

import torch
import torch.nn.functional as F

import thunder
from thunder.core.proxies import TensorProxy
from thunder.examine import collect, examine, predicted_memory
from thunder.extend import OperatorExecutor


def unsupported_function():
    return torch.Tensor.share_memory_  # about memory, which tensors of a program do not have yet


def test_supported_function(capsys):
    def fn(a, b):
        return {"out": torch.sin(a) * b, "shape": a.shape[0]}

    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4)
    report = examine(fn, a, b)
    assert report.supported and report.matches and report.error is None
    assert {"result['out']", "gradient of argument [0][0]"} <= {c.name for c in report.comparisons}
    assert report.executors["fuser.fusion0"] == {"fuser": 1}
    assert any(f.name == "torch.sin" and f.calls == 1 and f.supported for f in report.functions)
    assert not any("shape" in f.name for f in report.functions)
    assert a.grad is None  # the caller's tensors are left alone
    text = capsys.readouterr().out
    assert "all are supported" in text and "fuser.fusion0: fuser (1)" in text and "peak" in text


def test_operators_by_name():
    report = examine(lambda a: torch.sin(a) @ a, torch.randn(3, 3), quiet=True)
    assert report.executors == {"torch.sin": {"aten": 1}, "torch.matmul": {"onednn": 1}}


def test_unsupported_function_with_the_users_line(capsys):
    missing = unsupported_function()

    def fn(a):
        b = a + 1
        return missing(b) + missing(b)  # the line

    report = examine(fn, torch.rand(3))
    assert not report.supported and len(report.unsupported) == 1
    line = fn.__code__.co_firstlineno + 2
    assert report.unsupported[0].calls == 2
    assert report.unsupported[0].locations == [f"{__file__}:{line} in fn"]
    assert f"{__file__}:{line}" in capsys.readouterr().out


def test_methods_that_need_data_are_not_supported():
    report = examine(lambda a: a + a.numpy().sum().item(), torch.rand(3), quiet=True)
    assert [f.name.rpartition(".")[2] for f in report.unsupported] == ["numpy"]


def test_wrong_results_and_gradients_are_found(capsys):
    ex = OperatorExecutor("test_" + uuid.uuid4().hex[:8])
    op = ex.register_operator("wrong_sin", meta=lambda a: TensorProxy(like=a), fn=lambda a: torch.sin(a) + 0.5)
    ex.register_implementation(torch.sin, op)
    report = examine(lambda a: torch.sin(a), torch.randn(3), executors=[ex])
    assert report.matches is False
    assert abs(report.comparisons[0].largest_difference - 0.5) < 1e-6
    assert "differ from eager" in capsys.readouterr().out
    assert list(report.executors.values()) == [{ex.name: 1}]


def test_module_with_parameters_and_random_numbers():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    report = examine(model, torch.randn(3, 4), quiet=True)
    assert report.supported, report
    assert report.matches, report
    assert {f"gradient of {n}" for n, _ in model.named_parameters()} <= {c.name for c in report.comparisons}
    assert all(p.grad is None for p in model.parameters())
    assert report.backward_memory.peak > 0

    def dropout(a):
        return F.dropout(a, 0.5)

    state = torch.get_rng_state()
    report = examine(dropout, torch.ones(100), quiet=True)
    assert report.supported and report.matches, report
    assert torch.equal(torch.get_rng_state(), state)


def test_a_function_that_fails_to_compile_is_reported():
    def fn(a):
        return a * 2 if len(a[torch.rand(a.shape[0]) > 0.5]) > 0 else a

    report = examine(fn, torch.ones(3), quiet=True)
    assert not report.supported
    assert report.error is not None or report.unsupported


def test_collect_returns_the_result():
    a = torch.rand(3)
    result, functions = collect(lambda a: torch.cos(a) + torch.cos(a), a)
    torch.testing.assert_close(result, 2 * torch.cos(a))
    assert next(f for f in functions if f.name == "torch.cos").calls == 2


def test_predicted_memory():
    def fn(a):
        b = torch.sin(a)  # 1 MiB more
        c = b.t()  # a view: nothing more
        d = torch.cos(c)  # 1 MiB more
        return torch.exp(d)  # b is gone

    f = thunder.jit(fn, executors=["aten"])  # as one kernel there is nothing in between
    f(torch.rand(512, 512))
    memory = predicted_memory(thunder.last_traces(f)[-1])
    mib = 2**20
    assert memory.exact and memory.inputs == mib
    assert memory.peak == 2 * mib  # each operator's input and result; the program drops the input as soon as it is read
    first = fn.__code__.co_firstlineno
    assert memory.lines[f"{__file__}:{first + 3}"] == 2 * mib
