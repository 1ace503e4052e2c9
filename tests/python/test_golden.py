"""The showcase: the traces of a two-layer Llama 2, as files, as programs that run, and as text that parses.

THUNDER_UPDATE_GOLDEN=1 pytest tests/python/test_golden.py     # writes tests/golden/* anew; look at the difference
"""

import os
import re
from pathlib import Path

import litgpt_import
import pytest
import torch
from torch.testing import assert_close

import thunder

GOLDEN = Path(__file__).parent.parent / "golden"
NARROW = dict(n_layer=2, n_head=4, n_embd=64, intermediate_size=176, block_size=16, padded_vocab_size=96)


class Showcase:
    """The compiled model after one forward, and its traces."""

    def __init__(self, **options):
        GPT, _ = litgpt_import.load()
        torch.manual_seed(0)
        self.model = GPT.from_name("Llama-2-7b-hf", **NARROW)
        self.compiled = thunder.jit(self.model, **options)
        self.x = torch.randint(0, 96, (2, 5))
        self.y = self.compiled(self.x)
        self.forward = thunder.last_traces(self.compiled)
        self.backward = thunder.last_backward_traces(self.compiled)

    def tensors(self):
        """What each input of the forward is: (name, tensor) in the order of the trace."""
        known = [self.x, self.model.cos, self.model.sin, *self.model.parameters()]
        types = [
            re.search(rf'# {name}: "cpu \w+\[(.*)\]"', self.forward[-1].python()).group(1)
            for name in self.forward[-1].inputs
        ]
        ordered = []
        # Modules list parameters in the order of their definition, and so does the trace; buffers come before.
        for name, shape in zip(self.forward[-1].inputs, types, strict=True):
            tensor = next(
                t for t in known if ", ".join(map(str, t.shape)) == shape and not any(t is o for _, o in ordered)
            )
            ordered.append((name, tensor))
        return ordered


# What the files show and the forms say is a program of operators; which of them become kernels is the fuser's affair,
# and changes with its tuning.
OF_OPERATORS = {"executors": ["cublaslt", "cudnn", "sdpa"]}


@pytest.fixture(scope="module")
def operators():
    return Showcase(**OF_OPERATORS)


@pytest.fixture(scope="module", params=[{}, OF_OPERATORS], ids=["default", "operators"])
def showcase(request):
    return Showcase(**request.param)


def without_times(text):
    return re.sub(r"took [\d.]+ (micro|milli)?seconds?", "took _ milliseconds", text)


