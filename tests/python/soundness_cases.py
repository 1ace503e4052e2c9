"""Worlds for test_soundness.py: a program, and changes of what it reads."""

from soundness_modules import MODULES
from soundness_objects import ATTRIBUTES, FUNCTIONS

GLOBALS = {
    "number": ("k = 2.0\ndef f(x): return x * k", "k = 3.0", "k = 4"),
    "flag": ("flag = True\ndef f(x): return x.sin() if flag else x.cos()", "flag = False", "flag = [0]"),
    "string": ("mode = 'sin'\ndef f(x): return getattr(x, mode)()", "mode = 'cos'"),
    "none": ("k = None\ndef f(x): return x if k is None else x * k", "k = 2.0", "k = None"),
    "appears": (
        """
        def f(x):
            try: return x * late
            except NameError: return x
        """,
        "late = 2.0",
        "del late",
    ),
    "hides a builtin": ("def f(x): return x * abs(-2.0)", "abs = lambda v: 5.0", "del abs"),
    "builtin": (
        "undo.callback(delattr, builtins, 'the_scale')\nbuiltins.the_scale = 2.0\ndef f(x): return x * the_scale",
        "builtins.the_scale = 3.0",
    ),
    "globals()": ("k = 2.0\ndef f(x): return x * globals()['k']", "k = 3.0"),
    "flag of a module": (
        "other = types.ModuleType('other')\nother.k = 2.0\ndef f(x): return x * other.k",
        "other.k = 3.0",
    ),
    "flag of an imported module": (
        """
        sys.modules['the_other'] = types.ModuleType('the_other')
        undo.callback(sys.modules.pop, 'the_other', None)
        sys.modules['the_other'].k = 2.0
        def f(x):
            import the_other
            from the_other import k
            return x * the_other.k + k
        """,
        "sys.modules['the_other'].k = 3.0",
        "sys.modules['the_other'] = SimpleNamespace(k=4.0)",
    ),
    "environment variable": (
        "def f(x): return x * float(os.environ.get('THE_SCALE', '1'))\nundo.callback(os.environ.pop, 'THE_SCALE', 0)",
        "os.environ['THE_SCALE'] = '2'",
        "os.environ['THE_SCALE'] = '3'",
    ),
    "function of a module": (
        "undo.callback(setattr, math, 'sqrt', math.sqrt)\ndef f(x): return x * math.sqrt(4.0)",
        "math.sqrt = lambda v: 3.0",
    ),
    "torch's function": (
        "undo.callback(setattr, F, 'relu', F.relu)\ndef f(x): return F.relu(x)",
        "F.relu = lambda x: x * 2",
    ),
    "tensor": ("w = torch.ones(3)\ndef f(x): return x * w", "w = torch.ones(3) * 2", "w = torch.ones(2, 1)", "w = 2.0"),
    "tensor requires grad": ("w = torch.ones(3)\ndef f(x): return x * w", "w.requires_grad_()"),
    "value of a tensor": (
        "w = torch.ones(3)\ndef f(x): return x * 2 if w.sum() > 2 else x",
        "w.mul_(0)",
        "w.add_(5)",
        "w = torch.zeros(3)",
    ),
    "number in a tensor": (
        "w = torch.tensor(2)\ndef f(x): return x * w.item() + 1.0 / float(w)",
        "w.add_(1)",
        "w = torch.tensor(7)",
        "w = torch.tensor(0.5)",
    ),
    "size in a tensor": (
        "n = torch.tensor(2)\ndef f(x): return x.repeat(1, n.item()) + torch.zeros(n).sum()",
        "n.add_(1)",
        "n.sub_(2)",
        "n = torch.tensor(7)",
    ),
    "flag behind a value": (
        "w = torch.ones(3)\nflag = True\ndef f(x): return (x * 2 if flag else x * 3) if w.sum() > 2 else x",
        "flag = False",
        "w.mul_(0)",
        "w.add_(5)",
    ),
    "tensor written in place": ("w = torch.ones(3)\ndef f(x): return x * w", "w.add_(1)"),
}

