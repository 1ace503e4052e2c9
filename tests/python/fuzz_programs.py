"""Makes the random programs of fuzz.py: a function of three tensors and a captured one, p, and some calls of it.

Each statement (of fuzz_tensors.py) runs in eager as it is chosen, so that most programs run to their end, though not
for the other shapes of later calls.
"""

import dataclasses
import random
import re
import textwrap

import fuzz_tensors
import torch
from fuzzing import attempt
from torch import nn
from torch.nn import functional as F

CHANGES_SIZES = re.compile(r"\.(t|transpose|squeeze|unsqueeze)_\(")
ASKS_AUTOGRAD = re.compile(r"\.(is_leaf|requires_grad)\b")
HOLE = re.compile(r"<([a-z0-9]+)>")
TRIES = 40  # of statements that do not run, before a program ends without another one
NAMES = ["a", "b", "c", "p"]
VIEWS, VALUES, WRITES, BLOCKS, STATES, INPUTS, ALIASES = (
    getattr(fuzz_tensors, name).strip().splitlines()
    for name in ("VIEWS", "VALUES", "WRITES", "BLOCKS", "STATES", "INPUTS", "ALIASES")
)
MOST = 4096  # elements of a tensor


class Inputs:
    """Makes the inputs of a call, equal ones each time."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)
        self.leaves = []

    def made(self, shape, dtype=torch.float32, like=""):
        values = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        if dtype == torch.bool:
            values = values > 0
        elif dtype.is_complex:
            values = torch.complex(values, values.flip(-1) if values.dim() else values)
        elif not dtype.is_floating_point:
            values = (values * 2).round()
        values = values.to(dtype)
        if not like:
            return values
        # No view, whose gradient autograd loses when its base, which needs none, is written to.
        wide = values.mT.contiguous().mT if like == "t" else torch.stack([values, values], -1)[..., 0]
        made = torch.empty_strided(wide.shape, wide.stride(), dtype=dtype)
        made.untyped_storage().fill_(0)  # as_strided() reads between the elements
        return made.copy_(values)

    def leaf(self, *args, **kwargs):
        return self.keep(self.made(*args, **kwargs).requires_grad_())

    def keep(self, tensor):
        self.leaves.append(tensor)
        return tensor

    def run(self, lines):
        """The names that the lines define."""
        scope = {"torch": torch, "nn": nn, "made": self.made, "leaf": self.leaf}
        for line in lines:
            exec(line, scope)
        for name in NAMES:
            t = scope[name]
            if t.is_leaf and t.requires_grad and not any(t is k for k in self.leaves):
                self.keep(t)
        return {name: scope[name] for name in NAMES}


@dataclasses.dataclass(frozen=True)
class Call:
    """`watcher`: of fuzz_watchers.py."""

    inputs: tuple
    state: str = ""
    watcher: str = ""

    def __str__(self):
        under = " and ".join(s for s in (self.state, self.watcher) if s)
        return "\n".join(self.inputs) + f"\nf(a, b, c){'  # under ' + under if under else ''}"


@dataclasses.dataclass(frozen=True)
class Program:
    """`body`: (headers of the blocks around it, statement) each."""

    body: tuple
    result: tuple
    calls: tuple
    options: tuple = ()

    def source(self):
        lines, open_headers = [], ()
        for headers, statement in self.body:
            same = 0
            while same < min(len(headers), len(open_headers)) and headers[same] is open_headers[same]:
                same += 1
            lines += [("    " * i) + headers[i] for i in range(same, len(headers))]
            lines += [("    " * len(headers)) + statement]
            open_headers = headers
        lines.append(f"return {', '.join(self.result)}")
        return "def f(a, b, c):\n    d = p\n" + textwrap.indent("\n".join(lines), "    ")

    def is_whole(self):
        """Whether every name of a tensor that it uses is made in it."""
        names = set(re.findall(r"\bt\d+\b", self.source()))
        made = "".join(s.partition(" = ")[0] for _, s in self.body if " = " in s)
        return names <= set(re.findall(r"\bt\d+\b", made))

    def __str__(self):
        options = "".join(f", {k}={v!r}" for k, v in self.options)
        calls = "\n# ---\n".join(map(str, self.calls))
        return f"{self.source()}\n# thunder.jit(f{options})\n{calls}"


class Maker:
    """Makes a program of random numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        self.focus = self.dim = None

    @classmethod
    def made(cls, seed):
        with torch.random.fork_rng(devices=[]):
            return cls(seed).program()

    def program(self):
        pick, chance = self.random.choice, self.random.random
        calls = [self.call(None)]
        for _ in range(self.random.randint(1, 3)):
            calls.append(self.call(calls[-1]))
        names = Inputs().run(calls[0].inputs)
        self.scope = {"torch": torch, "F": F, "d": names.pop("p"), **names}
        body = self.block((), self.random.randint(2, 9))
        tensors = self.tensors()
        result = [pick(tensors) for _ in range(self.random.randint(1, 4))]
        if self.written is not None:
            result.append(self.written)
        options = {}
        if chance() < 0.25:
            options["cache"] = "symbolic values"
        if chance() < 0.05:
            options["numerics"] = "eager"
        elif chance() < 0.25:  # without fusion: what kernels would hide
            options["executors"] = []
        return Program(tuple(body), tuple(dict.fromkeys(result)), tuple(calls), tuple(options.items()))

    written = None
    modes = False  # whether there was a block of another grad mode

    def call(self, last):
        pick, chance = self.random.choice, self.random.random
        state = pick(STATES) if chance() < 0.2 else ""
        if last is not None and chance() < 0.5:
            return Call(last.inputs, state)
        # The larger fill vectors and the runs of sums, and leave a rest.
        sizes = [1, 2, 2, 3, 4] if chance() < 0.8 else [1, 3, 16, 17, 40, 65]
        rows, columns = (pick(sizes) for _ in range(2))
        shapes = [(columns,), (rows, 1), (2, rows, columns), (columns, columns), (1,), (), (0, 2)]
        shapes += [(rows, columns)] * 4
        lines = []
        for name in NAMES:
            # What an operator reads and writes at different places eager refuses, unless there are gaps between them.
            if lines and chance() < 0.2 and not any("gaps" in line for line in lines):
                lines.append(f"{name} = {pick(ALIASES).replace('#', pick(NAMES[: len(lines)]))}")
                continue
            shape = pick(shapes)
            longer = (shape[0] + 1, *shape[1:]) if shape else (2,)
            lines.append(f"{name} = {pick(INPUTS).replace('#', str(shape)).replace('@', str(longer))}")
        inputs = tuple(lines)
        return Call(inputs, state) if attempt(lambda: Inputs().run(inputs))[1] is None else self.call(last)

    def tensors(self):
        return [n for n, t in self.scope.items() if isinstance(t, torch.Tensor) and n != "_"]

    def block(self, headers, n):
        out = []
        for _ in range(n):
            if len(headers) < 2 and self.random.random() < 0.12:
                before = dict(self.scope)
                header = self.fill(self.random.choice(BLOCKS))
                out += self.block((*headers, header), self.random.randint(1, 3))
                if header.startswith("if "):  # which other calls may leave out
                    self.scope = {k: self.scope[k] for k in before}
                continue
            statement, raised = self.statement(headers)
            if statement is None:
                break
            out.append((headers, statement))
            if raised:
                break
        return out

    def statement(self, headers):
        """(a statement that runs, False); or rarely one that does not, True."""
        for _ in range(TRIES):
            # What writing to tensors of the usual mode does to autograd in this one is an accident.
            writes = 0 if any("inference_mode" in h for h in headers) else 4
            texts = self.random.choices([VIEWS, VALUES, WRITES], [3, 4, writes])[0]
            before = dict(self.scope)
            template = self.random.choice(texts)
            # What eager says of views that were made under no_grad is an accident.
            self.modes = self.modes or any("grad" in h or "inference" in h for h in headers)
            if self.modes and ASKS_AUTOGRAD.search(template):
                continue
            text, error = attempt(lambda t=template: self.fill(t))
            if error is not None:
                continue
            # Eager changes sizes, and not the graph, nor what is known of views.
            unseen = any("no_grad" in h or "(False)" in h for h in headers)
            if CHANGES_SIZES.search(template) and (unseen or len(self.apart()) < len(self.tensors())):
                continue
            nested = "".join("    " * i + h + "\n" for i, h in enumerate(headers)) + "    " * len(headers) + text
            _, error = attempt(lambda nested=nested: exec(nested, self.scope))
            self.scope.pop("__builtins__", None)
            if error is None and all(self.fits(n) for n in self.tensors()):
                if texts is WRITES and text.startswith("t"):
                    self.written = re.match(r"\w+", text)[0]
                return text, False
            if isinstance(error, (RuntimeError, IndexError, TypeError, ValueError)) and self.random.random() < 0.01:
                return text, True
            self.scope = before
        return None, False

    def fits(self, name):
        t = self.scope[name]
        if t.is_floating_point() or t.is_complex():  # finite, as 0 times what gradients are multiplied by would be no 0
            return t.numel() <= MOST and t.dim() < 6 and bool(t.data.isfinite().all())
        return t.numel() <= MOST and t.dim() < 6 and not t.requires_grad  # which eager lets integers do

    def fill(self, text):
        self.focus, self.dim = None, 0
        return HOLE.sub(lambda match: str(getattr(self, f"hole_{match[1]}")()), text)

    def choose(self, names):
        """Later tensors come more often."""
        return self.random.choices(names, range(2, len(names) + 2))[0]

    def tensor(self, name=None):
        return self.scope[name or self.focus]

    def hole_t(self):
        if self.focus is None:
            self.focus = self.choose(self.tensors())
        return self.focus

    def hole_f(self):
        if self.focus is None:
            floats = [n for n in self.tensors() if self.tensor(n).is_floating_point()]
            self.focus = self.choose(floats or self.tensors())
        return self.focus

    def hole_plain(self):
        if self.focus is None:
            self.focus = self.choose([n for n in self.tensors() if not self.tensor(n).requires_grad])
        return self.focus

    def hole_u(self):
        shape = self.tensor().shape
        fit = [n for n in self.apart() if attempt(lambda n=n: torch.broadcast_shapes(shape, self.tensor(n).shape))[0]]
        return self.random.choice(fit or self.tensors())

    def apart(self):
        """Tensors that lie in other memory than the one in focus, and itself: what an operator makes of memory that it
        reads and writes at different places is not defined."""
        memory = lambda name: self.tensor(name).untyped_storage()._cdata
        return [n for n in self.tensors() if n == self.focus or memory(n) != memory(self.focus)]

    def hole_like(self):
        return self.random.choice([n for n in self.apart() if self.tensor(n).shape == self.tensor().shape])

    def hole_new(self):
        self.count += 1
        return f"t{self.count}"

    def hole_dim(self):
        n = max(self.tensor().dim(), 1)
        self.dim = self.random.randint(-n, n - 1)
        return self.dim

    def length(self):
        return self.tensor().shape[self.dim] if self.tensor().dim() else 1

    def hole_i(self):
        self.index = self.random.randint(0, max(self.length() - 1, 0))
        return self.index

    def hole_n(self):
        return self.random.randint(1, max(self.length() - getattr(self, "index", 0), 1))

    def hole_k(self):
        return self.random.randint(1, max(self.length(), 1))

    def hole_shape(self):
        left, sizes = self.tensor().numel(), []
        while left > 1 and len(sizes) < 3:
            size = self.random.choice([d for d in range(1, left + 1) if left % d == 0])
            sizes.append(size)
            left //= size
        sizes.append(left)
        if self.random.random() < 0.3:
            sizes[self.random.randrange(len(sizes))] = -1
        self.sizes = tuple(sizes)
        return self.sizes

    def hole_strides(self):
        return tuple(self.random.choice([1, 1, 2, 0]) for _ in self.sizes)

    def hole_perm(self):
        return tuple(self.random.sample(range(self.tensor().dim()), self.tensor().dim()))

    def hole_wide(self):
        sizes = [self.random.choice([n, 3]) if n == 1 else n for n in self.tensor().shape]
        return tuple(self.random.choice([[], [], [2]]) + sizes)

    def hole_same(self):
        return ", ".join(["2", *["-1"] * self.tensor().dim()])

    def hole_reps(self):
        return tuple(self.random.choice([1, 2]) for _ in self.tensor().shape)

    def hole_size(self):
        if self.random.random() < 0.5:
            return f"{self.focus}.shape"
        return "(" + "".join(f"{self.focus}.shape[{i}], " for i in range(self.tensor().dim())) + ")"

    def hole_sub(self):
        items = []
        for n in self.tensor().shape[: self.random.randint(1, 3)]:
            first = self.random.randint(-n, max(n - 1, 0))
            choices = ["int", ":", ":", f"{first}:", f":{self.random.randint(0, n)}", "::2", "None", "...", "1:", ":-1"]
            item = self.random.choice(choices)
            items.append(str(first) if item == "int" else item)
        # Eager reads sizes beyond the last for what stands behind a second ellipsis.
        items = [k for i, k in enumerate(items) if k != "..." or "..." not in items[:i]] or ["..."]
        return ", ".join(items)

    def hole_idx(self):
        indices = [self.random.randint(0, max(self.length() - 1, 0)) for _ in range(self.random.randint(1, 3))]
        return f"torch.tensor({indices})"

    def hole_at(self):
        return f"torch.zeros_like({self.focus}, dtype=torch.int64)"

    def hole_mask(self):
        return f"({self.focus} {self.random.choice(['>', '!=', '=='])} {self.random.choice('01')})"

    def word(self, words):
        return self.random.choice(words.split())

    def hole_nz(self):
        return self.word(fuzz_tensors.NUMBERS.replace(" 0 ", " "))

    def hole_s(self):
        return self.word(fuzz_tensors.NUMBERS)

    def hole_dtype(self):
        return f"torch.{self.random.choice(fuzz_tensors.DTYPES)}"

    def hole_unary(self):
        return self.word(fuzz_tensors.UNARY)

    def hole_binary(self):
        return self.word(fuzz_tensors.BINARY)

    def hole_compared(self):
        return self.word(fuzz_tensors.COMPARED)

    def hole_fold(self):
        return self.word(fuzz_tensors.FOLD)
