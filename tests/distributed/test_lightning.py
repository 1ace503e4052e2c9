"""Training under Lightning Fabric and the Lightning Trainer gives what one process without them gives."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import fabric_cases
import litgpt_cases
import pytest
import trainer_cases
import workers as pool

import thunder

ROOT = Path(__file__).parents[2]
WORLD = pool.MOST  # Lightning's world is all processes
ALL = ["ddp", "ZERO2", "ZERO3"]
SHARDED = {"save_distributed_checkpoint": True}
WHOLE = {"save_distributed_checkpoint": False}
_slow = pytest.mark.slow


def _installed(name):
    return importlib.util.find_spec(name) is not None


needs_lightning = pytest.mark.skipif(
    not _installed("lightning"), reason="lightning is not installed (requirements/test-no-deps.txt)"
)
needs_litgpt = pytest.mark.skipif(
    not _installed("litgpt"), reason="litgpt is not installed (requirements/test-no-deps.txt)"
)
needs_repository = pytest.mark.skipif(
    not _installed("extensions"), reason="its strategies are in litgpt's repository alone: put it on PYTHONPATH"
)


def _run_on_all(workers, case, *args):
    # The first one imports Lightning in each process, which takes a while on a busy machine.
    workers.run(WORLD, case, *args, seconds=150)


@needs_lightning
@pytest.mark.parametrize("strategy", ["ddp", "ZERO3", pytest.param("ZERO2", marks=_slow)])
def test_fabric(workers, strategy):
    _run_on_all(workers, fabric_cases.steps, strategy)


@needs_lightning
@pytest.mark.parametrize(
    "strategy, options",
    [
        ("ZERO3", SHARDED),
        pytest.param("ZERO2", WHOLE, marks=_slow),
        pytest.param("ddp", {}, marks=_slow),
        pytest.param("ZERO2", SHARDED, marks=_slow),
        pytest.param("ZERO3", WHOLE, marks=_slow),
    ],
)
def test_fabric_checkpoints(workers, strategy, options, tmp_path):
    _run_on_all(workers, fabric_cases.checkpoints, strategy, str(tmp_path / "checkpoint"), options)


@needs_lightning
@_slow
@pytest.mark.parametrize("name", ["bf16-mixed", "bf16-true"])
@pytest.mark.parametrize("strategy", ALL)
def test_fabric_precision(workers, strategy, name):
    _run_on_all(workers, fabric_cases.precision, strategy, name)


@needs_lightning
def test_fabric_meta_device(workers):
    _run_on_all(workers, fabric_cases.meta_device)


@needs_lightning
@pytest.mark.parametrize("strategy", ["ZERO2", pytest.param("ddp", marks=_slow)])
def test_fabric_services(workers, strategy):
    _run_on_all(workers, fabric_cases.services, strategy)


@needs_lightning
def test_fabric_set_ups(workers):
    _run_on_all(workers, fabric_cases.set_ups)


@needs_lightning
@pytest.mark.parametrize(
    "strategy, options",
    [
        ("ZERO3", SHARDED),
        pytest.param("ddp", {}, marks=_slow),
        pytest.param("ZERO2", SHARDED, marks=_slow),
        pytest.param("ZERO2", WHOLE, marks=_slow),
        pytest.param("ZERO3", WHOLE, marks=_slow),
    ],
)
def test_trainer(workers, strategy, options, tmp_path):
    _run_on_all(workers, trainer_cases.fit, strategy, str(tmp_path), options)


@needs_lightning
def test_trainer_owners(workers, tmp_path):
    _run_on_all(workers, trainer_cases.owners, str(tmp_path))


@needs_lightning
def test_options(workers):
    workers.run(1, fabric_cases.options, seconds=150)


@pytest.mark.parametrize("strategy", ALL)
def test_compile_data(workers, strategy):
    workers.run(2, litgpt_cases.compile_data, strategy)


@pytest.mark.parametrize("strategy", ALL)
def test_reductions_on_request(workers, strategy):
    workers.run(3, litgpt_cases.reductions_on_request, strategy)


def test_compile_data_of_functions():
    def f(x):
        return x + 1

    data = thunder.compile_data(thunder.jit(f))
    assert data.fn is f and not data.is_module and data.process_group_for_ddp is None
    assert thunder.compile_data(f) is None


@needs_lightning
@needs_litgpt
@needs_repository
@pytest.mark.parametrize("strategy, kind", [("ddp", ""), ("ZERO2", "full"), ("ZERO3", "sharded")])
def test_litgpts_strategies(workers, strategy, kind, tmp_path):
    _run_on_all(workers, litgpt_cases.strategies, strategy, str(tmp_path / "checkpoint"), kind)


def _run(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_lightning
@_slow
@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_fabric_example(strategy, tmp_path):
    """Lightning starts the processes."""
    arguments = ("examples/distributed/fabric.py", "--strategy", strategy, "--accelerator", "cpu", "--steps", 3)
    whole = _run(*arguments[:-1], 6)
    _run(*arguments, "--checkpoint", tmp_path / "checkpoint")
    rest = _run(*arguments, "--checkpoint", tmp_path / "checkpoint")
    assert _losses(rest) == _losses(whole)[3:] and len(_losses(rest)) == 3


@needs_lightning
@needs_litgpt
@_slow
def test_litgpt_example(tmp_path):
    """A run that goes on from a checkpoint has the losses of one that was not interrupted."""
    program = "tests/distributed/with_litgpt.py", "examples/distributed/pretrain_litgpt.py"
    command = ("-m", "torch.distributed.run", "--nproc-per-node", 2, *program, "--steps", 6, "--save-every", 3)
    whole = _losses(_run(*command, "--out", tmp_path))
    for file in (tmp_path / "step-00000006").iterdir():
        file.unlink()
    rest = _losses(_run(*command, "--out", tmp_path))
    assert rest == whole[-len(rest) :] and 0 < len(rest) < len(whole)


def _losses(text):
    return [line.partition(", ")[0] for line in text.splitlines() if line.startswith("step ")]