SEQUENCES = {
    "length": ("v = [1.0]\ndef f(x): return x * len(v)", "v.append(2.0)", "v.clear()", "v.extend([1, 2, 3])"),
    "item": ("v = [1.0, 2.0]\ndef f(x): return x * v[1]", "v[1] = 3.0", "v.insert(0, 7.0)", "v = [5.0, 6.0]"),
    "item from the end": ("v = [1.0, 2.0]\ndef f(x): return x * v[-1]", "v.append(4.0)", "v.pop(); v.pop()"),
    "item by a computed index": ("v = [1.0, 2.0]\ni = 0\ndef f(x): return x * v[i]", "i = 1", "v[1] = 9.0"),
    "item missing": (
        """
        v = []
        def f(x):
            try: return x * v[0]
            except IndexError: return x
        """,
        "v.append(3.0)",
    ),
    "slice": ("v = [1.0, 2.0, 3.0]\ndef f(x): return x * sum(v[1:])", "v[2] = 5.0", "v.append(1.0)"),
    "iteration": (
        """
        v = [1.0, 2.0]
        def f(x):
            for k in v: x = x * k + 1
            return x
        """,
        "v[0] = 3.0",
        "v.append(2.0)",
        "v.reverse()",
    ),
    "comprehension": ("v = [1.0, 2.0]\ndef f(x): return sum([x * k for k in v])", "v[0] = 3.0", "v.append(2.0)"),
    "generator expression": ("v = [1.0, 2.0]\ndef f(x): return sum(x * k for k in v)", "v[0] = 3.0", "v.append(2.0)"),
    "enumerate and zip": (
        "v = [1.0, 2.0]\nw = [1.0, 1.0]\ndef f(x): return sum(x * k * j * i for i, (k, j) in enumerate(zip(v, w)))",
        "v[1] = 3.0",
        "w[1] = 3.0",
        "v.append(2.0); w.append(2.0)",
    ),
    "map and filter": (
        "v = [1.0, -2.0]\ndef f(x): return x * sum(map(abs, filter(lambda k: k > -3, v)))",
        "v[0] = 3.0",
        "v[1] = -4.0",
    ),
    "sorted, reversed": ("v = [1.0, 2.0]\ndef f(x): return x * sorted(v)[0] + next(reversed(v))", "v.append(0.5)"),
    "min and max": ("v = [1.0, 2.0]\ndef f(x): return x * max(v) + min(v)", "v.append(3.0)", "v.append(-3.0)"),
    "membership": ("v = [1.0, 2.0]\ndef f(x): return x if 3.0 in v else -x", "v.append(3.0)", "v.remove(3.0)"),
    "not in": ("v = [1.0, 2.0]\ndef f(x): return x if 3.0 not in v else -x", "v.append(3.0)"),
    "index and count": ("v = [1.0, 2.0]\ndef f(x): return x * v.index(2.0) + v.count(2.0)", "v.insert(0, 2.0)"),
    "copy": ("v = [1.0, 2.0]\ndef f(x): return x * v.copy()[0] + list(v)[1]", "v[0] = 4.0", "v[1] = 4.0"),
    "concatenation": ("v = [1.0]\nw = [2.0]\ndef f(x): return x * sum(v + w)", "w.append(4.0)", "v[0] = 9.0"),
    "repetition": ("v = [1.0]\ndef f(x): return x * sum(v * 3)", "v[0] = 2.0"),
    "equality": ("v = [1.0]\nw = [1.0]\ndef f(x): return x if v == w else -x", "w[0] = 2.0", "v[0] = 2.0"),
    "truth": ("v = []\ndef f(x): return x if v else -x", "v.append(0)", "v.pop()"),
    "not": ("v = []\ndef f(x): return x if not v else -x", "v.append(0)"),
    "unpacked": (
        """
        v = [1.0, 2.0]
        def f(x):
            a, *b = v
            return x * a + len(b)
        """,
        "v[0] = 4.0",
        "v.append(3.0)",
    ),
    "star arguments": (
        "v = [1.0, 2.0]\ndef g(x, *a): return x * sum(a)\ndef f(x): return g(x, *v)",
        "v[0] = 4.0",
        "v.append(3.0)",
    ),
    "into a display": ("v = [1.0]\ndef f(x): return x * sum([*v, 2.0]) + len({*v})", "v.append(4.0)"),
    "joined strings": ("v = ['s', 'in']\ndef f(x): return getattr(x, ''.join(v))()", "v[:] = ['co', 's']"),
    "formatted": ("v = ['a']\ndef f(x): return x * len(f'{v}')", "v.append('b')"),
    "nested": ("v = [[1.0], [2.0]]\ndef f(x): return x * v[1][0]", "v[1][0] = 3.0", "v[1] = [4.0]"),
    "tuple": ("v = (1.0, 2.0)\ndef f(x): return x * v[1]", "v = (1.0, 3.0)"),
    "list in a tuple": ("v = (1.0, [2.0])\ndef f(x): return x * v[1][0]", "v[1][0] = 3.0"),
    "named tuple": (
        "P = namedtuple('P', 'a b')\np = P(1.0, 2.0)\ndef f(x): return x * p.a + p[1]",
        "p = P(3.0, 2.0)",
        "p = p._replace(b=4.0)",
    ),
    "deque": ("v = deque([1.0])\ndef f(x): return x * v[0] + len(v)", "v.appendleft(2.0)", "v[0] = 3.0"),
    "shape from a list": ("v = [3, 2]\ndef f(x): return x.reshape(v)", "v[:] = [6]", "v.append(1)"),
    "tensors of a list in another": (
        "v = [torch.ones(3)]\nw = [0]\ndef f(x):\n  w[:] = [v[0]]\n  return x * w[0] + len(w)",
        "v[0] = torch.zeros(3)",
    ),
    "tensors in a list": (
        "v = [torch.ones(3)]\ndef f(x): return sum(v) * x",
        "v[0] = torch.zeros(3)",
        "v.append(torch.ones(3))",
        "v[0] = torch.ones(1)",
    ),
    "match": (
        """
        v = ['mul', 2.0]
        def f(x):
            match v:
                case ['mul', k]: return x * k
                case ['add', k, *_]: return x + k
                case _: return x
        """,
        "v[1] = 3.0",
        "v[0] = 'add'",
        "v[1] = 4.0",
        "v.clear()",
    ),
}