@pytest.mark.parametrize("which", ["forward", "backward"])
@pytest.mark.parametrize("bodies", [False, True], ids=["program", "levels"])
def test_golden_files(operators, which, bodies):
    trace = getattr(operators, which)[-1]
    text = without_times(trace.python(bodies=bodies)) + "\n"
    file = GOLDEN / f"llama_2_{which}{'_with_bodies' if bodies else ''}.py.txt"
    if os.environ.get("THUNDER_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), f"{file} differs; if the change is meant: THUNDER_UPDATE_GOLDEN=1"


def test_another_compilation_prints_the_same(operators):
    again = Showcase(**OF_OPERATORS)
    for a, b in zip([*operators.forward, *operators.backward], [*again.forward, *again.backward], strict=True):
        assert without_times(str(a)) == without_times(str(b))


def test_form_of_the_forward(operators):
    lines = operators.forward[-1].python().splitlines()
    assert lines[0].startswith("# Constructed by Delete Last Used (took ")
    assert "import torch" in lines and "from thunder.executors.torchex import no_autocast" in lines
    start = lines.index("def augmented_forward_fn(*args):")
    assert lines[start - 2 : start] == ["@torch.no_grad()", "@no_autocast"]
    assert lines[start + 1].strip() == '# args: "Collection"'
    assert [line.strip() for line in lines[start + 2 : start + 4]] == ["t0, \\", "t1, \\"]
    assert "  = args" in lines and "  del args" in lines
    text = "\n".join(lines)
    # Every tensor that a call makes is annotated with device, dtype and shape.
    assert re.search(
        r'  t\d+ = torch\.nn\.functional\.linear\(t\d+, t\d+, None\)  # t\d+: "cpu f32\[2, 5, 192\]"', text
    )
    assert re.search(
        r"  \((t\d+), (t\d+)\) = sdpaex_grad_forward_scaled_dot_product_\w+"
        r"\(t\d+, t\d+, t\d+, None, 0\.0, True, 0\.25\)",
        text,
    )
    assert re.search(
        r"  return \(\{'output': t\d+, 'flat_args': \[t0, .*\], 'flat_output': \(t\d+,\)\}, \(\(t0, .*\), \(.*\)\)\)$",
        text,
    )


def test_form_of_the_backward(operators):
    text = operators.backward[-1].python()
    assert "@torch.no_grad()\n@no_autocast\ndef backward_fn(saved_for_backward, cotangents):\n" in text
    for line in (
        '  # saved_for_backward: "Collection"',
        '  # cotangents: "Collection"',
        "  C0, \\",
        "  = saved_for_backward",
        "  clear_collection(saved_for_backward)",
        "  del saved_for_backward",
        "  clear_collection(C0)",
        "  del C0",
    ):
        assert line + "\n" in text, line
    assert "from thunder.executors.pythonex import clear_collection\n" in text
    assert text.count("sdpaex_scaled_dot_product") == 2 and text.count("torch.ops.aten.embedding_backward(") == 1
    gradients = re.search(r"  return \((.*)\)\n?$", text).group(1).split(", ")
    # None for the tokens and the rotary tables, then one for each parameter.
    assert gradients[:3] == ["None"] * 3 and len(gradients) == 3 + len(list(operators.model.parameters()))
    assert all(re.fullmatch(r"t\d+", g) for g in gradients[3:])


def made_and_read(trace):
    return [
        (call.outputs, call.inputs) for call in trace.calls if not call.name.startswith(("del", "prims.python_del"))
    ]


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_values_die_after_their_last_use(showcase, which):
    trace = getattr(showcase, which)[-1]
    lines = [line.strip() for line in trace.python().splitlines()]
    deleted = {}
    for i, line in enumerate(lines):
        if line.startswith("del t"):
            for name in line.removeprefix("del ").split(", "):
                assert name not in deleted or which == "backward", f"{name} dies twice"
                deleted[name] = i
    returned = set(re.findall(r"t\d+", lines[-1] or lines[-2]))
    assert deleted and not returned & deleted.keys()
    for i, line in enumerate(lines):
        for name in re.findall(r"\bt\d+\b", line.partition("#")[0]):
            assert i <= deleted.get(name, len(lines)), f"{name} is read in line {i} after its del"
    for outputs, inputs in made_and_read(trace):
        for name in (*outputs, *inputs):
            # What is neither returned, nor an argument that the caller owns, is freed.
            assert name in deleted or name in returned or (which == "forward" and name in trace.inputs), name


def test_dataflow_order(operators):
    """Matrix products, embedding and attention come in the order of the model's forward, each reading what the
    one before it led to.
    """
    names = [call.name.rpartition(".")[2] for call in operators.forward[-1].calls]
    main = [n for n in names if n in ("embedding", "linear") or n.startswith("sdpaex")]
    attention = "sdpaex_grad_forward_scaled_dot_product_flash_attention_for_cpu"
    layer = ["linear", attention, "linear", "linear", "linear", "linear"]  # qkv, attention, proj; fc_1, fc_2, proj
    assert main == ["embedding", *layer, *layer, "linear"]

    calls = operators.forward[-1].calls
    leads_to = {}
    for i, call in enumerate(calls):
        sources = (
            {i} if call.name.rpartition(".")[2] in ("embedding", "linear") or call.name.startswith("sdpaex") else set()
        )
        for name in call.inputs:
            sources |= leads_to.get(name, set())
        for name in call.outputs:
            leads_to[name] = sources
    # The output depends on every one of them.
    assert leads_to[operators.forward[-1].calls[-1].outputs[0]] == {
        i
        for i, c in enumerate(calls)
        if c.name.rpartition(".")[2] in ("embedding", "linear") or c.name.startswith("sdpaex")
    }

    shapes = re.findall(
        r'= torch\.nn\.functional\.linear\(t\d+, (t\d+), None\)  # t\d+: "cpu f32\[2, 5, (\d+)\]"',
        operators.forward[-1].python(),
    )
    assert [int(n) for _, n in shapes] == [192, 64, 176, 176, 64] * 2 + [96]


def call_forward(showcase, trace):
    function = trace.python_callable()
    return function(*(t.detach() for _, t in showcase.tensors()))


def test_printed_programs_run(showcase):
    result, (saved, numbers) = call_forward(showcase, showcase.forward[-1])
    want = showcase.model(showcase.x)
    assert_close(result["output"], showcase.y, rtol=0, atol=0)
    assert_close(result["output"], want)
    assert result["flat_output"][0] is result["output"]

    g = torch.randn_like(want)
    collections = [list(saved), list(numbers)] if numbers else [list(saved)]
    grads = showcase.backward[-1].python_callable()(collections, [g])
    parameters = [t for _, t in showcase.tensors()][3:]
    ours = torch.autograd.grad(showcase.y, parameters, g, retain_graph=True)
    eager = torch.autograd.grad(want, parameters, g)
    assert grads[:3] == (None, None, None)
    for got, compiled, reference in zip(grads[3:], ours, eager, strict=True):
        assert_close(got, compiled, rtol=0, atol=0)
        assert_close(got, reference)


def test_the_program_after_each_pass_runs(showcase):
    """Printed and exec()uted; the joint program also gives the gradients."""
    inputs = [t.detach() for _, t in showcase.tensors()]
    g = torch.randn_like(showcase.y)
    parameters = [t for _, t in showcase.tensors()][3:]
    want = torch.autograd.grad(showcase.y, parameters, g, retain_graph=True)
    kinds = []
    for trace in showcase.forward:
        kinds.append(trace.name)
        result = trace.python_callable()(*inputs, *([g] if trace.name == "joint" else []))
        if trace.name == "joint":
            (output,), gradients = result
            for a, b in zip(gradients[3:], want, strict=True):
                assert_close(a, b, msg=trace.pass_name)
        else:
            output = result[0]["output"] if trace.name == "augmented_forward_fn" else result[0]
        assert_close(output, showcase.y, msg=trace.pass_name)
    assert set(kinds) == {"computation", "joint", "augmented_forward_fn"}


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_parse_is_the_reverse_of_print(showcase, which):
    for trace in getattr(showcase, which):
        parsed = thunder.parse(str(trace), trace.python_ctx())
        assert thunder._C.difference(parsed, trace) == "", trace.pass_name
        assert str(parsed) == str(trace) or without_times(str(parsed)).split("\n", 1)[1] == str(trace).split("\n", 1)[1]
        parsed.verify()
        trace.verify()


def test_a_difference_is_seen(showcase):
    text = str(showcase.forward[-1])
    trace = thunder.parse(text.replace("1e-05", "1e-06", 1), showcase.forward[-1].python_ctx())
    assert "1e-06" in str(trace)
    assert thunder._C.difference(trace, showcase.forward[-1]) != ""


def test_a_pass_that_breaks_the_program_is_caught(showcase):
    lines = str(showcase.forward[-1]).splitlines()
    dropped = next(i for i, line in enumerate(lines) if re.search(r"= \w*\W*(?:nn\.functional\.)?\w*linear\(", line))
    with pytest.raises((RuntimeError, ValueError)):
        thunder.parse("\n".join(lines[:dropped] + lines[dropped + 1 :]), showcase.forward[-1].python_ctx()).verify()


def test_provenance_names_every_pass(operators):
    names = [t.pass_name for t in operators.forward]
    assert names[0] == "" and names[-1] == "Delete Last Used"
    for name in (
        "Known Masks",
        "Grouped Heads In Attention",
        "Dead Code Elimination",
        "Common Subexpression Elimination",
        "Autodiff",
        "Forward Backward Split",
        "Transform For Execution",
    ):
        assert name in names
    assert [t.pass_name for t in operators.backward][-1] == "Delete Last Used"
    trace = operators.forward[names.index("Dead Code Elimination")]
    assert str(trace).startswith("# Constructed by Dead Code Elimination (took ")


def test_the_readme_shows_what_its_example_prints(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "README.md").read_text(), re.DOTALL)
    names = {}
    exec(blocks[0], names)  # noqa: S102  # the README's own example
    assert names["w1"].grad is not None and names["w2"].grad is not None
    printed = without_times(capsys.readouterr().out)
    assert printed.startswith(without_times(blocks[1]))
    assert "def backward_fn(" in printed
