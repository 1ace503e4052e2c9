"""More parts of worlds, as in fuzz_worlds.py: classes with special methods, subclasses of containers, descriptors."""

PARTS = {
    "operators": (
        """
class V#:
    def __init__(self, k): self.k = k
    def __add__(self, other): return V#(self.k + getattr(other, 'k', other))
    def __radd__(self, other): return self + other
    def __eq__(self, other): return self.k == getattr(other, 'k', other)
    def __hash__(self): return hash(self.k)
    def __lt__(self, other): return self.k < getattr(other, 'k', other)
    def __iter__(self): yield self.k
    def __contains__(self, k): return k == self.k
    def __float__(self): return float(self.k)
    def __neg__(self): return -self.k
    def __enter__(self):
        self.k += 1
        return self.k
    def __exit__(self, *error): self.k -= 1
n# = V#(<literal>)
""",
        {
            "num": ["(n# + <num>).k", "float(n#)", "-n#", "sum([n#, V#(1)]).k", "max(n#, V#(2)).k", "{n#: 3}[n#]"],
            "nums": ["list(n#)", "[*n#]"],
            "cond": ["n# == <num>", "<num> in n#", "n# < V#(2)", "n# in [V#(1), V#(2)]", "n# == n#"],
            "obj": ["n#", "(n# + 1)"],
            "do": ["with n# as u: n = u % 97", "n#.k = <num>", "ks.append(n# + <num>)", "ks.append({n#: <tensor>})"],
            "change": [
                "n#.k = <literal>",
                "n# = V#(<literal>)",
                "V#.__eq__ = lambda self, other: True",
                "V#.__contains__ = lambda self, k: True",
                "V#.__iter__ = lambda self: iter([1, 2])",
                "V#.__float__ = lambda self: 3.0",
                "V#.__add__ = lambda self, other: V#(2)",
                "V#.__enter__ = lambda self: 5",
                "V#.__bool__ = lambda self: False",
            ],
            "argument obj": ["n#", "V#(<literal>)"],
        },
        [],
    ),
    "bare": (
        "class W#: pass\nu# = W#()",
        {
            "num": ["getattr(u#, 'k', <literal>)", "{u#: 2}.get(u#, 1)"],
            "cond": ["u#", "u# == 3", "u# in [1]", "callable(u#)", "hasattr(u#, '__len__')", "isinstance(u#, W#)"],
            "obj": ["u#", "W#()"],
            "do": ["u#.k = <num>", "W#.k = <num>", "ks.append(W#())"],
            "change": [
                "W#.__bool__ = lambda self: False",
                "W#.__eq__ = lambda self, other: True",
                "W#.__call__ = lambda self: 1",
                "W#.__len__ = lambda self: 0",
                "W#.k = <literal>",
                "W#.__getattr__ = lambda self, name: 6",
                "W#.__getattribute__ = lambda self, name: 6 if name == 'k' else object.__getattribute__(self, name)",
                "W#.__setattr__ = lambda self, name, value: None",
                "W#.__init__ = lambda self: setattr(self, 'k', 4)",
                "W#.__new__ = lambda cls: thing(k=9)",
                "u#.__class__ = Thing",
            ],
        },
        [],
    ),
    "list's subclass": (
        """
class L#(list):
    bias = <literal>
    def __getitem__(self, i): return list.__getitem__(self, i) + self.bias
    def total(self): return sum(self) + self.bias
l# = L#([<literal>, <literal>])
""",
        {
            "nums": ["l#", "list(l#)"],
            "num": ["l#[0]", "l#.total()", "len(l#)", "l#.bias"],
            "obj": ["l#"],
            "do": ["l#.append(<num>)", "l#.bias = <num>", "l#[0] = <num>", "ks.append(L#([<num>]))", "l#.pop()"],
            "change": [
                "l#.append(<literal>)",
                "l#.bias = <literal>",
                "L#.bias = <literal>",
                "l#[0] = <literal>",
                "L#.__getitem__ = lambda self, i: 2",
                "L#.__len__ = lambda self: 1",
                "l# = L#([1])",
            ],
            "argument nums": ["l#", "L#([<literal>])"],
        },
        [],
    ),
    "dict's subclass": (
        """
class D#(dict):
    def __missing__(self, key): return <literal>
    def get(self, key, default=None): return dict.get(self, key, default)
    def __getattr__(self, name): return self.get(name, 3)
dd# = D#(a=<literal>, k=<literal>)
cc# = collections.Counter('aab')
cm# = collections.ChainMap({'a': <literal>}, dd#)
""",
        {
            "map": ["dd#", "cc#", "dict(cm#)"],
            "num": ["dd#['zz']", "dd#['k']", "dd#.a", "cc#['a']", "cc#['zz']", "cm#['a']", "cm#.get('k', 1)"],
            "obj": ["dd#"],
            "cond": ["'zz' in dd#", "'k' in cm#"],
            "do": [
                "dd#['a'] = <num>",
                "cc#['a'] += 1",
                "cc#.update('b')",
                "cm#['a'] = <num>",
                "dd#.update(b=<num>)",
                "ks.append(D#(a=<tensor>))",
                "del dd#['a']",
            ],
            "change": [
                "dd#['a'] = <literal>",
                "dd#.pop('a', 0)",
                "D#.__missing__ = lambda self, key: 8",
                "D#.get = lambda self, key, default=None: 7",
                "cc#['a'] = 5",
                "cm#.maps[0]['a'] = <literal>",
                "cm# = cm#.new_child({'a': <literal>})",
                "dd# = D#(k=1)",
            ],
            "argument map": ["dd#", "D#(b=<literal>)"],
        },
        [],
    ),
    "descriptor": (
        """
class Field#:
    by = <literal>
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, o, owner): return self if o is None else getattr(o, self.name, 1) * self.by
    def __set__(self, o, value): setattr(o, self.name, value)
class Meta#(type):
    level = <literal>
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.j = cls.level
        return made
class R#(metaclass=Meta#):
    k = Field#()
    def __init__(self, k=1): self.k = k
r# = R#(<literal>)
""",
        {
            "num": ["r#.k", "R#(<num>).k", "R#.level", "R#.k.by", "r#.j"],
            "obj": ["r#", "R#(<num>)"],
            "do": ["r#.k = <num>", "R#.k.by = <num>", "ks.append(R#(<num>))", "ks.append(R#(<tensor>))"],
            "change": [
                "Field#.by = <literal>",
                "Meta#.level = <literal>",
                "r#.k = <literal>",
                "R#.k.by = <literal>",
                "Field#.__get__ = lambda self, o, owner: 4",
                "R#.k = 5",
                "r# = R#(2)",
                "R#.level = 3",
            ],
            "argument obj": ["r#", "R#(<literal>)"],
        },
        [],
    ),
    "decorated": (
        """
wk# = <literal>
def scaled#(by):
    def wrap(g):
        @functools.wraps(g)
        def inner(*args, **more):
            inner.calls += 1
            return g(*args, **more) * by
        inner.calls = 0
        return inner
    return wrap
@scaled#(<literal>)
def w#(y): return y + wk#
@functools.singledispatch
def sd#(v): return 1
@sd#.register
def _(v: float): return 2
@contextlib.contextmanager
def cx#(k):
    global wk#
    before, wk# = wk#, k
    try: yield k
    finally: wk# = before
""",
        {
            "num": ["w#(<num>)", "w#.calls", "sd#(<num>)", "w#.__wrapped__(<num>)"],
            "tensor": ["w#(<tensor>)"],
            "do": ["with cx#(<num>) as u: n = w#(u) % 97", "with cx#(<num>): y = w#(y)", "w#.calls = 0"],
            "change": [
                "wk# = <literal>",
                "w#.calls = <literal>",
                "w# = scaled#(<literal>)(w#)",
                "sd#.register(int, lambda v: 5)",
                "w#.__wrapped__ = float",
                "w#.__closure__[0].cell_contents = <literal>",
            ],
        },
        ["wk#"],
    ),
    "modules": (
        """
class Block#(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1, 1, 3))
        self.gain = <literal>
    def forward(self, y, k=1): return y * self.w * self.gain + k
mm# = nn.Sequential(Block#(), nn.LayerNorm(3), Block#())
ml# = nn.ModuleDict({'a': Block#(), 'b': nn.Tanh()})
pl# = nn.ParameterList([torch.ones(3), torch.zeros(3)])
""",
        {
            "tensor": [
                "mm#(x + <tensor>)",
                "ml#['a'](<tensor>, k=<num>)",
                "sum(m(x) for m in mm#)",
                "pl#[0] * y",
                "sum(p.sum() for p in mm#.parameters()) * y",
                "mm#[0].w",
                "torch.func.functional_call(mm#[0], {'w': y}, (x,))",
            ],
            "num": ["len(mm#)", "mm#[0].gain", "len(dict(ml#.named_parameters()))", "len(mm#.state_dict())"],
            "cond": ["'b' in ml#", "mm#.training", "any(p.requires_grad for p in mm#.parameters())"],
            "do": [
                "mm#[0].gain = <num>",
                "for m in mm#.modules(): m.seen = <num>",
                "ml#['a'].note = <tensor>",
                "mm#.eval()",
                "mm#.train(<cond>)",
                "with torch.no_grad(): mm#[0].w.mul_(0.5)",
            ],
            "change": [
                "mm#[0].gain = <literal>",
                "mm#[2] = nn.Tanh()",
                "mm#.append(nn.ReLU())",
                "mm#[0].w = nn.Parameter(torch.ones(3))",
                "mm#.requires_grad_(False)",
                "mm#[0].w.requires_grad_(True)",
                "mm#.eval()",
                "mm#.half().float()",
                "mm#.double().float()",
                "ml#['a'] = Block#()",
                "ml#.pop('b')",
                "pl#[0] = nn.Parameter(torch.full((3,), 2.0))",
                "mm#[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))",
                "mm#[0].register_full_backward_hook(lambda m, i, o: None)",
                "nn.utils.parametrize.register_parametrization(mm#[0], 'w', nn.Tanh())",
                "Block#.forward = lambda self, y, k=2: y * self.w + k",
                "mm#.load_state_dict({k: v + 1 for k, v in mm#.state_dict().items()})",
                "mm#[0].w.data = torch.ones(3)",
                "for p in mm#.parameters(): p.grad = None",
            ],
        },
        [],
    ),
}