MAPPINGS = {
    "key": ("d = {'k': 2.0}\ndef f(x): return x * d['k']", "d['k'] = 3.0", "d = {'k': 4.0}"),
    "nested": (
        "d = {'a': {'b': {'c': 2.0}}}\ndef f(x): return x * d['a']['b']['c']",
        "d['a']['b']['c'] = 3.0",
        "d['a']['b'] = {'c': 4.0}",
        "d['a'] = {'b': {'c': 5.0}}",
    ),
    "get": ("d = {}\ndef f(x): return x * d.get('k', 1.0)", "d['k'] = 3.0", "del d['k']"),
    "key missing": (
        """
        d = {}
        def f(x):
            try: return x * d['k']
            except KeyError: return x
        """,
        "d['k'] = 3.0",
    ),
    "membership": ("d = {}\ndef f(x): return x if 'k' in d else -x", "d['k'] = 1", "del d['k']"),
    "order": ("d = {'a': 1.0, 'b': 2.0}\ndef f(x): return x * next(iter(d.values()))", "d['a'] = d.pop('a')"),
    "iteration": (
        """
        d = {'a': 1.0, 'b': 2.0}
        def f(x):
            for k in d: x = x * d[k] + 1
            return x
        """,
        "d['a'] = 3.0",
        "d['a'] = d.pop('a')",
        "d['c'] = 4.0",
    ),
    "items": (
        "d = {'a': 1.0}\ndef f(x): return sum(x * v + len(k) for k, v in d.items())",
        "d['a'] = 2.",
        "d['bc'] = 1",
    ),
    "keys and values": (
        "d = {'a': 1.0}\ndef f(x): return x * sum(d.values()) + len(d.keys())",
        "d['a'] = 2.",
        "d[1] = 1",
    ),
    "length": ("d = {}\ndef f(x): return x * len(d)", "d[1] = 1", "d.clear()"),
    "truth": ("d = {}\ndef f(x): return x if d else -x", "d[1] = 1"),
    "star arguments": (
        "d = {'k': 2.0}\ndef g(x, k=1.0): return x * k\ndef f(x): return g(x, **d)",
        "d['k'] = 3.",
        "d.clear()",
    ),
    "merged": (
        "d = {'k': 2.0}\ndef f(x): return x * ({'k': 1.0} | d)['k'] + {**d}.get('k', 5.0)",
        "d['k'] = 3.",
        "d.clear()",
    ),
    "equality": ("d = {'k': [2.0]}\ndef f(x): return x if d == {'k': [2.0]} else -x", "d['k'][0] = 3."),
    "default dict": ("d = defaultdict(lambda: 2.0, a=1.0)\ndef f(x): return x * d['a']", "d['a'] = 3.0", "del d['a']"),
    "ordered dict": (
        "d = OrderedDict(a=1.0, b=2.0)\ndef f(x): return x * next(iter(d.values()))",
        "d.move_to_end('a')",
    ),
    "key made of numbers": ("d = {(1, 2): 2.0}\ndef f(x): return x * d[x.shape[0] - 1, 2]", "d[1, 2] = 3.0"),
    "match": (
        """
        d = {'k': 2.0}
        def f(x):
            match d:
                case {'add': k}: return x + k
                case {'k': k}: return x * k
        """,
        "d['k'] = 3.0",
        "d['add'] = 1.0",
    ),
    "set membership": ("s = {1}\ndef f(x): return x if 2 in s else -x", "s.add(2)", "s.discard(2)", "s = {2}"),
    "set length": ("s = {1}\ndef f(x): return x * len(s)", "s.add(2)"),
    "set iteration": ("s = {1.0, 2.0}\ndef f(x): return x * sum(s)", "s.add(4.0)"),
    "set operations": ("s = {1.0, 2.0}\ndef f(x): return x * len(s & {1.0, 4.0})", "s.add(4.0)"),
    "frozen set": ("s = frozenset({1})\ndef f(x): return x if 2 in s else -x", "s = frozenset({1, 2})"),
}

CLOSURES = {
    "cell": (
        """
        def make():
            k = 2.0
            def f(x): return x * k
            def put(v):
                nonlocal k
                k = v
            return f, put
        f, put = make()
        """,
        "put(3.0)",
        "put(torch.ones(3) * 2)",
    ),
    "cell_contents": (
        "def make(k): return lambda x: x * k\nf = make(2.0)",
        "f.__closure__[0].cell_contents = 3.0",
    ),
    "cell of an inner function": (
        """
        def make():
            k = 2.0
            def f(x):
                def inner(y):
                    def innermost(): return y * k
                    return innermost()
                return inner(x)
            def put(v):
                nonlocal k
                k = v
            return f, put
        f, put = make()
        """,
        "put(3.0)",
    ),
    "container in a cell": (
        """
        def make():
            v = [1.0]
            return (lambda x: x * v[0]), v
        f, v = make()
        """,
        "v[0] = 3.0",
    ),
    "helper in a cell": (
        """
        def make():
            def g(x): return x * 2
            def f(x): return g(x)
            def put(h):
                nonlocal g
                g = h
            return f, put
        f, put = make()
        """,
        "put(lambda x: x * 3)",
    ),
    "cell becomes full": (
        """
        def make():
            def f(x):
                try: return x * k
                except NameError: return x
            def put(v):
                nonlocal k
                k = v
            if False: k = 0
            return f, put
        f, put = make()
        """,
        "put(3.0)",
    ),
    "tensor in a cell": (
        "def make(w): return lambda x: x * w\nf = make(torch.ones(3))",
        "f.__closure__[0].cell_contents = torch.ones(3) * 2",
        "f.__closure__[0].cell_contents = torch.ones(2, 3) * 3",
        "f.__closure__[0].cell_contents = 4.0",
    ),
}

GLOBAL_STATE = {
    "default dtype": ("def f(x): return x * torch.ones(3)", "torch.set_default_dtype(torch.float64)"),
    "default dtype asked": (
        "def f(x): return x if torch.get_default_dtype() is torch.float32 else -x",
        "torch.set_default_dtype(torch.float64)",
    ),
    "autocast": (
        "w = torch.ones(3, 3)\ndef f(x): return x @ w",
        "undo.enter_context(torch.autocast('cpu', dtype=torch.bfloat16))",
        "undo.enter_context(torch.autocast('cpu', enabled=False))",
    ),
    "autocast asked": (
        "def f(x): return x if torch.is_autocast_enabled('cpu') else -x",
        "undo.enter_context(torch.autocast('cpu', dtype=torch.bfloat16))",
    ),
    "grad mode": ("w = torch.ones(3, requires_grad=True)\ndef f(x): return x * w", "torch.set_grad_enabled(False)"),
    "grad mode asked": ("def f(x): return x if torch.is_grad_enabled() else -x", "torch.set_grad_enabled(False)"),
    "deterministic algorithms": (
        "undo.callback(torch.use_deterministic_algorithms, False)\n"
        "def f(x): return x if torch.are_deterministic_algorithms_enabled() else -x",
        "torch.use_deterministic_algorithms(True)",
    ),
    "precision of products": (
        "undo.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())\n"
        "def f(x): return x * len(torch.get_float32_matmul_precision())",
        "torch.set_float32_matmul_precision('medium')",
    ),
}

GROUPS = {
    "global": GLOBALS,
    "list": SEQUENCES,
    "dict": MAPPINGS,
    "closure": CLOSURES,
    "attribute": ATTRIBUTES,
    "function": FUNCTIONS,
    "module": MODULES,
    "state": GLOBAL_STATE,
}
CASES = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}

# Changes that no read saw.
UNRELATED = {
    "global": ("k = 2.0\nj = 0\ndef f(x): return x * k", "j = 1", "new = 2", "del j"),
    "attribute": ("c = thing(k=2.0, j=0)\ndef f(x): return x * c.k", "c.j = 1", "c.new = 2", "del c.j"),
    "attribute of a module": (
        "class M(nn.Module):\n  k = 2.0\n  j = 1.0\n  def forward(self, x): return x * self.k\nf = M()",
        "f.j = 2.0",
        "f.new = 3",
        "M.j = 5.0",
    ),
    "key": ("d = {'k': 2.0, 'j': 0}\ndef f(x): return x * d['k']", "d['j'] = 1", "d['new'] = 2", "del d['j']"),
    "list": ("v = [2.0, 0]\ndef f(x): return x * v[0]", "v[1] = 1"),
    "equal value": ("c = thing(k=2.0)\ndef f(x): return x * c.k", "c.k = float('2.0')"),
    "tensor of the same kind": (
        "f = nn.Linear(3, 3)",
        "f.weight = nn.Parameter(torch.randn(3, 3))",
        "with torch.no_grad(): f.bias.add_(1)",
    ),
    "branch not taken": ("flag = True\nk = 1.0\ndef f(x): return x if flag else x * k", "k = 2.0", "del k"),
}
